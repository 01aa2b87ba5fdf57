//! Deleting: finalizers, grace, propagation.

use serde_json::json;

use crate::harness::{CONFIGMAPS, Call, Daemon, configmap};

#[tokio::test]
async fn a_finalizer_holds_an_object_over_a_restart_until_it_is_taken_away() {
    // API-113, API-106.
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let object = json!({ "metadata": { "name": "a", "finalizers": ["example.com/f"] } });
    client
        .call(Call::post(CONFIGMAPS, &object))
        .await
        .expect(201);
    let marked = client.call(Call::delete(&configmap("a"))).await.expect(200);
    assert!(
        marked["metadata"]["deletionTimestamp"].is_string(),
        "{marked}"
    );
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    assert_eq!(
        client.call(Call::get(&configmap("a"))).await.expect(200),
        marked
    );
    let release = json!({ "metadata": { "finalizers": [] } });
    client
        .call(Call::merge_patch(&configmap("a"), &release))
        .await
        .expect(200);
    client
        .call(Call::get(&configmap("a")))
        .await
        .refusal(404, "NotFound");
}
