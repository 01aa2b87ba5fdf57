//! Swagger 2.0 (API-39).

use descriptions::Descriptions;
use serde_json::{Value, json};

use super::operations::{self, Operation, Parameter, Path};
use super::schemas::{self, References, Words};
use super::writing::Object;
use crate::api::resource::ResourceDefinition;
use crate::server::encoding::MediaTypeRef;

const REFERENCES: References = References {
    place: "#/definitions/",
    wraps: false,
};

/// The schemas of the document are written with these.
pub(super) fn words<'t>(descriptions: &'t Descriptions<'t>) -> Words<'t> {
    Words {
        references: REFERENCES,
        descriptions,
    }
}

/// The members of the document beside its paths and definitions.
pub(super) fn rest() -> Value {
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
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

/// A path of the document.
pub(super) fn item(path: &Path<'_>) -> Value {
    operations::item(path, parameter, written)
}

/// The document about all resources.
pub(super) fn document(
    definitions: &[&ResourceDefinition],
    descriptions: &Descriptions<'_>,
) -> Vec<u8> {
    let words = words(descriptions);
    let mut document = Vec::new();
    Object::write(&mut document, |document| {
        for (name, value) in rest().as_object().into_iter().flatten() {
            document.value(name, value);
        }
        document.object("paths", |paths| {
            for (template, path) in operations::paths(definitions) {
                paths.value(&template, &item(&path));
            }
        });
        document.object("definitions", |schemas| {
            for (name, source) in schemas::all(definitions, &words) {
                schemas.value(&name, &source.schema(&name, &words));
            }
        });
    });
    document
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
        "x-kubernetes-group-version-kind": operation.kind.group_version_kind(),
    })
}
