//! Admission policies as their users see them (hooks.md sections 7 to 10 and 14).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::client::Answer;
use crate::harness::{AS_INSTALLED, CONFIGMAPS, Call, Client, Daemon, configmap, deployment};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SOON: Duration = Duration::from_secs(20);

/// Everything but what the daemon itself needs.
fn everything() -> Value {
    json!({
        "resourceRules": [{
            "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"],
        }],
        "excludeResourceRules": [{
            "apiGroups": ["coordination.k8s.io", ""], "apiVersions": ["*"],
            "resources": ["leases", "namespaces"], "operations": ["*"],
        }],
    })
}

fn validating(name: &str, spec: &Value) -> Value {
    let mut whole = json!({"matchConstraints": everything()});
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().cloned().unwrap());
    json!({"metadata": {"name": name}, "spec": whole})
}

/// Creates a validating policy with a binding that has these actions.
async fn validate_by(client: &Client, name: &str, actions: &[&str], spec: &Value) {
    let policies = format!("{GROUP}/validatingadmissionpolicies");
    let bindings = format!("{GROUP}/validatingadmissionpolicybindings");
    let policy = validating(name, spec);
    client
        .call(Call::post(&policies, &policy))
        .await
        .expect(201);
    let binding = json!({"metadata": {"name": name}, "spec": {
        "policyName": name, "validationActions": actions}});
    client
        .call(Call::post(&bindings, &binding))
        .await
        .expect(201);
}

/// Creates a mutating policy with a binding.
async fn mutate_by(client: &Client, name: &str, condition: &str, mutations: &Value) {
    let mut constraints = everything();
    constraints["resourceRules"][0]["operations"] = json!(["CREATE", "UPDATE", "CONNECT"]);
    let policy = json!({"metadata": {"name": name}, "spec": {
        "reinvocationPolicy": "Never", "matchConstraints": constraints,
        "matchConditions": [{"name": "c", "expression": condition}], "mutations": mutations}});
    let policies = format!("{GROUP}/mutatingadmissionpolicies");
    client
        .call(Call::post(&policies, &policy))
        .await
        .expect(201);
    let bindings = format!("{GROUP}/mutatingadmissionpolicybindings");
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    client
        .call(Call::post(&bindings, &binding))
        .await
        .expect(201);
}

fn applying(expression: &str) -> Value {
    json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}])
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

fn message(answer: Answer, status: u16) -> String {
    let body = answer.expect(status);
    body["message"].as_str().unwrap().to_owned()
}

/// HK-18: a binding counts for the next request after its acknowledgement, and its end, too.
#[tokio::test]
async fn policies_count_with_their_acknowledgement_hk_18() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let binding = format!("{GROUP}/validatingadmissionpolicybindings/p");
    let policy = format!("{GROUP}/validatingadmissionpolicies/p");
    for round in 0..10 {
        let spec = json!({"validations": [{"expression": "false", "message": format!("{round}")}]});
        validate_by(&client, "p", &["Deny"], &spec).await;
        let refused = client.call(Call::post(CONFIGMAPS, &named("a"))).await;
        let expected = format!(
            "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied \
             request: {round}"
        );
        assert_eq!(message(refused, 422), expected);
        client.call(Call::delete(&binding)).await.expect(200);
        client
            .call(Call::post(CONFIGMAPS, &named("a")))
            .await
            .expect(201);
        client.call(Call::delete(&configmap("a"))).await.expect(200);
        client.call(Call::delete(&policy)).await.expect(200);
    }
}

/// HK-14: a policy that refuses everything can be deleted, and reviews are answered.
#[tokio::test]
async fn no_policy_locks_the_cluster_up_hk_14() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let spec = json!({"validations": [{"expression": "false"}]});
    validate_by(&client, "p", &["Deny"], &spec).await;
    client
        .call(Call::post(CONFIGMAPS, &named("a")))
        .await
        .expect(422);
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    client.call(Call::post(reviews, &review)).await.expect(201);
    let policy = format!("{GROUP}/validatingadmissionpolicies/p");
    client.call(Call::delete(&policy)).await.expect(200);
    client
        .call(Call::post(CONFIGMAPS, &named("a")))
        .await
        .expect(201);
}

