//! The file of `--encryption-provider-config`: Kubernetes' EncryptionConfiguration (EN-13).
//!
//! Pure: parses a text into rules, or into a list of faults. Parsing is strict, and no message
//! shows a secret (EN-16).

mod document;
mod providers;
mod resources;

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;
use zeroize::Zeroizing;

use super::ciphers::Algorithm;
use crate::api::field_error::FieldError;
use document::{Document, shown_name};

pub(super) use resources::{ALL, ResourceName};

/// The parsed configuration.
#[derive(Debug)]
pub(super) struct Configuration {
    /// The elements of `resources`, at least one.
    pub(super) entries: Vec<Entry>,
}

/// An element of `resources`.
#[derive(Debug)]
pub(super) struct Entry {
    /// The resources, at least one.
    pub(super) resources: Vec<ResourceName>,
    /// The providers, at least one. All of them read, the first one writes.
    pub(super) providers: Vec<ProviderConfig>,
}

/// An element of `providers`.
#[derive(Debug)]
pub(super) enum ProviderConfig {
    /// Values are stored as they are.
    Identity,
    /// A cipher with at least one key. The first key writes.
    Cipher(Algorithm, Vec<NamedSecret>),
}

/// A named key.
#[derive(Debug)]
pub(super) struct NamedSecret {
    /// The key's name. It is part of the prefix of every value written with it.
    pub(super) name: String,
    /// The key, of a length that its cipher accepts.
    pub(super) secret: Secret,
}

/// The bytes of a key. They are wiped when dropped and never printed.
pub(super) struct Secret(pub(super) Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// The replacement of a secret in messages (EN-16).
const REDACTED: &str = "REDACTED";

/// The accepted kinds and versions of the file (EN-13).
const KINDS: [(&str, &str); 2] = [
    ("EncryptionConfiguration", "apiserver.config.k8s.io/v1"),
    ("EncryptionConfig", "v1"),
];

impl Configuration {
    /// Parses the text of the file, which is YAML or JSON.
    ///
    /// # Errors
    /// All errors, each with its path.
    pub(super) fn parse(text: &str) -> Result<Configuration, Vec<String>> {
        let value = parse_yaml(text).map_err(|problem| vec![problem])?;
        let mut document = Document::default();
        let configuration = read(&mut document, value);
        match document.problems() {
            [] => Ok(configuration),
            problems => Err(problems.iter().map(FieldError::to_string).collect()),
        }
    }
}

/// Parses the text into a tree. Reports only the position of an error, because the parser's message
/// may quote the text.
fn parse_yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        strict_booleans: false,
        with_snippet: false,
        emit_comments: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = match error.location() {
            Some(at) => format!(" at line {} column {}", at.line(), at.column()),
            None => String::new(),
        };
        format!("it is not valid YAML{place}, or says something twice there")
    })
}

fn read(document: &mut Document, value: Value) -> Configuration {
    let [kind, api_version, resources] =
        document.members("", value, ["kind", "apiVersion", "resources"]);
    let kind = document.text("kind", kind);
    let api_version = document.text("apiVersion", api_version);
    let given = kind.zip(api_version);
    if let Some((kind, api_version)) = given
        && !KINDS.contains(&(kind.as_str(), api_version.as_str()))
    {
        let detail = format!(
            "the file is of kind {} and apiVersion {}",
            KINDS[0].0, KINDS[0].1
        );
        let given = format!("{}, {}", shown_name(&kind), shown_name(&api_version));
        document.refuse(FieldError::invalid("kind, apiVersion", given, detail));
    }
    let entries = document.list("resources", resources);
    let entries = entries
        .into_iter()
        .enumerate()
        .map(|(index, entry)| read_entry(document, &format!("resources[{index}]"), entry))
        .collect();
    Configuration { entries }
}

fn read_entry(document: &mut Document, path: &str, value: Value) -> Entry {
    let [names, elements] = document.members(path, value, ["resources", "providers"]);
    let place = format!("{path}.resources");
    let names = document.list(&place, names);
    let resources = resources::read(document, &place, names);
    let place = format!("{path}.providers");
    let elements = document.list(&place, elements);
    Entry {
        resources,
        providers: providers::read(document, &place, elements),
    }
}
