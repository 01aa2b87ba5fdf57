//! Server-side apply and managedFields, as clients see them (http.md 4.5, 4.6).

use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon};
use crate::servers::etcd::Cluster;

const CONFIGMAP: &str = "/api/v1/namespaces/default/configmaps/a";

fn apply(manager: &str, data: &Value) -> Call {
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data,
    });
    let path = format!("{CONFIGMAP}?fieldManager={manager}");
    Call::new("PATCH", &path).body("application/apply-patch+yaml", body.to_string())
}

/// Manager, operation and fields of each entry, sorted by manager.
fn owners(object: &Value) -> Vec<(String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let owners = entries.into_iter().flatten().map(|entry| {
        let fields = entry["fieldsV1"].clone();
        (text(&entry["manager"]), text(&entry["operation"]), fields)
    });
    let mut owners: Vec<_> = owners.collect();
    owners.sort_by(|one, other| one.0.cmp(&other.0));
    owners
}

fn owner(manager: &str, operation: &str, data: &[&str]) -> (String, String, Value) {
    let fields = data.iter().map(|name| (format!("f:{name}"), json!({})));
    let fields = json!({ "f:data": Value::Object(fields.collect()) });
    (manager.to_owned(), operation.to_owned(), fields)
}

async fn applied(client: &Client, manager: &str, data: &Value, code: u16) -> Value {
    client.call(apply(manager, data)).await.expect(code)
}

/// API-172 to API-175, API-185.
#[tokio::test]
async fn applied_objects_conflict_share_and_prune() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let first = applied(&client, "one", &json!({ "a": "1", "b": "1" }), 201).await;
    assert_eq!(owners(&first), [owner("one", "Apply", &["a", "b"])]);
    let again = applied(&client, "one", &json!({ "a": "1", "b": "1" }), 200).await;
    assert_eq!(again, first);

    // The same value is shared.
    let shared = applied(&client, "two", &json!({ "a": "1" }), 200).await;
    let both = [
        owner("one", "Apply", &["a", "b"]),
        owner("two", "Apply", &["a"]),
    ];
    assert_eq!(owners(&shared), both);
    // Another one is a conflict, unless it is forced.
    let refused = client.call(apply("two", &json!({ "a": "2" }))).await;
    let refused = refused.refusal(409, "Conflict");
    assert_eq!(
        refused["message"],
        "Apply failed with 1 conflict: conflict with \"one\": .data.a"
    );
    assert_eq!(
        refused["details"]["causes"],
        json!([{ "reason": "FieldManagerConflict", "message": "conflict with \"one\"",
                 "field": ".data.a" }])
    );
    let forced = applied(&client, "two&force=true", &json!({ "a": "2" }), 200).await;
    let taken = [owner("one", "Apply", &["b"]), owner("two", "Apply", &["a"])];
    assert_eq!(owners(&forced), taken);
    assert_eq!(forced["data"], json!({ "a": "2", "b": "1" }));

    // An update takes fields over. Conflicts with it name the version.
    let path = format!("{CONFIGMAP}?fieldManager=three");
    let patch = Call::merge_patch(&path, &json!({ "data": { "b": "3" } }));
    let updated = client.call(patch).await.expect(200);
    let taken = [
        owner("three", "Update", &["b"]),
        owner("two", "Apply", &["a"]),
    ];
    assert_eq!(owners(&updated), taken);
    let refused = client.call(apply("two", &json!({ "b": "2" }))).await;
    let refused = refused.refusal(409, "Conflict");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.ends_with("\"three\" using v1: .data.b"),
        "{message}"
    );
    // What an applier leaves out goes.
    let pruned = applied(&client, "two", &json!({ "c": "2" }), 200).await;
    assert_eq!(pruned["data"], json!({ "b": "3", "c": "2" }));
    // A dry run stores nothing.
    applied(&client, "two&dryRun=All", &json!({ "d": "2" }), 200).await;
    let stored = client.call(Call::get(CONFIGMAP)).await.expect(200);
    assert_eq!(stored, pruned);
}

