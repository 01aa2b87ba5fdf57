//! Validation of CustomResourceDefinitions (API-236, crd.md 2).

mod certificates;
mod conversion;
mod defaults;
mod dialect;
mod lists;
mod options;
mod paths;
mod rules;
mod schemas;
mod structural;
mod update_options;
mod versions;

use std::collections::HashSet;

use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;
use api::structural::Budget;
use api::text::quoting::go_quote;
use serde_json::Value;

pub use self::certificates::bundle_fault;
use self::options::Options;
use self::update_options::options_after;
use super::enums::require_one_of;
use super::report;
use super::required::require_text;
use super::text_formats::dns1035_label;
use api::error_list::ErrorList;

/// Checks of a schema stop after this many errors, twice as many as a response shows. Errors of
/// expressions count and come last. With the limit of a response, they could keep back errors that
/// come before them.
const MAX_ERRORS: usize = 200;

const SCOPES: [&str; 2] = ["Cluster", "Namespaced"];
const APPROVAL: &str = "api-approved.kubernetes.io";
const APPROVAL_PAGE: &str = "https://github.com/kubernetes/enhancements/pull/1111";

/// Validates a CustomResourceDefinition.
pub fn validate_customresourcedefinition(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_name(object, &spec, errors);
    validate_spec(&spec, None, options::NEW, &budget(&spec), errors);
    validate_status(object, None, errors);
}

/// Validates an update of a CustomResourceDefinition. It spends at most three budgets: two for the
/// new definition and one for the stored one.
pub fn validate_customresourcedefinition_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    let spec = Field::of(object, "spec");
    // The stored definition is examined only if the new one violates a rule.
    let before = Field::of(stored, "spec");
    let check = |options: Options, errors: &mut ErrorList| {
        validate_spec(&spec, Some(&before), options, &budget(&spec), errors);
    };
    if !ErrorList::of(|errors| check(options::ALL, errors)).is_empty() {
        check(options_after(stored), errors);
    }
    let (names, old_names) = (spec.member("names"), before.member("names"));
    let mut immutable = vec![
        (spec.member("group"), before.member("group")),
        (names.member("plural"), old_names.member("plural")),
    ];
    if is_established(stored) {
        let kept = [
            (spec.member("scope"), before.member("scope")),
            (names.member("kind"), old_names.member("kind")),
        ];
        immutable.splice(0..0, kept);
    }
    for (field, old) in immutable {
        if field.text() != old.text() {
            errors.push(field.invalid_value(field.text(), "field is immutable"));
        }
    }
    validate_status(object, Some(stored), errors);
}

/// Returns the approval of a definition in a group of Kubernetes with its description (CRD-67), or
/// `None` for other groups.
pub fn approval(object: &Object) -> Option<(Approval, String)> {
    let spec = Field::of(object, "spec");
    if !is_protected(spec.member("group").text()) {
        return None;
    }
    let metadata = Field::of(object, "metadata");
    let annotations = metadata.member("annotations");
    let given = annotations.key(APPROVAL);
    let text = given.text();
    let needs = format!("protected groups must have approval annotation \"{APPROVAL}\"");
    let state = approval_of(object);
    let description = match state {
        Approval::Missing => format!("{needs}, see {APPROVAL_PAGE}"),
        Approval::Invalid => format!(
            "{needs} with either a URL or a reason starting with \"unapproved\", see \
             {APPROVAL_PAGE}"
        ),
        Approval::Given => format!("approved in {text}"),
        Approval::Bypassed => format!("not approved: {}", go_quote(text)),
    };
    Some((state, description))
}

/// Returns the violations of the rules for structural schemas in a definition (CRD-47), as one text
/// if there are any.
pub fn structural_violations(object: &Object) -> Option<String> {
    let spec = Field::of(object, "spec");
    let budget = budget(&spec);
    let mut texts = Vec::new();
    let preserves = spec.member("preserveUnknownFields");
    if preserves.is_true() {
        let error = FieldError::invalid("spec.preserveUnknownFields", true, "must be false");
        texts.push(error.to_string());
    }
    for version in spec.member("versions").items() {
        let schema = version.member("schema");
        let schema = schema.member("openAPIV3Schema");
        if schema.is_set() {
            let find = |errors: &mut ErrorList| {
                structural::validate_structural(&schema, &budget, errors);
            };
            texts.extend(ErrorList::of(find).iter().map(ToString::to_string));
        }
    }
    aggregated(texts)
}

/// Returns whether a schema is structural.
pub fn is_structural(schema: &Value) -> bool {
    let field = Field::named("openAPIV3Schema", Some(schema));
    schemas::is_structural(&field, &Budget::of(schema))
}

