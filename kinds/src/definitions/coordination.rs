//! `coordination.k8s.io/v1`.

use super::typed;
use api::resource::{Cell, Column, ResourceDefinition, UpdateChecks};

/// Leases, for the election of leaders and the heartbeats of nodes.
pub fn leases() -> ResourceDefinition {
    let holder = Cell::Text("spec.holderIdentity".into());
    ResourceDefinition {
        create_on_update: true,
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: UpdateChecks::Changes,
        columns: vec![
            Column::name(),
            Column::text("Holder", "Who holds the lease.", holder),
            Column::age(),
        ],
        ..typed("coordination.v1.Lease", "coordination.k8s.io", "leases")
    }
}
