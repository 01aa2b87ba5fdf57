//! Validation of the defaults in a schema (CRD-40): they must be valid values themselves.

use api::cel::rules::{Checking, OBJECT_LIMIT, Rules};
use api::custom::{
    WrongTypes, coerce_embedded, validate_embedded_object, validate_embedded_objects,
};
use api::field::Field;
use api::field_error::FieldError;
use api::structural::{Budget, NO_PATH, Node, StructuralSchema, prune, validate_default};
use serde_json::{Map, Value};

use super::MAX_ERRORS;
use super::options::Options;
use api::error_list::ErrorList;

/// The members that every object has.
const OBJECT_MEMBERS: [&str; 3] = ["metadata", "apiVersion", "kind"];

/// The cost of rules that takes as long as one step of the budget.
const COST_IN_STEP: usize = 2;

/// Validates the defaults in a schema.
pub fn validate_defaults(
    schema: &Field<'_>,
    value: &Value,
    options: Options,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    let compiled = StructuralSchema::compile(value);
    let mut check = Check {
        options,
        budget,
        errors,
        cost: OBJECT_LIMIT,
    };
    check.node(schema, compiled.root(), true, None);
}

struct Check<'c> {
    options: Options,
    budget: &'c Budget,
    errors: &'c mut ErrorList,
    /// The cost that rules may still spend, negative if they had too little.
    cost: i64,
}

/// The place of a default in an object: member names, from the inside out.
struct Inside<'i> {
    above: Option<&'i Inside<'i>>,
    name: &'i str,
}

