//! Paths of member names in objects.

use std::fmt;
use std::ops::Deref;

/// A path in an object: member names from the top down.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldPath(Vec<String>);

impl FieldPath {
    /// Returns the path of these member names.
    pub fn new(names: Vec<String>) -> FieldPath {
        FieldPath(names)
    }

    /// Parses paths that are written with dots.
    pub fn list(dotted: &[&str]) -> Vec<FieldPath> {
        dotted.iter().copied().map(FieldPath::from).collect()
    }
}

/// Parses names joined by dots. Names that contain dots need [`FieldPath::new`].
impl From<&str> for FieldPath {
    fn from(dotted: &str) -> FieldPath {
        FieldPath(dotted.split('.').map(str::to_owned).collect())
    }
}

impl Deref for FieldPath {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
