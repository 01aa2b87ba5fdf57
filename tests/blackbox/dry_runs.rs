//! Dry runs return the same response as real requests, and nothing is written (http.md 3.9).
//! `replay::dry_run`, `replay::dry_run_verbs` and `replay::dry_run_deletion` have the responses.

use serde_json::{Value, json};

use crate::custom_resources::until;
use crate::every_kind::BODIES;
use crate::harness::{Answer, Call, Client, Daemon};

/// A collection and an object that belongs there.
struct Kind {
    collection: String,
    plural: String,
    body: Value,
}

impl Kind {
    /// Versions of one object have names of their own here, because they would be the same object.
    fn all() -> Vec<Kind> {
        let bodies: Value = serde_json::from_str(BODIES).unwrap();
        let bodies = bodies.as_object().unwrap().iter();
        let kinds = bodies.map(|(path, bodies)| {
            let mut body = bodies[1].clone();
            if ["autoscaling/v1", "events.k8s.io/v1"]
                .contains(&body["apiVersion"].as_str().unwrap())
            {
                body["metadata"]["name"] = json!("sweep-of-another-version");
            }
            Kind {
                collection: path.clone(),
                plural: path.rsplit('/').next().unwrap().to_owned(),
                body,
            }
        });
        let mut kinds: Vec<Kind> = kinds.collect();
        // The server makes one for the group of the CustomResourceDefinition (CN-10).
        kinds.sort_by_key(|kind| kind.plural != "apiservices");
        kinds
    }

    /// The path of the object.
    fn path(&self) -> String {
        let name = self.body["metadata"]["name"].as_str().unwrap();
        format!("{}/{name}", self.collection)
    }

    /// The names of the subresources that are patched, such as `status`.
    async fn subresources(&self, client: &Client) -> Vec<String> {
        let version = self.body["apiVersion"].as_str().unwrap();
        let path = match version {
            "v1" => "/api/v1".to_owned(),
            version => format!("/apis/{version}"),
        };
        let resources = client.call(Call::get(&path)).await.expect(200);
        let resources = resources["resources"].as_array().unwrap().iter();
        let patched = resources.filter(|one| {
            let verbs = one["verbs"].as_array().unwrap();
            verbs.contains(&json!("patch"))
        });
        let names = patched.filter_map(|one| {
            let (plural, name) = one["name"].as_str().unwrap().split_once('/')?;
            (plural == self.plural && name != "proxy").then(|| name.to_owned())
        });
        names.collect()
    }
}

/// All objects of these kinds.
async fn state(client: &Client, kinds: &[Kind]) -> Vec<Value> {
    let mut lists = Vec::new();
    for kind in kinds {
        let list = client.call(Call::get(&kind.collection)).await.expect(200);
        lists.push(list["items"].clone());
    }
    lists
}

/// Sends each verb that changes the object in a dry run. Tells how many subresources there were.
async fn send_dry(client: &Client, kind: &Kind) -> usize {
    let path = kind.path();
    let stored = client.call(Call::get(&path)).await.expect(200);
    let labelled = |label: &str| json!({ "metadata": { "labels": { "dry": label } } });
    let dry = format!("{path}?dryRun=All");

    let send = async |call: Call, label: &str| {
        let shown = client.call(call).await.expect(200);
        assert_eq!(shown["metadata"]["labels"]["dry"], label, "{path}");
        let version = &stored["metadata"]["resourceVersion"];
        assert_eq!(shown["metadata"]["resourceVersion"], *version, "{path}");
    };
    let mut object = stored.clone();
    object["metadata"]["labels"]["dry"] = json!("put");
    send(Call::put(&dry, &object), "put").await;
    send(Call::merge_patch(&dry, &labelled("merge")), "merge").await;
    let patch = Call::new("PATCH", &dry);
    let text = labelled("strategic").to_string();
    let strategic = patch.body("application/strategic-merge-patch+json", text);
    send(strategic, "strategic").await;
    let mut applied = labelled("apply");
    applied["apiVersion"] = stored["apiVersion"].clone();
    applied["kind"] = stored["kind"].clone();
    let apply = Call::new("PATCH", &format!("{dry}&fieldManager=dry"));
    let apply = apply.body("application/apply-patch+yaml", applied.to_string());
    send(apply, "apply").await;

    let subresources = kind.subresources(client).await;
    for name in &subresources {
        let patch = Call::merge_patch(&format!("{path}/{name}?dryRun=All"), &labelled("sub"));
        client.call(patch).await.expect(200);
    }
    let options = ["", "&gracePeriodSeconds=0", "&propagationPolicy=Foreground"];
    for option in options {
        let delete = Call::delete(&format!("{dry}{option}"));
        client.call(delete).await.expect(200);
    }
    let all = Call::delete(&format!("{}?dryRun=All", kind.collection));
    let all = client.call(all).await;
    match kind.plural.as_str() {
        "namespaces" => all.refusal(405, "MethodNotAllowed"),
        _ => all.expect(200),
    };
    let left = client.call(Call::get(&path)).await.expect(200);
    assert_eq!(left, stored, "{path}");
    subresources.len()
}

#[tokio::test]
async fn no_dry_run_of_any_verb_writes_anything_of_any_kind_api_144() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let kinds = Kind::all();
    assert!(kinds.len() > 55);

    let before = state(&client, &kinds).await;
    for kind in &kinds {
        let dry = Call::post(&format!("{}?dryRun=All", kind.collection), &kind.body);
        let metadata = client.call(dry).await.expect(201)["metadata"].take();
        assert!(metadata["uid"].is_string(), "{metadata}");
        assert_eq!(metadata["resourceVersion"], Value::Null);
        let absent = client.call(Call::get(&kind.path())).await;
        absent.refusal(404, "NotFound");
    }
    assert_eq!(state(&client, &kinds).await, before);

    for kind in &kinds {
        let create = Call::post(&kind.collection, &kind.body);
        client.call(create).await.expect(201);
    }
    // Its availability is checked once.
    let apiservice = kinds[0].path();
    let is_checked = |answer: &Answer| answer.json()["status"]["conditions"].is_array();
    until(&client, || Call::get(&apiservice), is_checked).await;
    let before = state(&client, &kinds).await;
    let mut subresources = 0;
    for kind in &kinds {
        subresources += send_dry(&client, kind).await;
    }
    assert!(subresources > 25, "{subresources}");
    assert_eq!(state(&client, &kinds).await, before);
}
