//! The columns of `coordination.k8s.io/v1` (API-218).

use api::resource::{Column, OfField};

use super::text;

/// Returns the columns of Leases.
pub fn leases() -> Vec<Column> {
    vec![
        Column::name(),
        Column::text(
            "Holder",
            OfField("coordination.v1.LeaseSpec.holderIdentity"),
            text("spec.holderIdentity"),
        ),
        Column::age(),
    ]
}
