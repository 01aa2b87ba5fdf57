//! Policies that cost much, grow objects, match too much or lose their parameters (HK-14, HK-51 to
//! HK-72, HK-90).

use serde_json::{Value, json};

use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Kubectl};

const GROUP: &str = super::GROUP;
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

fn constraints(group: &str, resource: &str, operations: &[&str]) -> Value {
    json!({"resourceRules": [{"apiGroups": [group], "apiVersions": ["*"],
        "resources": [resource], "operations": operations}]})
}

fn policy(name: &str, spec: &Value) -> Value {
    let mut whole =
        json!({"matchConstraints": constraints("", "configmaps", &["CREATE", "UPDATE"])});
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": whole})
}

async fn validate_by(client: &Client, name: &str, spec: &Value) {
    let path = format!("{GROUP}/validatingadmissionpolicies");
    client
        .call(Call::post(&path, &policy(name, spec)))
        .await
        .expect(201);
    let binding = json!({"metadata": {"name": name}, "spec": {
        "policyName": name, "validationActions": ["Deny"]}});
    client
        .call(Call::post(&bindings("validating"), &binding))
        .await
        .expect(201);
}

async fn mutate_by(client: &Client, name: &str, mutation: &Value) {
    let path = format!("{GROUP}/mutatingadmissionpolicies");
    let spec = json!({"reinvocationPolicy": "Never", "mutations": [mutation]});
    client
        .call(Call::post(&path, &policy(name, &spec)))
        .await
        .expect(201);
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    client
        .call(Call::post(&bindings("mutating"), &binding))
        .await
        .expect(201);
}

fn bindings(kind: &str) -> String {
    format!("{GROUP}/{kind}admissionpolicybindings")
}

async fn forget(client: &Client, kind: &str, name: &str) {
    for path in [bindings(kind), format!("{GROUP}/{kind}admissionpolicies")] {
        client
            .call(Call::delete(&format!("{path}/{name}")))
            .await
            .expect(200);
    }
}

async fn create(client: &Client, name: &str) -> (u16, String) {
    let body = json!({"metadata": {"name": name, "labels": {"a": "b"}},
        "data": {"big": "x".repeat(20_000), "quantity": "1Ki"}});
    let answer = client.call(Call::post(CONFIGMAPS, &body)).await;
    let message = answer.json()["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    (answer.status.as_u16(), message)
}

const OVER: &str = "operation cancelled: actual cost limit exceeded";
const SPENT: &str = "validation failed due to running out of cost budget, no further validation \
                     rules will be run";

/// HK-90, HK-93: expressions that cost much end at their budget, refuse or pass by failurePolicy,
/// and hold no other request up for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_that_cost_much_end_at_their_budget_hk_90() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let valid = |expression: &str| json!({"validations": [{"expression": expression}]});
    let loops = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, \
                 a + b + c >= 0)))";
    let strings = "lists.range(20000).map(i, object.data.big + string(i)).size() > 0";
    let doubled = "lists.range(1000).all(a, (object.data.big + object.data.big + object.data.big + \
                   object.data.big).matches('^(x+)+$'))";
    let pattern =
        "lists.range(5000).all(i, object.data.big.matches('(x*)*y' + string(i)) == false)";
    let quantities = "lists.range(200000).all(i, quantity(string(i) + 'Ki').isInteger())";
    let asking = "lists.range(10).all(i, authorizer.group('').resource('pods').name(string(i))\
                  .check('get').allowed())";
    let ten = vec![json!({"expression": "lists.range(90000).all(i, i >= 0)"}); 60];
    let variables: Vec<Value> = (0..1500)
        .map(|number| {
            let expression = match number {
                0 => "1".to_owned(),
                _ => format!("variables.v{} + 1", number - 1),
            };
            json!({"name": format!("v{number}"), "expression": expression})
        })
        .collect();
    let chained = json!({"variables": variables,
        "validations": [{"expression": "variables.v1499 > 0"}]});
    let flat: Vec<Value> = (0..1000)
        .map(
            |number| json!({"name": format!("v{number}"), "expression": "lists.range(900).size()"}),
        )
        .collect();
    let used: Vec<String> = (0..100)
        .map(|number| format!("variables.v{number} > 0"))
        .collect();
    let flat = json!({"variables": flat, "validations": [{"expression": used.join(" && ")}]});
    let message = json!({"validations": [{"expression": "false", "message": "short",
        "messageExpression": "lists.range(5000).map(i, object.data.big).join('')"}]});
    let mut faults = Vec::new();
    for (name, spec, text) in [
        ("loops", valid(loops), OVER),
        ("strings", valid(strings), OVER),
        ("doubled", valid(doubled), OVER),
        ("patterns", valid(pattern), OVER),
        ("quantities", valid(quantities), OVER),
        ("asking", valid(asking), OVER),
        ("all", json!({"validations": ten}), SPENT),
        ("chained", chained, "too many variables need each other"),
        ("flat", flat, ""),
        ("message", message, "denied request: short"),
    ] {
        let path = format!("{GROUP}/validatingadmissionpolicies");
        let made = client.call(Call::post(&path, &policy(name, &spec))).await;
        if made.status == 422 {
            // Refused when it is written: it costs nothing afterwards.
            faults.push(format!("{name}: {:.500}", made.text()));
            continue;
        }
        made.expect(201);
        let binding = json!({"metadata": {"name": name}, "spec": {
            "policyName": name, "validationActions": ["Deny"]}});
        client
            .call(Call::post(&bindings("validating"), &binding))
            .await
            .expect(201);
        let (code, said) = create(&client, name).await;
        let wanted = if text.is_empty() { 201 } else { 422 };
        if code != wanted || !said.contains(text) || said.len() > 50_000 {
            faults.push(format!("{name}: {code} {said:.300}"));
        }
        forget(&client, "validating", name).await;
    }
    assert!(faults.is_empty(), "{faults:#?}");
    let failed = "apiserver_validating_admission_policy_check_total";
    assert!(daemon.count(failed).await >= 9);
    assert_eq!(client.call(Call::get("/readyz")).await.status, 200);
}

