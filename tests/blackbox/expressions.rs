//! Hostile expressions, in every field that takes expressions. The daemon refuses each with a
//! Status and keeps running.

use serde_json::{Value, json};

use crate::harness::{CONFIGMAPS, Call, Daemon, body};

/// What was once read on the stack without a bound, and what is deep in other ways.
const PARTS: [&str; 18] = [
    "]-", ")!", "}-", "?-", ",-", "-]", "*-", ":-", "in-", "&&!", "(", "[", "{1:", "a?b:", "a[",
    "f(", "-!", "[x,",
];

/// A place that takes an expression: the path of its resource, and an object with the expression.
type Place = (&'static str, fn(&str) -> Value);

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

fn definition(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// A policy with these members of its spec.
fn policy(kind: &str, members: &Value) -> Value {
    let mut spec = json!({
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"],
        }]},
        "validations": [{"expression": "true"}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}],
        "reinvocationPolicy": "Never",
    });
    let own = spec.as_object_mut().unwrap();
    let other = if kind == "MutatingAdmissionPolicy" {
        "validations"
    } else {
        "mutations"
    };
    own.remove(other);
    if other == "mutations" {
        own.remove("reinvocationPolicy");
    }
    own.extend(members.as_object().unwrap().clone());
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": "hostile"}, "spec": spec,
    })
}

fn validating(members: &Value) -> Value {
    policy("ValidatingAdmissionPolicy", members)
}

fn mutating(members: &Value) -> Value {
    policy("MutatingAdmissionPolicy", members)
}

fn webhook(kind: &str, expression: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": "hostile"},
        "webhooks": [{
            "name": "a.b.c", "clientConfig": {"url": "https://x/y"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "matchConditions": [{"name": "a", "expression": expression}],
        }],
    })
}

fn claim_spec(expression: &str) -> Value {
    let selector = json!({"cel": {"expression": expression}});
    json!({"devices": {"requests": [{
        "name": "a", "exactly": {"deviceClassName": "a", "selectors": [selector]},
    }]}})
}

/// A claim that names two ways to meet a request, the second of which has the expression.
fn claim_with_alternatives(expression: &str) -> Value {
    let selector = json!({"cel": {"expression": expression}});
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "hostile"},
        "spec": {"devices": {"requests": [{"name": "a", "firstAvailable": [
            {"name": "x", "deviceClassName": "a"},
            {"name": "y", "deviceClassName": "a", "selectors": [selector]},
        ]}]}},
    })
}

const PLACES: [Place; 16] = [
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        |text| definition(&json!({"type": "object", "x-kubernetes-validations": [{"rule": text}]})),
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        |text| {
            let rule = json!({"rule": "true", "messageExpression": text});
            definition(&json!({"type": "object", "x-kubernetes-validations": [rule]}))
        },
    ),
    ("validatingadmissionpolicies", |text| {
        validating(&json!({"validations": [{"expression": text}]}))
    }),
    ("validatingadmissionpolicies", |text| {
        let rule = json!({"expression": "true", "messageExpression": text});
        validating(&json!({"validations": [rule]}))
    }),
    ("validatingadmissionpolicies", |text| {
        validating(&json!({"variables": [{"name": "a", "expression": text}]}))
    }),
    ("validatingadmissionpolicies", |text| {
        validating(&json!({"matchConditions": [{"name": "a", "expression": text}]}))
    }),
    ("validatingadmissionpolicies", |text| {
        validating(&json!({"auditAnnotations": [{"key": "a", "valueExpression": text}]}))
    }),
    ("mutatingadmissionpolicies", |text| {
        let patch = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": text}});
        mutating(&json!({"mutations": [patch]}))
    }),
    ("mutatingadmissionpolicies", |text| {
        let apply = json!({"expression": text});
        let patch = json!({"patchType": "ApplyConfiguration", "applyConfiguration": apply});
        mutating(&json!({"mutations": [patch]}))
    }),
    ("mutatingadmissionpolicies", |text| {
        mutating(&json!({"variables": [{"name": "a", "expression": text}]}))
    }),
    ("validatingwebhookconfigurations", |text| {
        webhook("ValidatingWebhookConfiguration", text)
    }),
    ("mutatingwebhookconfigurations", |text| {
        webhook("MutatingWebhookConfiguration", text)
    }),
    ("/apis/resource.k8s.io/v1/deviceclasses", |text| {
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
            "metadata": {"name": "hostile"},
            "spec": {"selectors": [{"cel": {"expression": text}}]},
        })
    }),
    (
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        |text| {
            json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {"name": "hostile"}, "spec": claim_spec(text),
            })
        },
    ),
    (
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        claim_with_alternatives,
    ),
    (
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
        |text| {
            json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
                "metadata": {"name": "hostile"}, "spec": {"spec": claim_spec(text)},
            })
        },
    ),
];

