//! Policies over facts (HK-53 to HK-59, HK-84 to HK-90).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, FutureExt, ready};
use serde_json::{Map, Value as Json, json};

use super::Policy;
use super::metrics::ErrorType;
use super::validation::{Annotation, Validated, validate};
use crate::admission::hooks::answers::Asker;
use crate::admission::hooks::measured_conditions::{ConditionLabels, HookKind};
use crate::admission::hooks::scope::Facts;
use crate::api::cel::values::authorizer::{Decision, Request};

/// Allows the verb `get` on everything, and counts the questions.
#[derive(Default)]
struct AllowsGet(AtomicUsize);

impl Asker for AllowsGet {
    fn ask<'a>(&'a self, question: &'a Request) -> BoxFuture<'a, Decision> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let user = question.service_account.as_ref();
        ready(Decision {
            is_allowed: question.verb == "get",
            reason: user.map_or_else(String::new, |(namespace, name)| {
                format!("{namespace}:{name}")
            }),
            error: None,
        })
        .boxed()
    }
}

fn members(value: &Json) -> Map<String, Json> {
    value.as_object().cloned().unwrap()
}

/// Evaluates a policy with this spec over an object. Returns the outcome and the number of
/// questions.
async fn evaluated(spec: Json, object: &Json) -> (Validated, usize) {
    let text = json!({ "spec": spec }).to_string();
    let policy = Policy::read(text.as_bytes()).unwrap();
    let object = members(object);
    let request = json!({
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "operation": "CREATE", "dryRun": false, "options": null,
        "userInfo": {"username": "ada", "groups": ["crew"]},
    });
    let namespace = json!({"metadata": {"name": "n", "labels": {"a": "b"}}});
    let params = json!({"kind": "Limit", "max": 2});
    let facts = Facts {
        object: Some(&object),
        old_object: None,
        request: &request,
        namespace: &namespace,
        params: &params,
        permissions: Some((
            Arc::default(),
            Request {
                resource: "configmaps".to_owned(),
                ..Request::default()
            },
        )),
    };
    let asker = AllowsGet::default();
    let labels = ConditionLabels {
        name: "p",
        kind: HookKind::Policy,
        operation: "CREATE",
    };
    let validated = validate(&policy.spec, policy.compiled(), facts, &asker, &labels).await;
    (validated, asker.0.load(Ordering::Relaxed))
}

fn sample() -> Json {
    json!({"metadata": {"name": "a"}, "data": {"k": "v"}})
}

/// The messages of a policy that refuses.
async fn refusals(spec: Json) -> Vec<String> {
    let (validated, _) = evaluated(spec, &sample()).await;
    let decisions = validated.decisions.into_iter();
    decisions
        .filter(|decision| decision.is_denied)
        .map(|decision| decision.message)
        .collect()
}

/// The outcome of one expression: its refusal, or nothing if it holds.
async fn outcome(expression: &str) -> Option<String> {
    let spec = json!({"paramKind": {}, "validations": [{"expression": expression}]});
    refusals(spec).await.into_iter().next()
}

#[tokio::test]
async fn messages_are_computed_or_written_or_the_expression_hk_53() {
    for (validation, expected) in [
        (json!({}), "failed expression: false"),
        (json!({"message": " written "}), "written"),
        (
            json!({"message": "written", "messageExpression": "' computed '"}),
            "computed",
        ),
        (
            json!({"message": "written", "messageExpression": "'  '"}),
            "written",
        ),
        (
            json!({"message": "written", "messageExpression": "'a\\nb'"}),
            "written",
        ),
        (
            json!({"message": "written", "messageExpression": "object.none"}),
            "written",
        ),
        (
            json!({"messageExpression": "lists.range(600).map(x, '1234567890').join()"}),
            "failed expression: false",
        ),
        (
            json!({"messageExpression": "lists.range(500).map(x, '1').join()"}),
            &*"1".repeat(500),
        ),
        // A message may not ask about permissions (HK-84).
        (
            json!({"messageExpression": "string(authorizer.path('/x').check('get').allowed())"}),
            "failed expression: false",
        ),
    ] {
        let mut whole = json!({"expression": " false "});
        whole.as_object_mut().unwrap().extend(members(&validation));
        let found = refusals(json!({"validations": [whole]})).await;
        assert_eq!(found, [expected], "{validation}");
    }
}

