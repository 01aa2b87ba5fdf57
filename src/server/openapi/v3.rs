//! OpenAPI 3.0, with one document per group version (API-41).

use std::collections::HashMap;

use descriptions::Descriptions;
use serde_json::{Value, json};

use super::operations::{self, Operation, Parameter};
use super::schemas::{self, References, Words};
use super::writing::{self, Object};
use crate::api::resource::ResourceDefinition;
use crate::server::encoding::MediaTypeRef;

const REFERENCES: References = References {
    place: "#/components/schemas/",
    wraps: true,
};

/// Writes documents. Most schemas are in several of them, and are made once.
pub(super) struct Writer<'t> {
    words: Words<'t>,
    /// The JSON of schemas, by their names.
    schemas: HashMap<String, Vec<u8>>,
}

impl<'t> Writer<'t> {
    pub(super) fn new(descriptions: &'t Descriptions<'t>) -> Writer<'t> {
        let words = Words {
            references: REFERENCES,
            descriptions,
        };
        Writer {
            words,
            schemas: HashMap::new(),
        }
    }

    /// The document about the resources of one group version.
    pub(super) fn document(&mut self, definitions: &[&ResourceDefinition]) -> Vec<u8> {
        let mut document = Vec::new();
        Object::write(&mut document, |document| {
            document.value("openapi", &"3.0.0".into());
            document.value(
                "info",
                &json!({"title": "Kubernetes", "version": "v1.36.0"}),
            );
            document.object("paths", |paths| {
                for (template, path) in operations::paths(definitions) {
                    let item = operations::item(&path, parameter, written);
                    paths.value(&template, &item);
                }
            });
            document.object("components", |components| {
                components.object("schemas", |schemas| self.schemas(definitions, schemas));
                components.value("securitySchemes", &security());
            });
        });
        document
    }

    fn schemas(&mut self, definitions: &[&ResourceDefinition], schemas: &mut Object<'_>) {
        for (name, source) in schemas::all(definitions, &self.words) {
            let text = self.schemas.entry(name.clone()).or_insert_with(|| {
                let mut text = Vec::new();
                writing::json(&mut text, &source.schema(&name, &self.words));
                text
            });
            schemas.text(&name, text);
        }
    }
}

fn security() -> Value {
    json!({
        "BearerToken": {
            "type": "apiKey",
            "name": "authorization",
            "in": "header",
            "description": "A bearer token.",
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
        "x-kubernetes-group-version-kind": operation.kind.group_version_kind(),
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
