//! Resource definitions for the tests of this folder.

use crate::object::Object;
use crate::placeholder_schema::{MemberType, PlaceholderSchema};
use crate::resource::{
    Cell, Column, DefaultPropagation, FieldPath, NameRule, ResourceDefinition, ResourceScope,
    SelectableField, UpdateChecks,
};

fn named(group: &str, kind: &str, plural: &str) -> ResourceDefinition {
    ResourceDefinition::named(group, "v1", kind, plural)
}

fn column(name: &str, format: &str, cell: Cell) -> Column {
    Column {
        format: format.to_owned(),
        ..Column::text(name, "", cell)
    }
}

/// ConfigMaps.
pub(crate) fn configmaps() -> ResourceDefinition {
    let entries = Cell::Count(FieldPath::list(&["data", "binaryData"]));
    ResourceDefinition {
        columns: vec![
            column("Name", "name", Cell::Name),
            column("Data", "", entries),
            column("Age", "", Cell::Age),
        ],
        placeholder_schema: PlaceholderSchema::of(&[
            ("data", MemberType::StringMap),
            ("binaryData", MemberType::Base64Map),
            ("immutable", MemberType::Bool),
        ]),
        ..named("", "ConfigMap", "configmaps")
    }
}

/// Namespaces, which have no namespace and select by no namespace.
pub(crate) fn namespaces() -> ResourceDefinition {
    ResourceDefinition {
        scope: ResourceScope::Cluster,
        name_rule: NameRule::DnsLabel,
        update_checks: UpdateChecks::ObjectThenChanges,
        selects_namespace: false,
        selectable_fields: vec![SelectableField::text("status.phase", &["status.phase"])],
        columns: vec![
            column("Name", "name", Cell::Name),
            column("Status", "", Cell::Text("status.phase".into())),
            column("Created At", "", Cell::CreatedAt),
        ],
        ..named("", "Namespace", "namespaces")
    }
}

/// Pods, which have several selectable fields.
pub(crate) fn pods() -> ResourceDefinition {
    ResourceDefinition {
        selectable_fields: vec![
            SelectableField::text("spec.nodeName", &["spec.nodeName"]).indexed(),
            SelectableField::text("status.phase", &["status.phase"]),
        ],
        ..named("", "Pod", "pods")
    }
}

/// Deployments, which belong to a named group.
pub(crate) fn deployments() -> ResourceDefinition {
    ResourceDefinition {
        update_checks: UpdateChecks::Changes,
        ..named("apps", "Deployment", "deployments")
    }
}

/// Leases, with typed members below `spec`.
pub(crate) fn leases() -> ResourceDefinition {
    ResourceDefinition {
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: UpdateChecks::Changes,
        placeholder_schema: PlaceholderSchema::of(&[
            ("spec", MemberType::Object),
            ("spec.leaseDurationSeconds", MemberType::Int32),
            ("spec.renewTime", MemberType::MicroTime),
        ]),
        ..named("coordination.k8s.io", "Lease", "leases")
    }
}

/// Events, which have no validation of their own.
pub(crate) fn events() -> ResourceDefinition {
    ResourceDefinition {
        name_rule: NameRule::PathSegment,
        strict_finalizers: false,
        update_checks: UpdateChecks::None,
        propagation: DefaultPropagation::Unsupported,
        ..named("", "Event", "events")
    }
}

/// The object in a JSON text.
pub(crate) fn object(json: &str) -> Object {
    Object(serde_json::from_str(json).unwrap())
}
