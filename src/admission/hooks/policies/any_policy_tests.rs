//! Any policies of expressions that validation accepts: none panics, builds more than a mutation
//! may, or has more results than it has expressions (HK-53 to HK-59, HK-66 to HK-72, HK-90).

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value as Json, json};
use tokio::time::Instant;

use super::Policy;
use super::mutation::{Failed, mutate};
use super::validation::validate;
use crate::admission::hooks::answers::Asker;
use crate::admission::hooks::measured_conditions::{ConditionLabels, HookKind};
use crate::admission::hooks::scope::Facts;
use crate::admission::hooks::shown::{AskedIn, Form};
use crate::admission::{Attributes, Operation, Rounds};
use crate::api::cel::values::authorizer::{Decision, Request};
use crate::api::error_list::ErrorList;
use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::resource::ResourceDefinition;
use crate::api::user_info::UserInfo;
use crate::api::warnings::Warnings;
use crate::kinds::definitions::admissionregistration::{
    mutatingadmissionpolicies, validatingadmissionpolicies,
};
use crate::kinds::definitions::core::configmaps;

const LABELS: ConditionLabels<'static> = ConditionLabels {
    name: "p",
    kind: HookKind::Policy,
    operation: "CREATE",
};

/// Runs an evaluation, which lets others have turns, to its end.
fn run<T>(evaluating: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(evaluating)
}

/// The most bytes that a mutated object has beyond the original one, which is small.
const MAX_BYTES: usize = 4 << 20;

const LEAVES: &[&str] = &[
    "object",
    "oldObject",
    "object.data",
    "object.data.k",
    "object.data.long",
    "object.metadata",
    "object.metadata.name",
    "object.metadata.labels",
    "object.none",
    "request",
    "request.name",
    "request.userInfo.groups",
    "request.options",
    "namespaceObject.metadata.labels",
    "params",
    "params.list",
    "authorizer",
    "true",
    "null",
    "0",
    "-1",
    "9223372036854775807",
    "3000u",
    "1.5",
    "''",
    "'k'",
    "b'x'",
    "[]",
    "{}",
    "[1, 'a', null]",
    "{'a': 1, 'b': [2]}",
    "lists.range(300)",
    "duration('1h')",
    "timestamp('2026-01-02T03:04:05Z')",
    "quantity('1Gi')",
];

/// Forms of expressions. `A`, `B` and `C` are replaced by others of any type, which the check of
/// types does not look at.
const FORMS: &[&str] = &[
    "(A) + (B)",
    "(A) == (B)",
    "(A) < (B)",
    "(A) * (B)",
    "(A) % (B)",
    "(A) && (B)",
    "(A) || (B)",
    "!(A)",
    "-(A)",
    "(A) in (B)",
    "(A) ? (B) : (C)",
    "(A)[B]",
    "(A).k",
    "(A).?k.orValue(B)",
    "(A)[?B]",
    "has((A).k)",
    "size(A)",
    "string(A)",
    "int(A)",
    "dyn(A)",
    "type(A) == type(B)",
    "(A).all(x, B)",
    "(A).all(x, x == (B))",
    "(A).map(x, [x, B])",
    "(A).filter(x, x != (B))",
    "(A).exists(x, B)",
    "(A).exists_one(x, B)",
    "(A).map(x, B)",
    "(A).map(x, B, C)",
    "(A).filter(x, B)",
    "(A).map(x, (A).map(y, B))",
    "lists.range(A)",
    "(A).join(B)",
    "(A).split(B)",
    "(A).replace(B, C)",
    "(A).substring(B)",
    "(A).matches(B)",
    "(A).matches('(a+)+$')",
    "(A).find('[a-z]+')",
    "(A).contains(B)",
    "(A).upperAscii()",
    "(A).format([B, C])",
    "(A).isSorted()",
    "(A).sum()",
    "(A).indexOf(B)",
    "(A) + (A) + (A) + (A)",
    "optional.of(A).value()",
    "authorizer.path(A).check(B).allowed()",
    "authorizer.group('').resource(A).check(B).reason()",
    "authorizer.requestResource.check(A).allowed()",
    "[A, B, C]",
    "{'k': A, 'l': B}",
    "{A: B}",
];

fn expression() -> impl Strategy<Value = String> {
    let leaf = select(LEAVES).prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        (select(FORMS), inner.clone(), inner.clone(), inner).prop_map(|(form, a, b, c)| {
            let mut text = String::new();
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'\'';
            for (place, character) in form.char_indices() {
                // The letters stand alone, in names and texts they do not.
                let before = form.as_bytes()[..place].last().copied();
                let after = form.as_bytes().get(place + 1).copied();
                let is_alone = !before.is_some_and(is_part) && !after.is_some_and(is_part);
                let part = match character {
                    'A' if is_alone => &a,
                    'B' if is_alone => &b,
                    'C' if is_alone => &c,
                    other => {
                        text.push(other);
                        continue;
                    }
                };
                text = format!("{text}dyn({part})");
            }
            text
        })
    })
}

