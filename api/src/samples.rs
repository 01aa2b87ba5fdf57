//! Resource definitions for the tests of this crate.

use std::sync::LazyLock;

use crate::object::Object;
use crate::resource::{
    Cell, Column, DefaultPropagation, FieldPath, NameRule, ResourceDefinition, ResourceScope,
    SelectableField, UpdateCheck,
};
use crate::schema::{META, ObjectType, Schema};

const TYPES: &str = "package sample.v1\n\n\
    type ConfigMap kind\n  1 metadata meta.v1.ObjectMeta\n  2 data map[string]string\n\
    \x20 3 binaryData map[string]bytes\n  4 immutable *bool\n\n\
    type Lease kind\n  1 metadata meta.v1.ObjectMeta\n  2 spec LeaseSpec\n\n\
    type LeaseSpec\n  1 leaseDurationSeconds *int32\n  2 renewTime *microtime\n  3 holderIdentity *string\n";

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::read(&[META, TYPES]).unwrap());

fn object_type(name: &'static str) -> ObjectType {
    ObjectType {
        schema: &SCHEMA,
        name,
    }
}

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
        object_type: object_type("sample.v1.ConfigMap"),
        ..named("", "ConfigMap", "configmaps")
    }
}

/// Namespaces, which have no namespace and select by no namespace.
pub(crate) fn namespaces() -> ResourceDefinition {
    ResourceDefinition {
        scope: ResourceScope::Cluster,
        name_rule: NameRule::DnsLabel,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
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
        update_checks: &[UpdateCheck::Changes],
        ..named("apps", "Deployment", "deployments")
    }
}

/// Leases, with typed members below `spec`.
pub(crate) fn leases() -> ResourceDefinition {
    ResourceDefinition {
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: &[UpdateCheck::Changes],
        object_type: object_type("sample.v1.Lease"),
        ..named("coordination.k8s.io", "Lease", "leases")
    }
}

/// Events, which have no validation of their own.
pub(crate) fn events() -> ResourceDefinition {
    ResourceDefinition {
        name_rule: NameRule::PathSegment,
        strict_finalizers: false,
        update_checks: &[],
        propagation: DefaultPropagation::Unsupported,
        ..named("", "Event", "events")
    }
}

/// The object in a JSON text.
pub(crate) fn object(json: &str) -> Object {
    Object::of(serde_json::from_str(json).unwrap())
}