/// HK-66, HK-68: mutations that grow an object end at its limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutations_that_grow_objects_end_at_their_limit_hk_66_hk_68() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let apply = |expression: &str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let patch = |expression: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    let fields = "Object{data: lists.range(5000).transformMapEntry(i, v, {'k' + string(i): 'v'})}";
    let grown = "Object{data: lists.range(5000).transformMapEntry(i, v, {'k' + string(i): \
                 object.data.big})}";
    let copies = "lists.range(400).map(i, JSONPatch{op: 'copy', from: '/data/big', \
                  path: '/data/c' + string(i)})";
    let values = "lists.range(4000).map(i, JSONPatch{op: 'add', path: '/data/c' + string(i), \
                  value: object.data.big})";
    let many = "lists.range(10001).map(i, JSONPatch{op: 'test', path: '/data/quantity', \
                value: '1Ki'})";
    let mut faults = Vec::new();
    let rest = daemon.peak();
    for (name, mutation, codes, text) in [
        ("fields", apply(fields), [201, 201], ""),
        ("grown", apply(grown), [403, 413], "too large"),
        (
            "copies",
            patch(copies),
            [403, 413],
            "accumulated size increase",
        ),
        ("values", patch(values), [403, 413], "too large"),
        (
            "many",
            patch(many),
            [403, 413],
            "The allowed maximum operations",
        ),
    ] {
        mutate_by(&client, name, &mutation).await;
        let (code, said) = create(&client, name).await;
        if !codes.contains(&code) || !said.contains(text) {
            faults.push(format!("{name}: {code} {said:.300}"));
        }
        forget(&client, "mutating", name).await;
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(daemon.peak() - rest < 256.0, "{} MiB", daemon.peak() - rest);
}

/// HK-51, HK-60: thousands of pairs of bindings and parameters are evaluated with the memory of the
/// parameters alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_bindings_and_parameters_share_their_objects_hk_51_hk_60() {
    const EACH: usize = 60;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let wide = json!({"matchConstraints": constraints("", "secrets", &["CREATE"]),
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "params.data.k != object.metadata.name"}],
        "auditAnnotations": [{"key": "a", "valueExpression": "string(params.metadata.name)"}]});
    let path = format!("{GROUP}/validatingadmissionpolicies");
    client
        .call(Call::post(&path, &policy("wide", &wide)))
        .await
        .expect(201);
    for number in 0..EACH {
        let body = json!({"metadata": {"name": format!("p-{number}")},
            "data": {"k": format!("no-{number}"), "big": "x".repeat(100_000)}});
        client.call(Call::post(CONFIGMAPS, &body)).await.expect(201);
        let binding = json!({"metadata": {"name": format!("b-{number}")}, "spec": {
            "policyName": "wide", "validationActions": ["Deny"],
            "paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"}}});
        client
            .call(Call::post(&bindings("validating"), &binding))
            .await
            .expect(201);
    }
    let rest = daemon.peak();
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = |name: &str| json!({"metadata": {"name": name}});
    client
        .call(Call::post(secrets, &secret("yes")))
        .await
        .expect(201);
    let refused = client.call(Call::post(secrets, &secret("no-7"))).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    // 60 bindings x 60 parameters of 100 kB are 360 MB.
    assert!(daemon.peak() - rest < 64.0, "{} MiB", daemon.peak() - rest);
    // Parameters that vanish are refused or not, as the bindings say.
    client.call(Call::delete(CONFIGMAPS)).await.expect(200);
    let refused = client.call(Call::post(secrets, &secret("none"))).await;
    let text = refused.text();
    assert!(
        refused.status == 422 && text.contains("no params found"),
        "{text:.300}"
    );
}

