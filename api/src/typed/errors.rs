//! Type errors of values, in the words of structured-merge-diff.

use std::fmt;

/// The number of errors that are kept. A list of a million invalid items needs no million lines.
const MAX_ERRORS: usize = 100;

/// A part of a value that does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// Its path as messages show it. Empty for the whole value.
    pub path: String,
    /// The error.
    pub problem: String,
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}

/// All parts of a value that do not fit their types (API-171).
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct TypeErrors(pub Vec<TypeError>);

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl TypeErrors {
    pub(super) fn add(&mut self, path: String, problem: String) {
        if self.0.len() < MAX_ERRORS {
            self.0.push(TypeError { path, problem });
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MAX_ERRORS
    }
}
