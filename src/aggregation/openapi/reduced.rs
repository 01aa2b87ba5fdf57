//! The part of an extension's OpenAPI v2 document that is merged: its paths below the group
//! versions of its APIServices, and the definitions but those that only other paths refer to
//! (CN-26). It is kept compressed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// Where references to definitions point to.
pub const DEFINITIONS: &str = "#/definitions/";
/// Where references to parameters point to.
pub const PARAMETERS: &str = "#/parameters/";

/// The merged part of a document, compressed.
#[derive(Debug)]
pub struct Reduced {
    packed: Bytes,
    plain_bytes: usize,
    hash: String,
}

/// The members of a document by name, as texts.
pub type Members<'t> = BTreeMap<Cow<'t, str>, &'t RawValue>;

/// A document as it is read.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Parts<'t> {
    /// The paths.
    #[serde(borrow)]
    pub paths: Members<'t>,
    /// The definitions.
    #[serde(borrow)]
    pub definitions: Members<'t>,
    /// The parameters that paths share.
    #[serde(borrow)]
    pub parameters: Members<'t>,
}

impl Reduced {
    /// Reduces a document to the paths of these groups and versions.
    ///
    /// # Errors
    /// It can't be read.
    pub fn of(text: &[u8], versions: &[(String, String)]) -> Result<Reduced, String> {
        let parts: Parts<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let roots = versions
            .iter()
            .map(|(group, version)| format!("/apis/{group}/{version}/"));
        let roots: BTreeSet<String> = roots.collect();
        let is_kept = |path: &str| root_of(path).is_some_and(|root| roots.contains(root));
        let (kept, others): (Vec<_>, Vec<_>) =
            parts.paths.iter().partition(|(path, _)| is_kept(path));
        let wanted = reached(kept.iter().map(|(_, item)| **item), &parts);
        let unwanted = reached(others.iter().map(|(_, item)| **item), &parts);
        let is_wanted = |place: &str, name: &str| {
            let reference = format!("{place}{name}");
            wanted.contains(&reference) || !unwanted.contains(&reference)
        };
        let mut writer = Writer::default();
        writer.object("{\"paths\":", kept.into_iter());
        let definitions = parts.definitions.iter();
        let definitions = definitions.filter(|(name, _)| is_wanted(DEFINITIONS, name));
        writer.object(",\"definitions\":", definitions);
        let parameters = parts.parameters.iter();
        let parameters = parameters.filter(|(name, _)| is_wanted(PARAMETERS, name));
        writer.object(",\"parameters\":", parameters);
        writer.write(b"}");
        Ok(writer.finish())
    }

    /// Reads the document, and passes it to `take`. `None` if it can't be read.
    pub fn read<T>(&self, take: impl FnOnce(&Parts<'_>) -> T) -> Option<T> {
        let mut text = Vec::with_capacity(self.plain_bytes);
        // It was compressed here, so reading it does not fail.
        GzDecoder::new(&*self.packed).read_to_end(&mut text).ok()?;
        let parts = serde_json::from_slice(&text).ok()?;
        Some(take(&parts))
    }

    /// The length of its text.
    pub fn plain_bytes(&self) -> usize {
        self.plain_bytes
    }

    /// The hash of its text.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

/// Returns the beginning of a path with its group and version, if something follows them.
fn root_of(path: &str) -> Option<&str> {
    let (end, _) = path.match_indices('/').nth(3)?;
    path.get(..=end)
}

/// Returns the references that items lead to, directly or through definitions.
fn reached<'t>(items: impl Iterator<Item = &'t RawValue>, parts: &Parts<'t>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&RawValue> = items.collect();
    while let Some(text) = waiting.pop() {
        // Few definitions are so deep that they can't be read. They lead nowhere.
        let Ok(value) = serde_json::from_str::<Value>(text.get()) else {
            continue;
        };
        references(&value, &mut |reference| {
            let target = match reference.strip_prefix(DEFINITIONS) {
                Some(name) => parts.definitions.get(name),
                None => {
                    let name = reference.strip_prefix(PARAMETERS);
                    name.and_then(|name| parts.parameters.get(name))
                }
            };
            if let Some(target) = target
                && found.insert(reference.to_owned())
            {
                waiting.push(target);
            }
        });
    }
    found
}

fn references(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                found(reference);
            }
            members
                .values()
                .for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// Changes the references in a value.
pub fn redirect(value: &mut Value, to: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(other) = to(reference)
            {
                *reference = other;
            }
            members.values_mut().for_each(|member| redirect(member, to));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redirect(item, to)),
        _ => {}
    }
}

