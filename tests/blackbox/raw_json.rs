//! Values that Kubernetes keeps as raw JSON texts: the data of ControllerRevisions, the parameters
//! of devices (API-254, D-45).

use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon};

const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

/// As kube-apiserver shows a value that was written with spaces and without escapes.
const WRITTEN: &str =
    r#"{"z":1.0, "a":"<é\u00e9\/", "b":1e3, "c":[12345678901234567890123, 2.50]}"#;
const SHOWN: &str = r#"{"z":1.0,"a":"\u003cé\u00e9\/","b":1e3,"c":[12345678901234567890123,2.50]}"#;

fn revision(data: &str) -> String {
    format!(r#"{{"metadata":{{"name":"a","labels":{{"of":"a"}}}},"data":{data},"revision":1}}"#)
}

async fn sent(client: &Client, method: &str, path: &str, (form, body): (&str, &str)) -> String {
    let answer = client
        .call(Call::new(method, path).body(form, body.to_owned()))
        .await;
    answer.text()
}

/// The text of the value behind a name, which is no longer than the one that is wanted.
fn shows(text: &str, name: &str, wanted: &str) {
    let begins = text.contains(&format!("\"{name}\":{wanted}"));
    assert!(begins, "no {wanted} in {text}");
}

#[tokio::test]
async fn the_text_of_json_is_kept() {
    for media_type in [JSON, "application/vnd.kubernetes.protobuf"] {
        let mut daemon = Daemon::with(&[&format!("--storage-media-type={media_type}")]).await;
        let client = daemon.client();
        let one = format!("{REVISIONS}/a");
        let body = revision(WRITTEN);
        let made = sent(&client, "POST", REVISIONS, (JSON, &body)).await;
        shows(&made, "data", SHOWN);
        daemon.kill().await;
        daemon.restart().await;
        let client = daemon.client();
        for path in [&one, REVISIONS] {
            let got = client.call(Call::get(path)).await;
            shows(&got.text(), "data", SHOWN);
        }
        let protobuf = "application/vnd.kubernetes.protobuf";
        let call = Call::get(&one).header("accept", protobuf);
        let got = client.call(call).await.body;
        assert!(String::from_utf8_lossy(&got).contains(SHOWN));
        // A body in protobuf has it, too.
        let call = Call::new("PUT", &one).body(protobuf, got);
        shows(&client.call(call).await.text(), "data", SHOWN);
        // What was read may be sent back. White space and escapes say nothing (D-45).
        for data in [SHOWN, WRITTEN] {
            let body = revision(data).replace(":1}", ":2}");
            shows(
                &sent(&client, "PUT", &one, (JSON, &body)).await,
                "data",
                SHOWN,
            );
        }
        let operations = r#"[{"op":"replace","path":"/metadata/labels/of","value":"b"}]"#;
        for patch in [(MERGE, r#"{"revision":3}"#), (OPERATIONS, operations)] {
            shows(&sent(&client, "PATCH", &one, patch).await, "data", SHOWN);
        }
        let apply = r#"{"apiVersion":"apps/v1","kind":"ControllerRevision",
            "metadata":{"name":"a","labels":{"of":"b"}},"revision":3}"#;
        let path = format!("{one}?fieldManager=b");
        shows(
            &sent(&client, "PATCH", &path, (APPLY, apply)).await,
            "data",
            SHOWN,
        );
    }
}

/// YAML, strategic merge patches and apply make maps of it. So a patch of anything may be refused.
#[tokio::test]
async fn what_becomes_a_map_is_printed_anew() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let one = format!("{REVISIONS}/a");
    let written = r#"{"z":1.0,"a":"<é","b":1e3,"d":{"y":1,"x":2}}"#;
    let anew = r#"{"a":"\u003cé","b":1000,"d":{"x":2,"y":1},"z":1}"#;
    let body = revision(written);
    let made = sent(
        &client,
        "POST",
        &format!("{REVISIONS}?dryRun=All"),
        (YAML, &body),
    )
    .await;
    shows(&made, "data", anew);
    sent(&client, "POST", REVISIONS, (JSON, &body)).await;
    let apply = r#"{"apiVersion":"apps/v1","kind":"ControllerRevision",
        "metadata":{"name":"a"},"revision":6}"#;
    for (form, patch) in [
        (STRATEGIC, r#"{"metadata":{"labels":{"of":"b"}}}"#),
        (APPLY, apply),
        // It is read to look into it.
        (
            OPERATIONS,
            r#"[{"op":"test","path":"/data/d/x","value":2}]"#,
        ),
    ] {
        let path = format!("{one}?fieldManager=b&force=true");
        let path = if form == APPLY { &path } else { &one };
        let refused = sent(&client, "PATCH", path, (form, patch)).await;
        assert!(refused.contains("data: Invalid value"), "{form}: {refused}");
        assert!(refused.contains("field is immutable"), "{form}: {refused}");
    }
    // Another order is another value.
    let body = revision(anew);
    let refused = sent(&client, "PUT", &one, (JSON, &body)).await;
    assert!(refused.contains("field is immutable"), "{refused}");
}

