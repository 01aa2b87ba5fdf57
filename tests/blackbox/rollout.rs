//! `kubectl rollout history` and `undo`, in each tested version. No controller creates revisions
//! here, so the tests create ReplicaSets and ControllerRevisions as a controller would.

use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon, Kubectl};

const APPS: &str = "/apis/apps/v1/namespaces/default";
const REVISION: &str = "deployment.kubernetes.io/revision";

fn template(image: &str) -> Value {
    let containers = json!([{ "name": "till", "image": image }]);
    json!({ "metadata": { "labels": { "app": "till" } }, "spec": { "containers": containers } })
}

/// A workload whose pods have the image of revision 2, and two sidecars.
async fn workload(client: &Client, plural: &str, kind: &str) -> Value {
    let mut template = template("till:2");
    let containers = template["spec"]["containers"].as_array_mut().unwrap();
    containers.push(json!({ "name": "log", "image": "log:2" }));
    let object = json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": { "name": "till", "annotations": { REVISION: "2" } },
        "spec": { "selector": { "matchLabels": { "app": "till" } }, "template": template },
    });
    let call = Call::post(&format!("{APPS}/{plural}"), &object);
    client.call(call).await.expect(201)
}

fn owned(owner: &Value, name: &str) -> Value {
    json!({
        "name": name, "labels": { "app": "till" },
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": owner["kind"], "name": "till",
            "uid": owner["metadata"]["uid"], "controller": true,
        }],
    })
}

/// The ReplicaSets of both revisions of a Deployment.
async fn replica_sets(client: &Client, owner: &Value) {
    for (revision, template) in [
        ("1", template("till:1")),
        ("2", owner["spec"]["template"].clone()),
    ] {
        let mut metadata = owned(owner, &format!("till-{revision}"));
        metadata["annotations"] = json!({ REVISION: revision });
        metadata["labels"]["pod-template-hash"] = json!(revision);
        let mut template = template;
        template["metadata"]["labels"]["pod-template-hash"] = json!(revision);
        let labels = template["metadata"]["labels"].clone();
        let set = json!({
            "metadata": metadata,
            "spec": { "replicas": 0, "selector": { "matchLabels": labels }, "template": template },
        });
        let call = Call::post(&format!("{APPS}/replicasets"), &set);
        client.call(call).await.expect(201);
    }
}

/// The ControllerRevisions of a StatefulSet or DaemonSet, which hold patches.
async fn controller_revisions(client: &Client, owner: &Value, name: &str) {
    let templates = [template("till:1"), owner["spec"]["template"].clone()];
    for (revision, mut template) in (1..).zip(templates) {
        template["$patch"] = json!("replace");
        let object = json!({
            "metadata": owned(owner, &format!("{name}-{revision}")),
            "data": { "spec": { "template": template } }, "revision": revision,
        });
        let call = Call::post(&format!("{APPS}/controllerrevisions"), &object);
        client.call(call).await.expect(201);
    }
}

