//! `coordination.k8s.io/v1`.

use crate::api::resource::{Cell, Column, MemberType, ResourceDefinition, UpdateChecks};

/// Leases, for the election of leaders and the heartbeats of nodes.
pub fn leases() -> ResourceDefinition {
    let holder = Cell::Text("spec.holderIdentity".into());
    ResourceDefinition {
        empty_members: r#","spec":{}"#.to_owned(),
        create_on_update: true,
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: UpdateChecks::Changes,
        columns: vec![
            Column::name(),
            Column::text("Holder", "Who holds the lease.", holder),
            Column::age(),
        ],
        member_types: MemberType::rows(&[
            ("spec", MemberType::Object),
            ("spec.holderIdentity", MemberType::String),
            ("spec.leaseDurationSeconds", MemberType::Int32),
            ("spec.acquireTime", MemberType::MicroTime),
            ("spec.renewTime", MemberType::MicroTime),
            ("spec.leaseTransitions", MemberType::Int32),
            ("spec.strategy", MemberType::String),
            ("spec.preferredHolder", MemberType::String),
        ]),
        ..ResourceDefinition::named("coordination.k8s.io", "v1", "Lease", "leases")
    }
}