/// API-176, API-186, API-188, API-190.
#[tokio::test]
async fn managed_fields_are_tracked_and_can_be_reset() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let path = "/api/v1/namespaces/default/configmaps?fieldManager=creator";
    let body = json!({ "metadata": { "name": "a" }, "data": { "k": "1" } });
    let created = client.call(Call::post(path, &body)).await.expect(201);
    let fields = json!({ "f:data": { ".": {}, "f:k": {} } });
    let creator = ("creator".to_owned(), "Update".to_owned(), fields);
    assert_eq!(owners(&created), [creator]);

    // What can't be read counts as not sent.
    let entries = [
        json!([{ "manager": "x", "operation": "Own" }]),
        json!([{ "manager": "x", "operation": "Update", "apiVersion": "v1",
                 "fieldsType": "FieldsV1", "fieldsV1": { "k:{": {} } }]),
    ];
    for entries in entries {
        let patch = json!({ "metadata": { "managedFields": entries } });
        let answer = client.call(Call::merge_patch(CONFIGMAP, &patch)).await;
        assert_eq!(answer.expect(200), created);
    }
    let reset = json!({ "metadata": { "managedFields": [{}] } });
    let reset = client.call(Call::merge_patch(CONFIGMAP, &reset)).await;
    assert!(owners(&reset.expect(200)).is_empty());
    let patch = json!({ "data": { "l": "1" } });
    let patched = client.call(Call::merge_patch(CONFIGMAP, &patch)).await;
    assert!(owners(&patched.expect(200)).is_empty());
    let first = applied(&client, "applier", &json!({ "m": "1" }), 200).await;
    let fields = json!({ "f:data": { ".": {}, "f:k": {}, "f:l": {} } });
    let before = ("before-first-apply".to_owned(), "Update".to_owned(), fields);
    assert_eq!(owners(&first), [owner("applier", "Apply", &["m"]), before]);
}

/// API-188: a list that is given empty says that nobody manages the fields, in each kind of patch.
#[tokio::test]
async fn an_empty_list_resets_managed_fields() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for (name, kind) in [
        ("a", "merge-patch"),
        ("b", "strategic-merge-patch"),
        ("c", "json-patch"),
    ] {
        let path = format!("/api/v1/namespaces/default/configmaps?fieldManager={name}");
        let body = json!({ "metadata": { "name": name }, "data": { "k": "1" } });
        let created = client.call(Call::post(&path, &body)).await.expect(201);
        assert_eq!(owners(&created).len(), 1);
        let reset = match kind {
            "json-patch" => {
                json!([{ "op": "replace", "path": "/metadata/managedFields", "value": [] }])
            }
            _ => json!({ "metadata": { "managedFields": [] } }),
        };
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        let call = Call::new("PATCH", &path);
        let call = call.body(&format!("application/{kind}+json"), reset.to_string());
        let reset = client.call(call).await.expect(200);
        assert!(owners(&reset).is_empty(), "{kind}: {reset}");
    }
}

/// API-93, API-157: an object that etcd refuses for its size is stored without managedFields, but
/// for one that is applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_for_etcd_is_stored_without_managed_fields_api_93() {
    let starting = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = starting.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let daemon = Daemon::with(&[&servers]).await;
    let client = daemon.client();
    // With its managedFields it has 1.9 MB, of which etcd takes 1.5.
    let data = |value: &str| -> Value {
        let members = (0..60_000).map(|at| (format!("k{at:06}"), json!(value)));
        Value::Object(members.collect())
    };
    let body = |data: Value| json!({ "metadata": { "name": "a" }, "data": data });
    let path = format!("{CONFIGMAP}?fieldManager=one");
    let create = Call::post("/api/v1/namespaces/default/configmaps", &body(data("a")));
    let created = client.call(create).await.expect(201);
    assert_eq!(owners(&created), []);
    assert_eq!(client.call(Call::get(CONFIGMAP)).await.expect(200), created);

    for write in [
        Call::put(&path, &body(data("b"))),
        Call::new("PATCH", &path).body(
            "application/merge-patch+json",
            json!({ "data": data("c") }).to_string(),
        ),
    ] {
        client.call(Call::delete(CONFIGMAP)).await.expect(200);
        let small = applied(&client, "one", &json!({ "a": "1" }), 201).await;
        assert_eq!(owners(&small), [owner("one", "Apply", &["a"])]);
        let written = client.call(write).await.expect(200);
        assert_eq!(owners(&written), []);
    }

    client.call(Call::delete(CONFIGMAP)).await.expect(200);
    let refused = client.call(apply("one", &data("a"))).await;
    assert_eq!(refused.status.as_u16(), 500, "{}", refused.text());
    let refused: Value = serde_json::from_str(&refused.text()).unwrap();
    assert_eq!(refused["message"], "etcdserver: request is too large");
    assert_eq!(refused.get("reason"), None);
}

