//! Nodes: a kubelet registers with its status, so creating keeps it (http.md 6.2).

use crate::registry::strategy::Ownership;

pub(super) fn adapt(ownership: &mut Ownership) {
    ownership.dropped_on_create = &[];
}