/// An expression of this kind that is likely to be accepted.
fn typed(form: &'static str) -> impl Strategy<Value = String> {
    expression().prop_map(move |inner| form.replace("INNER", &inner))
}

fn condition() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => expression(),
        3 => typed("dyn(INNER) == 1"),
        2 => typed("[dyn(INNER), 1].all(x, x != dyn('y'))"),
        2 => typed("string(dyn(INNER)) != 'x'"),
        2 => typed("dyn(INNER) < dyn(3)"),
    ]
}

fn rules() -> Json {
    json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"], "scope": "*"}],
        "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}})
}

fn validating() -> impl Strategy<Value = Json> {
    let conditions = prop::collection::vec(condition(), 0..2);
    let variables = prop::collection::vec(expression(), 1..3);
    let message = prop::option::of(typed("string(dyn(INNER))"));
    let validation = prop_oneof![
        3 => condition(),
        1 => typed("dyn(variables.v0) == dyn(INNER)"),
    ];
    let validations = prop::collection::vec((validation, message), 1..3);
    let annotations = prop::collection::vec(typed("string(dyn(INNER))"), 0..2);
    let parts = (
        conditions,
        variables,
        validations,
        annotations,
        any::<bool>(),
    );
    parts.prop_map(
        |(conditions, variables, validations, annotations, ignores)| {
            let each = |texts: Vec<String>, form: &dyn Fn(usize, String) -> Json| {
                let texts = texts.into_iter().enumerate();
                texts
                    .map(|(at, text)| form(at, text))
                    .collect::<Vec<Json>>()
            };
            let validations = validations.into_iter().map(|(text, message)| {
                let mut validation = json!({"expression": text});
                if let Some(message) = message {
                    validation["messageExpression"] = message.into();
                }
                validation
            });
            json!({
                "failurePolicy": if ignores { "Ignore" } else { "Fail" },
                "matchConstraints": rules(),
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "matchConditions": each(conditions, &|at, text| {
                    json!({"name": format!("c{at}"), "expression": text})
                }),
                "variables": each(variables, &|at, text| {
                    json!({"name": format!("v{at}"), "expression": text})
                }),
                "validations": validations.collect::<Vec<Json>>(),
                "auditAnnotations": each(annotations, &|at, text| {
                    json!({"key": format!("k{at}"), "valueExpression": text})
                }),
            })
        },
    )
}

fn mutating() -> impl Strategy<Value = Json> {
    let variables = prop::collection::vec(expression(), 1..3);
    let applied = prop_oneof![
        typed("Object{data: dyn(INNER)}"),
        typed("Object{metadata: Object.metadata{labels: dyn(INNER), name: dyn(variables.v0)}}"),
        typed("Object{data: Object.data{k: dyn(INNER), l: string(dyn(INNER))}}"),
        typed("Object{data: {'k': string(dyn(INNER)), 'l': string(dyn(variables.v0))}}"),
        typed("Object{data: Object.metadata{k: dyn(INNER)}}"),
        typed("dyn(INNER) == 1 ? Object{} : Object{data: Object.data{k: 'other'}}"),
    ];
    let patched = prop_oneof![
        typed("[JSONPatch{op: 'add', path: '/data/x', value: dyn(INNER)}]"),
        typed("[JSONPatch{op: 'add', path: '/data/x', value: string(dyn(INNER))}]"),
        typed("[JSONPatch{op: 'test', path: '/data', value: dyn(INNER)}]"),
        typed("[JSONPatch{op: string(dyn(INNER)), path: '/data' + string(dyn(variables.v0))}]"),
        typed(
            "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey(string(dyn(INNER))), \
               value: 'v'}]"
        ),
        typed("lists.range(400).map(n, JSONPatch{op: 'add', path: '/data/x', value: dyn(INNER)})"),
        typed(
            "lists.range(400).map(n, JSONPatch{op: 'add', path: '/data/' + string(n), \
               value: string(dyn(INNER))})"
        ),
    ];
    let mutation = prop_oneof![
        applied.prop_map(|text| json!({"patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": text}})),
        patched.prop_map(|text| json!({"patchType": "JSONPatch",
            "jsonPatch": {"expression": text}})),
    ];
    let parts = (variables, prop::collection::vec(mutation, 1..3));
    parts.prop_map(|(variables, mutations)| {
        let variables = variables.into_iter().enumerate();
        let variables =
            variables.map(|(at, text)| json!({"name": format!("v{at}"), "expression": text}));
        json!({
            "failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": rules(),
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "variables": variables.collect::<Vec<Json>>(), "mutations": mutations,
        })
    })
}

/// Reads a policy that the validation of its kind accepts.
fn accepted(kind: &ResourceDefinition, spec: &Json) -> Option<Policy> {
    let policy = json!({"metadata": {"name": "p"}, "spec": spec});
    let object = Object::of(policy.as_object().cloned()?);
    let errors = ErrorList::of(|errors| kind.behaviour.validate(&object, errors));
    errors
        .is_empty()
        .then(|| Policy::read(policy.to_string().as_bytes()).unwrap())
}

