//! `apps/v1`.

use super::{NAME_AND_AGE, STATUS, VERBS};
use crate::api::resource::{
    DefaultPropagation, GenerationRule, Lifetime, MemberType, NameRule, ResourceDefinition,
    ResourceScope, UpdateChecks,
};

/// Deployments.
pub static DEPLOYMENTS: ResourceDefinition = ResourceDefinition {
    group: "apps",
    version: "v1",
    kind: "Deployment",
    empty_members: concat!(
        r#","spec":{"replicas":0,"selector":null,"template":{"metadata":{},"#,
        r#""spec":{"containers":null}},"strategy":{}},"status":{}"#,
    ),
    plural: "deployments",
    singular: "deployment",
    short_names: &["deploy"],
    categories: &["all"],
    scope: ResourceScope::Namespaced,
    verbs: VERBS,
    subresources: &[STATUS],
    key_prefix: "deployments",
    name_rule: NameRule::DnsSubdomain,
    generation: GenerationRule::OnChangeOf(&["spec", "metadata.annotations"]),
    create_on_update: false,
    unconditional_update: true,
    returns_deleted: false,
    strict_finalizers: true,
    update_checks: UpdateChecks::Changes,
    propagation: DefaultPropagation::Background,
    lifetime: Lifetime::Unlimited,
    selectable_fields: &[],
    selects_namespace: true,
    columns: NAME_AND_AGE,
    member_types: &[("spec", MemberType::Object), ("status", MemberType::Object)],
};
