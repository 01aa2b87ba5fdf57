//! The schema of a version of a custom resource, compiled when it is first used. Pure.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use actors::object::CachedObject;
use parking_lot::RwLock;
use serde_json::{Value, json};

use super::definition::schema_of;
use crate::api::cel::rules::{Checking, Rules};
use crate::api::custom::{CustomSchema, ScalePaths, Structure, prevents_rules, rules_not_checked};
use crate::api::deep;
use crate::api::error_list::ErrorList;
use crate::api::object::Object;
use crate::api::structural::{Budget, StructuralSchema};
use crate::kinds::validation::apiextensions::is_structural;
use crate::telemetry::expressions;

/// The newest text of a definition, from which schemas are compiled. It is the text of the cache,
/// so a schema that nobody uses takes no memory.
pub(super) struct Source(RwLock<Arc<CachedObject>>);

impl Source {
    pub fn new(definition: Arc<CachedObject>) -> Arc<Source> {
        Arc::new(Source(RwLock::new(definition)))
    }

    /// Takes a newer text of a definition with the same spec.
    pub fn renew(&self, definition: Arc<CachedObject>) {
        *self.0.write() = definition;
    }
}

/// The schema of a version. Versions with equal schemas share it.
pub(super) struct Form {
    source: Arc<Source>,
    version: String,
    keeps_unknown: bool,
    scale: Option<ScalePaths>,
    compiled: OnceLock<Compiled>,
}

struct Compiled {
    schema: CustomSchema,
    /// The rules in CEL, if there are any.
    rules: Option<Rules>,
}

impl Form {
    pub fn new(
        source: &Arc<Source>,
        version: &str,
        keeps_unknown: bool,
        scale: Option<ScalePaths>,
    ) -> Form {
        Form {
            source: Arc::clone(source),
            version: version.to_owned(),
            keeps_unknown,
            scale,
            compiled: OnceLock::new(),
        }
    }

    /// Returns the schema.
    pub fn schema(&self) -> &CustomSchema {
        &self.compiled().schema
    }

    /// Returns the JSON of the schema, if it is structural and not nested too deeply for a
    /// document.
    pub fn json(&self) -> Option<Value> {
        let definition = Arc::clone(&self.source.0.read());
        schema_of(&definition, &self.version).filter(is_structural)
    }

    /// Returns whether objects keep every field, whatever the schema says.
    pub fn keeps_unknown(&self) -> bool {
        self.keeps_unknown
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| self.compile())
    }

    fn compile(&self) -> Compiled {
        let definition = Arc::clone(&self.source.0.read());
        deep::retry_with_room(|| {
            // A version without a schema keeps everything, as in definitions of long ago.
            let schema = schema_of(&definition, &self.version).unwrap_or_else(
                || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            );
            let began = Instant::now();
            let rules = Rules::of(&schema, true, &Budget::of(&schema));
            if rules.is_some() {
                expressions::compiled(began.elapsed());
            }
            let compiled = Arc::new(StructuralSchema::compile(&schema));
            Compiled {
                schema: CustomSchema {
                    keeps_unknown: self.keeps_unknown,
                    scale: self.scale.clone(),
                    ..CustomSchema::new(compiled)
                },
                rules,
            }
        })
    }

    /// Validates a new object, except its metadata, whose errors the list has already.
    pub fn validate(&self, object: &Object, errors: &mut ErrorList) {
        let is_broken = has_preventing(errors);
        let structure = self.schema().validate(object, errors);
        if self.has_rules(is_broken || structure == Structure::Broken, errors) {
            self.check_rules(object, None, errors);
        }
    }

    /// Validates an object that replaces the stored one, through the endpoint of the object or that
    /// of its status.
    pub fn validate_update(
        &self,
        subresource: &str,
        object: &Object,
        stored: &Object,
        errors: &mut ErrorList,
    ) {
        let is_broken = has_preventing(errors);
        let schema = self.schema();
        let structure = match subresource {
            "status" => schema.validate_status_update(object, stored, errors),
            _ => schema.validate_update(object, stored, errors),
        };
        if self.has_rules(is_broken || structure == Structure::Broken, errors) {
            self.check_rules(object, Some(stored), errors);
        }
    }

    /// Returns whether the schema has rules in CEL that can be evaluated. If errors prevent that,
    /// reports it (CRD-174).
    fn has_rules(&self, is_broken: bool, errors: &mut ErrorList) -> bool {
        let has_rules = self.compiled().rules.is_some();
        if has_rules && is_broken {
            errors.push(rules_not_checked());
        }
        has_rules && !is_broken
    }

    /// Evaluates the rules in CEL.
    fn check_rules(&self, object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
        let Some(rules) = &self.compiled().rules else {
            return;
        };
        let checking = match stored {
            Some(stored) => Checking::update(&stored.0),
            None => Checking::create(),
        };
        let began = Instant::now();
        let verdict = rules.check(&object.0, checking);
        expressions::evaluated(began.elapsed());
        errors.extend(verdict.errors);
        for warning in &verdict.warnings {
            errors.warn(warning);
        }
    }
}

fn has_preventing(errors: &ErrorList) -> bool {
    errors.iter().any(|error| prevents_rules(error.kind))
}
