//! The columns of `resource.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::{Column, OfField};

use super::{computed, list, text};

/// Returns the columns of ResourceClaims.
pub fn resourceclaims() -> Vec<Column> {
    let state = computed(|claim, _| state(claim).into());
    vec![
        Column::name(),
        Column::text(
            "State",
            "Whether devices are allocated and reserved.",
            state,
        ),
        Column::age(),
    ]
}

/// Returns the columns of ResourceSlices.
pub fn resourceslices() -> Vec<Column> {
    vec![
        Column::name(),
        Column::text(
            "Node",
            OfField("resource.v1.ResourceSliceSpec.nodeName"),
            text("spec.nodeName"),
        ),
        Column::text(
            "Driver",
            OfField("resource.v1.ResourceSliceSpec.driver"),
            text("spec.driver"),
        ),
        Column::text(
            "Pool",
            OfField("resource.v1.ResourcePool.name"),
            text("spec.pool.name"),
        ),
        Column::age(),
    ]
}

fn state(claim: &Object) -> String {
    let mut states = Vec::new();
    if claim.is_being_deleted() {
        states.push("deleted");
    }
    if claim.at(&["status", "allocation"]).is_some() {
        states.push("allocated");
    } else if states.is_empty() {
        states.push("pending");
    }
    if !list(claim, &["status", "reservedFor"]).is_empty() {
        states.push("reserved");
    }
    states.join(",")
}