#[tokio::test]
async fn managed_fields_are_seen_by_policies_that_name_them_hk_84() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let text =
        "string(size(object.metadata.managedFields)) + object.metadata.managedFields[0].manager";
    let spec = json!({"validations": [
        {"expression": "size(object.metadata.managedFields) == 7", "messageExpression": text}]});
    validate_by(&client, "p", &["Deny"], &spec).await;
    let path = format!("{CONFIGMAPS}?fieldManager=me");
    let refused = message(client.call(Call::post(&path, &named("a"))).await, 422);
    assert!(refused.ends_with("denied request: 1me"), "{refused}");
}

/// HK-56, HK-96: the actions of a binding, and their counters.
#[tokio::test]
async fn warnings_and_refusals_are_counted_hk_56_hk_96() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let spec = json!({"validations": [
        {"expression": "false", "message": "one"}, {"expression": "object.data.none == 1"}],
        "matchConditions": [{"name": "c", "expression": "request.resource.resource == 'configmaps'"}]});
    validate_by(&client, "warns", &["Warn", "Audit"], &spec).await;
    let answer = client.call(Call::post(CONFIGMAPS, &named("a"))).await;
    let warnings = answer.headers.get_all("warning").iter();
    let warnings: Vec<&str> = warnings.map(|value| value.to_str().unwrap()).collect();
    let start = "299 - \"Validation failed for ValidatingAdmissionPolicy 'warns' with binding \
                 'warns': ";
    let error = "expression 'object.data.none == 1' resulted in error: no such key: none";
    assert_eq!(
        warnings,
        [format!("{start}one\""), format!("{start}{error}\"")]
    );
    answer.expect(201);
    validate_by(&client, "denies", &["Deny"], &spec).await;
    client
        .call(Call::post(CONFIGMAPS, &named("b")))
        .await
        .expect(422);
    let page = client.call(Call::get("/metrics")).await.text();
    for labels in [
        r#"enforcement_action="warn",error_type="invalid_error",policy="warns",policy_binding="warns"} 4"#,
        r#"enforcement_action="audit",error_type="invalid_error",policy="warns",policy_binding="warns"} 4"#,
        r#"enforcement_action="deny",error_type="invalid_error",policy="denies",policy_binding="denies"} 2"#,
    ] {
        let wanted: Vec<&str> = labels.split(['{', ',', '}']).collect();
        let found = page
            .lines()
            .filter(|line| line.starts_with("apiserver_validating_admission_policy_check_total{"))
            .any(|line| wanted.iter().all(|part| line.contains(part.trim())));
        assert!(found, "{labels}\n{page}");
    }
    assert!(page.contains("apiserver_cel_evaluation_duration_seconds"));
}

/// HK-97: the first validation that fails, and the annotations of a policy.
#[tokio::test]
async fn audit_events_have_annotations_of_policies_hk_59_hk_97() {
    let folder = tempfile::tempdir().unwrap();
    let (rules, log) = (folder.path().join("rules"), folder.path().join("log"));
    let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
        {"level": "Metadata", "resources": [{"group": "", "resources": ["configmaps"]}]},
        {"level": "None"}]});
    std::fs::write(&rules, policy.to_string()).unwrap();
    let rules = format!("--audit-policy-file={}", rules.display());
    let path = format!("--audit-log-path={}", log.display());
    let mut daemon = Daemon::with(&[&rules, &path]).await;
    let client = daemon.client();
    let spec = json!({
        "validations": [{"expression": "true"}, {"expression": "false", "message": "a < b"}],
        "auditAnnotations": [{"key": "name", "valueExpression": "string(object.metadata.name)"}],
        "matchConditions": [{"name": "c", "expression": "request.resource.resource == 'configmaps'"}],
    });
    validate_by(&client, "p", &["Audit"], &spec).await;
    client
        .call(Call::post(CONFIGMAPS, &named("a")))
        .await
        .expect(201);
    daemon.stop(rustix::process::Signal::TERM).await;
    let events = std::fs::read_to_string(&log).unwrap();
    let events: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let event = events
        .iter()
        .find(|event| event["verb"] == "create" && event["stage"] == "ResponseComplete")
        .unwrap();
    let annotations = &event["annotations"];
    assert_eq!(annotations["p/name"], "a");
    assert_eq!(
        annotations["validation.policy.admission.k8s.io/validation_failure"],
        "[{\"message\":\"a \\u003c b\",\"policy\":\"p\",\"binding\":\"p\",\"expressionIndex\":1,\
         \"validationActions\":[\"Audit\"]}]"
    );
}

