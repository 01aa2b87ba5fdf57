//! What is refused of definitions of custom resources (API-236, crd.md 2).

mod conversion;
mod defaults;
mod dialect;
mod lists;
mod metadata;
mod options;
mod paths;
mod rules;
mod schemas;
mod structural;
mod versions;

use api::field::Field;
use api::names;
use api::object::Object;
use api::structural::Budget;
use serde_json::Value;

use self::options::Options;
use super::formats::{dns1035_label, report, require_text};
use super::texts;
use api::error_list::ErrorList;

const SCOPES: [&str; 2] = ["Cluster", "Namespaced"];
const APPROVAL: &str = "api-approved.kubernetes.io";
const APPROVAL_PAGE: &str = "https://github.com/kubernetes/enhancements/pull/1111";

/// Adds the errors of a definition.
pub fn validate_customresourcedefinition(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    validate_name(object, &spec, errors);
    validate_spec(&spec, options::ALL, &budget(&spec), errors);
    validate_status(object, None, errors);
}

/// Adds the errors of a change to a definition: the names under which its objects are stored stay.
/// It takes three budgets at most: two of the new definition and one of the stored one.
pub fn validate_customresourcedefinition_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    let spec = Field::of(object, "spec");
    // What the stored definition breaks is looked at only if it matters.
    let all = |errors: &mut ErrorList| validate_spec(&spec, options::ALL, &budget(&spec), errors);
    if !ErrorList::of(all).is_empty() {
        validate_spec(&spec, Options::after(stored), &budget(&spec), errors);
    }
    let before = Field::of(stored, "spec");
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

/// What checking the schemas of a definition may take.
fn budget(spec: &Field<'_>) -> Budget {
    Budget::of(spec.value().unwrap_or_default())
}

fn validate_spec(spec: &Field<'_>, options: Options, budget: &Budget, errors: &mut ErrorList) {
    let group = spec.member("group");
    if require_text(&group, errors) {
        let before = errors.reported();
        report(&group, names::dns_subdomain(group.text()), errors);
        if errors.reported() == before && !group.text().contains('.') {
            errors.push(group.invalid("should be a domain with at least one dot"));
        }
    }
    texts::require_one_of(&spec.member("scope"), &SCOPES, errors);
    let shared = versions::Shared::of(&spec.member("versions"));
    versions::validate_versions(spec, &shared, options, budget, errors);
    validate_names(&spec.member("names"), errors);
    versions::validate_shared(spec, &shared, options, budget, errors);
    let preserves = spec.member("preserveUnknownFields").is_true();
    conversion::validate_conversion(&spec.member("conversion"), preserves, errors);
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

/// Adds the errors of what does not depend on the spec alone. What was so before may stay (CRD-20,
/// CRD-23).
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

/// What an annotation says of an approval.
#[derive(Clone, Copy, PartialEq)]
enum Approval {
    Missing,
    Given,
    Bypassed,
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

/// Groups of Kubernetes need an approval, or the word that they have none.
fn validate_approval(object: &Object, spec: &Field<'_>, errors: &mut ErrorList) {
    let group = spec.member("group");
    let group = format!(".{}", group.text());
    if !group.ends_with(".k8s.io") && !group.ends_with(".kubernetes.io") {
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

/// Whether a text has a scheme and a host.
fn is_address(text: &str) -> bool {
    let host = text.split_once("://").map(|(_, rest)| rest);
    host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'))
}

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

    /// A large definition as projects publish them takes a small part of its budget (CRD-13).
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
                "weights": {"type": "array", "default": [1, 2, 3], "items": {"type": "integer"}},
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
        let errors = ErrorList::of(|errors| validate_spec(&spec, options::ALL, &budget, errors));
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

    /// CRD-20, CRD-23, CRD-41: a rule that the stored definition breaks is not held against a
    /// change.
    #[test]
    fn what_was_wrong_before_may_stay() {
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

    /// A stored definition that takes more than its budget does not switch off rules.
    #[test]
    fn all_rules_hold_after_a_definition_that_spends_its_budget() {
        let pattern = "\\pL".repeat(1000);
        let member = json!({"type": "string", "pattern": pattern, "default": "a"});
        let stored =
            json!({"spec": version(&json!({"type": "object", "properties": {"a": member}}))});
        let spent = budget(&Field::named("spec", stored.get("spec")));
        let stored = Object::of(stored.as_object().unwrap().clone());
        let spec = Field::of(&stored, "spec");
        let errors = ErrorList::of(|errors| validate_spec(&spec, options::ALL, &spent, errors));
        assert!(spent.is_spent() && !errors.is_empty());
        let options = Options::after(&stored);
        assert!(options.require_structural && options.require_pruned_defaults);
        assert!(options.require_known_types && options.require_map_keys);
        assert!(options.require_atomic_sets);
    }
}
