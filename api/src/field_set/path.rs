//! Paths of fields.

use std::fmt;
use std::ops::Deref;

use super::PathElement;

/// The way from the root of an object to a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(Vec<PathElement>);

impl FieldPath {
    /// A path of fields alone.
    pub fn of(names: &[&str]) -> FieldPath {
        FieldPath(names.iter().map(|name| PathElement::field(name)).collect())
    }

    /// Goes a step down.
    pub fn push(&mut self, element: PathElement) {
        self.0.push(element);
    }

    /// Goes a step up.
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

/// As conflicts show it (API-174): `.spec.template.spec.containers[name="a"].image`.
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}
