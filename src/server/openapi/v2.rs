//! Swagger 2.0 (API-39).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use descriptions::Descriptions;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::operations::{self, Answer, Operation, Path};
use super::parameters::Parameter;
use super::schemas::{self, References, Root, Versions, Words};
use super::writing::{self, Object};

const REFERENCES: References = References {
    place: "#/definitions/",
    wraps: false,
};

/// How many characters of a hash tell parameters of one name from each other.
const HASH_CHARACTERS: usize = 8;

/// The schemas of the document are written with these.
pub(super) fn words<'t>(descriptions: &'t Descriptions) -> Words<'t> {
    Words {
        references: REFERENCES,
        descriptions,
        versions: Versions::All,
    }
}

/// The members of the document beside its paths, definitions and parameters.
pub(super) fn rest() -> Value {
    json!({
        "swagger": "2.0",
        "info": writing::info(),
        "securityDefinitions": {"BearerToken": writing::bearer_token()},
        "security": [{"BearerToken": []}],
    })
}

/// The document about these paths.
pub(super) fn document(paths: &[Path<'_>], descriptions: &Descriptions) -> Vec<u8> {
    let words = words(descriptions);
    let mut parameters = Parameters::new(&words);
    let mut document = Vec::new();
    Object::write(&mut document, |document| {
        for (name, value) in rest().as_object().into_iter().flatten() {
            document.value(name, value);
        }
        document.object("paths", |members| {
            for path in paths {
                members.value(&path.template, &parameters.item(path));
            }
        });
        document.object("definitions", |definitions| {
            for (name, source) in schemas::all(operations::roots(paths).copied(), &words) {
                definitions.value(&name, &source.schema(&name, &words));
            }
        });
        document.object("parameters", |members| {
            for (name, parameter) in &parameters.shared {
                members.value(name, parameter);
            }
        });
    });
    document
}

/// The parameters that paths and operations share, which stand at one place of the document.
pub(super) struct Parameters<'w> {
    words: &'w Words<'w>,
    /// By their names there.
    pub shared: BTreeMap<String, Value>,
    /// The names there.
    names: BTreeMap<Parameter, String>,
}

impl<'w> Parameters<'w> {
    pub(super) fn new(words: &'w Words<'w>) -> Parameters<'w> {
        Parameters {
            words,
            shared: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// A path of the document.
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

    /// A parameter, or a reference to it. kubectl looks for some beside the operation itself, and
    /// what only paths of one kind have is not shared.
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
            "description": parameter.description(self.words.descriptions),
        });
        if parameter.is_required() {
            written["required"] = true.into();
        }
        written
    }

    /// The body of an operation. Those of patches and deletions are shared.
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
