//! Bounded lists of a document's unknown and duplicate members, and type names, for error messages.

use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::field_error::go_quote;
use crate::truncated::truncated_display;

/// At most this many paths are reported (API-90).
const MAX_PATHS: usize = 100;

/// Longer paths are cut. The longest paths that people write are annotation keys, with 317 bytes.
const MAX_PATH_BYTES: usize = 1024;

/// The limit on all paths of one document together. One more path may exceed it.
const MAX_TOTAL_BYTES: usize = 16 * 1024;

/// A member that strict decoding does not accept (API-90).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldFault {
    /// The type has no such field. The member was dropped. Its path: `metadata.colour`.
    Unknown(String),
    /// It was given more than once. The last one is used. Its path: `data.k`.
    Duplicate(String),
    /// As `Duplicate`, in YAML. Its line and its name: `line 4: key "k" already set in map`.
    Repeated(String),
    /// It is one of these in the text of a JSON patch.
    OfJsonPatch(Box<FieldFault>),
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldFault::Unknown(path) => write!(f, "unknown field {}", go_quote(path)),
            FieldFault::Duplicate(path) => write!(f, "duplicate field {}", go_quote(path)),
            FieldFault::Repeated(text) => f.write_str(text),
            FieldFault::OfJsonPatch(fault) => write!(f, "json patch {fault}"),
        }
    }
}

/// The error of strict decoding, which lists all faults (API-90). Those of YAML come first, each on
/// its own line.
pub fn strict_decoding_error(faults: &[FieldFault]) -> String {
    let mut text = "strict decoding error: ".to_owned();
    let mut before = "yaml: unmarshal errors:\n  ";
    let (of_yaml, others): (Vec<_>, Vec<_>) = faults
        .iter()
        .partition(|fault| matches!(fault, FieldFault::Repeated(_)));
    for fault in &of_yaml {
        let _ = write!(text, "{before}{fault}");
        before = "\n  ";
    }
    before = if of_yaml.is_empty() { "" } else { ", " };
    for fault in others {
        let _ = write!(text, "{before}{fault}");
        before = ", ";
    }
    text
}

/// The collected faults, each listed once. See the module's documentation.
#[derive(Debug, Default)]
pub struct FieldFaults {
    kept: Vec<FieldFault>,
    bytes: usize,
}

impl FieldFaults {
    /// Records a fault at a path while there is room. The path is formatted only then and only up
    /// to its limit, because a document may have many paths that are as long as the document
    /// itself.
    pub fn note(&mut self, fault: fn(String) -> FieldFault, path: impl fmt::Display) {
        if self.kept.len() >= MAX_PATHS || self.bytes >= MAX_TOTAL_BYTES {
            return;
        }
        let path = truncated_display(path, MAX_PATH_BYTES);
        let bytes = path.len();
        let fault = fault(path);
        if !self.kept.contains(&fault) {
            self.bytes += bytes;
            self.kept.push(fault);
        }
    }

    /// The faults in the order in which they were recorded.
    pub fn into_vec(self) -> Vec<FieldFault> {
        self.kept
    }
}

/// The place of a value in its document. It borrows the names on its path, so it costs nothing
/// until it is formatted.
#[derive(Clone, Copy, Debug)]
pub enum Place<'p> {
    /// The document itself.
    Top,
    /// A member of an object.
    Member(&'p Place<'p>, &'p str),
    /// An item of a list.
    Item(&'p Place<'p>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Top => Ok(()),
            Place::Member(Place::Top, name) => f.write_str(name),
            Place::Member(above, name) => write!(f, "{above}.{name}"),
            Place::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

/// The name of a value's type in JSON.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The kind of Go's type that a value has when no type is known.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_as_kubernetes_does_api_149() {
        let spec = Place::Member(&Place::Top, "spec");
        let ports = Place::Member(&spec, "ports");
        let first = Place::Item(&ports, 0);
        assert_eq!(
            Place::Member(&first, "name").to_string(),
            "spec.ports[0].name"
        );
        assert_eq!(Place::Item(&Place::Top, 3).to_string(), "[3]");
    }

    #[test]
    fn paths_are_bounded_in_number_in_length_and_together_api_90() {
        let mut short = FieldFaults::default();
        for path in 0..1000 {
            short.note(FieldFault::Unknown, path % 500);
        }
        assert_eq!(short.into_vec().len(), 100);

        let mut long = FieldFaults::default();
        let name = "n".repeat(1 << 20);
        for path in 0..1000 {
            long.note(FieldFault::Duplicate, format_args!("{path}.{name}"));
        }
        let long: Vec<String> = long.into_vec().iter().map(FieldFault::to_string).collect();
        assert!(long.iter().all(|path| path.len() <= MAX_PATH_BYTES + 30));
        let total: usize = long.iter().map(String::len).sum();
        assert!(total < MAX_TOTAL_BYTES + 3 * MAX_PATH_BYTES, "{total}");
    }
}
