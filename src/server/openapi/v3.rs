//! OpenAPI 3.0: a document for each group version, and some for other paths (API-41).

use std::collections::HashMap;

use descriptions::Descriptions;
use serde_json::{Map, Value, json};

use super::operations::{self, Answer, Operation, Path};
use super::packing::Packer;
use super::parameters::Parameter;
use super::schemas::{self, References, SchemaContext, Versions};
use super::writing::{self, Object};

const REFERENCES: References = References {
    place: "#/components/schemas/",
    wraps: true,
};

/// Returns the context in which schemas of a document are written.
pub(super) fn context<'t>(
    descriptions: &'t Descriptions,
    versions: Versions<'t>,
) -> SchemaContext<'t> {
    SchemaContext {
        references: REFERENCES,
        descriptions,
        versions,
    }
}

/// Returns the members of a document other than paths and components.
pub(super) fn rest(versions: Versions<'_>) -> Value {
    let info = match versions {
        Versions::Custom => json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}),
        Versions::All | Versions::One(..) => writing::info(),
    };
    json!({"openapi": "3.0.0", "info": info})
}

/// Returns the authentication scheme. Documents of custom resources have none.
pub(super) fn security(versions: Versions<'_>) -> Option<Value> {
    let is_custom = matches!(versions, Versions::Custom);
    (!is_custom).then(|| json!({"BearerToken": writing::bearer_token()}))
}

/// Writes documents. Most schemas are in several documents, and are written once.
pub(super) struct Writer<'t> {
    descriptions: &'t Descriptions,
    /// The JSON of schemas, by name.
    schemas: HashMap<String, Vec<u8>>,
}

impl<'t> Writer<'t> {
    pub(super) fn new(descriptions: &'t Descriptions) -> Writer<'t> {
        Writer {
            descriptions,
            schemas: HashMap::new(),
        }
    }

    /// Writes the document about these paths.
    pub(super) fn document(
        &mut self,
        paths: &[Path<'_>],
        versions: Versions<'_>,
        out: &mut Packer,
    ) {
        let context = context(self.descriptions, versions);
        Object::write(out, |document| {
            for (name, value) in rest(versions).as_object().into_iter().flatten() {
                document.value(name, value);
            }
            document.object("paths", |members| {
                for path in paths {
                    members.value(&path.template, &item(path, &context));
                }
            });
            document.object("components", |components| {
                components.object("schemas", |members| {
                    write_schemas(&mut self.schemas, paths, &context, members);
                });
                if let Some(security) = security(versions) {
                    components.value("securitySchemes", &security);
                }
            });
        });
    }
}

fn write_schemas(
    known: &mut HashMap<String, Vec<u8>>,
    paths: &[Path<'_>],
    context: &SchemaContext<'_>,
    members: &mut Object<'_>,
) {
    for (name, source) in schemas::all(operations::roots(paths).copied(), context) {
        if source.depends_on_document() {
            members.value(&name, &source.schema(&name, context));
            continue;
        }
        let make = || {
            let mut text = Vec::new();
            writing::write_json(&mut text, &source.schema(&name, context));
            text
        };
        let text = known.entry(name.clone()).or_insert_with(make);
        members.text(&name, text);
    }
}

/// Writes a path of a document.
pub(super) fn item(path: &Path<'_>, context: &SchemaContext<'_>) -> Value {
    let parameter = |parameter: &Parameter| {
        let mut written = json!({
            "name": parameter.name,
            "in": parameter.place_name(),
            "description": parameter.description(context.descriptions),
            "schema": {"type": parameter.kind, "uniqueItems": true},
        });
        if parameter.is_required() {
            written["required"] = true.into();
        }
        written
    };
    operations::item(path, parameter, written)
}

fn content(media_types: &[&'static str], schema: &Value) -> Value {
    let entries = media_types.iter();
    let entries = entries.map(|name| ((*name).to_owned(), json!({"schema": schema})));
    Value::Object(entries.collect())
}

fn written(operation: &Operation<'_>, parameters: Vec<Value>) -> Value {
    let schema = match &operation.answer {
        Answer::Schema(root) => REFERENCES.to(&root.name()),
        Answer::Text => json!({"type": "string"}),
    };
    let mut responses = Map::new();
    for code in operation.codes {
        let answer = json!({
            "description": operations::reason(*code),
            "content": content(&operation.produces, &schema),
        });
        responses.insert(code.to_string(), answer);
    }
    let unauthorized = json!({"description": operations::reason(401)});
    responses.insert("401".to_owned(), unauthorized);
    let mut written = json!({
        "operationId": operation.id,
        "description": operation.description,
        "tags": [operation.tag],
        "responses": responses,
    });
    if let Some(body) = &operation.body {
        let schema = REFERENCES.to(&body.schema.name());
        let content = content(&operation.consumes, &schema);
        written["requestBody"] = json!({"content": content});
        if body.is_required {
            written["requestBody"]["required"] = true.into();
        }
    }
    writing::extend(&mut written, operation, parameters);
    written
}
