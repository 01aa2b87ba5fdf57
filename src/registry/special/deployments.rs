//! Deployments: their labels can't be changed through `/status` (http.md 6.2).

use crate::registry::strategy::Ownership;

pub(super) fn adapt(ownership: &mut Ownership) {
    ownership.kept_by_status = &[&["spec"], &["metadata", "labels"]];
}
