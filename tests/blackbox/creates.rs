//! New objects: names that are in use, the status that pods keep, exceeded quotas, and later
//! updates that change nothing.

use api::protobuf::write_document;
use kinds::types::TYPES;
use serde_json::{Value, json};

use crate::harness::{CONFIGMAPS, Call, Daemon, pod_spec};

/// API-97, API-199: who gives a name and what generated names begin with is told that none was
/// generated, and when to come again.
#[tokio::test]
async fn a_name_beside_a_base_of_names_that_is_taken_is_no_generated_one() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let spec = json!({ "selector": { "matchLabels": { "a": "b" } }, "template": {
        "metadata": { "labels": { "a": "b" } }, "spec": pod_spec() } });
    for (path, resource, spec) in [
        (CONFIGMAPS, "configmaps", Value::Null),
        ("/api/v1/namespaces", "namespaces", Value::Null),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            "deployments.apps",
            spec,
        ),
    ] {
        let mut object = json!({ "metadata": { "name": "taken", "generateName": "t-",
            "finalizers": ["example.com/stays"] } });
        if !spec.is_null() {
            object["spec"] = spec;
        }
        client.call(Call::post(path, &object)).await.expect(201);
        let text = format!(
            "{resource} \"taken\" already exists, the server was not able to generate a unique \
             name for the object"
        );
        for query in ["", "?dryRun=All"] {
            let again = Call::post(&format!("{path}{query}"), &object);
            let answer = client.call(again).await;
            assert_eq!(answer.header("retry-after"), Some("1"), "{path}{query}");
            let refused = answer.refusal(409, "AlreadyExists");
            assert_eq!(refused["message"], text);
            assert_eq!(refused["details"]["retryAfterSeconds"], 1);
            assert_eq!(refused["details"]["name"], "taken");
        }
        let mut plain = object.clone();
        plain["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("generateName");
        let refused = client.call(Call::post(path, &plain)).await;
        assert_eq!(refused.header("retry-after"), None, "{path}");
        let refused = refused.refusal(409, "AlreadyExists");
        assert_eq!(
            refused["message"],
            format!("{resource} \"taken\" already exists")
        );
        let one = format!("{path}/taken");
        client.call(Call::delete(&one)).await;
        let deleted = client.call(Call::post(path, &object)).await;
        let refused = deleted.refusal(409, "AlreadyExists");
        assert_eq!(
            refused["message"],
            format!("object is being deleted: {text}")
        );
    }
}

/// http.md 6.2: a new pod keeps the quality of service that its body names, and nothing else of its
/// status.
#[tokio::test]
async fn a_new_pod_keeps_the_quality_of_service_that_it_names() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let path = "/api/v1/namespaces/default/pods";
    for (place, (media_type, query)) in [
        ("application/json", ""),
        ("application/json", "?dryRun=All"),
        ("application/yaml", ""),
        ("application/vnd.kubernetes.protobuf", ""),
    ]
    .into_iter()
    .enumerate()
    {
        for (given, made) in [("Guaranteed", "Guaranteed"), ("", "BestEffort")] {
            let name = format!("p{place}{}", given.to_lowercase());
            let pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": name },
                "spec": pod_spec(),
                "status": { "phase": "Running", "message": "x", "qosClass": given,
                    "podIP": "1.2.3.4", "conditions": [{ "type": "Ready", "status": "True" }] } });
            let mut body = pod.to_string().into_bytes();
            if media_type.ends_with("protobuf") {
                let text = std::mem::take(&mut body);
                assert!(write_document(&TYPES, &text, &mut body));
            }
            let call = Call::new("POST", &format!("{path}{query}")).body(media_type, body);
            let created = client.call(call).await.expect(201);
            let status = json!({ "phase": "Pending", "qosClass": made });
            assert_eq!(created["status"], status, "{media_type}{query}");
            let owners = created["metadata"]["managedFields"].to_string();
            assert!(!owners.contains("f:status"), "{owners}");
        }
    }
    let applied = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "applied" },
        "spec": pod_spec(), "status": { "phase": "Running", "qosClass": "Burstable" } });
    let apply = Call::new("PATCH", &format!("{path}/applied?fieldManager=m"));
    let apply = apply.body("application/apply-patch+yaml", applied.to_string());
    let created = client.call(apply).await.expect(201);
    assert_eq!(created["status"]["qosClass"], "Burstable");
    assert_eq!(created["status"]["phase"], "Pending");
}

/// D-90.
#[tokio::test]
async fn a_quantity_in_another_spelling_changes_nothing() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let autoscaler = |value: &str| {
        let target = json!({ "type": "AverageValue", "averageValue": value });
        json!({ "metadata": { "name": "a" }, "spec": {
            "maxReplicas": 2,
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" },
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu", "target": target } }],
        } })
    };
    let create = Call::post(&format!("{path}?fieldManager=one"), &autoscaler("1"));
    let created = client.call(create).await.expect(201);
    let put = format!("{path}/a?fieldManager=other");
    let same = client.call(Call::put(&put, &autoscaler("1000m"))).await;
    assert_eq!(same.expect(200), created);
    let changed = client.call(Call::put(&put, &autoscaler("1001m"))).await;
    let changed = changed.expect(200);
    assert_ne!(
        changed["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );
    let owners = changed["metadata"]["managedFields"].as_array().unwrap();
    let of_metrics = owners.iter().filter(|owner| {
        let spec = &owner["fieldsV1"]["f:spec"];
        spec.get("f:metrics").is_some()
    });
    let names: Vec<_> = of_metrics.map(|owner| &owner["manager"]).collect();
    assert_eq!(names, ["other"]);
}

/// D-91, API-265.
#[tokio::test]
async fn of_several_quotas_the_first_by_name_is_told() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    for name in ["q", "be", "z"] {
        let quota = json!({ "metadata": { "name": name },
            "spec": { "hard": { "count/secrets": "0" } } });
        client.call(Call::post(quotas, &quota)).await.expect(201);
        let mut status = quota.clone();
        status["status"] = json!({ "hard": { "count/secrets": "0" },
            "used": { "count/secrets": "0" } });
        let path = format!("{quotas}/{name}/status");
        client.call(Call::put(&path, &status)).await.expect(200);
    }
    for query in ["", "?dryRun=All"] {
        let path = format!("/api/v1/namespaces/default/secrets{query}");
        let secret = json!({ "metadata": { "name": "a" } });
        let refused = client.call(Call::post(&path, &secret)).await;
        let refused = refused.refusal(403, "Forbidden");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("exceeded quota: be,"), "{message}");
    }
}

/// API-173, API-255: what autoscaling/v2 fills in is no reason to drop what autoscaling/v1 said.
#[tokio::test]
async fn an_apply_as_v2_without_metrics_keeps_what_v1_applied() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" });
    let mut spec = json!({ "maxReplicas": 3, "scaleTargetRef": target });
    let apply = async |version: &str, spec: &Value| {
        let api_version = format!("autoscaling/{version}");
        let body = json!({ "apiVersion": api_version, "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "a" }, "spec": spec });
        let path = format!(
            "/apis/{api_version}/namespaces/default/horizontalpodautoscalers/a?fieldManager=m"
        );
        let call = Call::new("PATCH", &path);
        let call = call.body("application/apply-patch+yaml", body.to_string());
        client.call(call).await
    };
    let without = spec.clone();
    spec["targetCPUUtilizationPercentage"] = 50.into();
    apply("v1", &spec).await.expect(201);
    let shown = apply("v2", &without).await.expect(200);
    let metric = &shown["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(metric["averageUtilization"], 50, "{shown}");
}