/// The names of an object's labels, and of those that its first owner has in a place.
fn labels(job: &Value, place: &str, owned: &str) -> (Vec<String>, Vec<String>) {
    let names = |map: Option<&Value>| {
        let map = map.and_then(Value::as_object).into_iter().flatten();
        let names: Vec<String> = map.map(|(name, _)| name.clone()).collect();
        names
    };
    let fields = &job["metadata"]["managedFields"][0]["fieldsV1"];
    (names(job.pointer(place)), names(fields.pointer(owned)))
}

/// API-231: in kube-apiserver the labels of a Job that has none are those of its template, as one
/// map.
#[tokio::test]
async fn the_labels_of_a_job_are_those_of_its_template_api_231() {
    const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
    const MADE: [&str; 4] = [
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
        "controller-uid",
        "job-name",
    ];
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let job = |metadata: Value, manual: bool, labels: Value| {
        let mut spec = json!({"template": {"metadata": {"labels": labels}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
        if manual {
            spec["manualSelector"] = true.into();
            spec["selector"] = json!({"matchLabels": labels});
        }
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    };
    let own = || json!({"a": "b"});
    let all = [&["a"], &MADE[..]].concat();
    let with = |name: &str, labels: Value| json!({"name": name, "labels": labels});
    for (metadata, manual, template, has, in_template, owns) in [
        (
            json!({"name": "one"}),
            false,
            own(),
            &all[..],
            &all[..],
            &["a"][..],
        ),
        (json!({"name": "two"}), true, own(), &["a"], &["a"], &["a"]),
        (
            json!({"name": "three"}),
            false,
            json!({}),
            &MADE,
            &MADE,
            &[],
        ),
        (with("four", own()), false, own(), &["a"], &all, &["a"]),
        (
            with("five", json!({"x": "y"})),
            false,
            own(),
            &["x"],
            &all,
            &["x"],
        ),
        (
            json!({"generateName": "six-"}),
            false,
            own(),
            &["a"],
            &all,
            &["a"],
        ),
        (
            json!({"generateName": "seven-"}),
            false,
            json!({}),
            &MADE,
            &MADE,
            &[],
        ),
    ] {
        let body = job(metadata, manual, template);
        let created = client.call(Call::post(JOBS, &body)).await.expect(201);
        let mut shown = labels(&created, "/metadata/labels", "/f:metadata/f:labels");
        shown.1.retain(|name| name != ".");
        let owns: Vec<String> = owns.iter().map(|name| format!("f:{name}")).collect();
        assert_eq!(shown.0, has, "{body}");
        assert_eq!(shown.1, owns, "{body}");
        let (shown, _) = labels(&created, "/spec/template/metadata/labels", "");
        assert_eq!(shown, in_template, "{body}");

        // Who applies owns what it says, and no labels that follow from it.
        let name = match body["metadata"]["name"].as_str() {
            Some(name) => format!("{name}-applied"),
            None => continue,
        };
        let mut body = body;
        body["metadata"]["name"] = name.as_str().into();
        let path = format!("{JOBS}/{name}?fieldManager=m");
        let call = Call::new("PATCH", &path).body("application/apply-patch+yaml", body.to_string());
        let applied = client.call(call).await.expect(201);
        let (shown, owned) = labels(&applied, "/metadata/labels", "/f:metadata/f:labels");
        assert_eq!(shown, has, "{body}");
        let says = body["metadata"].get("labels").and_then(Value::as_object);
        let says = says.into_iter().flatten();
        let says: Vec<String> = says.map(|(name, _)| format!("f:{name}")).collect();
        assert_eq!(owned, says, "{body}");
    }
    // A name that is no label is told of in both places, because it is in both.
    let body = job(json!({"name": "a".repeat(64)}), false, own());
    let refused = client
        .call(Call::post(JOBS, &body))
        .await
        .refusal(422, "Invalid");
    let causes = refused["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    let of_job = ["metadata.labels"; 2];
    assert_eq!(fields, [of_job, ["spec.template.labels"; 2]].concat());
}
