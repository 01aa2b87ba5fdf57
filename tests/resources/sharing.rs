//! The parts that generations share: the documents of groups that a change does not concern, and
//! the work of adding many resources.

use std::collections::BTreeMap;

use http::header::{ETAG, HeaderName};
use serde_json::{Value, json};
use taffrail::api::resource::ResourceDefinition;
use taffrail::daemon::resources::ResourceError;

use crate::harness::{Call, Client};
use crate::process::Running;

/// The documents of the kind that were written since the process began.
async fn written(client: &Client, document: &str) -> u64 {
    let page = client.call(Call::get("/metrics")).await.text();
    let series = format!(r#"taffrail_documents_written_total{{document="{document}"}} "#);
    let mut lines = page.lines();
    let found = lines.find_map(|line| line.strip_prefix(&*series));
    found.map_or(0, |number| number.parse().unwrap())
}

fn idle(group: &str, number: usize) -> ResourceDefinition {
    let (kind, plural) = (format!("Idle{number}"), format!("idle{number}s"));
    ResourceDefinition {
        key_prefix: format!("{group}/{plural}"),
        ..ResourceDefinition::named(group, "v1", &kind, &plural)
    }
}

/// The list of OpenAPI documents: their URLs, which have their hashes, by their keys.
async fn index(client: &Client) -> BTreeMap<String, Value> {
    let index = client.call(Call::get("/openapi/v3")).await.expect(200);
    let paths = index["paths"].as_object().unwrap().clone();
    paths.into_iter().collect()
}

async fn tag(client: &Client, path: &str) -> String {
    let answer = client.call(Call::get(path)).await;
    assert_eq!(answer.status, 200, "{path}");
    let name: HeaderName = ETAG;
    answer.header(name.as_str()).expect("a tag").to_owned()
}

/// Asks for everything that is said of the API, and counts the documents that were written for it.
async fn ask(client: &Client) -> [u64; 3] {
    const DOCUMENTS: [&str; 3] = ["discovery", "aggregated", "openapi"];
    let mut before = [0; 3];
    for (count, document) in before.iter_mut().zip(DOCUMENTS) {
        *count = written(client, document).await;
    }
    let groups = client.call(Call::get("/apis")).await.expect(200);
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let path = format!("/apis/{}", version["groupVersion"].as_str().unwrap());
            client.call(Call::get(&path)).await.expect(200);
        }
    }
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let call = Call::get("/apis").header("accept", aggregated);
    client.call(call).await.expect(200);
    index(client).await;
    let mut more = [0; 3];
    for ((count, document), before) in more.iter_mut().zip(DOCUMENTS).zip(before) {
        *count = written(client, document).await - before;
    }
    more
}

/// API-33, API-40: a document about a group that does not change is not written again, and keeps
/// its hash and its tag.
#[test]
fn documents_outlive_changes_of_other_groups() {
    let running = Running::start(&[]);
    running.block_on(async {
        let (client, resources) = (running.client(), &running.resources);
        resources.add(idle("one.example.com", 0)).await.unwrap();
        ask(&client).await;
        let before = index(&client).await;
        let mut tags = Vec::new();
        for key in ["apis/apps/v1", "apis/one.example.com/v1"] {
            tags.push(tag(&client, &format!("/openapi/v3/{key}")).await);
        }
        assert_eq!(ask(&client).await, [0, 0, 0]);
        resources.add(idle("two.example.com", 0)).await.unwrap();
        // One list of resources, its part of the aggregated list, and one OpenAPI document.
        assert_eq!(ask(&client).await, [1, 1, 1]);
        let mut after = index(&client).await;
        assert!(after.remove("apis/two.example.com/v1").is_some());
        assert_eq!(after, before);
        for (key, tag_before) in ["apis/apps/v1", "apis/one.example.com/v1"].iter().zip(tags) {
            assert_eq!(
                tag(&client, &format!("/openapi/v3/{key}")).await,
                tag_before
            );
        }
        resources
            .remove("two.example.com", "v1", "idle0s")
            .await
            .unwrap();
        assert_eq!(ask(&client).await, [0, 0, 0]);
        assert_eq!(index(&client).await, before);
        // A change of a group itself changes what is said of it.
        resources.add(idle("one.example.com", 1)).await.unwrap();
        assert_eq!(ask(&client).await, [1, 1, 1]);
        let after = index(&client).await;
        let key = "apis/one.example.com/v1";
        assert_ne!(after[key], before[key]);
        assert_eq!(after["apis/apps/v1"], before["apis/apps/v1"]);
    });
    running.stop();
}

/// Clients that ask after each addition cause the work of that addition, however many resources
/// there are.
#[test]
fn the_work_for_many_resources_grows_with_their_number() {
    const MANY: usize = 40;
    let running = Running::start(&[]);
    running.block_on(async {
        let (client, resources) = (running.client(), &running.resources);
        ask(&client).await;
        for number in 0..MANY {
            let group = format!("group{number}.example.com");
            resources.add(idle(&group, 0)).await.unwrap();
            assert_eq!(ask(&client).await, [1, 1, 1], "{number}");
        }
        for number in 1..MANY {
            resources
                .add(idle("group7.example.com", number))
                .await
                .unwrap();
        }
        // Nobody has asked meanwhile.
        assert_eq!(ask(&client).await, [1, 1, 1]);
    });
    running.stop();
}

