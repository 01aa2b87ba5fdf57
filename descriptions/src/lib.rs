//! What Kubernetes says of its built-in types and their fields, as OpenAPI documents show it
//! (API-43).
//!
//! This crate owns the texts. The name of a schema enters, `io.k8s.api.core.v1.Pod`, and what is
//! said of it leaves. The build script takes the texts from k8s-openapi and compresses them to a
//! quarter, those of each package by themselves. Whoever writes documents unpacks what they need of
//! them, and forgets it afterwards.

use std::cell::OnceCell;
use std::io::Read;

use flate2::read::DeflateDecoder;

/// Written by the build script.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions"));

/// Between two types.
const BETWEEN_TYPES: char = '\x1e';
/// Between the texts of one type.
const BETWEEN_TEXTS: char = '\x1f';
/// Behind the name of a package.
const END_OF_NAME: u8 = b'\n';

/// Fields that columns of Tables show, in order, and their descriptions. The build script writes
/// it for the fields in `columns.txt`.
const COLUMNS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/columns.rs"));

/// The description of a field that a column shows: `core.v1.PodStatus.podIP`.
pub fn of_column(field: &str) -> Option<&'static str> {
    let at = COLUMNS.binary_search_by_key(&field, |(field, _)| field);
    COLUMNS.get(at.ok()?).map(|(_, text)| *text)
}

/// What is said of each type. Packages are unpacked when they are asked for, 0.6 MB in all.
pub struct Descriptions {
    /// In order of their names.
    packages: Vec<Package>,
}

/// The types of a package: `io.k8s.api.core.v1`.
struct Package {
    name: &'static str,
    packed: &'static [u8],
    types: OnceCell<Types>,
}

/// The unpacked texts of a package.
struct Types {
    text: String,
    /// Where each type begins, in order of their names.
    begins: Vec<usize>,
}

/// What is said of a type.
pub struct Description<'t> {
    /// The type itself.
    pub of_type: &'t str,
    /// Its fields, in order of their names.
    fields: Vec<(&'t str, &'t str)>,
}

impl Default for Descriptions {
    /// With everything still packed.
    fn default() -> Descriptions {
        let mut packages = Vec::new();
        let mut rest = PACKED;
        while let Some((package, behind)) = Package::split_from(rest) {
            packages.push(package);
            rest = behind;
        }
        Descriptions { packages }
    }
}

impl Descriptions {
    /// What is said of the type with this schema: `io.k8s.api.core.v1.Pod`.
    pub fn of(&self, schema: &str) -> Option<Description<'_>> {
        let (package, _) = schema.rsplit_once('.')?;
        let packages = &self.packages;
        let at = packages.binary_search_by_key(&package, |package| package.name);
        packages.get(at.ok()?)?.types().of(schema)
    }

    /// The names of all schemas that something is said of.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        let packages = self.packages.iter();
        packages.flat_map(|package| package.types().names())
    }
}

impl Package {
    /// The first package, and what is behind it. `None` at the end.
    fn split_from(packed: &'static [u8]) -> Option<(Package, &'static [u8])> {
        let end = packed.iter().position(|byte| *byte == END_OF_NAME)?;
        let (name, rest) = (packed.get(..end)?, packed.get(end + 1..)?);
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (packed, rest) = rest.split_at_checked(length)?;
        let package = Package {
            name: std::str::from_utf8(name).ok()?,
            packed,
            types: OnceCell::new(),
        };
        Some((package, rest))
    }

    fn types(&self) -> &Types {
        self.types.get_or_init(|| {
            let mut text = String::new();
            // The compiler has put there what the build script wrote. A test reads all of it.
            if DeflateDecoder::new(self.packed)
                .read_to_string(&mut text)
                .is_err()
            {
                text.clear();
            }
            let ends = text.match_indices(BETWEEN_TYPES).map(|(at, _)| at + 1);
            let mut begins: Vec<usize> = [0].into_iter().chain(ends).collect();
            // Nothing begins behind the last one.
            begins.pop();
            Types { text, begins }
        })
    }
}

impl Types {
    /// The name of the type that begins there, and what is said of it.
    fn record(&self, begin: usize) -> Option<(&str, &str)> {
        let (record, _) = self.text.get(begin..)?.split_once(BETWEEN_TYPES)?;
        record.split_once(BETWEEN_TEXTS)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let begins = self.begins.iter();
        begins.filter_map(|begin| Some(self.record(*begin)?.0))
    }

    fn of(&self, schema: &str) -> Option<Description<'_>> {
        let name = |begin: &usize| self.record(*begin).map(|(name, _)| name);
        let at = self.begins.binary_search_by_key(&Some(schema), name);
        let (_, record) = self.record(*self.begins.get(at.ok()?)?)?;
        let mut texts = record.split(BETWEEN_TEXTS);
        let of_type = texts.next()?;
        let mut fields = Vec::new();
        while let (Some(name), Some(text)) = (texts.next(), texts.next()) {
            fields.push((name, text));
        }
        Some(Description { of_type, fields })
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
        let descriptions = Descriptions::default();
        assert!(descriptions.schemas().count() > 500);
        let protocol = descriptions.of("io.k8s.api.core.v1.ContainerPort").unwrap();
        assert!(protocol.of_type.contains("network port"));
        assert!(protocol.field("protocol").unwrap().contains("UDP"));
        assert!(protocol.field("protoco").is_none());
        assert!(descriptions.of("io.k8s.api.core.v1.ContainerPor").is_none());
        assert!(descriptions.of("io.k8s.api.none.v1.Pod").is_none());
        for schema in descriptions.schemas() {
            let description = descriptions.of(schema).unwrap();
            assert!(!description.of_type.is_empty(), "{schema}");
        }
    }

    #[test]
    fn only_packages_that_are_asked_for_are_unpacked() {
        let descriptions = Descriptions::default();
        descriptions.of("io.k8s.api.core.v1.Pod").unwrap();
        let packages = descriptions.packages.iter();
        let unpacked = packages.filter(|package| package.types.get().is_some());
        let names: Vec<&str> = unpacked.map(|package| package.name).collect();
        assert_eq!(names, ["io.k8s.api.core.v1"]);
    }
}
