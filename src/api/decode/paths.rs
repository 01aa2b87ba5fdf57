//! Paths of members that a document should not have, as many as an answer names.

use std::fmt;

use crate::api::truncated::truncated_display;

/// So many are told (API-90).
const MAX_PATHS: usize = 100;

/// A longer path is cut. The longest that people write are keys of annotations, of 317 bytes.
const MAX_PATH_BYTES: usize = 1024;

/// The paths of one document take so much together, and one path more.
const MAX_TOTAL_BYTES: usize = 16 * 1024;

/// See the module's documentation. Each path is there once.
#[derive(Debug, Default)]
pub struct Paths {
    kept: Vec<String>,
    bytes: usize,
}

impl Paths {
    /// Keeps a path as long as there is room. It is written down no sooner, and no further than it
    /// is kept: a document may have a great many, each as long as the document itself.
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

    /// The paths in the order in which they were noted.
    pub fn into_vec(self) -> Vec<String> {
        self.kept
    }
}

/// Where a value is in its document. It borrows the names on its way, so that it costs nothing as
/// long as nobody asks for it.
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