/// Joins texts as Kubernetes joins errors: each once, and several in brackets.
pub fn aggregated(texts: Vec<String>) -> Option<String> {
    let mut seen = HashSet::new();
    let mut texts: Vec<String> = texts
        .into_iter()
        .filter(|text| seen.insert(text.clone()))
        .collect();
    match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

fn is_protected(group: &str) -> bool {
    let group = format!(".{group}");
    group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io")
}

fn is_established(object: &Object) -> bool {
    let status = Field::of(object, "status");
    let conditions = status.member("conditions");
    conditions.list().iter().any(|condition| {
        let is = |name: &str, text: &str| condition.get(name).and_then(Value::as_str) == Some(text);
        is("type", "Established") && is("status", "True")
    })
}

fn validate_name(object: &Object, spec: &Field<'_>, errors: &mut ErrorList) {
    let names = spec.member("names");
    let plural = names.member("plural");
    let group = spec.member("group");
    let wanted = format!("{}.{}", plural.text(), group.text());
    let metadata = Field::of(object, "metadata");
    let (base, name) = (metadata.member("generateName"), metadata.member("name"));
    let masked = names::mask_trailing_dash(base.text());
    for (field, checked) in [(&base, masked.as_ref()), (&name, name.text())] {
        if field.text().is_empty() {
            continue;
        }
        report(field, names::dns_subdomain(checked), errors);
        if field.text() != wanted {
            errors.push(field.invalid("must be spec.names.plural+\".\"+spec.group"));
        }
    }
}

/// Returns the budget for validating the schemas of a definition.
fn budget(spec: &Field<'_>) -> Budget {
    Budget::of(spec.value().unwrap_or_default())
}

/// Validates the spec. `before` is that of the stored definition.
fn validate_spec(
    spec: &Field<'_>,
    before: Option<&Field<'_>>,
    options: Options,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    let group = spec.member("group");
    if require_text(&group, errors) {
        let before = errors.reported();
        report(&group, names::dns_subdomain(group.text()), errors);
        if errors.reported() == before && !group.text().contains('.') {
            errors.push(group.invalid("should be a domain with at least one dot"));
        }
    }
    require_one_of(&spec.member("scope"), &SCOPES, errors);
    let preserves = spec.member("preserveUnknownFields").is_true();
    let options = versions::strict_options(options, spec.member("versions").list(), preserves);
    let before = before.map(|before| before.member("versions"));
    let shared = versions::Shared::of(&spec.member("versions"), before.as_ref());
    versions::validate_versions(spec, &shared, options, budget, errors);
    validate_names(&spec.member("names"), errors);
    versions::validate_shared(spec, &shared, options, budget, errors);
    let conversion = spec.member("conversion");
    conversion::validate_conversion(&conversion, preserves, options, errors);
}

fn validate_names(names: &Field<'_>, errors: &mut ErrorList) {
    for name in ["plural", "singular", "kind", "listKind"] {
        require_text(&names.member(name), errors);
    }
    for name in ["plural", "singular"] {
        let field = names.member(name);
        if !field.text().is_empty() {
            report(&field, dns1035_label(field.text()), errors);
        }
    }
    for name in ["kind", "listKind"] {
        let field = names.member(name);
        let wrong = dns1035_label(&field.text().to_lowercase());
        if !field.text().is_empty() && !wrong.is_empty() {
            let wrong = wrong.join(",");
            errors.push(field.invalid(format!(
                "may have mixed case, but should otherwise match: {wrong}"
            )));
        }
    }
    for name in names.member("shortNames").items() {
        report(&name, dns1035_label(name.text()), errors);
    }
    let (kind, list_kind) = (names.member("kind"), names.member("listKind"));
    if !kind.text().is_empty() && kind.text() == list_kind.text() {
        errors.push(list_kind.invalid("kind and listKind may not be the same"));
    }
    for category in names.member("categories").items() {
        report(&category, dns1035_label(category.text()), errors);
    }
}

/// Validates the parts of a definition that do not depend on the spec alone. Errors that the stored
/// definition had are accepted (CRD-20, CRD-23).
fn validate_status(object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let status = Field::of(object, "status");
    versions::validate_stored(&status.member("storedVersions"), &spec, errors);
    if stored.is_none_or(|stored| approval_of(stored) != approval_of(object)) {
        validate_approval(object, &spec, errors);
    }
    let preserves = spec.member("preserveUnknownFields");
    let did_preserve = stored.and_then(|stored| stored.at(&["spec", "preserveUnknownFields"]));
    if preserves.is_true() && did_preserve != Some(&Value::Bool(true)) {
        errors.push(preserves.invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
             spec.versions[*].schema instead",
        ));
    }
}

/// The state of the approval annotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Approval {
    /// The annotation is absent.
    Missing,
    /// It is the address of a page.
    Given,
    /// It says that the definition is not approved.
    Bypassed,
    /// It is another text.
    Invalid,
}

