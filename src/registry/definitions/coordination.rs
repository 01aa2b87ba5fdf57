//! `coordination.k8s.io/v1`.

use super::{AGE, NAME, VERBS};
use crate::api::resource::{
    Cell, Column, DefaultPropagation, GenerationRule, Lifetime, MemberType, NameRule,
    ResourceDefinition, ResourceScope, UpdateChecks,
};

/// Leases, by which controllers elect leaders and nodes say that they live.
pub static LEASES: ResourceDefinition = ResourceDefinition {
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    empty_members: r#","spec":{}"#,
    plural: "leases",
    singular: "lease",
    short_names: &[],
    categories: &[],
    scope: ResourceScope::Namespaced,
    verbs: VERBS,
    subresources: &[],
    key_prefix: "leases",
    name_rule: NameRule::DnsSubdomain,
    generation: GenerationRule::None,
    create_on_update: true,
    unconditional_update: false,
    returns_deleted: false,
    strict_finalizers: false,
    update_checks: UpdateChecks::Changes,
    propagation: DefaultPropagation::Background,
    lifetime: Lifetime::Unlimited,
    selectable_fields: &[],
    selects_namespace: true,
    columns: &[
        NAME,
        Column {
            name: "Holder",
            kind: "string",
            format: "",
            priority: 0,
            description: "Who holds the lease.",
            cell: Cell::Text(&["spec", "holderIdentity"], ""),
        },
        AGE,
    ],
    member_types: &[
        ("spec", MemberType::Object),
        ("spec.holderIdentity", MemberType::String),
        ("spec.leaseDurationSeconds", MemberType::Int32),
        ("spec.acquireTime", MemberType::MicroTime),
        ("spec.renewTime", MemberType::MicroTime),
        ("spec.leaseTransitions", MemberType::Int32),
        ("spec.strategy", MemberType::String),
        ("spec.preferredHolder", MemberType::String),
    ],
};
