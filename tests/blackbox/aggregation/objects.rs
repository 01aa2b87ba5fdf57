//! APIService objects (CN-1 to CN-7).

use serde_json::{Value, json};

use super::api_service;
use super::extension::APISERVICES;
use crate::harness::{Call, Daemon};

fn local(name: &str, group: &str, version: &str) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": name},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 1000,
            "versionPriority": 15},
    })
}

#[tokio::test]
async fn a_local_one_is_available_at_once_and_keeps_its_status_cn_5() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut body = local("v2.a.example", "a.example", "v2");
    body["status"] = json!({"conditions": [{"type": "Own", "status": "True"}]});
    let created = client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    let condition = &created["status"]["conditions"][0];
    assert_eq!(
        (
            &condition["type"],
            &condition["status"],
            &condition["reason"],
            &condition["message"]
        ),
        (
            &json!("Available"),
            &json!("True"),
            &json!("Local"),
            &json!("Local APIServices are always available")
        )
    );
    assert_eq!(created["status"]["conditions"].as_array().unwrap().len(), 1);
    assert!(created["metadata"].get("generation").is_none());

    let at = api_service("v2.a.example");
    let mut changed = body.clone();
    changed["spec"]["versionPriority"] = 14.into();
    let refused = client
        .call(Call::put(&at, &changed))
        .await
        .refusal(422, "Invalid");
    assert_eq!(refused["details"]["kind"], "apiservices");
    assert_eq!(
        refused["message"],
        "apiservices.apiregistration.k8s.io \"v2.a.example\" is invalid: \
         metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    changed["metadata"] = created["metadata"].clone();
    let updated = client.call(Call::put(&at, &changed)).await.expect(200);
    assert_eq!(updated["status"], created["status"]);
    assert_eq!(updated["spec"]["versionPriority"], 14);

    let patch = json!({"metadata": {"labels": {"c": "d"}}, "spec": {"versionPriority": 99},
        "status": {"conditions": [{"type": "Available", "status": "maybe"}]}});
    let status = format!("{at}/status");
    let refused = client.call(Call::merge_patch(&status, &patch)).await;
    let text = refused.refusal(422, "Invalid")["message"].to_string();
    assert!(text.contains("Unsupported value: \\\"maybe\\\""), "{text}");
    let patch = json!({"metadata": {"labels": {"c": "d"}}, "spec": {"versionPriority": 99},
        "status": {"conditions": [{"type": "Own", "status": "False"}]}});
    let patched = client
        .call(Call::merge_patch(&status, &patch))
        .await
        .expect(200);
    assert_eq!(patched["spec"]["versionPriority"], 14);
    assert!(patched["metadata"].get("labels").is_none());
}

#[tokio::test]
async fn mistakes_are_all_told_in_order_cn_2_cn_3() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let refused = async |body: &Value| {
        let answer = client.call(Call::post(APISERVICES, body)).await;
        let status = answer.refusal(422, "Invalid");
        let causes = status["details"]["causes"].as_array().unwrap().clone();
        let causes = causes.iter().map(|cause| {
            let text = |name: &str| cause[name].as_str().unwrap().to_owned();
            (text("field"), text("message"))
        });
        causes.collect::<Vec<_>>()
    };
    let mut body = local("v2.a.example", "a.example", "V1");
    body["spec"]["groupPriorityMinimum"] = 20_001.into();
    body["spec"]["versionPriority"] = 0.into();
    body["spec"]["caBundle"] = "YWJj".into();
    body["spec"]["insecureSkipTLSVerify"] = true.into();
    let causes = refused(&body).await;
    let fields: Vec<&str> = causes.iter().map(|(field, _)| field.as_str()).collect();
    let expected = [
        "metadata.name",
        "spec.version",
        "spec.groupPriorityMinimum",
        "spec.versionPriority",
        "spec.caBundle",
        "spec.insecureSkipTLSVerify",
    ];
    assert_eq!(fields, expected);
    assert!(
        causes[0]
            .1
            .ends_with("must be `spec.version+\".\"+spec.group`: \"V1.a.example\"")
    );
    assert!(
        causes[4]
            .1
            .contains("\"3 bytes\": local APIServices may not have a caBundle")
    );

    let mut body = local("v1.a.example", "a.example", "v1");
    body["spec"]["service"] = json!({"port": 65536});
    body["spec"]["caBundle"] = "bm9uZQ==".into();
    body["spec"]["insecureSkipTLSVerify"] = true.into();
    let causes = refused(&body).await;
    let fields: Vec<&str> = causes.iter().map(|(field, _)| field.as_str()).collect();
    let expected = [
        "spec.service.namespace",
        "spec.service.name",
        "spec.service.port",
        "spec.insecureSkipTLSVerify",
    ];
    assert_eq!(fields, expected);
    // Both limits are accepted, and no certificate is looked for.
    let mut body = local("v1.a.example", "a.example", "v1");
    body["spec"]["groupPriorityMinimum"] = 20_000.into();
    body["spec"]["versionPriority"] = 1000.into();
    body["spec"]["service"] = json!({"name": "none", "namespace": "default"});
    body["spec"]["caBundle"] = "bm9uZQ==".into();
    let created = client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    assert_eq!(created["spec"]["service"]["port"], 443);
    assert_eq!(created["status"], json!({}));
}

#[tokio::test]
async fn tables_and_selectors_show_what_kube_apiserver_shows_cn_6() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut body = local("v1.a.example", "a.example", "v1");
    body["spec"]["service"] = json!({"name": "none", "namespace": "default"});
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    let table = |path: String| {
        Call::get(&path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
    };
    let cells = |answer: Value, row: usize| {
        let cells = answer["rows"][row]["cells"].as_array().unwrap();
        cells[..3].to_vec()
    };
    let by_name = format!("{APISERVICES}?fieldSelector=metadata.name%3Dv1.apps");
    let listed = client.call(table(by_name)).await.expect(200);
    assert_eq!(cells(listed, 0), ["v1.apps", "Local", "True"]);
    let one = client
        .call(table(api_service("v1.a.example")))
        .await
        .expect(200);
    assert_eq!(cells(one, 0)[..2], ["v1.a.example", "default/none"]);
    let other = format!("{APISERVICES}?fieldSelector=spec.group%3Dapps");
    let refused = client
        .call(Call::get(&other))
        .await
        .refusal(400, "BadRequest");
    let text = refused["message"].as_str().unwrap();
    let expected = "\"spec.group\" is not a known field selector: only \"metadata.name\", \
                    \"metadata.namespace\"";
    assert!(text.contains(expected), "{text}");
    let deleted = client
        .call(Call::delete(&api_service("v1.a.example")))
        .await
        .expect(200);
    assert_eq!(deleted["kind"], "Status");
    assert!(deleted["details"]["uid"].is_string());
}