fn approval_of(object: &Object) -> Approval {
    let metadata = Field::of(object, "metadata");
    let annotations = metadata.member("annotations");
    match annotations.key(APPROVAL).text() {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        text if is_address(text) => Approval::Given,
        _ => Approval::Invalid,
    }
}

/// Validates that a definition in a group of Kubernetes has an approval, or is marked as
/// unapproved.
fn validate_approval(object: &Object, spec: &Field<'_>, errors: &mut ErrorList) {
    if !is_protected(spec.member("group").text()) {
        return;
    }
    let metadata = Field::of(object, "metadata");
    let annotations = metadata.member("annotations");
    let approval = annotations.key(APPROVAL);
    let needs = format!("protected groups must have approval annotation \"{APPROVAL}\"");
    match approval_of(object) {
        Approval::Missing => {
            errors.push(approval.required(format!("{needs}, see {APPROVAL_PAGE}")));
        }
        Approval::Invalid => errors.push(approval.invalid(format!(
            "{needs} with either a URL or a reason starting with \"unapproved\", see \
             {APPROVAL_PAGE}"
        ))),
        Approval::Given | Approval::Bypassed => {}
    }
}

/// Reports whether a text has a scheme and a host.
fn is_address(text: &str) -> bool {
    let host = text.split_once("://").map(|(_, rest)| rest);
    host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'))
}

