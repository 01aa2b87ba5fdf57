//! Bounded lists of a document's unknown or duplicate members, and type names, for error messages.

use std::fmt;

use serde_json::Value;

use crate::truncated::truncated_display;

/// At most this many paths are reported (API-90).
const MAX_PATHS: usize = 100;

/// Longer paths are cut. The longest paths that people write are annotation keys, with 317 bytes.
const MAX_PATH_BYTES: usize = 1024;

/// The limit on all paths of one document together. One more path may exceed it.
const MAX_TOTAL_BYTES: usize = 16 * 1024;

/// The collected paths, each listed once. See the module's documentation.
#[derive(Debug, Default)]
pub struct Paths {
    kept: Vec<String>,
    bytes: usize,
}

impl Paths {
    /// Records a path while there is room. The path is formatted only then and only up to its
    /// limit, because a document may have many paths that are as long as the document itself.
    pub fn note(&mut self, path: impl fmt::Display) {
        if self.kept.len() >= MAX_PATHS || self.bytes >= MAX_TOTAL_BYTES {
            return;
        }
        let path = truncated_display(path, MAX_PATH_BYTES);
        if !self.kept.contains(&path) {
            self.bytes += path.len();
            self.kept.push(path);
        }
    }

    /// The paths in the order in which they were recorded.
    pub fn into_vec(self) -> Vec<String> {
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
        let mut short = Paths::default();
        for path in 0..1000 {
            short.note(path % 500);
        }
        assert_eq!(short.into_vec().len(), 100);

        let mut long = Paths::default();
        let name = "n".repeat(1 << 20);
        for path in 0..1000 {
            long.note(format_args!("{path}.{name}"));
        }
        let long = long.into_vec();
        assert!(long.iter().all(|path| path.len() <= MAX_PATH_BYTES + 4));
        let total: usize = long.iter().map(String::len).sum();
        assert!(total < MAX_TOTAL_BYTES + 2 * MAX_PATH_BYTES, "{total}");
    }
}