impl Check<'_> {
    /// Validates the defaults of one schema, whose compiled form is `node`. `inside` is its place
    /// in the metadata of an object, if it is there.
    fn node(
        &mut self,
        schema: &Field<'_>,
        node: Node<'_>,
        is_root: bool,
        inside: Option<&Inside<'_>>,
    ) {
        if self.errors.reported() >= MAX_ERRORS || self.cost < 0 {
            return;
        }
        let is_object = is_root || node.is_embedded();
        let inside = inside.filter(|_| !is_object);
        if let Some(default) = node.default() {
            match inside {
                Some(inside) => self.in_metadata(schema, default, node, inside),
                None => self.default(schema, default, node, is_object),
            }
        }
        if let Some(of) = node.items() {
            self.node(&schema.member("items"), of, false, inside);
        }
        let properties = schema.member("properties");
        for (name, of) in node.properties() {
            let property = properties.key(name);
            let step = Inside {
                above: inside,
                name,
            };
            let is_metadata = is_object && OBJECT_MEMBERS.contains(&name);
            let is_inside = is_metadata || inside.is_some();
            self.node(&property, of, false, is_inside.then_some(&step));
        }
    }

    fn default(&mut self, schema: &Field<'_>, value: &Value, node: Node<'_>, is_object: bool) {
        let field = schema.member("default");
        if self.options.require_pruned_defaults {
            let mut pruned = value.clone();
            if prune(&mut pruned, node, is_object) {
                self.errors
                    .push(field.invalid("must not have unknown fields"));
            }
        }
        if !self.options.require_structural {
            return;
        }
        let before = self.errors.reported();
        if let Some(members) = value.as_object() {
            let found = ErrorList::of(|errors| {
                validate_objects(members, node, is_object, errors);
            });
            self.errors.extend(found.iter().map(|error| FieldError {
                path: format!("{}.{}", field.path(), error.path),
                ..error.clone()
            }));
        }
        if self.errors.reported() == before {
            self.by_schema(schema, value, node, is_object);
        }
    }

    /// Validates a default in metadata as part of an object that has nothing else.
    fn in_metadata(
        &mut self,
        schema: &Field<'_>,
        value: &Value,
        node: Node<'_>,
        inside: &Inside<'_>,
    ) {
        if !self.options.require_structural {
            return;
        }
        let field = schema.member("default");
        let mut whole = value.clone();
        let mut step = Some(inside);
        while let Some(Inside { above, name }) = step {
            let mut members = Map::new();
            members.insert((*name).to_owned(), whole);
            whole = Value::Object(members);
            step = *above;
        }
        let Value::Object(mut members) = whole else {
            return;
        };
        for (name, known) in [("apiVersion", "validation/v1"), ("kind", "Validation")] {
            members.entry(name).or_insert_with(|| known.into());
        }
        let mut found = ErrorList::new();
        validate_embedded_object(&members, &|name| name.to_owned(), &mut found);
        if !found.is_empty() {
            let text = match found.kept() {
                [only] => only.to_string(),
                several => {
                    let texts: Vec<String> = several.iter().map(ToString::to_string).collect();
                    format!("[{}]", texts.join(", "))
                }
            };
            let detail = format!("must result in valid metadata: {text}");
            self.errors.push(field.invalid(detail));
            return;
        }
        self.by_schema(schema, value, node, false);
    }

    fn by_schema(&mut self, schema: &Field<'_>, value: &Value, node: Node<'_>, is_object: bool) {
        let field = schema.member("default");
        let faults = validate_default(value, node, self.budget);
        let has_faults = !faults.is_empty();
        let path = field.path();
        let errors = faults
            .into_iter()
            .map(|fault| fault.into_error(Some(&path)));
        let errors: Vec<FieldError> = errors.collect();
        let errors = match has_faults || self.budget.is_spent() {
            true => errors,
            false => self.by_rules(schema, value, is_object),
        };
        if self.budget.is_spent() {
            let refusal = self.budget.refusal();
            self.errors.extend(refusal.map(|why| field.forbidden(why)));
            return;
        }
        self.errors.extend(errors);
    }

    /// Checks a default by the rules of its schema: as a value that an update keeps, and as a new
    /// one, because rules may treat these differently. The more expensive check counts.
    fn by_rules(&mut self, schema: &Field<'_>, value: &Value, is_object: bool) -> Vec<FieldError> {
        let rules = schema.value();
        let rules = rules.and_then(|schema| Rules::of(schema, is_object, self.budget));
        let Some(rules) = rules.filter(|_| !self.budget.is_spent()) else {
            return Vec::new();
        };
        let kept = Checking {
            old: Some(value.into()),
            is_ratcheting: false,
            budget: self.cost,
        };
        let mut verdict = rules.check(value, kept);
        if verdict.errors.is_empty() {
            let left = verdict.left;
            verdict = rules.check(value, Checking { old: None, ..kept });
            verdict.left = verdict.left.min(left);
        }
        let spent = usize::try_from(self.cost.saturating_sub(verdict.left)).unwrap_or(0);
        self.cost = verdict.left;
        if !self.budget.take(spent / COST_IN_STEP) || verdict.errors.is_empty() {
            return Vec::new();
        }
        let field = schema.member("default");
        let path = field.path();
        let errors = verdict.errors.into_iter();
        errors.map(|error| within(&path, error)).collect()
    }
}

/// Returns an error of a value as an error of the whole, where the value has this path.
fn within(above: &str, error: FieldError) -> FieldError {
    let path = match error.path.as_str() {
        NO_PATH => above.to_owned(),
        below if below.starts_with('[') => format!("{above}{below}"),
        below => format!("{above}.{below}"),
    };
    FieldError { path, ..error }
}

/// Validates kind, apiVersion and metadata of a default that is a whole object, and those of
/// embedded objects in it.
fn validate_objects(
    members: &Map<String, Value>,
    node: Node<'_>,
    is_object: bool,
    errors: &mut ErrorList,
) {
    let mut coerced = members.clone();
    if let Err(error) = coerce_embedded(&mut coerced, node, WrongTypes::Refused) {
        errors.push(error);
        return;
    }
    if is_object && !node.is_embedded() {
        validate_embedded_object(members, &|name| name.to_owned(), errors);
    }
    validate_embedded_objects(members, node, errors);
}