/// All resources of a batch are served in one generation, each with a full cache.
#[test]
fn a_batch_is_one_generation() {
    const MANY: usize = 100;
    let running = Running::start(&[]);
    running.block_on(async {
        let (client, resources) = (running.client(), &running.resources);
        let batch = || (0..MANY).map(|number| idle("batch.example.com", number));
        let before = resources.generation().await.unwrap();
        resources.add_all(batch()).await.unwrap();
        assert_eq!(resources.generation().await.unwrap(), before + 1);
        let list = client
            .call(Call::get("/apis/batch.example.com/v1"))
            .await
            .expect(200);
        assert_eq!(list["resources"].as_array().unwrap().len(), MANY);
        let health = client.call(Call::get("/readyz?verbose")).await;
        assert_eq!(health.status, 200, "{}", health.text());
        for number in 0..MANY {
            let all = format!("/apis/batch.example.com/v1/namespaces/default/idle{number}s");
            let listed = client.call(Call::get(&all)).await.expect(200);
            assert_eq!(listed["items"], json!([]));
        }
        for number in 0..MANY {
            let plural = format!("idle{number}s");
            let removed = resources.remove("batch.example.com", "v1", &plural).await;
            removed.unwrap();
        }
        resources.add_all(batch()).await.unwrap();
    });
    running.stop();
}

/// A batch of which one resource can't be added changes nothing.
#[test]
fn a_batch_with_a_fault_is_refused_as_a_whole() {
    let running = Running::start(&[]);
    running.block_on(async {
        let (client, resources) = (running.client(), &running.resources);
        let health = async || client.call(Call::get("/readyz?verbose")).await.text();
        let state = (resources.generation().await.unwrap(), health().await);
        let second = || ResourceDefinition {
            version: "v2".to_owned(),
            ..idle("refused.example.com", 0)
        };
        let others = || (0..20).map(|number| idle("refused.example.com", number));
        // Known before anything begins, and only when its storage is planned.
        let twice = others().chain([idle("refused.example.com", 3)]);
        let refused = resources.add_all(twice).await;
        assert!(
            matches!(refused, Err(ResourceError::Definition(_))),
            "{refused:?}"
        );
        let refused = resources.add_all(others().chain([second()])).await;
        assert!(
            matches!(refused, Err(ResourceError::Storage(_))),
            "{refused:?}"
        );
        assert_eq!(
            (resources.generation().await.unwrap(), health().await),
            state
        );
        let page = client.call(Call::get("/metrics")).await.text();
        assert!(!page.contains("refused.example.com"), "{page}");
        resources.add_all(others()).await.unwrap();
    });
    running.stop();
}

/// A resource that comes under the name of another one is refused, and takes nothing of it along.
#[test]
fn a_resource_with_other_keys_does_not_replace_one() {
    let running = Running::start(&[]);
    running.block_on(async {
        let (client, resources) = (running.client(), &running.resources);
        let version = |version: &str, prefix: &str| ResourceDefinition {
            version: version.to_owned(),
            key_prefix: prefix.to_owned(),
            ..idle("keys.example.com", 0)
        };
        resources.add(version("v1", "one")).await.unwrap();
        let all = "/apis/keys.example.com/v1/namespaces/default/idle0s";
        let object = json!({ "metadata": { "name": "a" } });
        client.call(Call::post(all, &object)).await.expect(201);
        let refused = resources.add(version("v2", "two")).await;
        assert!(
            matches!(refused, Err(ResourceError::Storage(_))),
            "{refused:?}"
        );
        let listed = client.call(Call::get(all)).await.expect(200);
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        let page = client.call(Call::get("/metrics")).await.text();
        assert!(page.contains(r#"group="keys.example.com""#), "{page}");
    });
    running.stop();
}

/// The page of metrics shows a resource from its first use on.
#[test]
fn a_resource_is_measured_from_its_first_use_on() {
    let running = Running::start(&[]);
    running.block_on(async {
        let (client, resources) = (running.client(), &running.resources);
        let page = async || client.call(Call::get("/metrics")).await.text();
        let before = page().await.len();
        let batch = (0..50).map(|number| idle("unused.example.com", number));
        resources.add_all(batch).await.unwrap();
        let unused = page().await;
        assert!(!unused.contains("idle7s"), "{unused}");
        // The group has a line, and numbers get longer.
        let more = unused.len().saturating_sub(before);
        assert!(more < 50 * 300, "{more} bytes");
        let all = "/apis/unused.example.com/v1/namespaces/default/idle7s";
        client.call(Call::get(all)).await.expect(200);
        let used = page().await;
        let lines = used.lines().filter(|line| line.contains("idle7s"));
        assert!(lines.count() > 20, "{used}");
        assert!(used.contains(r#"taffrail_part_ready{part="cacher/idle7s.unused.example.com"} 1"#));
        assert!(!used.contains("idle8s"), "{used}");
    });
    running.stop();
}