fn dry_run((path, object): &Place, expression: &str) -> Call {
    let path = match path.starts_with('/') {
        true => (*path).to_owned(),
        false => format!("{REGISTRATION}/{path}"),
    };
    Call::post(&format!("{path}?dryRun=All"), &object(expression))
}

/// CRD-50: nothing that an expression says ends the daemon.
#[tokio::test]
async fn hostile_expressions_are_refused_wherever_they_stand() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for place in &PLACES {
        // The place is one where an expression is read.
        let answer = client.call(dry_run(place, "nothing.knows")).await;
        let status = answer.refusal(422, "Invalid");
        let message = status["message"].as_str().unwrap();
        assert!(
            message.contains("undeclared reference to 'nothing'"),
            "{message}"
        );
        for part in PARTS {
            let expression = part.repeat(3_400 / part.len());
            let answer = client.call(dry_run(place, &expression)).await;
            answer.refusal(422, "Invalid");
        }
    }
    // As long as an expression is read at all.
    for part in PARTS {
        let expression = part.repeat(100_000 / part.len());
        let answer = client.call(dry_run(&PLACES[0], &expression)).await;
        answer.refusal(422, "Invalid");
    }
    let call = Call::post(CONFIGMAPS, &body("alive", "1"));
    client.call(call).await.expect(201);
}

/// CRD-13: a definition whose checks would take seconds is refused with what to do.
#[tokio::test]
async fn a_definition_that_costs_too_much_is_refused_with_what_to_do() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut alternatives = vec![json!({"maximum": -1}); 800];
    alternatives.push(json!({"minimum": 0}));
    let items = json!({"type": "integer", "anyOf": alternatives});
    let list = json!({"type": "array", "items": items, "default": vec![1; 2500]});
    let properties = (0..40).map(|at| (format!("p{at}"), list.clone()));
    let properties: serde_json::Map<String, Value> = properties.collect();
    let object = definition(&json!({"type": "object", "properties": properties}));
    let call = Call::post(&format!("{}?dryRun=All", PLACES[0].0), &object);
    let status = client.call(call).await.refusal(422, "Invalid");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("default: Forbidden: takes too long to validate"),
        "{message}"
    );
    assert!(message.contains("use fewer or simpler"), "{message}");
}

fn object_of(properties: impl Iterator<Item = (String, Value)>) -> Value {
    let properties: serde_json::Map<String, Value> = properties.collect();
    json!({"type": "object", "properties": properties})
}

/// CRD-13: names above many types, many patterns and large ones, and defaults below long names take
/// memory in proportion to the body, and what was taken for one does not stay for the next.
#[tokio::test]
async fn a_definition_takes_memory_in_proportion_to_its_body() {
    const MIB: f64 = 1024.0 * 1024.0;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let path = format!("{}?dryRun=All", PLACES[0].0);
    let empty = json!({"type": "object"});
    let long = |length: usize| "n".repeat(length);
    let below_a_name = object_of((0..5000).map(|at| (format!("p{at}"), empty.clone())));
    let mut named = object_of([(long(200_000), below_a_name)].into_iter());
    named["x-kubernetes-validations"] = json!([{"rule": "true"}]);
    let pattern = |pattern: &str, default: &str| json!({"type": "string", "pattern": pattern, "default": default});
    let many = (0..20_000).map(|at| {
        (
            format!("p{at}"),
            pattern(&format!("^a{at}$"), &format!("a{at}")),
        )
    });
    let large = pattern(&"\\pL".repeat(500_000), "x");
    let items = json!({"type": "integer"});
    let list = json!({"type": "array", "items": items, "default": vec![1; 250_000]});
    for schema in [
        named,
        object_of(many),
        object_of([("p".to_owned(), large)].into_iter()),
        object_of([(long(250_000), list)].into_iter()),
    ] {
        let object = definition(&schema);
        let length = f64::from(u32::try_from(object.to_string().len()).unwrap());
        let before = daemon.peak();
        let answer = client.call(Call::post(&path, &object)).await;
        assert!(
            [201, 422].contains(&answer.status.as_u16()),
            "{}",
            answer.status
        );
        let grown = daemon.peak() - before;
        assert!(
            grown < 64.0 + 16.0 * length / MIB,
            "{grown} MiB for {length}"
        );
    }
}
