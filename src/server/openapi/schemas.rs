//! The schemas of a document: their names, and how documents refer to them.

use serde_json::{Map, Value, json};

use crate::api::group_version_kind::GroupVersionKind;
use crate::api::resource::ResourceDefinition;
use crate::kinds::types::TYPES;
use crate::schema::{Names, OpenApiVersion, Schema, StructId};

/// How documents of a format refer to their schemas.
#[derive(Clone, Copy)]
pub(super) struct References {
    /// The text before the name of a schema.
    pub place: &'static str,
    /// Whether a reference with a description must be wrapped (API-44).
    pub wraps: bool,
}

impl References {
    /// A bare reference.
    pub(super) fn to(self, name: &str) -> Value {
        json!({"$ref": format!("{}{name}", self.place)})
    }

    /// A reference beside which a description stands.
    fn described(self, name: &str, description: &str) -> Value {
        let mut reference = if self.wraps {
            json!({"allOf": [self.to(name)]})
        } else {
            self.to(name)
        };
        reference["description"] = description.into();
        reference
    }
}

impl Names for References {
    fn version(&self) -> OpenApiVersion {
        match self.wraps {
            true => OpenApiVersion::V3,
            false => OpenApiVersion::V2,
        }
    }

    fn name(&self, package: &str, name: &str) -> String {
        schema_name(package, name)
    }

    fn reference(&self, name: &str) -> Value {
        self.to(name)
    }
}

/// The name of the schema of a type (API-44).
pub(super) fn schema_name(package: &str, name: &str) -> String {
    let place = match package {
        "meta.v1" => "io.k8s.apimachinery.pkg.apis",
        "apiextensions.v1" => "io.k8s.apiextensions-apiserver.pkg.apis",
        "apiregistration.v1" => "io.k8s.kube-aggregator.pkg.apis",
        "resource" => "io.k8s.apimachinery.pkg.api",
        "intstr" => "io.k8s.apimachinery.pkg.util",
        "runtime" => "io.k8s.apimachinery.pkg",
        _ => "io.k8s.api",
    };
    format!("{place}.{package}.{name}")
}

/// The name of a kind's schema: `io.k8s.api.apps.v1.Deployment` (API-44).
pub(super) fn name(definition: &ResourceDefinition) -> String {
    if let Some((schema, id)) = known(definition)
        && let Some(of) = schema.get(id)
    {
        return schema_name(&of.package, &of.name);
    }
    let group = match definition.group.as_str() {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!(
        "io.k8s.api.{group}.{}.{}",
        definition.version, definition.kind
    )
}

/// The name of the schema of lists of a kind.
pub(super) fn list_name(definition: &ResourceDefinition) -> String {
    format!("{}List", name(definition))
}

/// The name of a schema of `meta.k8s.io`.
pub(super) fn meta_name(kind: &str) -> String {
    schema_name("meta.v1", kind)
}

/// The kinds that operations name beside those of resources.
const META_KINDS: [&str; 2] = ["DeleteOptions", "Status"];

/// The types that kinds without a known type consist of.
const META_PARTS: [&str; 2] = ["ObjectMeta", "ListMeta"];

/// All schemas that documents about these resources need.
pub(super) fn all(
    definitions: &[&ResourceDefinition],
    references: References,
) -> Map<String, Value> {
    let mut schemas = Map::new();
    for definition in definitions {
        match known(definition) {
            Some((schema, id)) => {
                schema.add_openapi(id, &references, &mut schemas);
                if let Some(list) = definition.object_type.list() {
                    schema.add_openapi(list, &references, &mut schemas);
                }
            }
            None => add_unknown(definition, references, &mut schemas),
        }
    }
    for kind in META_KINDS.iter().chain(&META_PARTS) {
        if let Some(id) = TYPES.find(&format!("meta.v1.{kind}")) {
            TYPES.add_openapi(id, &references, &mut schemas);
        }
    }
    schemas
}

/// The type of a kind, unless it has any members.
fn known(definition: &ResourceDefinition) -> Option<(&'static Schema, StructId)> {
    let (schema, id) = definition.object_type.found()?;
    (!schema.get(id)?.is_open).then_some((schema, id))
}

/// Adds the schemas of a kind of which little is known.
fn add_unknown(
    definition: &ResourceDefinition,
    references: References,
    schemas: &mut Map<String, Value>,
) {
    let (kind, name) = (definition.group_version_kind(), name(definition));
    let list_kind = format!("{}List", kind.kind);
    let of_list = GroupVersionKind {
        kind: &list_kind,
        ..kind
    };
    let described = |meta: &str, text: &str| references.described(&meta_name(meta), text);
    let list = json!({
        "type": "object",
        "description": format!("A list of objects of the kind {}.", kind.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": described("ListMeta", "Metadata of the list."),
            "items": {"type": "array", "items": references.to(&name)},
        },
        "x-kubernetes-group-version-kind": [of_list],
    });
    let object = json!({
        "type": "object",
        "description": format!("An object of the kind {}.", kind.kind),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": described("ObjectMeta", "Metadata that all objects have."),
        },
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-group-version-kind": [kind],
    });
    schemas.insert(list_name(definition), list);
    schemas.insert(name, object);
}