/// A claim with the same parameters in another order is another claim.
#[tokio::test]
async fn the_text_of_parameters_counts() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let body = |parameters: &str, labels: Value| {
        let spec = json!({"devices": {
            "requests": [{"name": "r", "exactly": {"deviceClassName": "x"}}],
            "config": [{"opaque": {"driver": "d.example.com", "parameters": "HERE"}}],
        }});
        let body = json!({"metadata": {"name": "a", "labels": labels}, "spec": spec});
        body.to_string().replace("\"HERE\"", parameters)
    };
    let text = r#"{"b":1.0,"a":2}"#;
    sent(&client, "POST", CLAIMS, (JSON, &body(text, json!({})))).await;
    let one = format!("{CLAIMS}/a");
    let put = body(text, json!({"a": "b"}));
    shows(
        &sent(&client, "PUT", &one, (JSON, &put)).await,
        "parameters",
        text,
    );
    let merge = (MERGE, r#"{"metadata":{"labels":{"a":"c"}}}"#);
    shows(
        &sent(&client, "PATCH", &one, merge).await,
        "parameters",
        text,
    );
    let other = body(r#"{"a":2,"b":1}"#, json!({}));
    for (method, form, body) in [
        ("PUT", JSON, &*other),
        ("PATCH", STRATEGIC, r#"{"metadata":{"labels":{"x":"y"}}}"#),
    ] {
        let refused = sent(&client, method, &one, (form, body)).await;
        assert!(refused.contains("field is immutable"), "{refused}");
    }
    // The status is another endpoint, which keeps the spec.
    let status = sent(&client, "PUT", &format!("{one}/status"), (JSON, &other)).await;
    shows(&status, "parameters", text);
}

/// A class may change: another text of its parameters raises its generation, and belongs to who
/// wrote it.
#[tokio::test]
async fn another_text_is_a_change() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let one = |manager: &str| format!("{CLASSES}/a?fieldManager={manager}");
    let body = |parameters: &str| {
        let config = json!([{"opaque": {"driver": "d.example.com", "parameters": "HERE"}}]);
        let body = json!({"metadata": {"name": "a"}, "spec": {"config": config}});
        body.to_string().replace("\"HERE\"", parameters)
    };
    let judged = |text: String, generation: u64, owner: &str, parameters: &str| {
        shows(&text, "parameters", parameters);
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["metadata"]["generation"], generation);
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        let mut entries = entries.iter();
        let is_owner = |entry: &&Value| entry["fieldsV1"]["f:spec"]["f:config"].is_object();
        let found = entries.find(is_owner).unwrap();
        assert_eq!(found["manager"], owner, "{text}");
    };
    let (text, other) = (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#);
    let path = format!("{CLASSES}?fieldManager=m1");
    let made = sent(&client, "POST", &path, (JSON, &body(text))).await;
    judged(made, 1, "m1", text);
    let same = sent(&client, "PUT", &one("m2"), (JSON, &body(text))).await;
    judged(same, 1, "m1", text);
    let put = sent(&client, "PUT", &one("m2"), (JSON, &body(other))).await;
    judged(put, 2, "m2", other);
    let put = sent(&client, "PUT", &one("m1"), (JSON, &body(text))).await;
    judged(put, 3, "m1", text);
    let patch = (STRATEGIC, r#"{"metadata":{"labels":{"x":"y"}}}"#);
    let patched = sent(&client, "PATCH", &one("m3"), patch).await;
    judged(patched, 4, "m3", other);
}
