//! The core group, `v1`.

use super::{AGE, FINALIZE, NAME, NAME_AND_AGE, NAMESPACE_VERBS, STATUS, VERBS};
use crate::api::resource::{
    Cell, Column, DefaultPropagation, GenerationRule, Lifetime, MemberType, NameRule,
    ResourceDefinition, ResourceScope, SelectableField, UpdateChecks,
};

/// What the rows of this file have in common; each says where it differs.
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
    verbs: VERBS,
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
    columns: NAME_AND_AGE,
    member_types: &[],
};

/// A selectable field with text at one of these paths.
const fn field(label: &'static str, paths: &'static [&'static [&'static str]]) -> SelectableField {
    let absent = "";
    SelectableField {
        label,
        paths,
        absent,
    }
}

/// A selectable field that is a boolean: when absent it is false.
const fn flag(label: &'static str, paths: &'static [&'static [&'static str]]) -> SelectableField {
    let absent = "false";
    SelectableField {
        label,
        paths,
        absent,
    }
}

/// Namespaces.
pub static NAMESPACES: ResourceDefinition = ResourceDefinition {
    kind: "Namespace",
    empty_members: r#","spec":{},"status":{}"#,
    plural: "namespaces",
    singular: "namespace",
    verbs: NAMESPACE_VERBS,
    short_names: &["ns"],
    scope: ResourceScope::Cluster,
    subresources: &[FINALIZE, STATUS],
    key_prefix: "namespaces",
    name_rule: NameRule::DnsLabel,
    update_checks: UpdateChecks::ObjectThenChanges,
    returns_deleted: true,
    selectable_fields: &[field("status.phase", &[&["status", "phase"]])],
    selects_namespace: false,
    columns: &[
        NAME,
        Column {
            name: "Status",
            kind: "string",
            format: "",
            priority: 0,
            description: "Active, or Terminating while its contents are deleted.",
            cell: Cell::Text(&["status", "phase"], ""),
        },
        AGE,
    ],
    member_types: &[("spec", MemberType::Object), ("status", MemberType::Object)],
    ..BASE
};

/// ConfigMaps.
pub static CONFIGMAPS: ResourceDefinition = ResourceDefinition {
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short_names: &["cm"],
    key_prefix: "configmaps",
    columns: &[
        NAME,
        Column {
            name: "Data",
            kind: "string",
            format: "",
            priority: 0,
            description: "Number of its entries.",
            cell: Cell::Count(&[&["data"], &["binaryData"]]),
        },
        AGE,
    ],
    member_types: &[
        ("data", MemberType::StringMap),
        ("binaryData", MemberType::Base64Map),
        ("immutable", MemberType::Bool),
    ],
    ..BASE
};

/// Secrets.
pub static SECRETS: ResourceDefinition = ResourceDefinition {
    kind: "Secret",
    plural: "secrets",
    singular: "secret",
    key_prefix: "secrets",
    selectable_fields: &[field("type", &[&["type"]])],
    columns: &[
        NAME,
        Column {
            name: "Type",
            kind: "string",
            format: "",
            priority: 0,
            description: "What its data is for.",
            cell: Cell::Text(&["type"], ""),
        },
        Column {
            name: "Data",
            kind: "string",
            format: "",
            priority: 0,
            description: "Number of its entries.",
            cell: Cell::Count(&[&["data"]]),
        },
        AGE,
    ],
    member_types: &[
        ("data", MemberType::Base64Map),
        ("stringData", MemberType::StringMap),
        ("type", MemberType::String),
        ("immutable", MemberType::Bool),
    ],
    ..BASE
};

/// Pods.
pub static PODS: ResourceDefinition = ResourceDefinition {
    kind: "Pod",
    empty_members: r#","spec":{"containers":null},"status":{}"#,
    plural: "pods",
    singular: "pod",
    short_names: &["po"],
    categories: &["all"],
    subresources: &[STATUS],
    key_prefix: "pods",
    generation: GenerationRule::OnChangeOf(&["spec"]),
    returns_deleted: true,
    selectable_fields: &[
        field("spec.nodeName", &[&["spec", "nodeName"]]),
        field("spec.host", &[&["spec", "nodeName"]]),
        field("spec.restartPolicy", &[&["spec", "restartPolicy"]]),
        field("spec.schedulerName", &[&["spec", "schedulerName"]]),
        field(
            "spec.serviceAccountName",
            &[&["spec", "serviceAccountName"]],
        ),
        flag("spec.hostNetwork", &[&["spec", "hostNetwork"]]),
        field("status.phase", &[&["status", "phase"]]),
        field("status.podIP", &[&["status", "podIP"]]),
        // Known and never set, as in Kubernetes.
        field("status.podIPs", &[]),
        field(
            "status.nominatedNodeName",
            &[&["status", "nominatedNodeName"]],
        ),
    ],
    member_types: &[("spec", MemberType::Object), ("status", MemberType::Object)],
    ..BASE
};

