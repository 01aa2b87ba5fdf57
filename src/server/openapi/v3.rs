//! OpenAPI 3.0, with one document per group version (API-41).

use serde_json::{Value, json};

use super::operations::{self, Operation, Parameter};
use super::schemas::{self, References};
use crate::api::resource::ResourceDefinition;
use crate::server::encoding::MediaTypeRef;

const REFERENCES: References = References {
    place: "#/components/schemas/",
    wraps: true,
};

/// The document about the resources of one group version.
pub(super) fn document(definitions: &[&ResourceDefinition]) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": operations::paths(definitions, parameter, written),
        "components": {
            "schemas": schemas::all(definitions, REFERENCES),
            "securitySchemes": {
                "BearerToken": {
                    "type": "apiKey",
                    "name": "authorization",
                    "in": "header",
                    "description": "A bearer token.",
                },
            },
        },
    })
}

fn parameter(parameter: &Parameter) -> Value {
    let mut written = json!({
        "name": parameter.name,
        "in": if parameter.in_path { "path" } else { "query" },
        "description": parameter.description,
        "schema": {"type": parameter.kind, "uniqueItems": true},
    });
    if parameter.in_path {
        written["required"] = true.into();
    }
    written
}

fn content(media_types: impl Iterator<Item = &'static str>, schema: &Value) -> Value {
    let entries = media_types.map(|media_type| (media_type.to_owned(), json!({"schema": schema})));
    Value::Object(entries.collect())
}

fn written(operation: &Operation<'_>) -> Value {
    let (code, answer) = &operation.answers;
    let mut written = json!({
        "operationId": operation.id,
        "description": operation.description,
        "parameters": operation.parameters.iter().map(parameter).collect::<Vec<_>>(),
        "responses": {
            code.to_string(): {
                "description": "It was done.",
                "content": content(MediaTypeRef::names(), &REFERENCES.to(answer)),
            },
            "401": {"description": "The credentials are wrong."},
        },
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": operation.definition.group_version_kind(),
    });
    if let Some((media_types, schema)) = &operation.body {
        let schema = schema
            .as_ref()
            .map_or_else(|| json!({"type": "object"}), |name| REFERENCES.to(name));
        written["requestBody"] = json!({
            "content": content(media_types.iter().copied(), &schema),
            "required": operation.method != "delete",
        });
    }
    written
}
