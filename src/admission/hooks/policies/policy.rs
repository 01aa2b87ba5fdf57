//! A policy with its compiled expressions. Pure.

use std::sync::OnceLock;

use serde::Deserialize;

use super::compiled::Compiled;
use super::definition::Spec;

/// A ValidatingAdmissionPolicy or a MutatingAdmissionPolicy. It was stored valid and with its
/// defaults.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Policy {
    pub(super) spec: Spec,
    /// The compiled expressions, made at their first use.
    #[serde(skip)]
    compiled: OnceLock<Compiled>,
}

impl Policy {
    /// Reads a stored policy.
    ///
    /// # Errors
    /// The text is not a policy.
    pub fn read(text: &[u8]) -> Result<Policy, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Returns the compiled expressions.
    pub(super) fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| Compiled::of(&self.spec))
    }
}
