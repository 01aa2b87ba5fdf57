//! Resource definitions that the tests of this folder share.

use crate::api::object::Object;
use crate::api::resource::{
    Cell, Column, DefaultPropagation, GenerationRule, Lifetime, MemberType, NameRule,
    ResourceDefinition, ResourceScope, SelectableField, UpdateChecks,
};

const BASE: ResourceDefinition = ResourceDefinition {
    group: "",
    version: "v1",
    kind: "",
    empty_members: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    scope: ResourceScope::Namespaced,
    verbs: &[],
    subresources: &[],
    key_prefix: "",
    name_rule: NameRule::DnsSubdomain,
    generation: GenerationRule::None,
    create_on_update: false,
    unconditional_update: true,
    returns_deleted: false,
    strict_finalizers: true,
    update_checks: UpdateChecks::ChangesThenObject,
    propagation: DefaultPropagation::Background,
    lifetime: Lifetime::Unlimited,
    selectable_fields: &[],
    selects_namespace: true,
    columns: &[],
    member_types: &[],
};

const fn column(name: &'static str, format: &'static str, cell: Cell) -> Column {
    Column {
        name,
        kind: "string",
        format,
        priority: 0,
        description: "",
        cell,
    }
}

/// ConfigMaps.
pub(crate) static CONFIGMAPS: ResourceDefinition = ResourceDefinition {
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    key_prefix: "configmaps",
    columns: &[
        column("Name", "name", Cell::Name),
        column("Data", "", Cell::Count(&[&["data"], &["binaryData"]])),
        column("Age", "", Cell::Age),
    ],
    member_types: &[
        ("data", MemberType::StringMap),
        ("binaryData", MemberType::Base64Map),
        ("immutable", MemberType::Bool),
    ],
    ..BASE
};

/// Namespaces, which have no namespace and select by no namespace.
pub(crate) static NAMESPACES: ResourceDefinition = ResourceDefinition {
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    key_prefix: "namespaces",
    scope: ResourceScope::Cluster,
    name_rule: NameRule::DnsLabel,
    update_checks: UpdateChecks::ObjectThenChanges,
    selects_namespace: false,
    selectable_fields: &[SelectableField {
        label: "status.phase",
        paths: &[&["status", "phase"]],
        absent: "",
    }],
    columns: &[
        column("Name", "name", Cell::Name),
        column("Status", "", Cell::Text(&["status", "phase"], "")),
        column("Created At", "", Cell::CreatedAt),
    ],
    ..BASE
};

/// Pods, which can be selected by more than one field of their own.
pub(crate) static PODS: ResourceDefinition = ResourceDefinition {
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    key_prefix: "pods",
    selectable_fields: &[
        SelectableField {
            label: "spec.nodeName",
            paths: &[&["spec", "nodeName"]],
            absent: "",
        },
        SelectableField {
            label: "status.phase",
            paths: &[&["status", "phase"]],
            absent: "",
        },
    ],
    ..BASE
};

/// Deployments, of a group.
pub(crate) static DEPLOYMENTS: ResourceDefinition = ResourceDefinition {
    group: "apps",
    kind: "Deployment",
    plural: "deployments",
    singular: "deployment",
    key_prefix: "deployments",
    update_checks: UpdateChecks::Changes,
    ..BASE
};

/// Leases, with typed members below `spec`.
pub(crate) static LEASES: ResourceDefinition = ResourceDefinition {
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    key_prefix: "leases",
    unconditional_update: false,
    strict_finalizers: false,
    update_checks: UpdateChecks::Changes,
    member_types: &[
        ("spec", MemberType::Object),
        ("spec.leaseDurationSeconds", MemberType::Int32),
        ("spec.renewTime", MemberType::MicroTime),
    ],
    ..BASE
};

/// Events, which no rule of their own checks.
pub(crate) static EVENTS: ResourceDefinition = ResourceDefinition {
    kind: "Event",
    plural: "events",
    singular: "event",
    key_prefix: "events",
    name_rule: NameRule::PathSegment,
    strict_finalizers: false,
    update_checks: UpdateChecks::None,
    propagation: DefaultPropagation::Unsupported,
    ..BASE
};

/// The object that a JSON text is.
pub(crate) fn object(json: &str) -> Object {
    Object(serde_json::from_str(json).unwrap())
}
