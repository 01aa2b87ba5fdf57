//! Deletion: finalizers, grace periods, propagation.

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

#[tokio::test]
async fn a_collection_of_large_and_small_objects_is_deleted_rg_12_sf_15() {
    // Large objects have fewer places than the collection has objects.
    for arguments in [&[][..], &["--delete-collection-workers=-1"]] {
        let daemon = Daemon::with(arguments).await;
        let client = daemon.client();
        let filler = "x".repeat(70_000);
        let names: Vec<String> = (0..150).map(|number| format!("c{number:03}")).collect();
        for (number, name) in names.iter().enumerate() {
            let text = if number % 2 == 0 { &filler } else { "small" };
            let object = json!({ "metadata": { "name": name }, "data": { "text": text } });
            client
                .call(Call::post(CONFIGMAPS, &object))
                .await
                .expect(201);
        }
        let list = client.call(Call::delete(CONFIGMAPS)).await.expect(200);
        let deleted = list["items"].as_array().unwrap().iter();
        let deleted: Vec<&str> = deleted
            .map(|item| item["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(deleted, names);
        let left = client.call(Call::get(CONFIGMAPS)).await.expect(200);
        assert_eq!(left["items"], json!([]));
    }
}

#[tokio::test]
async fn no_deletion_of_a_collection_begins_after_an_error_api_118_api_120() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut uids = Vec::new();
    for number in 0..500 {
        let object = json!({ "metadata": { "name": format!("c{number:03}") } });
        let created = client
            .call(Call::post(CONFIGMAPS, &object))
            .await
            .expect(201);
        uids.push(created["metadata"]["uid"].clone());
    }
    // The first object is the only one with this uid, so the second one is refused.
    let options = json!({ "preconditions": { "uid": uids[0] } });
    let refused = client
        .call(Call::json("DELETE", CONFIGMAPS, &options))
        .await
        .refusal(409, "Conflict");
    assert_eq!(refused["details"]["name"], "c001");
    let left = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let left = left["items"].as_array().unwrap();
    assert_eq!(
        (left.len(), &left[0]["metadata"]["name"]),
        (499, &json!("c001"))
    );
}
