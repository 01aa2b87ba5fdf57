//! The columns of `coordination.k8s.io/v1` (API-218).

use api::resource::Column;

use super::text;

/// Leases.
pub fn leases() -> Vec<Column> {
    vec![
        Column::name(),
        Column::text(
            "Holder",
            "Who holds the lease.",
            text("spec.holderIdentity"),
        ),
        Column::age(),
    ]
}
