//! Resource definitions for the tests of this crate.

use std::sync::LazyLock;

use crate::object::Object;
use crate::resource::{
    Cell, Column, Declared, DefaultPropagation, EndpointRules, FieldPath, NameRule,
    ResourceDefinition, ResourceScope, Rules, SelectableField, UpdateCheck,
};
use crate::schema::{META, Schema, SharedSchema};

const TYPES: &str = "package sample.v1\n\n\
    type ConfigMap kind\n  1 metadata meta.v1.ObjectMeta\n  2 data map[string]string\n\
    \x20 3 binaryData map[string]bytes\n  4 immutable *bool\n\n\
    type Lease kind\n  1 metadata meta.v1.ObjectMeta\n  2 spec LeaseSpec\n\n\
    type LeaseSpec\n  1 leaseDurationSeconds *int32\n  2 renewTime *microtime\n  3 holderIdentity *string\n";

static SCHEMA: LazyLock<SharedSchema> =
    LazyLock::new(|| SharedSchema::new(|| Schema::read(&[META, TYPES]).unwrap()));

fn named(group: &str, kind: &str, plural: &str, declared: Declared) -> ResourceDefinition {
    ResourceDefinition::named(group, "v1", kind, plural).with(declared)
}

fn ruled(rules: Rules) -> Declared {
    Declared {
        rules,
        ..Declared::default()
    }
}

/// Returns rules of updates with these checks.
fn checking(checks: &[UpdateCheck]) -> EndpointRules {
    EndpointRules {
        checks: checks.to_vec(),
        ..EndpointRules::default()
    }
}

fn column(name: &str, format: &str, cell: Cell) -> Column {
    Column {
        format: format.to_owned(),
        ..Column::text(name, "", cell)
    }
}

/// Returns the definition of ConfigMaps.
pub(crate) fn configmaps() -> ResourceDefinition {
    let entries = Cell::Count(FieldPath::list(&["data", "binaryData"]));
    let declared = Declared {
        columns: vec![
            column("Name", "name", Cell::Name),
            column("Data", "", entries),
            column("Age", "", Cell::Age),
        ],
        object_type: SCHEMA.object_type("sample.v1.ConfigMap"),
        ..Declared::default()
    };
    named("", "ConfigMap", "configmaps", declared)
}

/// Returns the definition of Namespaces, which are cluster-scoped and have no `metadata.namespace`
/// selector.
pub(crate) fn namespaces() -> ResourceDefinition {
    let rules = Rules {
        name_rule: NameRule::DnsLabel,
        update: checking(&[UpdateCheck::Object, UpdateCheck::Changes]),
        selects_namespace: false,
        ..Rules::default()
    };
    let declared = Declared {
        selectable_fields: vec![SelectableField::text("status.phase", &["status.phase"])],
        columns: vec![
            column("Name", "name", Cell::Name),
            column("Status", "", Cell::Text("status.phase".into())),
            column("Created At", "", Cell::CreatedAt),
        ],
        ..ruled(rules)
    };
    ResourceDefinition {
        scope: ResourceScope::Cluster,
        ..named("", "Namespace", "namespaces", declared)
    }
}

/// Returns the definition of Pods, which have several selectable fields.
pub(crate) fn pods() -> ResourceDefinition {
    let declared = Declared {
        selectable_fields: vec![
            SelectableField::text("spec.nodeName", &["spec.nodeName"]).indexed(),
            SelectableField::text("status.phase", &["status.phase"]),
        ],
        ..Declared::default()
    };
    named("", "Pod", "pods", declared)
}

/// Returns the definition of Deployments, which belong to a named group.
pub(crate) fn deployments() -> ResourceDefinition {
    let rules = Rules {
        update: checking(&[UpdateCheck::Changes]),
        ..Rules::default()
    };
    named("apps", "Deployment", "deployments", ruled(rules))
}

/// Returns the definition of Leases, with typed members below `spec`.
pub(crate) fn leases() -> ResourceDefinition {
    let rules = Rules {
        unconditional_update: false,
        strict_finalizers: false,
        update: checking(&[UpdateCheck::Changes]),
        ..Rules::default()
    };
    let declared = Declared {
        object_type: SCHEMA.object_type("sample.v1.Lease"),
        ..ruled(rules)
    };
    named("coordination.k8s.io", "Lease", "leases", declared)
}

/// Returns the definition of Events, which have no validation of their own.
pub(crate) fn events() -> ResourceDefinition {
    let rules = Rules {
        name_rule: NameRule::PathSegment,
        strict_finalizers: false,
        update: checking(&[]),
        propagation: DefaultPropagation::Unsupported,
        ..Rules::default()
    };
    named("", "Event", "events", ruled(rules))
}

/// Returns the object in a JSON text.
pub(crate) fn object(json: &str) -> Object {
    Object::of(serde_json::from_str(json).unwrap())
}
