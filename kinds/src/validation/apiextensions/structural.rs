//! Validation of structural schemas (CRD-42 to CRD-46): the type of each value is specified outside
//! `allOf`, `anyOf`, `oneOf` and `not`, which may contain value validations only.

use api::field::Field;
use api::structural::Budget;
use api::structural::pattern::Pattern;
use serde_json::Value;

use api::error_list::ErrorList;

/// The check stops after this many errors. They are sorted before a response shows the first of
/// them, so it finds more than other checks ([`super::MAX_ERRORS`]).
const MAX_SORTED_ERRORS: usize = 1000;

/// The members of metadata that a schema may restrict.
const METADATA_MEMBERS: [&str; 2] = ["name", "generateName"];

/// The place of a schema.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Member,
}

/// Validates that a schema is structural. Errors are sorted by their texts.
pub fn validate_structural(schema: &Field<'_>, budget: &Budget, errors: &mut ErrorList) {
    let mut found = ErrorList::to_be_sorted(MAX_SORTED_ERRORS);
    validate_node(schema, Level::Root, budget, &mut found);
    if let Some(value) = schema.value() {
        complete_rules(value, Some(value), schema, schema, &mut found);
    }
    errors.append(found.sorted_by_text());
}

fn validate_node(schema: &Field<'_>, level: Level, budget: &Budget, errors: &mut ErrorList) {
    if errors.reported() >= MAX_SORTED_ERRORS {
        return;
    }
    let kind = schema.member("type");
    let items = schema.member("items");
    match items.value() {
        Some(Value::Object(_)) => validate_node(&items, Level::Item, budget, errors),
        _ if kind.text() == "array" => errors.push(items.required("must be specified")),
        _ => {}
    }
    let properties = schema.member("properties");
    for (_, property) in properties.entries() {
        validate_node(&property, Level::Member, budget, errors);
    }
    // An empty schema counts as absent.
    let additional = schema.member("additionalProperties");
    if additional.is_set() && level == Level::Root {
        errors.push(additional.forbidden("must not be used at the root"));
    }
    if additional.value().is_some_and(Value::is_object) {
        validate_node(&additional, Level::Member, budget, errors);
    }
    validate_extensions(schema, errors);
    validate_rules(
        schema,
        is_int_or_string(schema),
        in_first_all_of(schema),
        budget,
        errors,
    );
    validate_type(schema, level, errors);
    validate_object(schema, level, errors);
}

fn validate_extensions(schema: &Field<'_>, errors: &mut ErrorList) {
    if !schema.member("x-kubernetes-int-or-string").is_true() {
        return;
    }
    for name in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        let other = schema.member(name);
        if other.is_true() {
            errors.push(other.invalid("must be false if x-kubernetes-int-or-string is true"));
        }
    }
}

fn validate_type(schema: &Field<'_>, level: Level, errors: &mut ErrorList) {
    let kind = schema.member("type");
    let is = |name: &'static str| schema.member(name).is_true();
    let is_embedded = is("x-kubernetes-embedded-resource");
    let has_no_type = kind.text().is_empty();
    if is_embedded && kind.text() != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match has_no_type {
            true => kind.required(detail),
            false => kind.invalid(detail),
        });
    } else if has_no_type
        && !is("x-kubernetes-int-or-string")
        && !is("x-kubernetes-preserve-unknown-fields")
    {
        errors.push(kind.required(match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Member => "must not be empty for specified object fields",
        }));
    }
    if level == Level::Root && !has_no_type && kind.text() != "object" {
        errors.push(kind.invalid("must be object at the root"));
    }
}

/// Validates the schema of an embedded object and its `metadata`, `kind` and `apiVersion`.
fn validate_object(schema: &Field<'_>, level: Level, errors: &mut ErrorList) {
    let is_embedded = schema.member("x-kubernetes-embedded-resource").is_true();
    let additional = schema.member("additionalProperties");
    if is_embedded && additional.is_set() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(additional.forbidden(detail));
    }
    let properties = schema.member("properties");
    if level == Level::Root || is_embedded {
        for name in ["kind", "apiVersion"] {
            let property = properties.key(name);
            let kind = property.member("type");
            if property.is_set() && kind.text() != "string" {
                errors.push(kind.invalid_value(kind.text(), "must be string"));
            }
        }
        let metadata = properties.key("metadata");
        let kind = metadata.member("type");
        if metadata.is_set() && kind.text() != "object" {
            errors.push(kind.invalid_value(kind.text(), "must be object"));
        }
        if level == Level::Root && metadata.value().is_some_and(says_more) {
            errors.push(metadata.forbidden(
                "must not specify anything other than name and generateName, but metadata is \
                 implicitly specified",
            ));
        }
    }
    let keeps = schema.member("x-kubernetes-preserve-unknown-fields");
    if is_embedded && !keeps.is_true() && properties.is_empty() {
        errors.push(properties.required(
            "must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields",
        ));
    }
}

/// Reports whether a schema of metadata restricts anything but names.
fn says_more(metadata: &Value) -> bool {
    let members = metadata.as_object().into_iter().flatten();
    members
        .filter(|(_, value)| !is_nothing(value))
        .any(|(name, value)| match name.as_str() {
            "type" | "default" | "example" | "externalDocs" => false,
            "properties" => {
                let mut names = value.as_object().into_iter().flatten();
                names.any(|(name, _)| !METADATA_MEMBERS.contains(&name.as_str()))
            }
            _ => true,
        })
}

