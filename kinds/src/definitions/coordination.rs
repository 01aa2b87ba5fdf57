//! `coordination.k8s.io/v1`.

use super::typed;
use api::placeholder_schema::{MemberType, PlaceholderSchema};
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
        placeholder_schema: PlaceholderSchema::of(&[
            ("spec", MemberType::Object),
            ("spec.holderIdentity", MemberType::String),
            ("spec.leaseDurationSeconds", MemberType::Int32),
            ("spec.acquireTime", MemberType::MicroTime),
            ("spec.renewTime", MemberType::MicroTime),
            ("spec.leaseTransitions", MemberType::Int32),
            ("spec.strategy", MemberType::String),
            ("spec.preferredHolder", MemberType::String),
        ])
        .with_empty_members(r#","spec":{}"#),
        ..typed("coordination.v1.Lease", "coordination.k8s.io", "leases")
    }
}
