//! `coordination.k8s.io/v1`.

use super::{AGE, NAME, VERBS};
use crate::api::resource::{
    Cell, Column, DefaultPropagation, GenerationRule, MemberType, NameRule, ResourceDefinition,
    ResourceScope,
};

/// Leases, by which controllers elect leaders and nodes say that they live.
pub static LEASES: ResourceDefinition = ResourceDefinition {
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
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
    propagation: DefaultPropagation::Background,
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
    member_types: &[("spec", MemberType::Object)],
};
