//! Conflicts of appliers, as clients see them (API-174).

use super::entry::{Identity, Operation};
use super::updater::Conflict;
use crate::field_error::go_quote;
use crate::field_set::FieldSet;
use crate::status::{Status, StatusCause, StatusDetails, StatusReason};

/// The refusal of an application. The conflicts are in order of their managers.
pub(super) fn refused(conflicts: &[Conflict]) -> Box<Status> {
    let causes = conflicts.iter().map(|conflict| StatusCause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", shown(&conflict.manager)),
        field: conflict.path.to_string(),
    });
    let details = StatusDetails {
        causes: causes.collect(),
        ..StatusDetails::default()
    };
    let status = Status::failure(409, StatusReason::CONFLICT, message(conflicts));
    Box::new(status.with_details(details))
}

fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        let manager = shown(&only.manager);
        return format!(
            "Apply failed with 1 conflict: conflict with {manager}: {}",
            only.path
        );
    }
    let mut lines = Vec::with_capacity(conflicts.len() + 1);
    let mut of = None;
    for conflict in conflicts {
        if of != Some(&conflict.manager) {
            of = Some(&conflict.manager);
            lines.push(format!("conflicts with {}:", shown(&conflict.manager)));
        }
        lines.push(format!("- {}", conflict.path));
    }
    let number = conflicts.len();
    format!("Apply failed with {number} conflicts: {}", lines.join("\n"))
}

/// A manager as messages show it.
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

/// The conflicts about other fields than these.
pub(super) fn without(conflicts: Vec<Conflict>, fields: &FieldSet) -> Vec<Conflict> {
    let is_other = |conflict: &Conflict| !fields.has(&conflict.path);
    conflicts.into_iter().filter(is_other).collect()
}