/// HK-72: Scales and parts of objects are mutated as what their requests contain.
#[tokio::test]
async fn scales_and_parts_are_mutated_hk_72() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client
        .call(Call::post(DEPLOYMENTS, &deployment("d")))
        .await
        .expect(201);
    let more = applying("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}");
    mutate_by(&client, "scale", "request.kind.kind == 'Scale'", &more).await;
    let scale = format!("{DEPLOYMENTS}/d/scale");
    let three = json!({"spec": {"replicas": 3}});
    let scaled = client
        .call(Call::merge_patch(&scale, &three))
        .await
        .expect(200);
    assert_eq!(scaled["spec"]["replicas"], 4);
    let both = applying(
        "Object{metadata: Object.metadata{annotations: {'via': 'status'}}, spec: Object.spec{replicas: \
         9}, status: Object.status{replicas: 7}}",
    );
    let condition = "has(request.subResource) && request.subResource == 'status'";
    mutate_by(&client, "status", condition, &both).await;
    let status = format!("{DEPLOYMENTS}/d/status");
    let one = json!({"status": {"replicas": 1}});
    let changed = client
        .call(Call::merge_patch(&status, &one))
        .await
        .expect(200);
    assert_eq!(changed["status"]["replicas"], 7);
    assert_eq!(changed["spec"]["replicas"], 4);
    assert_eq!(changed["metadata"]["annotations"]["via"], "status");
}

/// HK-66, HK-71: an eviction can't be merged.
#[tokio::test]
async fn kinds_without_a_schema_are_not_merged_hk_71() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]}});
    client.call(Call::post(pods, &pod)).await.expect(201);
    let labels = applying("Object{metadata: Object.metadata{labels: {'a': 'b'}}}");
    mutate_by(&client, "p", "request.kind.kind == 'Eviction'", &labels).await;
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let refused = client
        .call(Call::post(&format!("{pods}/p/eviction"), &eviction))
        .await;
    assert_eq!(
        message(refused, 403),
        "policy 'p' with binding 'p' denied request: error applying patch: failed to convert \
         patch object to typed object: no corresponding type for policy/v1, Kind=Eviction"
    );
}