/// Nodes, under `minions` as they have been since they were called so (KV-2).
pub static NODES: ResourceDefinition = ResourceDefinition {
    kind: "Node",
    empty_members: concat!(
        r#","spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"#,
        r#""machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","#,
        r#""containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","#,
        r#""operatingSystem":"","architecture":""}}"#,
    ),
    plural: "nodes",
    singular: "node",
    short_names: &["no"],
    scope: ResourceScope::Cluster,
    subresources: &[STATUS],
    key_prefix: "minions",
    update_checks: UpdateChecks::ObjectThenChanges,
    selectable_fields: &[flag("spec.unschedulable", &[&["spec", "unschedulable"]])],
    selects_namespace: false,
    member_types: &[("spec", MemberType::Object), ("status", MemberType::Object)],
    ..BASE
};

/// Services.
pub static SERVICES: ResourceDefinition = ResourceDefinition {
    kind: "Service",
    empty_members: r#","spec":{},"status":{"loadBalancer":{}}"#,
    plural: "services",
    singular: "service",
    short_names: &["svc"],
    categories: &["all"],
    subresources: &[STATUS],
    key_prefix: "services/specs",
    name_rule: NameRule::DnsLabel,
    create_on_update: true,
    returns_deleted: true,
    selectable_fields: &[
        field("spec.clusterIP", &[&["spec", "clusterIP"]]),
        field("spec.type", &[&["spec", "type"]]),
    ],
    member_types: &[("spec", MemberType::Object), ("status", MemberType::Object)],
    ..BASE
};

/// ServiceAccounts.
pub static SERVICEACCOUNTS: ResourceDefinition = ResourceDefinition {
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short_names: &["sa"],
    key_prefix: "serviceaccounts",
    returns_deleted: true,
    member_types: &[
        ("secrets", MemberType::List),
        ("imagePullSecrets", MemberType::List),
        ("automountServiceAccountToken", MemberType::Bool),
    ],
    ..BASE
};

/// Events.
pub static EVENTS: ResourceDefinition = ResourceDefinition {
    kind: "Event",
    empty_members: concat!(
        r#","involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"#,
        r#""eventTime":null,"reportingComponent":"","reportingInstance":"""#,
    ),
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    key_prefix: "events",
    // Clients of core/v1 have always named events as they like (API-201).
    name_rule: NameRule::PathSegment,
    strict_finalizers: false,
    update_checks: UpdateChecks::None,
    create_on_update: true,
    propagation: DefaultPropagation::Unsupported,
    lifetime: Lifetime::OfEvents,
    selectable_fields: &[
        field("involvedObject.kind", &[&["involvedObject", "kind"]]),
        field(
            "involvedObject.namespace",
            &[&["involvedObject", "namespace"]],
        ),
        field("involvedObject.name", &[&["involvedObject", "name"]]),
        field("involvedObject.uid", &[&["involvedObject", "uid"]]),
        field(
            "involvedObject.apiVersion",
            &[&["involvedObject", "apiVersion"]],
        ),
        field(
            "involvedObject.resourceVersion",
            &[&["involvedObject", "resourceVersion"]],
        ),
        field(
            "involvedObject.fieldPath",
            &[&["involvedObject", "fieldPath"]],
        ),
        field("reason", &[&["reason"]]),
        field("reportingComponent", &[&["reportingComponent"]]),
        field(
            "source",
            &[&["source", "component"], &["reportingComponent"]],
        ),
        field("type", &[&["type"]]),
    ],
    member_types: &[
        ("involvedObject", MemberType::Object),
        ("source", MemberType::Object),
        ("series", MemberType::Object),
        ("related", MemberType::Object),
        ("reason", MemberType::String),
        ("message", MemberType::String),
        ("type", MemberType::String),
        ("action", MemberType::String),
        ("reportingComponent", MemberType::String),
        ("reportingInstance", MemberType::String),
        ("count", MemberType::Int32),
        ("firstTimestamp", MemberType::Time),
        ("lastTimestamp", MemberType::Time),
        ("eventTime", MemberType::MicroTime),
    ],
    ..BASE
};
