//! The schemas of custom resources and their lists (CRD-106 to CRD-108). Those of their objects
//! follow from the schemas of definitions ([`structural`]).

use serde_json::{Value, json};

use super::context::{SchemaContext, meta_name, schema_name};
use super::structural::{self, Embedded};
use crate::api::group_version_kind::GroupVersionKind;
use crate::api::resource::{JsonSchema, ResourceDefinition};
use crate::kinds::types::TYPES;
use crate::schema::{Names, OpenApiVersion};

/// The page to which descriptions refer.
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// The extensions of schemas.
const KINDS: &str = "x-kubernetes-group-version-kind";
const SELECTABLE: &str = "x-kubernetes-selectable-fields";

/// Returns the name of the schema of a kind: `com.example.v1.Lamp` (CRD-106). A name that a
/// built-in type has is changed as kube-apiserver changes it in the v2 document.
pub(super) fn name(definition: &ResourceDefinition, kind: &str) -> String {
    let mut parts: Vec<&str> = definition.group.rsplit('.').collect();
    parts.extend([&*definition.version, kind]);
    let name = parts.join(".");
    let Some((package, kind)) = name.rsplit_once('.') else {
        return name;
    };
    // A type of `io.k8s.api.apps.v1` is known as one of `apps.v1`.
    let mut ends = package.match_indices('.').map(|(at, _)| &package[at + 1..]);
    let is_taken = ends.any(|package| {
        let is_known = TYPES.find(&format!("{package}.{kind}")).is_some();
        is_known && schema_name(package, kind) == name
    });
    match is_taken {
        true => format!("{name}_v2"),
        false => name,
    }
}

/// Writes the schema of a custom resource.
pub(super) fn kind(definition: &ResourceDefinition, context: &SchemaContext<'_>) -> Value {
    let found = definition.behaviour.json_schema();
    let (schema, selectable) = match found {
        Some(found) => (
            shown(found.schema, found.keeps_unknown, context),
            found.selectable,
        ),
        None => (None, Vec::new()),
    };
    let mut schema = schema.unwrap_or_else(|| json!({"type": "object"}));
    schema[KINDS] = json!([definition.group_version_kind()]);
    add_selectable(&mut schema, &selectable);
    schema
}

/// Returns a schema as the document shows it. In v2 kubectl would refuse unknown fields of objects
/// that show any field, so objects that keep unknown fields show none.
fn shown(schema: Option<Value>, keeps_unknown: bool, context: &SchemaContext<'_>) -> Option<Value> {
    let schema = schema?;
    let is_v2 = context.version() == OpenApiVersion::V2;
    let keeps_unknown = keeps_unknown || structural::keeps_unknown(&schema);
    if is_v2 && keeps_unknown {
        return None;
    }
    let metadata = reference(context, "ObjectMeta", &object_metadata(context));
    let embedded = Embedded {
        version: context.version(),
        fields: [
            (
                "apiVersion",
                text(&format!(
                    "apiVersion defines the versioned schema of this representation of an object. \
                     More info: {CONVENTIONS}#resources"
                )),
            ),
            (
                "kind",
                text(&format!(
                    "kind is a string value representing the type of this object. In CamelCase. \
                     More info: {CONVENTIONS}#types-kinds"
                )),
            ),
            ("metadata", metadata),
        ],
    };
    let own = ["apiVersion", "kind"].map(|name| (name, type_field(context, name)));
    Some(structural::published(schema, &embedded, own))
}

/// Writes the schema of the list of a custom resource.
pub(super) fn list(definition: &ResourceDefinition, context: &SchemaContext<'_>) -> Value {
    let kind = definition.group_version_kind();
    let list_kind = definition.list_kind();
    let of_list = GroupVersionKind {
        kind: &list_kind,
        ..kind
    };
    let items = context.references.to(&name(definition, kind.kind));
    let plural = &definition.plural;
    let status = context.description(&meta_name("Status"));
    let metadata = status.of_field("metadata").unwrap_or_default();
    let mut schema = json!({
        "type": "object",
        "description": format!("{list_kind} is a list of {}", kind.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": type_field(context, "apiVersion"),
            "kind": type_field(context, "kind"),
            "metadata": reference(context, "ListMeta", &metadata),
            "items": {
                "type": "array",
                "items": items,
                "description": format!("List of {plural}. More info: {CONVENTIONS}"),
            },
        },
        KINDS: [of_list],
    });
    let found = definition.behaviour.json_schema();
    let selectable = found.map(|JsonSchema { selectable, .. }| selectable);
    add_selectable(&mut schema, &selectable.unwrap_or_default());
    schema
}

fn add_selectable(schema: &mut Value, paths: &[String]) {
    if !paths.is_empty() {
        let fields = paths.iter().map(|path| json!({"fieldPath": path}));
        schema[SELECTABLE] = fields.collect();
    }
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// Returns the schema of apiVersion or kind, as all kinds have them.
fn type_field(context: &SchemaContext<'_>, name: &str) -> Value {
    let status = context.description(&meta_name("Status"));
    text(&status.of_field(name).unwrap_or_default())
}

/// Returns the description of the metadata of most kinds.
fn object_metadata(context: &SchemaContext<'_>) -> String {
    let usual = context.description(&schema_name("core.v1", "ConfigMap"));
    usual.of_field("metadata").unwrap_or_default().into_owned()
}

fn reference(context: &SchemaContext<'_>, kind: &str, description: &str) -> Value {
    let name = meta_name(kind);
    context.references.described(&name, description)
}
