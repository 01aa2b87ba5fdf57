//! Conflicts of server-side apply, as clients see them (API-174).

use std::fmt;

use super::entry::{Identity, Operation};
use super::updater::Conflict;
use crate::field_set::FieldSet;
use crate::text::quoting::go_quote;

/// The conflicts of an apply, sorted by manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

impl Conflicts {
    /// Returns conflicts that are sorted by manager.
    pub(super) fn of(sorted: Vec<Conflict>) -> Conflicts {
        Conflicts(sorted)
    }

    /// Returns the message and the field of each conflict.
    pub fn causes(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|conflict| {
            let message = format!("conflict with {}", shown(&conflict.manager));
            (message, conflict.path.to_string())
        })
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = &*self.0 {
            let (manager, path) = (shown(&only.manager), &only.path);
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {manager}: {path}"
            );
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut of = None;
        for conflict in &self.0 {
            if of != Some(&conflict.manager) {
                let line = if of.is_none() { "" } else { "\n" };
                write!(f, "{line}conflicts with {}:", shown(&conflict.manager))?;
                of = Some(&conflict.manager);
            }
            write!(f, "\n- {}", conflict.path)?;
        }
        Ok(())
    }
}

/// Returns a manager as messages show it.
fn shown(key: &str) -> String {
    let Some(identity) = Identity::of_key(key) else {
        return go_quote(key);
    };
    let mut text = go_quote(&identity.manager);
    if !identity.subresource.is_empty() {
        text += &format!(" with subresource {}", go_quote(&identity.subresource));
    }
    if identity.operation == Operation::Update {
        text += &format!(" using {}", identity.api_version);
    }
    text
}

/// Returns the conflicts about fields that are not in the set.
pub(super) fn without(conflicts: Vec<Conflict>, fields: &FieldSet) -> Vec<Conflict> {
    let is_other = |conflict: &Conflict| !fields.has(&conflict.path);
    conflicts.into_iter().filter(is_other).collect()
}
