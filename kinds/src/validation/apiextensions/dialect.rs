//! What is refused of the words of a schema (CRD-31 to CRD-36).

use api::field::Field;
use api::structural::Budget;
use serde_json::Value;

use super::options::Options;
use super::{lists, rules};
use api::error_list::ErrorList;

/// No more faults than this are looked for.
const MAX_FAULTS: usize = 200;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The members that every whole object has.
const OBJECT_MEMBERS: [&str; 3] = ["metadata", "apiVersion", "kind"];

/// Where a schema stands.
#[derive(Clone, Copy)]
struct Context<'c> {
    options: Options,
    is_root: bool,
    /// Whether it is about the metadata of an object.
    is_in_metadata: bool,
    /// Why nothing may be filled in here.
    forbids_defaults: Option<&'c str>,
    /// Whether expressions can be read here: the type of each value is known.
    has_types: bool,
    /// The list whose items can't be found again in another object.
    uncorrelatable: Option<&'c Field<'c>>,
}

/// The errors of words, and those of expressions, which are reported after all others.
struct Found<'b> {
    schema: ErrorList,
    expressions: ErrorList,
    budget: &'b Budget,
}

/// Adds the errors of a schema and of all that are in it.
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
        uncorrelatable: None,
    };
    let mut found = Found {
        schema: ErrorList::new(),
        expressions: ErrorList::new(),
        budget,
    };
    validate_node(schema, context, &mut found);
    errors.append(found.schema);
    errors.append(found.expressions);
}

fn validate_node(schema: &Field<'_>, context: Context<'_>, found: &mut Found<'_>) {
    let Some(Value::Object(_)) = schema.value() else {
        return;
    };
    if found.schema.reported() + found.expressions.reported() >= MAX_FAULTS {
        return;
    }
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
    rules::validate_rules(schema, &mut found.schema);
    if context.has_types && found.schema.reported() == before {
        let is_root = context.is_root;
        let (list, budget) = (context.uncorrelatable, found.budget);
        rules::compile_rules(schema, is_root, list, budget, &mut found.expressions);
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

/// The members of an object.
fn validate_members(schema: &Field<'_>, context: Context<'_>, found: &mut Found<'_>) {
    let properties = schema.member("properties");
    let additional = schema.member("additionalProperties");
    let is_root = context.is_root;
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
            ..below
        };
        validate_node(&additional, context, found);
    }
    let is_object = is_root || schema.member("x-kubernetes-embedded-resource").is_true();
    for (name, property) in properties.entries() {
        let forbids = format!("in top-level {name}");
        let mut context = below;
        if is_object && OBJECT_MEMBERS.contains(&name) {
            context.is_in_metadata = true;
            if is_root {
                context.forbids_defaults = Some(&forbids);
            }
        }
        validate_node(&property, context, found);
    }
}

/// What is asked of values in combinations. Expressions can't be used there.
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

fn validate_items(schema: &Field<'_>, context: Context<'_>, found: &mut Found<'_>) {
    let list_type = schema.member("x-kubernetes-list-type");
    let items = schema.member("items");
    let inside = Context {
        is_root: false,
        uncorrelatable: match list_type.text() {
            "map" => context.uncorrelatable,
            _ => Some(schema),
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
