//! `coordination.k8s.io/v1`.

use super::{rules, typed};
use crate::columns::coordination as columns;
use api::resource::{ResourceDefinition, UpdateCheck};

/// Leases, for the election of leaders and the heartbeats of nodes.
pub fn leases() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        create_on_update: true,
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::leases(),
        ..typed("coordination.v1.Lease", "coordination.k8s.io", "leases")
    })
}