/// HK-57, HK-61: a kind of parameters that is deleted fails its policy by name, until it is back.
#[tokio::test]
async fn parameters_whose_definition_goes_fail_their_policy_hk_57() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let limits = "/apis/example.com/v1/limits";
    super::define(&client, "limits", "Limit", "Cluster", limits).await;
    let limit = json!({"apiVersion": "example.com/v1", "kind": "Limit",
        "metadata": {"name": "l"}, "spec": {"name": "no"}});
    client.call(Call::post(limits, &limit)).await.expect(201);
    let spec = json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"},
        "validations": [{"expression": "params.spec.name != object.metadata.name"}]});
    let path = format!("{GROUP}/validatingadmissionpolicies");
    client
        .call(Call::post(&path, &policy("limited", &spec)))
        .await
        .expect(201);
    let binding = json!({"metadata": {"name": "limited"}, "spec": {
        "policyName": "limited", "validationActions": ["Deny"],
        "paramRef": {"name": "l", "parameterNotFoundAction": "Deny"}}});
    client
        .call(Call::post(&bindings("validating"), &binding))
        .await
        .expect(201);
    assert_eq!(create(&client, "yes").await.0, 201);
    assert_eq!(create(&client, "no").await.0, 422);
    let one = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/limits.example.com";
    client.call(Call::delete(one)).await.expect(200);
    for _ in 0..6_000 {
        if client.call(Call::get(one)).await.status == 404 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let text = "failed to configure policy: failed to find resource referenced by paramKind: \
                'example.com/v1, Kind=Limit'";
    // Until the kind is not served any more, it has no objects, which refuses the request too.
    let mut said = (422, String::new());
    while !said.1.contains(text) {
        said = create(&client, "gone").await;
        assert_eq!(said.0, 422, "{}", said.1);
    }
    assert_eq!(client.call(Call::get("/readyz")).await.status, 200);
    super::define(&client, "limits", "Limit", "Cluster", limits).await;
    client.call(Call::post(limits, &limit)).await.expect(201);
    assert_eq!(create(&client, "yes-2").await.0, 201);
    assert_eq!(create(&client, "no").await.0, 422);
}

const PAGE: &str = include_str!("../../../docs/troubleshooting.md");

/// HK-14: the commands of the section "Locked out by a hook" of troubleshooting.md, in their order.
/// Hooks that refuse all that they are asked about are found and removed.
#[tokio::test]
async fn hooks_that_lock_a_cluster_out_are_found_and_removed_hk_14() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let all = json!({"matchConstraints": constraints("*", "*/*", &["*"]),
        "validations": [{"expression": "false", "message": "nobody"}]});
    for name in ["no-updates", "too-much"] {
        validate_by(&client, name, &all).await;
    }
    let everything = json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["*/*"], "operations": ["*"]}]});
    let hook = super::webhook(
        super::NAME,
        json!({"url": "https://127.0.0.1:1/x"}),
        &everything,
    );
    super::install(&client, false, "no-webhook", &json!([hook])).await;
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    let refused = client.call(Call::post(LEASES, &lease)).await;
    let text = "ValidatingAdmissionPolicy 'no-updates' with binding 'no-updates' denied request: \
                nobody";
    assert!(refused.text().contains(text), "{}", refused.text());
    assert_eq!(client.call(Call::get("/readyz")).await.status, 200);
    let (_, section) = PAGE.split_once("## Locked out by a hook").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let commands = section
        .lines()
        .filter_map(|line| line.strip_prefix("    kubectl "));
    let commands: Vec<&str> = commands.collect();
    assert_eq!(commands.len(), 5);
    let Some(kubectl) = Kubectl::find("1.36", &daemon) else {
        return;
    };
    let mut said = String::new();
    for command in commands {
        let (words, quoted) = command.split_once(" '").unwrap_or((command, ""));
        let mut arguments: Vec<&str> = words.split(' ').collect();
        arguments.extend(quoted.strip_suffix('\''));
        said.push_str(&kubectl.ok(&arguments).await);
    }
    for name in ["no-updates", "too-much", "no-webhook"] {
        assert!(said.contains(name), "{said}");
    }
    let made = client.call(Call::post(LEASES, &lease)).await;
    let warning = made.header("warning").unwrap().to_owned();
    assert!(warning.contains("nobody"), "{warning}");
    made.expect(201);
}