/// Controllers compare the text of the data of ControllerRevisions with what Go writes: names are
/// sorted, and what could begin a tag or an entity is escaped.
#[tokio::test]
async fn the_data_of_revisions_has_the_text_that_controllers_write() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let data = r#"{"a":"<b> && \u2028","n":{"c":1,"d":[true,null,"é"]},"z":0.5}"#;
    let escaped =
        r#"{"a":"\u003cb\u003e \u0026\u0026 \u2028","n":{"c":1,"d":[true,null,"é"]},"z":0.5}"#;
    for (name, data) in [("plain", data), ("escaped", escaped)] {
        let metadata = format!(r#"{{"name":"{name}"}}"#);
        let body = format!(r#"{{"metadata":{metadata},"revision":1,"data":{data}}}"#);
        let path = format!("{APPS}/controllerrevisions");
        let call = Call::new("POST", &path).body("application/json", body);
        client.call(call).await.expect(201);
        let got = client.call(Call::get(&format!("{path}/{name}"))).await;
        let wanted = format!("\"data\":{escaped}");
        assert!(got.text().contains(&wanted), "{}", got.text());
        let call = Call::get(&format!("{path}/{name}"));
        let call = call.header("accept", "application/vnd.kubernetes.protobuf");
        let got = client.call(call).await;
        assert!(got.text().contains(escaped), "{}", got.text());
    }
}

/// Whoever writes a DaemonSet without the annotation that counts its templates writes a 0, and owns
/// it; who applies one owns what is applied (API-185).
#[tokio::test]
async fn the_count_of_templates_belongs_to_who_wrote_the_daemonset_last() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let created = workload(&client, "daemonsets", "DaemonSet").await;
    const COUNT: &str = "f:deprecated.daemonset.template.generation";
    let owners = |object: &Value| -> Vec<String> {
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        let owns = |entry: &&Value| {
            let annotations = &entry["fieldsV1"]["f:metadata"]["f:annotations"];
            annotations.get(COUNT).is_some()
        };
        let owners = entries.iter().filter(owns);
        owners
            .map(|entry| entry["manager"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(owners(&created).len(), 1, "{created}");
    let path = |manager: &str| format!("{APPS}/daemonsets/till?fieldManager={manager}");
    let patch = json!({ "metadata": { "annotations": { "k": "v" } } });
    let patched = client
        .call(Call::merge_patch(&path("patcher"), &patch))
        .await;
    assert_eq!(owners(&patched.expect(200)), owners(&created));

    let mut object = created.clone();
    object["metadata"] = json!({ "name": "till" });
    let put = client
        .call(Call::put(&path("putter"), &object))
        .await
        .expect(200);
    assert_eq!(owners(&put), ["putter"]);
    let count = &put["metadata"]["annotations"][&COUNT[2..]];
    assert_eq!(count, "1", "whatever is written, it counts");
    let cleared = json!({ "metadata": { "annotations": null } });
    let cleared = client
        .call(Call::merge_patch(&path("clearer"), &cleared))
        .await;
    assert_eq!(owners(&cleared.expect(200)), ["clearer"]);
    object.as_object_mut().unwrap().remove("status");
    let apply = Call::new("PATCH", &path("applier&force=true"))
        .body("application/apply-patch+yaml", object.to_string());
    let applied = client.call(apply).await.expect(200);
    assert_eq!(owners(&applied), ["clearer"]);
}

async fn revisions_are_undone(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    let client = daemon.client();
    let owner = workload(&client, "deployments", "Deployment").await;
    replica_sets(&client, &owner).await;
    let owner = workload(&client, "statefulsets", "StatefulSet").await;
    controller_revisions(&client, &owner, "stateful").await;
    let owner = workload(&client, "daemonsets", "DaemonSet").await;
    controller_revisions(&client, &owner, "daemon").await;

    for (kind, plural) in [
        ("deployment", "deployments"),
        ("statefulset", "statefulsets"),
        ("daemonset", "daemonsets"),
    ] {
        let name = format!("{kind}/till");
        let history = kubectl.ok(&["rollout", "history", &name]).await;
        let revisions = history.lines().filter_map(|line| line.split(' ').next());
        let revisions: Vec<_> = revisions
            .filter(|word| word.parse::<u8>().is_ok())
            .collect();
        assert_eq!(revisions, ["1", "2"], "{history}");
        let first = ["rollout", "history", &name, "--revision=1"];
        let first = kubectl.ok(&first).await;
        assert!(first.contains("till:1"), "{first}");

        let absent = ["rollout", "undo", &name, "--to-revision=7"];
        let absent = kubectl.fails(&absent).await;
        assert!(absent.contains("unable to find"), "{absent}");
        let dry = ["rollout", "undo", &name, "--dry-run=server"];
        kubectl.ok(&dry).await;
        let path = format!("{APPS}/{plural}/till");
        let before = client.call(Call::get(&path)).await.expect(200);
        assert_eq!(before["metadata"]["generation"], 1);
        let undone = kubectl.ok(&["rollout", "undo", &name]).await;
        assert!(undone.ends_with(" rolled back\n"), "{undone}");
        let after = client.call(Call::get(&path)).await.expect(200);
        assert_eq!(after["metadata"]["generation"], 2);
        let containers = after["spec"]["template"]["spec"]["containers"].clone();
        let containers = containers.as_array().unwrap();
        assert_eq!(containers.len(), 1, "{after}");
        assert_eq!(containers[0]["image"], "till:1");
        let labels = &after["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels, &json!({ "app": "till" }));
    }
}

#[tokio::test]
async fn revisions_are_undone_1_20() {
    revisions_are_undone("1.20").await;
}

#[tokio::test]
async fn revisions_are_undone_1_32() {
    revisions_are_undone("1.32").await;
}

#[tokio::test]
async fn revisions_are_undone_1_36() {
    revisions_are_undone("1.36").await;
}
