//! What Kubernetes says of its built-in types and their fields, as OpenAPI documents show it
//! (API-43).
//!
//! This crate owns the texts. The name of a schema enters, `io.k8s.api.core.v1.Pod`, and what is
//! said of it leaves. The build script takes the texts from k8s-openapi and compresses them to a
//! quarter. Whoever writes documents unpacks them, and forgets them afterwards.

use std::io::Read;

use flate2::read::DeflateDecoder;

/// Written by the build script.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions"));

/// Between two types.
const BETWEEN_TYPES: char = '\x1e';
/// Between the texts of one type.
const BETWEEN_TEXTS: char = '\x1f';

/// The texts of all types, 0.6 MB.
pub struct Table(String);

/// What is said of each type, by the names of their schemas.
pub struct Descriptions<'t> {
    /// In order of the names.
    types: Vec<(&'t str, &'t str)>,
}

/// What is said of a type.
pub struct Description<'t> {
    /// The type itself.
    pub of_type: &'t str,
    /// Its fields, in order of their names.
    fields: Vec<(&'t str, &'t str)>,
}

impl Table {
    /// Unpacks the texts.
    pub fn unpack() -> Table {
        let mut text = String::new();
        // The compiler has put there what the build script wrote. A test reads all of it.
        let read = DeflateDecoder::new(PACKED).read_to_string(&mut text);
        Table(read.map(|_| text).unwrap_or_default())
    }

    /// The types that something is said of.
    pub fn descriptions(&self) -> Descriptions<'_> {
        let records = self.0.split_terminator(BETWEEN_TYPES);
        Descriptions {
            types: records
                .filter_map(|of| of.split_once(BETWEEN_TEXTS))
                .collect(),
        }
    }
}

impl<'t> Descriptions<'t> {
    /// What is said of the type with this schema: `io.k8s.api.core.v1.Pod`.
    pub fn of(&self, schema: &str) -> Option<Description<'t>> {
        let at = self.types.binary_search_by_key(&schema, |(name, _)| name);
        let (_, record) = self.types.get(at.ok()?)?;
        let mut texts = record.split(BETWEEN_TEXTS);
        let of_type = texts.next()?;
        let mut fields = Vec::new();
        while let (Some(name), Some(text)) = (texts.next(), texts.next()) {
            fields.push((name, text));
        }
        Some(Description { of_type, fields })
    }

    /// The names of all schemas that something is said of.
    pub fn schemas(&self) -> impl Iterator<Item = &'t str> {
        self.types.iter().map(|(name, _)| *name)
    }
}

impl<'t> Description<'t> {
    /// What is said of a field, by its name in JSON.
    pub fn field(&self, name: &str) -> Option<&'t str> {
        let at = self.fields.binary_search_by_key(&name, |(name, _)| name);
        Some(self.fields.get(at.ok()?)?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_their_fields_are_described() {
        let table = Table::unpack();
        let descriptions = table.descriptions();
        assert!(descriptions.schemas().count() > 500);
        let protocol = descriptions.of("io.k8s.api.core.v1.ContainerPort").unwrap();
        assert!(protocol.of_type.contains("network port"));
        assert!(protocol.field("protocol").unwrap().contains("UDP"));
        assert!(protocol.field("protoco").is_none());
        assert!(descriptions.of("io.k8s.api.core.v1.ContainerPor").is_none());
        for schema in descriptions.schemas() {
            let description = descriptions.of(schema).unwrap();
            assert!(!description.of_type.is_empty(), "{schema}");
        }
    }
}
