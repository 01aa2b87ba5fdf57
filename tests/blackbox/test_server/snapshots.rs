//! Snapshots of a test server over HTTP, and clients that follow its resets.

use serde_json::{Value, json};

use super::Server;
use crate::harness::{CONFIGMAPS, Call, Client};
use crate::informers::Informers;
use crate::load::churn::versions;

const SNAPSHOTS: &str = "/taffrail/v1/test/snapshots";

async fn take(client: &Client) -> String {
    let taken = client.call(Call::new("POST", SNAPSHOTS)).await.expect(201);
    taken["snapshot"].as_str().unwrap().to_owned()
}

async fn reset(client: &Client, snapshot: &str) -> Value {
    let path = format!("{SNAPSHOTS}/{snapshot}/reset");
    client.call(Call::new("POST", &path)).await.expect(200)
}

async fn create(client: &Client, name: &str) {
    let object = json!({"metadata": {"name": name}, "data": {"k": "1"}});
    client
        .call(Call::post(CONFIGMAPS, &object))
        .await
        .expect(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_of_client_go_show_the_snapshot_after_each_reset() {
    let server = Server::start(&[]);
    let client = server.client();
    for number in 0..20 {
        create(&client, &format!("kept-{number}")).await;
    }
    let snapshot = take(&client).await;
    let informers = Informers::start_all(&server.kubeconfig()).await;
    for round in 0..4 {
        for number in 0..5 {
            create(&client, &format!("new-{round}-{number}")).await;
            let at = format!("{CONFIGMAPS}/kept-{number}");
            client.call(Call::delete(&at)).await.expect(200);
            let at = format!("{CONFIGMAPS}/kept-{}", number + 5);
            let patch = json!({"data": {"k": format!("{round}")}});
            client
                .call(Call::merge_patch(&at, &patch))
                .await
                .expect(200);
        }
        reset(&client, &snapshot).await;
        // Informers are at different places when the next one comes.
        tokio::time::sleep(std::time::Duration::from_millis(150 * round)).await;
    }
    create(&client, "end").await;
    let listed = versions(&client.call(Call::get(CONFIGMAPS)).await.expect(200));
    assert!(listed.len() >= 21 && !listed.keys().any(|name| name.starts_with("new-")));
    for informer in informers {
        let mode = informer.mode.clone();
        let (store, told) = informer.end().await;
        assert_eq!(store, listed, "{mode}");
        assert_eq!(told, listed, "{mode}");
    }
    server.stop();
}

#[tokio::test]
async fn snapshots_are_listed_kept_and_forgotten() {
    let server = Server::start(&[]);
    let client = server.client();
    let (first, second) = (take(&client).await, take(&client).await);
    create(&client, "a").await;
    let list = client.call(Call::get(SNAPSHOTS)).await.expect(200);
    assert_eq!(list, json!({"snapshots": [first, second]}));
    let answer = reset(&client, &second).await;
    let version: u64 = answer["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert!(version > 0);
    client
        .call(Call::get(&format!("{CONFIGMAPS}/a")))
        .await
        .expect(404);
    let path = format!("{SNAPSHOTS}/{first}");
    client.call(Call::delete(&path)).await.expect(200);
    let list = client.call(Call::get(SNAPSHOTS)).await.expect(200);
    assert_eq!(list, json!({"snapshots": [second]}));
    for _ in 1..64 {
        take(&client).await;
    }
    let refused = client
        .call(Call::new("POST", SNAPSHOTS))
        .await
        .refusal(400, "BadRequest");
    let message = refused["message"].as_str().unwrap();
    assert_eq!(
        message,
        "64 snapshots are kept, and no more can be; delete one first"
    );
    server.stop();
}

#[tokio::test]
async fn wrong_requests_are_refused_with_a_reason() {
    let server = Server::start(&[]);
    let client = server.client();
    let snapshot = take(&client).await;
    for name in ["0", "2", "01", "+1", "x", "%20", "18446744073709551616"] {
        for (method, end) in [("POST", "/reset"), ("DELETE", "")] {
            let path = format!("{SNAPSHOTS}/{name}{end}");
            let refused = client
                .call(Call::new(method, &path))
                .await
                .refusal(404, "NotFound");
            let message = refused["message"].as_str().unwrap();
            assert!(
                message.contains("is not kept; GET /taffrail/v1/test/snapshots"),
                "{message}"
            );
        }
    }
    for (method, path) in [
        ("PUT", SNAPSHOTS.to_owned()),
        ("DELETE", SNAPSHOTS.to_owned()),
        ("GET", format!("{SNAPSHOTS}/{snapshot}")),
        ("GET", format!("{SNAPSHOTS}/{snapshot}/reset")),
    ] {
        client.call(Call::new(method, &path)).await.expect(405);
    }
    let path = format!("{SNAPSHOTS}/{snapshot}/reset/again");
    let page = client.call(Call::new("POST", &path)).await;
    assert_eq!(
        (page.status.as_u16(), page.text().as_str()),
        (404, "404 page not found\n")
    );
    server
        .anonymous()
        .call(Call::new("POST", SNAPSHOTS))
        .await
        .expect(403);
    server.stop();
}