/// Reports whether a value counts as absent.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Reports whether `anyOf` is that of an int-or-string (CRD-44).
fn is_int_or_string(schema: &Field<'_>) -> bool {
    let alternatives = schema.value().and_then(|schema| schema.get("anyOf"));
    let alternatives = alternatives.and_then(Value::as_array).map(Vec::as_slice);
    let is = |schema: &Value, kind: &str| {
        let members = schema.as_object();
        members.is_some_and(|members| members.len() == 1)
            && schema.get("type").and_then(Value::as_str) == Some(kind)
    };
    match alternatives {
        Some([first, second]) => is(first, "integer") && is(second, "string"),
        _ => false,
    }
}

fn in_first_all_of(schema: &Field<'_>) -> bool {
    let all_of = schema.member("allOf");
    is_int_or_string(&all_of.index(0))
}

/// Validates the value validations of a schema.
fn validate_rules(
    schema: &Field<'_>,
    skips_any_of: bool,
    skips_in_all_of: bool,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    if !skips_any_of {
        let any_of = schema.member("anyOf");
        for nested in any_of.items() {
            validate_nested(&nested, false, budget, errors);
        }
    }
    let all_of = schema.member("allOf");
    for (index, nested) in all_of.items().enumerate() {
        validate_nested(&nested, skips_in_all_of && index == 0, budget, errors);
    }
    let one_of = schema.member("oneOf");
    for nested in one_of.items() {
        validate_nested(&nested, false, budget, errors);
    }
    validate_nested(&schema.member("not"), false, budget, errors);
    let pattern = schema.member("pattern");
    if !budget.take(Pattern::read_steps(pattern.text())) {
        errors.extend(budget.refusal().map(|why| pattern.forbidden(why)));
    } else if let Err(why) = Pattern::new(pattern.text()) {
        errors.push(pattern.invalid(format!(
            "must be a valid regular expression, but isn't: error parsing regexp: {why}"
        )));
    }
}

/// Validates a schema in `allOf`, `anyOf`, `oneOf` or `not`, where only value validations are
/// allowed (CRD-43).
fn validate_nested(
    schema: &Field<'_>,
    skips_any_of: bool,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    let Some(Value::Object(_)) = schema.value() else {
        return;
    };
    if errors.reported() >= MAX_SORTED_ERRORS {
        return;
    }
    validate_rules(schema, skips_any_of, false, budget, errors);
    validate_nested(&schema.member("items"), false, budget, errors);
    let properties = schema.member("properties");
    for (_, property) in properties.entries() {
        validate_nested(&property, false, budget, errors);
    }
    for name in ["type", "title", "description"] {
        let member = schema.member(name);
        if !member.text().is_empty() {
            errors.push(member.forbidden("must be empty to be structural"));
        }
    }
    let additional = schema.member("additionalProperties");
    if additional.is_set() && additional.bool() != Some(false) {
        errors.push(additional.forbidden("must be undefined to be structural"));
    }
    for name in ["default", "x-kubernetes-list-type", "x-kubernetes-map-type"] {
        let member = schema.member(name);
        if member.is_set() {
            errors.push(member.forbidden("must be undefined to be structural"));
        }
    }
    for name in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        let member = schema.member(name);
        if member.is_true() {
            errors.push(member.forbidden("must be false to be structural"));
        }
    }
    for name in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        let member = schema.member(name);
        if !member.is_empty() {
            errors.push(member.forbidden("must be empty to be structural"));
        }
    }
    let metadata = properties.key("metadata");
    if metadata.is_set() {
        errors.push(metadata.forbidden("must not be specified in a nested context"));
    }
}

/// Validates that members with value validations in combinations are also specified outside them.
/// `rules` has the validations and `schema` the specification, each with its path.
fn complete_rules(
    rules: &Value,
    schema: Option<&Value>,
    place: &Field<'_>,
    rules_place: &Field<'_>,
    errors: &mut ErrorList,
) {
    for name in ["allOf", "anyOf", "oneOf"] {
        let list = rules_place.member(name);
        let nested = rules.get(name).and_then(Value::as_array);
        for (nested, at) in nested.into_iter().flatten().zip(list.items()) {
            complete_nested(nested, schema, place, &at, errors);
        }
    }
    if let Some(nested) = rules.get("not").filter(|nested| nested.is_object()) {
        complete_nested(nested, schema, place, &rules_place.member("not"), errors);
    }
}

fn complete_nested(
    rules: &Value,
    schema: Option<&Value>,
    place: &Field<'_>,
    rules_place: &Field<'_>,
    errors: &mut ErrorList,
) {
    if errors.reported() >= MAX_SORTED_ERRORS {
        return;
    }
    let Some(said) = schema else {
        let detail = format!("because it is defined in {}", rules_place.path());
        errors.push(place.required(detail));
        return;
    };
    complete_rules(rules, schema, place, rules_place, errors);
    let properties = rules.get("properties").and_then(Value::as_object);
    let (in_place, in_rules) = (place.member("properties"), rules_place.member("properties"));
    for (name, property) in properties.into_iter().flatten() {
        let known = said.get("properties").and_then(|known| known.get(name));
        complete_nested(
            property,
            known,
            &in_place.key(name),
            &in_rules.key(name),
            errors,
        );
    }
    if let Some(items) = rules.get("items").filter(|items| items.is_object()) {
        let known = said.get("items").filter(|items| items.is_object());
        let (at, of) = (place.member("items"), rules_place.member("items"));
        complete_nested(items, known, &at, &of, errors);
    }
}
