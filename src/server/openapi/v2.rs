//! The OpenAPI v2 document, in Swagger 2.0 (API-39).

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use descriptions::Descriptions;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::merged::Merged;
use super::operations::{self, Answer, Operation, Path};
use super::packing::Packer;
use super::parameters::Parameter;
use super::schemas::{self, References, Root, SchemaContext, Versions};
use super::writing::{self, Object};
use crate::aggregation::openapi::Reduced;

const REFERENCES: References = References {
    place: "#/definitions/",
    wraps: false,
};

/// The length of the hash suffix that distinguishes parameters of the same name.
const HASH_CHARACTERS: usize = 8;

/// Returns the context in which schemas of the document are written.
pub(super) fn context<'t>(descriptions: &'t Descriptions) -> SchemaContext<'t> {
    SchemaContext {
        references: REFERENCES,
        descriptions,
        versions: Versions::All,
    }
}

/// Returns the members of the document other than paths, definitions and parameters.
pub(super) fn rest() -> Value {
    json!({
        "swagger": "2.0",
        "info": writing::info(),
        "securityDefinitions": {"BearerToken": writing::bearer_token()},
        "security": [{"BearerToken": []}],
    })
}

/// Writes the document about these paths, and the parts of these extensions.
pub(super) fn document(
    paths: &[Path<'_>],
    extensions: &[Arc<Reduced>],
    descriptions: &Descriptions,
    out: &mut Packer,
) {
    let context = context(descriptions);
    let mut parameters = Parameters::new(&context);
    let own = schemas::all(operations::roots(paths).copied(), &context);
    let mut merged = None;
    Object::write(out, |document| {
        for (name, value) in rest().as_object().into_iter().flatten() {
            document.value(name, value);
        }
        document.object("paths", |members| {
            for path in paths {
                members.value(&path.template, &parameters.item(path));
            }
            let of_extensions = Merged::new(extensions, &own, &parameters.shared, &context);
            of_extensions.paths(|name, item| members.value(name, item));
            merged = Some(of_extensions);
        });
        document.object("definitions", |definitions| {
            for (name, source) in &own {
                let mut schema = source.schema(name, &context);
                if let Some(merged) = &merged {
                    merged.add_kinds(name, &mut schema);
                }
                definitions.value(name, &schema);
            }
            if let Some(merged) = &merged {
                merged.definitions(|name, schema| definitions.value(name, schema));
            }
        });
        document.object("parameters", |members| {
            for (name, parameter) in &parameters.shared {
                members.value(name, parameter);
            }
            if let Some(merged) = &merged {
                merged.parameters(|name, parameter| members.value(name, parameter));
            }
        });
    });
}

/// The parameters that paths and operations share. The document lists them once.
pub(super) struct Parameters<'w> {
    context: &'w SchemaContext<'w>,
    /// The shared parameters by their names in the document.
    pub shared: BTreeMap<String, Value>,
    /// The names of parameters in the document.
    names: BTreeMap<Parameter, String>,
}

impl<'w> Parameters<'w> {
    pub(super) fn new(context: &'w SchemaContext<'w>) -> Parameters<'w> {
        Parameters {
            context,
            shared: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// Writes a path of the document.
    pub(super) fn item(&mut self, path: &Path<'_>) -> Value {
        let bodies: BTreeMap<&str, Value> = path
            .operations
            .iter()
            .filter_map(|operation| Some((operation.method, self.body(operation)?)))
            .collect();
        operations::item(
            path,
            |parameter| self.parameter(parameter),
            |operation, mut parameters| {
                if let Some(body) = bodies.get(operation.method) {
                    parameters.insert(0, body.clone());
                }
                written(operation, parameters)
            },
        )
    }

    /// Writes a parameter, or a reference to it. dryRun and fieldValidation stay inline, because
    /// kubectl looks for them in the operation itself. Names differ by kind, so they are not
    /// shared.
    fn parameter(&mut self, parameter: &Parameter) -> Value {
        if matches!(&*parameter.name, "dryRun" | "fieldValidation" | "name") {
            return self.in_full(parameter);
        }
        let name = match self.names.get(parameter) {
            Some(name) => name.clone(),
            None => {
                let name = self.share(&parameter.name, self.in_full(parameter));
                self.names.insert(parameter.clone(), name.clone());
                name
            }
        };
        reference(&name)
    }

    fn in_full(&self, parameter: &Parameter) -> Value {
        let mut written = json!({
            "name": parameter.name,
            "in": parameter.place_name(),
            "type": parameter.kind,
            "uniqueItems": true,
            "description": parameter.description(self.context.descriptions),
        });
        if parameter.is_required() {
            written["required"] = true.into();
        }
        written
    }

    /// Writes the body of an operation. The bodies of patches and deletions are shared.
    fn body(&mut self, operation: &Operation<'_>) -> Option<Value> {
        let body = operation.body.as_ref()?;
        let mut written = json!({
            "name": "body",
            "in": "body",
            "schema": REFERENCES.to(&body.schema.name()),
        });
        if body.is_required {
            written["required"] = true.into();
        }
        Some(match body.schema {
            Root::Meta(_) => reference(&self.share("body", written)),
            _ => written,
        })
    }

    fn share(&mut self, name: &str, written: Value) -> String {
        let hash = URL_SAFE.encode(Sha256::digest(written.to_string()));
        let hash = hash.get(..HASH_CHARACTERS).unwrap_or_default();
        let name = format!("{name}-{hash}");
        self.shared.entry(name.clone()).or_insert(written);
        name
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/parameters/{name}")})
}

fn written(operation: &Operation<'_>, parameters: Vec<Value>) -> Value {
    let schema = match &operation.answer {
        Answer::Schema(root) => REFERENCES.to(&root.name()),
        Answer::Text => json!({"type": "string"}),
    };
    let answer = |code: u16| {
        let answer = json!({"description": operations::reason(code), "schema": schema});
        (code.to_string(), answer)
    };
    let codes = operation.codes.iter();
    let mut written = json!({
        "operationId": operation.id,
        "description": operation.description,
        "tags": [operation.tag],
        "produces": operation.produces,
        "schemes": ["https"],
        "responses": Value::Object(codes.map(|code| answer(*code)).collect()),
    });
    if !operation.consumes.is_empty() {
        written["consumes"] = json!(operation.consumes);
    }
    written["responses"]["401"] = json!({"description": operations::reason(401)});
    writing::extend(&mut written, operation, parameters);
    written
}