#[cfg(test)]
mod costs_tests;
#[cfg(test)]
mod updates_tests;
#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::defaults::apiextensions::customresourcedefinition;
    use crate::recorded::{Functions, check};

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        let cases = include_str!("../../../recorded/apiextensions.json");
        check(cases, |_| Functions {
            defaults: Some(customresourcedefinition),
            create: validate_customresourcedefinition,
            update: Some(validate_customresourcedefinition_update),
        });
    }
    #[test]
    fn answers_to_schemas_are_those_of_kube_apiserver() {
        let cases = include_str!("../../../recorded/apiextensions_schemas.json");
        check(cases, |_| Functions {
            defaults: Some(customresourcedefinition),
            create: validate_customresourcedefinition,
            update: Some(validate_customresourcedefinition_update),
        });
    }

    /// A large but usual definition uses a small part of its budget (CRD-13).
    #[test]
    fn an_ordinary_definition_is_far_from_its_budget() {
        let group = json!({
            "type": "object", "description": "What a part of the application is. ".repeat(10),
            "required": ["name"],
            "properties": {
                "name": {
                    "type": "string", "description": "The name. ".repeat(10), "maxLength": 63,
                    "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "default": "main",
                },
                "mode": {"type": "string", "enum": ["a", "b", "c"], "default": "a"},
                "port": {"anyOf": [{"type": "integer"}, {"type": "string"}],
                    "description": "The port. ".repeat(20), "x-kubernetes-int-or-string": true},
                "weights": {"type": "array", "maxItems": 9, "default": [1, 2, 3],
                    "items": {"type": "integer"}},
            },
            "x-kubernetes-validations": [
                {"rule": "self.mode != 'a' || has(self.port) && self.weights.all(w, w < 10)"},
            ],
        });
        let groups = (0..100).map(|at| (format!("group{at}"), group.clone()));
        let groups: Map<String, Value> = groups.collect();
        let part = json!({"type": "object", "properties": groups});
        let parts = (0..8).map(|at| (format!("part{at}"), part.clone()));
        let parts: Map<String, Value> = parts.collect();
        let rules = json!([{"rule": "self == oldSelf"}]);
        let schema = json!({"type": "object", "properties": parts,
            "x-kubernetes-validations": rules});
        assert!(schema.to_string().len() > 900_000);
        let value = json!({"group": "a.b", "scope": "Cluster", "conversion": {"strategy": "None"},
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": version(&schema)["versions"]});
        let spec = Field::named("spec", Some(&value));
        let budget = budget(&spec);
        let errors =
            ErrorList::of(|errors| validate_spec(&spec, None, options::ALL, &budget, errors));
        assert_eq!(errors.kept(), []);
        assert!((1..25).contains(&budget.percent()), "{}", budget.percent());
    }

    fn changed(stored: Value, object: Value) -> Vec<String> {
        let whole = |spec: Value| {
            let mut whole = json!({
                "metadata": {"name": "foos.d.k8s.io"},
                "spec": {"group": "d.k8s.io", "scope": "Namespaced", "names": {
                    "plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList",
                }},
                "status": {"storedVersions": ["v1"]},
            });
            let members = spec.as_object().unwrap().clone();
            whole["spec"].as_object_mut().unwrap().extend(members);
            Object::of(whole.as_object().unwrap().clone())
        };
        let errors = ErrorList::of(|errors| {
            validate_customresourcedefinition_update(&whole(object), &whole(stored), errors)
        });
        errors.iter().map(ToString::to_string).collect()
    }

    fn version(schema: &Value) -> Value {
        let schema = json!({"openAPIV3Schema": schema});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        json!({ "versions": [version], "preserveUnknownFields": true })
    }

    /// CRD-20, CRD-23, CRD-41: an update may keep violating a rule that the stored definition
    /// violates.
    #[test]
    fn violations_of_the_stored_definition_may_stay() {
        let untyped = json!({"type": "object", "properties": {"a": {}}});
        let more = json!({"type": "object", "properties": {"a": {}, "b": {}}});
        assert!(changed(version(&untyped), version(&more)).is_empty());
        let set = |items: Value| {
            let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": items});
            version(&json!({"type": "object", "properties": {"a": set}}))
        };
        let objects = set(json!({"type": "object"}));
        assert!(changed(objects.clone(), objects.clone()).is_empty());
        let good = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let errors = changed(version(&good), version(&untyped));
        assert_eq!(
            errors,
            [
                "spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be \
              empty for specified object fields"
            ]
        );
        assert_eq!(changed(version(&good), objects).len(), 1);
    }

    fn created(version: Value) -> Vec<String> {
        let whole = json!({
            "metadata": {"name": "foos.d.example.com"},
            "spec": {"group": "d.example.com", "scope": "Namespaced", "versions": [version],
                "conversion": {"strategy": "None"}, "names": {
                "plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"}},
            "status": {"storedVersions": ["v1"]},
        });
        let whole = Object::of(whole.as_object().unwrap().clone());
        let errors = ErrorList::of(|errors| validate_customresourcedefinition(&whole, errors));
        errors.iter().map(ToString::to_string).collect()
    }

    fn with_schema(schema: &Value) -> Value {
        let schema = json!({"openAPIV3Schema": schema});
        json!({"name": "v1", "served": true, "storage": true, "schema": schema})
    }

    /// CRD-31, CRD-43, CRD-46, by recorded answers.
    #[test]
    fn the_rules_of_the_dialect_are_those_of_kube_apiserver() {
        let at = "spec.validation.openAPIV3Schema";
        let logic = json!([{"properties": {"y": {"minLength": 1}}}]);
        let inner = json!({"type": "object", "properties": {"x": {"type": "string"}},
            "anyOf": logic});
        let labels = json!({"type": "object", "properties": {"metadata": {"type": "object",
            "properties": {"labels": {"type": "object",
                "additionalProperties": {"type": "string"}}}}}});
        let mut embedded = labels.clone();
        embedded["x-kubernetes-embedded-resource"] = true.into();
        for (schema, expected) in [
            (
                json!({"type": "object", "$schema": "http://x"}),
                vec![format!(
                    "{at}: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"
                )],
            ),
            (
                inner.clone(),
                vec![format!(
                    "{at}.properties[y]: Required value: because it is defined in \
                 {at}.anyOf[0].properties[y]"
                )],
            ),
            (
                json!({"type": "object", "properties": {"a": inner}}),
                vec![],
            ),
            (
                labels,
                vec![format!(
                    "{at}.properties[metadata]: Forbidden: must not specify anything other than name \
                 and generateName, but metadata is implicitly specified"
                )],
            ),
            (
                json!({"type": "object", "properties": {"a": embedded}}),
                vec![],
            ),
        ] {
            assert_eq!(created(with_schema(&schema)), expected, "{schema}");
        }
    }

    /// CRD-27: paths below `.spec` and `.status`, whatever they are.
    #[test]
    fn paths_of_scales_are_prefixes_only() {
        let scale = |path: &str| {
            let mut version = with_schema(&json!({"type": "object"}));
            version["subresources"] = json!({"scale": {
                "specReplicasPath": path, "statusReplicasPath": ".status.b"}});
            created(version).len()
        };
        assert_eq!(
            (scale(".spec.a[0]"), scale(".spec"), scale(".status.a")),
            (0, 1, 1)
        );
    }

    /// A stored definition that exceeds its budget does not disable any rule.
    #[test]
    fn all_rules_hold_after_a_definition_that_spends_its_budget() {
        let pattern = "\\pL".repeat(1000);
        let member = json!({"type": "string", "pattern": pattern, "default": "a"});
        let stored =
            json!({"spec": version(&json!({"type": "object", "properties": {"a": member}}))});
        let spent = budget(&Field::named("spec", stored.get("spec")));
        let stored = Object::of(stored.as_object().unwrap().clone());
        let spec = Field::of(&stored, "spec");
        let errors =
            ErrorList::of(|errors| validate_spec(&spec, None, options::ALL, &spent, errors));
        assert!(spent.is_spent() && !errors.is_empty());
        let options = options_after(&stored);
        assert!(options.require_structural && options.require_pruned_defaults);
        assert!(options.require_known_types && options.require_map_keys);
        assert!(options.require_atomic_sets);
    }
}
