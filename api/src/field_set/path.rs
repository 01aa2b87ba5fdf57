//! Field paths.

use std::fmt;
use std::ops::Deref;

use super::PathElement;

/// The path from the root of an object to a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(Vec<PathElement>);

impl FieldPath {
    /// Returns a path of member names.
    pub fn of(names: &[&str]) -> FieldPath {
        FieldPath(names.iter().map(|name| PathElement::field(name)).collect())
    }

    /// Appends an element.
    pub fn push(&mut self, element: PathElement) {
        self.0.push(element);
    }

    /// Removes the last element.
    pub fn pop(&mut self) {
        self.0.pop();
    }
}

impl From<Vec<PathElement>> for FieldPath {
    fn from(elements: Vec<PathElement>) -> FieldPath {
        FieldPath(elements)
    }
}

impl Deref for FieldPath {
    type Target = [PathElement];

    fn deref(&self) -> &[PathElement] {
        &self.0
    }
}

/// Formats a path as conflicts show it (API-174): `.spec.template.spec.containers[name="a"].image`.
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}
