//! The schemas of a document: their names, and how documents refer to them.

use serde_json::{Map, Value, json};

use crate::api::placeholder_schema::openapi;
use crate::api::resource::ResourceDefinition;

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

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The name of a kind's schema: `io.k8s.api.apps.v1.Deployment` (API-44).
pub(super) fn name(definition: &ResourceDefinition) -> String {
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
    format!("{META}{kind}")
}

/// All schemas that documents about these resources need.
pub(super) fn all(
    definitions: &[&ResourceDefinition],
    references: References,
) -> Map<String, Value> {
    let meta = |kind: &str, description: Option<&str>| {
        let name = meta_name(kind);
        match description {
            Some(description) => references.described(&name, description),
            None => references.to(&name),
        }
    };
    let mut schemas = Map::new();
    for definition in definitions {
        let (kind, name) = (definition.group_version_kind(), name(definition));
        let list = openapi::list(kind, references.to(&name), &meta);
        schemas.insert(list_name(definition), list);
        schemas.insert(name, definition.placeholder_schema.openapi(kind, &meta));
    }
    for (kind, schema) in openapi::meta_types(&meta) {
        schemas.insert(meta_name(kind), schema);
    }
    schemas
}