#[tokio::test]
async fn messages_of_what_holds_cost_nothing_hk_53() {
    let long = "string(lists.range(90000).all(x, x >= 0))";
    let validations = vec![json!({"expression": "true", "messageExpression": long}); 40];
    assert!(
        refusals(json!({"validations": validations}))
            .await
            .is_empty()
    );
    let validations = vec![json!({"expression": "false", "messageExpression": long}); 40];
    let found = refusals(json!({"validations": validations})).await;
    assert_eq!(found.len(), 40);
    let spent = "failed messageExpression: validation failed due to running out of cost budget, no \
                 further validation rules will be run";
    assert_eq!(found.last().unwrap(), spent);
}

#[tokio::test]
async fn errors_refuse_unless_they_are_ignored_hk_55() {
    let validations = json!([
        {"expression": "object.none == 1"},
        {"expression": "false", "message": "no", "reason": "Forbidden"},
        {"expression": "true"},
    ]);
    let (validated, _) = evaluated(json!({"validations": validations}), &sample()).await;
    let error = "expression 'object.none == 1' resulted in error: no such key: none";
    let found: Vec<_> = validated
        .decisions
        .iter()
        .map(|one| {
            (
                one.place,
                one.is_denied,
                one.error,
                &*one.message,
                &*one.reason,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (0, true, ErrorType::Invalid, error, ""),
            (1, true, ErrorType::NoError, "no", "Forbidden"),
        ]
    );
    let ignoring = json!({"failurePolicy": "Ignore", "validations": validations});
    assert_eq!(refusals(ignoring).await, ["no"]);
}

#[tokio::test]
async fn conditions_skip_or_fail_a_policy_hk_13() {
    let with = |conditions: Json| json!({"matchConditions": conditions, "validations": [{"expression": "false"}]});
    let fails = json!({"name": "a", "expression": "object.none == 1"});
    let text = "expression 'object.none == 1' resulted in error: no such key: none";
    assert_eq!(
        refusals(with(json!([{"name": "a", "expression": "true"}]))).await,
        ["failed expression: false"]
    );
    let none: [&str; 0] = [];
    let unmet = json!({"name": "b", "expression": "'x' in object.data"});
    assert_eq!(refusals(with(json!([fails, unmet]))).await, none);
    assert_eq!(refusals(with(json!([fails]))).await, [text]);
    assert_eq!(
        refusals(with(json!([fails, fails]))).await,
        [format!("[{text}, {text}]")]
    );
    // They know no namespace (HK-84).
    let namespace = json!({"name": "a", "expression": "namespaceObject != null"});
    assert_eq!(refusals(with(json!([namespace]))).await, none);
}

#[tokio::test]
async fn variables_are_evaluated_at_their_first_use_hk_58() {
    let with = |variables: Json, expression: &str| {
        json!({"variables": variables, "validations": [
            {"expression": expression, "messageExpression": "string(variables.n)"}]})
    };
    let variables = json!([
        {"name": "n", "expression": "size(object.data)"},
        {"name": "m", "expression": "variables.n + 1"},
        {"name": "wrong", "expression": "object.none"},
        {"name": "nested", "expression": "variables.wrong"},
    ]);
    assert_eq!(
        refusals(with(variables.clone(), "variables.m == 3")).await,
        ["1"]
    );
    let none: [&str; 0] = [];
    for holds in [
        "variables.m == 2",
        "has(variables.m)",
        "variables.?m.orValue(0) == 2",
        "true || variables.wrong == 1",
        "variables.wrong == 1 || variables.m == 2",
        "[1, 2].all(x, variables.n == 1)",
    ] {
        assert_eq!(
            refusals(with(variables.clone(), holds)).await,
            none,
            "{holds}"
        );
    }
    let error = refusals(with(variables, "variables.nested == 1")).await;
    let text = "expression 'variables.nested == 1' resulted in error: composited variable \
                \"nested\" fails to evaluate: composited variable \"wrong\" fails to evaluate: no \
                such key: none";
    assert_eq!(error, [text]);
    // The later one of two with the same name wins.
    let twice = json!([
        {"name": "n", "expression": "1"}, {"name": "m", "expression": "variables.n"},
        {"name": "n", "expression": "2"},
    ]);
    assert_eq!(refusals(with(twice, "variables.m == 2")).await, none);
}

/// In Kubernetes such a policy ends the server.
#[tokio::test]
async fn variables_that_need_themselves_fail_hk_58() {
    let variables = json!([
        {"name": "n", "expression": "1"}, {"name": "n", "expression": "variables.n + 1"},
    ]);
    let spec = json!({"variables": variables, "validations": [{"expression": "variables.n == 2"}]});
    let found = refusals(spec).await;
    assert!(
        found[0].ends_with("too many variables need each other"),
        "{found:?}"
    );
    let mut chain = vec![json!({"name": "v0", "expression": "1"})];
    for number in 1..2000 {
        let before = number - 1;
        chain.push(
            json!({"name": format!("v{number}"), "expression": format!("variables.v{before}")}),
        );
    }
    let spec =
        |expression: &str| json!({"variables": chain, "validations": [{"expression": expression}]});
    assert!(refusals(spec("variables.v150 == 1")).await.is_empty());
    assert_eq!(refusals(spec("variables.v1999 == 1")).await.len(), 1);
}

#[tokio::test]
async fn equal_questions_are_asked_once_hk_89() {
    let check = "authorizer.group('').resource('pods').namespace('n').check('get').allowed()";
    let other = "authorizer.group('').resource('pods').check('delete').allowed()";
    let account = "authorizer.serviceAccount('n', 'a').path('/x').check('get').reason() == 'n:a'";
    let own = "authorizer.requestResource.check('get').allowed()";
    let spec = json!({"variables": [{"name": "may", "expression": check}], "validations": [
        {"expression": check}, {"expression": format!("!{other} && variables.may")},
        {"expression": format!("variables.may && {own}")}, {"expression": account},
    ]});
    let (validated, asked) = evaluated(spec, &sample()).await;
    assert_eq!(validated, Validated::default());
    assert_eq!(asked, 4);
    for (wrong, text) in [
        (
            "authorizer.path(' ').check('get').allowed()",
            "path must not be empty",
        ),
        (
            "authorizer.group('').resource('').check('get').allowed()",
            "resource must not be empty",
        ),
        (
            "authorizer.serviceAccount('N', 'a').path('/').check('get').allowed()",
            "Invalid service account namespace",
        ),
    ] {
        let expected = format!("expression '{wrong}' resulted in error: {text}");
        assert_eq!(outcome(wrong).await, Some(expected));
    }
}

/// An expression is evaluated again for each answer, and pays for the last evaluation alone.
#[tokio::test]
async fn a_question_costs_350000_once_hk_91() {
    let check = |verb: &str| format!("authorizer.path('/x').check('{verb}').allowed()");
    let two = format!("{} && !{}", check("get"), check("put"));
    assert_eq!(outcome(&two).await, None);
    let three = format!("{two} && !{}", check("post"));
    let expected = format!(
        "expression '{three}' resulted in error: operation cancelled: actual cost limit exceeded"
    );
    assert_eq!(outcome(&three).await, Some(expected));
    // 28 checks fit into the budget of all expressions, 29 do not.
    let checks = |count: usize| {
        let all = (0..count).map(|number| {
            json!({"expression": format!(
                "authorizer.path('/{number}').check('get').allowed()"
            )})
        });
        json!({"validations": all.collect::<Vec<_>>()})
    };
    assert!(refusals(checks(28)).await.is_empty());
    assert_eq!(
        refusals(checks(29)).await,
        [
            "validation failed due to running out of cost budget, no further validation rules will \
          be run"
        ]
    );
}

#[tokio::test]
async fn a_spent_budget_replaces_all_results_hk_90() {
    let long = json!({"expression": "lists.range(90000).all(x, x >= 0)"});
    let mut validations = vec![json!({"expression": "false"})];
    validations.extend(vec![long; 40]);
    let spent = "validation failed due to running out of cost budget, no further validation rules \
                 will be run";
    assert_eq!(refusals(json!({"validations": validations})).await, [spent]);
    let spec = json!({"failurePolicy": "Ignore", "validations": validations});
    assert!(refusals(spec).await.is_empty());
    // Variables are paid by the expression that uses them first.
    let variables: Vec<Json> = (0..40)
        .map(|number| {
            json!({"name": format!("v{number}"),
            "expression": "lists.range(90000).all(x, x >= 0)"})
        })
        .collect();
    let uses: Vec<Json> = (0..40)
        .map(|number| json!({"expression": format!("variables.v{number}")}))
        .collect();
    let spec = json!({"variables": variables, "validations": uses});
    assert_eq!(refusals(spec).await, [spent]);
    let same: Vec<Json> = (0..40)
        .map(|_| json!({"expression": "variables.v0"}))
        .collect();
    let spec = json!({"variables": variables, "validations": same});
    assert!(refusals(spec).await.is_empty());
}

#[tokio::test]
async fn audit_annotations_are_texts_or_null_hk_59() {
    let annotations = json!([
        {"key": "text", "valueExpression": "' ' + object.metadata.name"},
        {"key": "null", "valueExpression": "null"},
        {"key": "empty", "valueExpression": "' '"},
        {"key": "wrong", "valueExpression": "string(object.none)"},
        {"key": "silent", "valueExpression": "string(authorizer.path('/').check('get').allowed())"},
    ]);
    let (validated, asked) = evaluated(json!({"auditAnnotations": annotations}), &sample()).await;
    assert_eq!(asked, 0);
    let failed = |why: &str| Annotation::Failed {
        message: why.to_owned(),
        error: ErrorType::Invalid,
    };
    assert_eq!(
        validated.annotations,
        [
            Annotation::Publish {
                key: "text".to_owned(),
                value: "a".to_owned(),
            },
            failed("expression 'string(object.none)' resulted in error: no such key: none"),
            failed(
                "expression 'string(authorizer.path('/').check('get').allowed())' resulted in \
                 error: no such attribute(s): authorizer"
            ),
        ]
    );
    let spec = json!({"failurePolicy": "Ignore", "auditAnnotations": annotations});
    let (validated, _) = evaluated(spec, &sample()).await;
    assert_eq!(validated.annotations.len(), 1);
}

#[tokio::test]
async fn names_have_their_values_hk_84() {
    for holds in [
        "oldObject == null && params.kind == 'Limit'",
        "namespaceObject.metadata.labels['a'] == 'b'",
        "!has(namespaceObject.metadata.UID)",
        "!has(request.namespace) && request.kind.kind == 'ConfigMap'",
        "'crew' in request.userInfo.groups && !request.dryRun",
        "request.options == null",
    ] {
        assert_eq!(outcome(holds).await, None, "{holds}");
    }
    let absent = "expression 'request.namespace == ''' resulted in error: no such key: namespace";
    assert_eq!(outcome("request.namespace == ''").await.unwrap(), absent);
    let null = "expression 'oldObject.data == 1' resulted in error: no such key: data";
    assert_eq!(outcome("oldObject.data == 1").await.unwrap(), null);
}

/// The figures of kube-apiserver: how often a loop may do something with a text of 20,000
/// characters within the limit.
#[tokio::test]
async fn loops_over_a_long_text_run_as_often_as_in_kubernetes_hk_92() {
    let object = json!({"data": {"big": "a".repeat(20_000), "other": "a".repeat(20_000)}});
    for (body, most) in [
        ("!object.data.big.contains('zz')", 498),
        ("object.data.big == object.data.other", 497),
        ("size(object.data.big + 'x') > 0", 497),
        ("!object.data.big.matches('^a+b?c*$')", 249),
        ("size(object.data.big.replace('a', 'b')) > 0", 249),
        ("object.data.big.find('b') == ''", 498),
        ("size(object.data.big.split('b')) > 0", 249),
    ] {
        let run = async |count: usize| {
            let negated = body.replace("!object.data.big.matches", "object.data.big.matches");
            let expression = format!("lists.range({count}).all(x, {negated})");
            let spec = json!({"validations": [{"expression": expression}]});
            let (validated, _) = evaluated(spec, &object).await;
            validated.decisions.first().map(|one| one.message.clone())
        };
        assert_eq!(run(most).await, None, "{body}");
        let refused = run(most + 1).await.unwrap();
        assert!(
            refused.ends_with("actual cost limit exceeded"),
            "{body}: {refused}"
        );
    }
}
