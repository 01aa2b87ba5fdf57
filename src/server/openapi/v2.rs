//! Swagger 2.0 (API-39).

use serde_json::{Value, json};

use super::operations::{self, Operation, Parameter};
use super::schemas::{self, References};
use crate::api::resource::ResourceDefinition;
use crate::server::encoding::MediaTypeRef;

const REFERENCES: References = References {
    place: "#/definitions/",
    wraps: false,
};

/// The document about all resources.
pub(super) fn document(definitions: &[&ResourceDefinition]) -> Value {
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": operations::paths(definitions, parameter, written),
        "definitions": schemas::all(definitions, REFERENCES),
        "securityDefinitions": {
            "BearerToken": {
                "type": "apiKey",
                "name": "authorization",
                "in": "header",
                "description": "A bearer token.",
            },
        },
        "security": [{"BearerToken": []}],
    })
}

fn parameter(parameter: &Parameter) -> Value {
    let mut written = json!({
        "name": parameter.name,
        "in": if parameter.in_path { "path" } else { "query" },
        "type": parameter.kind,
        "uniqueItems": true,
        "description": parameter.description,
    });
    if parameter.in_path {
        written["required"] = true.into();
    }
    written
}

fn written(operation: &Operation<'_>) -> Value {
    let mut parameters: Vec<Value> = operation.parameters.iter().map(parameter).collect();
    let mut consumes: &[&str] = &["*/*"];
    if let Some((media_types, schema)) = &operation.body {
        consumes = media_types;
        let schema = schema.as_ref().map_or_else(
            || json!({"type": "object", "description": "A patch."}),
            |name| REFERENCES.to(name),
        );
        parameters.insert(
            0,
            json!({
                "name": "body",
                "in": "body",
                "required": operation.method != "delete",
                "schema": schema,
            }),
        );
    }
    let (code, answer) = &operation.answers;
    json!({
        "operationId": operation.id,
        "description": operation.description,
        "consumes": consumes,
        "produces": MediaTypeRef::names().collect::<Vec<_>>(),
        "schemes": ["https"],
        "parameters": parameters,
        "responses": {
            code.to_string(): {"description": "It was done.", "schema": REFERENCES.to(answer)},
            "401": {"description": "The credentials are wrong."},
        },
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": operation.definition.group_version_kind(),
    })
}