/// Allows every second question.
struct EverySecond;

impl Asker for EverySecond {
    fn ask<'a>(&'a self, question: &'a Request) -> BoxFuture<'a, Decision> {
        ready(Decision {
            is_allowed: question.verb.len().is_multiple_of(2),
            reason: String::new(),
            error: None,
        })
        .boxed()
    }
}

/// The facts of the evaluations.
struct World {
    object: Map<String, Json>,
    request: Json,
    namespace: Json,
    params: Json,
}

fn world() -> World {
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "a", "labels": {"k": "v"}},
        "data": {"k": "v", "long": "ab".repeat(20_000)}});
    World {
        object: object.as_object().cloned().unwrap(),
        request: json!({"name": "a", "operation": "CREATE", "options": null,
            "userInfo": {"username": "ada", "groups": ["crew"]}}),
        namespace: json!({"metadata": {"name": "n", "labels": {"k": "v"}}}),
        params: json!({"kind": "ConfigMap", "list": [1, 2, 3]}),
    }
}

impl World {
    fn facts(&self) -> Facts<'_> {
        Facts {
            object: Some(&self.object),
            old_object: None,
            request: &self.request,
            namespace: &self.namespace,
            params: &self.params,
            permissions: Some((Arc::default(), Request::default())),
        }
    }

    /// Carries out all mutations of a policy, one after the other.
    fn mutated(&self, policy: &Policy) -> Object {
        let (definition, write) = (configmaps(), WriteOptions::default());
        let (user, warnings) = (UserInfo::default(), Warnings::default());
        let attributes = Attributes {
            operation: Operation::Create(&write),
            definition: &definition,
            kind: &definition,
            stored: &definition,
            subresource: None,
            namespace: Some("n"),
            name: "a",
            old_object: None,
            user: &user,
            warnings: &warnings,
            annotations: None,
            versions: &[],
            converter: None,
            deadline: Instant::now(),
            rounds: Rounds::default(),
        };
        let form = Form::new(&attributes, &AskedIn::Request);
        let mut current = Object::of(self.object.clone());
        let compiled = policy.compiled();
        for mutation in &compiled.mutations {
            let facts = Facts {
                object: Some(&current.0),
                ..self.facts()
            };
            let mutating = mutate(mutation, compiled, facts, &current, &form, &EverySecond);
            match run(mutating) {
                Ok(None) | Err(Failed::Policy(..) | Failed::Request(_)) => {}
                Ok(Some(changed)) => current = changed,
            }
        }
        current
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_accepted_validating_policy_ends_hk_90(spec in validating()) {
        let kind = validatingadmissionpolicies();
        let Some(policy) = accepted(&kind, &spec) else { return Ok(()) };
        let (world, compiled) = (world(), policy.compiled());
        let facts = world.facts();
        let validating = validate(&policy.spec, compiled, facts, &EverySecond, &LABELS);
        let validated = run(validating);
        prop_assert!(validated.decisions.len() <= policy.spec.validations.len().max(1));
        prop_assert!(validated.annotations.len() <= policy.spec.audit_annotations.len().max(1));
        for decision in &validated.decisions {
            // Errors of expressions name the expression.
            prop_assert!(decision.message.len() <= (64 << 10), "{}", decision.message.len());
        }
    }

    #[test]
    fn any_accepted_mutating_policy_ends_and_is_bounded_hk_90(spec in mutating()) {
        let kind = mutatingadmissionpolicies();
        let Some(policy) = accepted(&kind, &spec) else { return Ok(()) };
        let changed = world().mutated(&policy);
        let bytes = Json::Object(changed.0).to_string().len();
        prop_assert!(bytes <= MAX_BYTES, "{bytes}");
    }
}

/// A mutation that names a large value very often is refused, before it takes memory for all.
#[test]
fn the_values_of_a_mutation_are_bounded_together_hk_68_hk_90() {
    let big = "lists.range(5).map(x, object.data.long).join()";
    for mutation in [
        json!({"patchType": "JSONPatch", "jsonPatch": {"expression":
            "lists.range(9000).map(x, JSONPatch{op: 'add', path: '/data/x', value: variables.big})"}}),
        json!({"patchType": "JSONPatch", "jsonPatch": {"expression":
            "lists.range(9000).map(x, JSONPatch{op: 'remove', path: '/data/' + variables.big})"}}),
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
            "Object{data: Object.data{".to_owned()
                + &(0..60).map(|number| format!("k{number}: variables.big")).collect::<Vec<_>>().join(", ")
                + "}}"}}),
    ] {
        let spec = json!({"failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "matchConstraints": rules(), "variables": [{"name": "big", "expression": big}],
            "mutations": [mutation]});
        let policy = accepted(&mutatingadmissionpolicies(), &spec).expect("a valid policy");
        let world = world();
        let before = Object::of(world.object.clone());
        assert!(world.mutated(&policy) == before, "{spec}");
    }
}
