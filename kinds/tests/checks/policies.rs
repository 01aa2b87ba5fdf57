//! Expressions of arbitrary text in the places of admission policies and of match conditions, over
//! arbitrary objects: none causes a panic, and costs are bounded (HK-84 to HK-90).
#![allow(dead_code)]

use api::cel::values::messages::{JsonUse, JsonWriter};
use api::cel::{Environment, Type, Value as Cel, Work, check as checked};
use api::error_list::ErrorList;
use api::object::Object;
use api::structural::Budget;
use kinds::definitions::admissionregistration::{
    mutatingadmissionpolicies, validatingadmissionpolicies, validatingwebhookconfigurations,
};
use kinds::validation::expressions::ADMISSION;
use serde_json::{Value, json};

/// The limit on one expression.
const LIMIT: u64 = 1_000_000;

/// The most bytes of JSON that an expression may build, in base64 and with its members.
const MAX_BYTES: usize = 8 << 20;

/// Checks an expression and an object in JSON, separated by a zero byte.
pub fn by_bytes(data: &[u8]) {
    let Some((text, object)) = super::halves(data) else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let object = match serde_json::from_slice(object) {
        Ok(object @ Value::Object(_)) => object,
        _ => json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}),
    };
    validated(text);
    evaluated(text, &object);
}

/// Validates configurations that have the text in each place of an expression.
fn validated(text: &str) {
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
        "operations": ["CREATE"], "scope": "*"}]);
    let constraints = json!({"resourceRules": rules, "matchPolicy": "Exact"});
    let conditions = json!([{"name": "c", "expression": text}]);
    let variables = json!([{"name": "v", "expression": text}, {"name": "w", "expression": text}]);
    let validating = json!({"matchConstraints": constraints, "matchConditions": conditions,
        "variables": variables, "failurePolicy": "Fail",
        "validations": [{"expression": text, "messageExpression": text}],
        "auditAnnotations": [{"key": "k", "valueExpression": text}]});
    let mutating = json!({"matchConstraints": constraints, "matchConditions": conditions,
        "variables": variables, "failurePolicy": "Fail", "reinvocationPolicy": "Never",
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}]});
    let webhooks = json!([{"name": "w.example.com", "rules": rules, "sideEffects": "None",
        "clientConfig": {"url": "https://localhost"}, "admissionReviewVersions": ["v1"],
        "matchConditions": conditions}]);
    let metadata = json!({"name": "p"});
    for (kind, object) in [
        (
            validatingadmissionpolicies(),
            json!({"metadata": metadata, "spec": validating}),
        ),
        (
            mutatingadmissionpolicies(),
            json!({"metadata": metadata, "spec": mutating}),
        ),
        (
            validatingwebhookconfigurations(),
            json!({"metadata": metadata, "webhooks": webhooks}),
        ),
    ] {
        let Value::Object(members) = object else {
            continue;
        };
        let object = Object::of(members);
        let errors = ErrorList::of(|errors| kind.behaviour.validate(&object, errors));
        assert!(errors.kept().len() <= 100, "{text}");
    }
}

/// Evaluates the text as a mutation, in whose environment everything is known.
fn evaluated(text: &str, object: &Value) {
    let budget = Budget::of_expressions(100_000);
    let environment: Environment = ADMISSION.clone().with("params", Type::Dyn);
    let environment = environment.with_variables().with_objects();
    let Ok(expression) = checked(text, &environment, &budget) else {
        return;
    };
    let Ok(program) = expression.program() else {
        return;
    };
    let request = json!({"name": "a", "operation": "CREATE", "userInfo": {"username": "ada"}});
    let none = Value::Null;
    let work = Work::default();
    let known = |name: &str| match name {
        "object" => Some(Ok(Cel::untyped(object))),
        "request" => Some(Ok(Cel::untyped(&request))),
        "oldObject" | "namespaceObject" | "params" => Some(Ok(Cel::untyped(&none))),
        _ => None,
    };
    let found = program.evaluate(known, LIMIT, &work);
    let Ok(value) = &found.outcome else {
        return;
    };
    assert!(found.cost <= LIMIT, "{text}: {}", found.cost);
    if let Cel::Message(message) = value {
        // Faults are texts, however many there are.
        let faults = message.check_type_names().err().unwrap_or_default();
        assert!(faults.len() <= MAX_BYTES, "{text}");
    }
    for what_for in [JsonUse::Applied, JsonUse::Patched] {
        if let Ok(json) = JsonWriter::new(what_for).json(value) {
            assert!(json.to_string().len() <= MAX_BYTES, "{text}");
        }
    }
}