/// HK-66, HK-68, HK-70: custom resources are merged and patched by their schemas.
#[tokio::test]
async fn custom_resources_are_mutated_by_their_schemas_hk_66_hk_68() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "string"}},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"],
            "properties": {"k": {"type": "string"}, "v": {"type": "integer", "default": 3}}}},
        "n": {"type": "integer"}}}}});
    let definition = json!({"metadata": {"name": "ms.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "ms", "singular": "m", "kind": "M", "listKind": "MList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client
        .call(Call::post(definitions, &definition))
        .await
        .expect(201);
    let path = "/apis/example.com/v1/namespaces/default/ms";
    let began = Instant::now();
    while client.call(Call::get(path)).await.status != 200 {
        assert!(began.elapsed() < SOON, "the resource is not served");
    }
    for (name, mutations) in [
        (
            "set",
            applying("Object{spec: Object.spec{set: ['b'], keyed: [Object.spec.keyed{k: 'a'}]}}"),
        ),
        ("list", applying("Object{spec: Object.spec{list: ['b']}}")),
        (
            "none",
            applying("Object{spec: Object.spec{?n: optional.none(), none: 1}}"),
        ),
        ("type", applying("Object{spec: Object.spec{n: 'x'}}")),
        (
            "patch",
            json!([{"patchType": "JSONPatch", "jsonPatch": {"expression":
            "[JSONPatch{op: 'add', path: '/spec/none', value: 1}, JSONPatch{op: 'add', path: \
             '/spec/keyed', value: [Object.spec.keyed{k: 'z'}]}]"}}]),
        ),
    ] {
        let condition = format!("request.kind.kind == 'M' && object.metadata.name == '{name}'");
        mutate_by(&client, name, &condition, &mutations).await;
    }
    let create = async |name: &str| {
        let object = json!({"apiVersion": "example.com/v1", "kind": "M",
            "metadata": {"name": name}, "spec": {"set": ["a"], "keyed": [{"k": "b"}]}});
        client.call(Call::post(path, &object)).await
    };
    assert_eq!(
        create("set").await.expect(201)["spec"],
        json!({"set": ["a", "b"], "keyed": [{"k": "b", "v": 3}, {"k": "a", "v": 3}]})
    );
    assert_eq!(
        create("patch").await.expect(201)["spec"],
        json!({"set": ["a"], "keyed": [{"k": "z", "v": 3}]})
    );
    let start = "denied request: error applying patch: ";
    for (name, text) in [
        (
            "list",
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.list",
        ),
        (
            "none",
            "failed to convert patch object to typed object: .spec.none: field not declared in schema",
        ),
        (
            "type",
            "failed to convert patch object to typed object: .spec.n: expected numeric (int or float), got string",
        ),
    ] {
        let found = message(create(name).await, 403);
        assert!(found.ends_with(&format!("{start}{text}")), "{found}");
    }
}

/// HK-3, HK-29: what a policy sets belongs to nobody, and it sees what those before it did.
#[tokio::test]
async fn what_a_policy_sets_belongs_to_nobody_hk_3() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mutations = applying("Object{metadata: Object.metadata{labels: {'by': 'policy'}}}");
    mutate_by(
        &client,
        "p",
        "request.resource.resource == 'configmaps'",
        &mutations,
    )
    .await;
    let path = format!("{CONFIGMAPS}?fieldManager=me");
    let created = client
        .call(Call::post(&path, &named("a")))
        .await
        .expect(201);
    assert_eq!(created["metadata"]["labels"], json!({"by": "policy"}));
    let managed = created["metadata"]["managedFields"].to_string();
    assert!(
        managed.contains("f:data") && !managed.contains("f:labels"),
        "{managed}"
    );
}

/// HK-76: warnings about types are shown in the status, and a changed policy is checked again.
#[tokio::test]
async fn types_are_checked_in_the_status_hk_76() {
    let daemon = Daemon::with(&[AS_INSTALLED]).await;
    let client = daemon.client();
    let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"],
        "resources": ["deployments"], "operations": ["CREATE"]}]);
    let with = |expression: &str| {
        json!({"metadata": {"name": "p"}, "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": expression}]}})
    };
    let policies = format!("{GROUP}/validatingadmissionpolicies");
    let policy = format!("{policies}/p");
    let checked = async |generation: i64| {
        let began = Instant::now();
        loop {
            let found = client.call(Call::get(&policy)).await.expect(200);
            if found["status"]["observedGeneration"] == generation {
                return found["status"]["typeChecking"].clone();
            }
            assert!(began.elapsed() < SOON, "{found}");
        }
    };
    let wrong = with("object.spec.replica > 1");
    client.call(Call::post(&policies, &wrong)).await.expect(201);
    let text = "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n | \
                object.spec.replica > 1\n | ...........^\n";
    assert_eq!(
        checked(1).await,
        json!({"expressionWarnings": [
            {"fieldRef": "spec.validations[0].expression", "warning": text}]})
    );
    let right = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 1"}]}});
    client
        .call(Call::merge_patch(&policy, &right))
        .await
        .expect(200);
    assert_eq!(checked(2).await, json!({}));
}

/// HK-89: questions about permissions are asked for the user of the request.
#[tokio::test]
async fn the_authorizer_is_asked_for_the_user_hk_89() {
    let daemon = Daemon::with_users("ada-token,ada,ada,\"\"", &[]).await;
    let client = daemon.client();
    let check = "authorizer.group('').resource('secrets').check('list').allowed()";
    let own = "authorizer.requestResource.check('create').allowed()";
    let spec = json!({"validations": [{"expression": check, "message": "no secrets"},
        {"expression": own, "message": "no create"}]});
    validate_by(&client, "p", &["Deny"], &spec).await;
    client
        .call(Call::post(CONFIGMAPS, &named("admin")))
        .await
        .expect(201);
    let role = json!({"metadata": {"name": "r"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    client
        .call(Call::post(&format!("{rbac}/clusterroles"), &role))
        .await
        .expect(201);
    let binding = json!({"metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}]});
    client
        .call(Call::post(&format!("{rbac}/clusterrolebindings"), &binding))
        .await
        .expect(201);
    let ada = daemon.target().with_token("ada-token").client();
    let refused = message(ada.call(Call::post(CONFIGMAPS, &named("ada"))).await, 422);
    assert!(refused.ends_with("no secrets"), "{refused}");
}
