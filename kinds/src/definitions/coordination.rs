//! The resources of `coordination.k8s.io/v1`.

use super::row::Row;
use super::typed;
use crate::columns::coordination as columns;
use crate::{strategies, validation};
use api::resource::{ResourceDefinition, UpdateCheck};

/// Returns the definition of Leases, for leader election and node heartbeats.
pub fn leases() -> ResourceDefinition {
    Row {
        create_on_update: true,
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::leases(),
        disabled: Some(strategies::disabled_fields::drop_of_lease),
        validate: Some(validation::coordination::validate_lease),
        validate_update: Some(validation::coordination::validate_lease_update),
        ..typed("coordination.v1.Lease", "coordination.k8s.io", "leases")
    }
    .definition()
}
