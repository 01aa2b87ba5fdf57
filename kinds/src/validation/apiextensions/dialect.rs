//! Validation of the OpenAPI dialect of schemas (CRD-31 to CRD-36).

use api::cel::Shape;
use api::cel::estimate::limits::Cardinality;
use api::field::Field;
use api::structural::Budget;
use serde_json::Value;

use super::options::Options;
use super::rules::{Expressions, Known, Place, validate_rules};
use super::{MAX_ERRORS, lists};
use api::error_list::ErrorList;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The members that every object has.
const OBJECT_MEMBERS: [&str; 3] = ["metadata", "apiVersion", "kind"];

/// The context of a schema.
#[derive(Clone, Copy)]
struct Context<'c> {
    options: Options,
    is_root: bool,
    /// Whether it describes the metadata of an object.
    is_in_metadata: bool,
    /// The reason why defaults are forbidden here, if they are.
    forbids_defaults: Option<&'c str>,
    /// Whether expressions can be compiled here, because the type of each value is known.
    has_types: bool,
    place: Place<'c>,
}

/// The errors of the dialect, and those of expressions, which kube-apiserver reports last.
struct Found<'b> {
    schema: ErrorList,
    expressions: Expressions<'b>,
}

/// Validates a schema and all schemas in it.
pub fn validate_dialect(
    schema: &Field<'_>,
    options: Options,
    has_types: bool,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    let context = Context {
        options,
        is_root: true,
        is_in_metadata: false,
        forbids_defaults: None,
        has_types,
        place: Place {
            shape: Known::Unseen,
            cardinality: Cardinality::default(),
            uncorrelatable: None,
        },
    };
    let mut found = Found {
        schema: ErrorList::new(),
        expressions: Expressions::new(options.limit_expression_costs, budget),
    };
    validate_node(schema, context, &mut found);
    found.expressions.check_total(schema);
    errors.append(found.schema);
    errors.append(found.expressions.errors);
}

