//! Readers that take all requests of a connection to an extension (CN-32).

use serde_json::json;

use super::availability::patch;
use super::extension::{APISERVICES, Extension};
use super::{GROUP, until_reason};
use crate::custom_resources::until;
use crate::harness::{Call, Daemon};

const NAME: &str = "v1.a.example";
const FLUNDERS: &str = "/apis/a.example/v1/namespaces/default/flunders";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_fill_a_connection_hold_up_no_other_request_cn_32() {
    let daemon = Daemon::start().await;
    let (client, extension) = (daemon.client(), Extension::start(GROUP).await);
    extension.tell(|told| told.streams_max = 2);
    extension.install(&client, GROUP).await;
    let available = until_reason(&client, NAME, "Passed").await;
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(client.watch(&format!("{FLUNDERS}?watch=true")).await);
    }
    client.call(Call::get(FLUNDERS)).await.expect(200);
    // The extension is found available while all of them go on.
    extension.forget();
    let again = json!({"metadata": {"annotations": {"again": "1"}}});
    patch(&client, &format!("{APISERVICES}/{NAME}"), again).await;
    let check = format!("/apis/{GROUP}/v1");
    until(
        &client,
        || Call::get(FLUNDERS),
        |answer| {
            let asked = extension.asked(&check);
            answer.status == 200 && asked.iter().any(|asked| asked.path == check)
        },
    )
    .await;
    let flunder = json!({"metadata": {"name": "f"}, "spec": {"size": 1}});
    let created = client.call(Call::post(FLUNDERS, &flunder)).await;
    created.expect(201);
    for watch in &mut watches {
        let event = watch.next().await.unwrap().unwrap();
        let event = String::from_utf8_lossy(&event);
        assert!(event.contains("ADDED"), "{event}");
    }
    assert_eq!(super::condition(&client, NAME).await, available);
}