/// Writes a text, compresses it on the way, and hashes it.
struct Writer {
    gzip: GzEncoder<Vec<u8>>,
    hash: Sha256,
    plain_bytes: usize,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer {
            gzip: GzEncoder::new(Vec::new(), Compression::fast()),
            hash: Sha256::new(),
            plain_bytes: 0,
        }
    }
}

impl Writer {
    fn write(&mut self, text: &[u8]) {
        self.hash.update(text);
        self.plain_bytes += text.len();
        // Writing into memory cannot fail.
        let _ = self.gzip.write_all(text);
    }

    fn object<'m, 't: 'm>(
        &mut self,
        before: &str,
        members: impl Iterator<Item = (&'m Cow<'t, str>, &'m &'t RawValue)>,
    ) {
        self.write(before.as_bytes());
        let mut separator: &[u8] = b"{";
        let mut is_empty = true;
        for (name, value) in members {
            self.write(separator);
            self.write(Value::from(&**name).to_string().as_bytes());
            self.write(b":");
            self.write(value.get().as_bytes());
            separator = b",";
            is_empty = false;
        }
        self.write(if is_empty { b"{}" } else { b"}" });
    }

    fn finish(self) -> Reduced {
        let mut packed = self.gzip.finish().unwrap_or_default();
        packed.shrink_to_fit();
        let digest = self.hash.finalize();
        let hash = digest.iter().map(|byte| format!("{byte:02X}"));
        Reduced {
            packed: packed.into(),
            plain_bytes: self.plain_bytes,
            hash: hash.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_paths_of_the_versions_and_their_definitions_stay_cn_26() {
        let leads_to = |name: &str| json!({"get": {"x": [{"$ref": format!("#/{name}")}]}});
        let document = json!({
            "swagger": "2.0",
            "paths": {
                "/apis/a.example/v1/flunders": leads_to("definitions/Flunder"),
                "/apis/a.example/v1": leads_to("definitions/Root"),
                "/apis/a.example/v2/flunders": leads_to("definitions/Other"),
                "/apis/a.example/v1/more": leads_to("parameters/shared"),
            },
            "definitions": {
                "Flunder": {"properties": {"spec": {"$ref": "#/definitions/Spec"}}},
                "Spec": {"properties": {"self": {"$ref": "#/definitions/Spec"}}},
                "Root": {"type": "object"},
                "Other": {"$ref": "#/definitions/Both"},
                "Both": {"type": "string"},
                "Alone": {"type": "object"},
                "Body": {"items": {"$ref": "#/definitions/Both"}},
            },
            "parameters": {
                "shared": {"schema": {"$ref": "#/definitions/Body"}},
                "unused": {"name": "x"},
            },
        });
        let versions = [("a.example".to_owned(), "v1".to_owned())];
        let reduced = Reduced::of(document.to_string().as_bytes(), &versions).unwrap();
        let names = |members: &Members<'_>| {
            members
                .keys()
                .map(|name| name.clone().into_owned())
                .collect::<Vec<_>>()
        };
        let found = reduced.read(|parts| {
            let [paths, definitions, parameters] =
                [&parts.paths, &parts.definitions, &parts.parameters].map(names);
            assert_eq!(
                paths,
                ["/apis/a.example/v1/flunders", "/apis/a.example/v1/more"]
            );
            assert_eq!(definitions, ["Alone", "Body", "Both", "Flunder", "Spec"]);
            assert_eq!(parameters, ["shared", "unused"]);
        });
        assert!(found.is_some());
        assert_eq!(reduced.hash().len(), 64);
        assert!(Reduced::of(b"[", &versions).is_err());
        let empty = Reduced::of(b"{}", &versions).unwrap();
        assert!(
            empty
                .read(|parts| assert!(parts.paths.is_empty()))
                .is_some()
        );
    }
}