fn validate_node(schema: &Field<'_>, context: Context<'_>, found: &mut Found<'_>) {
    let Some(value @ Value::Object(_)) = schema.value() else {
        return;
    };
    if found.schema.reported() + found.expressions.errors.reported() >= MAX_ERRORS {
        return;
    }
    let has_rules = context.has_types && !schema.member("x-kubernetes-validations").is_empty();
    let own_shape = (has_rules && matches!(context.place.shape, Known::Unseen)).then(|| {
        let embedded = schema.member("x-kubernetes-embedded-resource");
        let is_object = context.is_root || embedded.is_true();
        Shape::of(value, is_object, found.expressions.budget)
    });
    let context = Context {
        place: Place {
            shape: own_shape.as_ref().map_or(context.place.shape, Known::of),
            ..context.place
        },
        ..context
    };
    let before = found.schema.reported();
    validate_words(schema, context, &mut found.schema);
    if schema.member("uniqueItems").is_true() {
        found.schema.push(schema.member("uniqueItems").forbidden(
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    validate_members(schema, context, found);
    validate_combinations(schema, context, found);
    validate_items(schema, context, found);
    let keeps = schema.member("x-kubernetes-preserve-unknown-fields");
    if keeps.bool() == Some(false) {
        found
            .schema
            .push(keeps.invalid("must be true or undefined"));
    }
    lists::validate_map_type(schema, &mut found.schema);
    lists::validate_list_type(schema, context.options, &mut found.schema);
    validate_rules(schema, &mut found.schema);
    if has_rules && found.schema.reported() == before {
        found.expressions.compile(schema, context.place);
    }
}

fn validate_words(schema: &Field<'_>, context: Context<'_>, errors: &mut ErrorList) {
    let kind = schema.member("type");
    let is_known = kind.text().is_empty() || TYPES.contains(&kind.text());
    if context.options.require_known_types && !is_known {
        errors.push(kind.not_supported(&TYPES));
    }
    let default = schema.member("default");
    if let Some(why) = context.forbids_defaults.filter(|_| default.is_set()) {
        errors.push(default.forbidden(format!("must not be set {why}")));
    }
    let mut unsupported = |name: &'static str, is_said: bool| {
        if is_said {
            let detail = format!("{name} is not supported");
            errors.push(schema.member(name).forbidden(detail));
        }
    };
    unsupported("id", !schema.member("id").text().is_empty());
    unsupported("additionalItems", schema.member("additionalItems").is_set());
    for name in ["patternProperties", "definitions"] {
        unsupported(name, !schema.member(name).is_empty());
    }
    for name in ["dependencies", "$ref"] {
        unsupported(name, schema.member(name).is_set());
    }
    if kind.text() == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(kind.forbidden(detail));
    }
    let items = schema.member("items");
    if !items.list().is_empty() {
        errors.push(items.forbidden("items must be a schema object and not an array"));
    }
    let embedded = schema.member("x-kubernetes-embedded-resource");
    if context.is_in_metadata && embedded.is_true() {
        errors.push(embedded.forbidden("must not be used inside of resource meta"));
    }
}

/// Validates the schemas of an object's members.
fn validate_members(schema: &Field<'_>, context: Context<'_>, found: &mut Found<'_>) {
    let properties = schema.member("properties");
    let additional = schema.member("additionalProperties");
    let is_root = context.is_root;
    let place = Place {
        cardinality: cardinality_below(schema, context),
        ..context.place
    };
    let below = Context {
        is_root: false,
        ..context
    };
    if additional.is_set() {
        if !properties.is_empty() && additional.bool() != Some(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            found.schema.push(additional.forbidden(detail));
        }
        let forbids = "inside additionalProperties applying to object metadata";
        let context = Context {
            forbids_defaults: match context.is_in_metadata {
                true => Some(forbids),
                false => context.forbids_defaults,
            },
            place: Place {
                shape: place.shape.part(Shape::element),
                ..place
            },
            ..below
        };
        validate_node(&additional, context, found);
    }
    let is_object = is_root || schema.member("x-kubernetes-embedded-resource").is_true();
    for (name, property) in properties.entries() {
        let forbids = format!("in top-level {name}");
        let mut context = below;
        context.place = Place {
            shape: place.shape.part(|shape| shape.property(name)),
            ..place
        };
        if is_object && OBJECT_MEMBERS.contains(&name) {
            context.is_in_metadata = true;
            if is_root {
                context.forbids_defaults = Some(&forbids);
            }
        }
        validate_node(&property, context, found);
    }
}

/// Validates the schemas in `allOf`, `anyOf`, `oneOf` and `not`, where expressions are not allowed.
fn validate_combinations(schema: &Field<'_>, context: Context<'_>, found: &mut Found<'_>) {
    let context = Context {
        is_root: false,
        has_types: false,
        ..context
    };
    validate_node(&schema.member("not"), context, found);
    for name in ["allOf", "oneOf", "anyOf"] {
        let list = schema.member(name);
        for nested in list.items() {
            validate_node(&nested, context, found);
        }
    }
    let definitions = schema.member("definitions");
    for (_, definition) in definitions.entries() {
        validate_node(&definition, context, found);
    }
}

/// Returns how often the values below a schema can occur.
fn cardinality_below(schema: &Field<'_>, context: Context<'_>) -> Cardinality {
    let all = context.place.cardinality;
    schema.value().map_or(all, |schema| all.below(schema))
}

fn validate_items(schema: &Field<'_>, context: Context<'_>, found: &mut Found<'_>) {
    let list_type = schema.member("x-kubernetes-list-type");
    let items = schema.member("items");
    let inside = Context {
        is_root: false,
        place: Place {
            shape: context.place.shape.part(Shape::element),
            cardinality: cardinality_below(schema, context),
            uncorrelatable: match list_type.text() {
                "map" => context.place.uncorrelatable,
                _ => context.place.uncorrelatable.or(Some(schema)),
            },
        },
        ..context
    };
    validate_node(&items, inside, found);
    for item in items.items() {
        validate_node(&item, inside, found);
    }
    let outside = Context {
        is_root: false,
        has_types: false,
        ..context
    };
    let dependencies = schema.member("dependencies");
    for (_, dependency) in dependencies.entries() {
        validate_node(&dependency, outside, found);
    }
}
