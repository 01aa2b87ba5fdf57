//! `application/vnd.kubernetes.protobuf` as clients see it (API-57, API-58, API-59, API-67), and in
//! the store (KV-20, KV-21, SF-6).

use std::io::Read as _;

use api::protobuf::{Envelope, Texts, to_json, write_document};
use http::StatusCode;
use kinds::types::TYPES;
use serde_json::{Value, json};

use crate::harness::client::{Answer, Lines};
use crate::harness::{Call, Client, Daemon};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn packed(document: &Value) -> Vec<u8> {
    let mut body = Vec::new();
    let text = document.to_string();
    assert!(
        write_document(&TYPES, text.as_bytes(), &mut body),
        "{document}"
    );
    body
}

fn unpacked(body: &[u8]) -> Value {
    let json = to_json(body, "", "", &TYPES, Texts::Strict).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// An answer in protobuf.
fn read(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some(PROTOBUF));
    unpacked(&answer.body)
}

fn configmap(name: &str, text: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name},
        "data": {"text": text}})
}

async fn get(client: &Client, path: &str) -> Answer {
    client
        .call(Call::get(path).header("accept", PROTOBUF))
        .await
}

#[tokio::test]
async fn objects_lists_metadata_and_refusals_are_protobuf_for_who_asks_api_58() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let create = Call::new("POST", CONFIGMAPS).header("accept", PROTOBUF);
    let create = create.body(PROTOBUF, packed(&configmap("a", "one")));
    let created = read(&client.call(create).await, 201);
    assert_eq!(created["data"]["text"], "one");
    let path = format!("{CONFIGMAPS}/a");
    let json = client.call(Call::get(&path)).await.expect(200);
    assert_eq!(read(&get(&client, &path).await, 200), json);
    // The clients of controllers accept both.
    let both = Call::get(&path).header("accept", &format!("{PROTOBUF},application/json"));
    assert_eq!(read(&client.call(both).await, 200), json);

    let list = read(&get(&client, CONFIGMAPS).await, 200);
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["items"][0]["metadata"], json["metadata"]);
    let one = client
        .call(Call::get(&path).header("accept", METADATA))
        .await;
    let one = read(&one, 200);
    assert_eq!(one["kind"], "PartialObjectMetadata");
    assert_eq!(one["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(one["metadata"], json["metadata"]);
    let all = METADATA.replace("Metadata;", "MetadataList;");
    let all = client
        .call(Call::get(CONFIGMAPS).header("accept", &all))
        .await;
    let all = read(&all, 200);
    assert_eq!(all["kind"], "PartialObjectMetadataList");
    assert_eq!(all["items"][0]["metadata"], json["metadata"]);

    let refused = read(&get(&client, &format!("{CONFIGMAPS}/b")).await, 404);
    assert_eq!(refused["reason"], "NotFound");
    assert_eq!(refused["details"]["name"], "b");
    // API-67.
    let table = format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1");
    let table = client
        .call(Call::get(CONFIGMAPS).header("accept", &table))
        .await;
    assert_eq!(table.status, StatusCode::NOT_ACCEPTABLE);
    for path in ["/api", "/apis", "/apis/apps", "/api/v1"] {
        read(&get(&client, path).await, 200);
    }

    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
        "preconditions": {"uid": json["metadata"]["uid"]}});
    let delete = Call::delete(&path).header("accept", PROTOBUF);
    let deleted = client.call(delete.body(PROTOBUF, packed(&options))).await;
    assert_eq!(read(&deleted, 200)["status"], "Success");
}

#[tokio::test]
async fn bad_envelopes_are_bad_requests_api_58() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let whole = packed(&configmap("a", "one"));
    let unknown = Envelope {
        api_version: "v1",
        kind: "Knot",
        raw: b"",
    };
    let mut other = Vec::new();
    unknown.write(&mut other);
    for body in [
        &b"{}"[..],
        &whole[..whole.len() - 9],
        b"k8s\0\xff\xff",
        &other,
    ] {
        let call = Call::new("POST", CONFIGMAPS).body(PROTOBUF, body.to_vec());
        client.call(call).await.refusal(400, "BadRequest");
    }
}

/// A list that is long is sent in pieces, with and without compression.
#[tokio::test]
async fn long_lists_are_whole_api_64() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let text = "x".repeat(900_000);
    for number in 0..11 {
        let object = configmap(&format!("long-{number:02}"), &text);
        let create = Call::new("POST", CONFIGMAPS).body(PROTOBUF, packed(&object));
        client.call(create).await.expect(201);
        if number == 0 || number == 10 {
            let json = client.call(Call::get(CONFIGMAPS)).await.expect(200);
            let list = read(&get(&client, CONFIGMAPS).await, 200);
            let of = |list: &Value| list["items"].as_array().unwrap().len();
            assert_eq!(of(&list), of(&json));
            assert_eq!(list["items"], json["items"]);
            assert_eq!(list["metadata"], json["metadata"]);
        }
    }
}

/// How many parts of compressed lists were found, and how many made.
async fn runs(daemon: &Daemon) -> [u64; 2] {
    let page = daemon.client().call(Call::get("/metrics")).await.text();
    ["found", "made"].map(|result| {
        let series = format!("taffrail_list_runs_total{{result=\"{result}\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&series));
        line.unwrap_or("0").parse().unwrap()
    })
}

/// What was compressed for one client is kept for the next one.
#[tokio::test]
async fn compressed_lists_are_kept_api_65() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for number in 0..300 {
        let object = configmap(&format!("kept-{number:03}"), &"x".repeat(1_000));
        client
            .call(Call::post(CONFIGMAPS, &object))
            .await
            .expect(201);
    }
    let list = read(&get(&client, CONFIGMAPS).await, 200);
    let [_, made_before] = runs(&daemon).await;
    let gzip = || {
        Call::get(CONFIGMAPS)
            .header("accept", PROTOBUF)
            .header("accept-encoding", "gzip")
    };
    for round in 0..3 {
        let packed = client.call(gzip()).await;
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        let mut plain = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&*packed.body);
        reader.read_to_end(&mut plain).unwrap();
        assert!(unpacked(&plain)["items"] == list["items"], "round {round}");
    }
    let [found, made] = runs(&daemon).await;
    let made = made - made_before;
    assert!(made > 1, "{made}");
    assert_eq!(found, 2 * made);
}

/// The events of a stream, to its end.
async fn events(mut stream: Lines) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    while let Some(frame) = stream.frame().await.unwrap() {
        let at = frame
            .windows(4)
            .position(|bytes| bytes == b"k8s\0")
            .unwrap();
        let kind = &frame[2..2 + usize::from(frame[1])];
        let kind = String::from_utf8(kind.to_vec()).unwrap();
        events.push((kind, unpacked(&frame[at..])));
    }
    events
}

#[tokio::test]
async fn watches_are_frames_of_protobuf_api_57_api_58() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let object = configmap("a", "one");
    client
        .call(Call::post(CONFIGMAPS, &object))
        .await
        .expect(201);
    let path = format!(
        "{CONFIGMAPS}?watch=true&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true\
         &resourceVersionMatch=NotOlderThan"
    );
    for (accept, kind) in [
        (
            format!("{PROTOBUF};stream=watch,application/json"),
            "ConfigMap",
        ),
        (METADATA.to_owned(), "PartialObjectMetadata"),
    ] {
        let watch = Call::get(&path).header("accept", &accept);
        let watched = client.lines(watch).await.unwrap();
        let media_type = "application/vnd.kubernetes.protobuf;stream=watch";
        assert_eq!(watched.headers["content-type"], media_type);
        let events = events(watched).await;
        assert!(events.len() >= 2, "{events:?}");
        assert_eq!(events[0].0, "ADDED");
        assert_eq!(events[0].1["kind"], kind);
        assert_eq!(events[0].1["metadata"]["name"], "a");
        let (last, bookmark) = &events[1];
        assert_eq!(last, "BOOKMARK");
        assert_eq!(bookmark["kind"], kind);
        let mark = &bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"];
        assert_eq!(mark, "true");
    }
    let late = format!("{CONFIGMAPS}?watch=true&resourceVersion=999999999&timeoutSeconds=1");
    let late = client
        .lines(Call::get(&late).header("accept", PROTOBUF))
        .await
        .unwrap();
    if late.status == StatusCode::OK {
        for (kind, status) in events(late).await {
            assert_eq!((&*kind, &status["kind"]), ("ERROR", &json!("Status")));
        }
    }
}

/// KV-20, KV-23, SF-6: what is stored as protobuf is read after a restart, whatever is configured.
#[tokio::test]
async fn objects_are_stored_as_protobuf_if_asked_kv_20_sf_6() {
    let mut daemon = Daemon::with(&[&format!("--storage-media-type={PROTOBUF}")]).await;
    let client = daemon.client();
    let object = configmap("a", "one");
    client
        .call(Call::post(CONFIGMAPS, &object))
        .await
        .expect(201);
    let path = format!("{CONFIGMAPS}/a");
    let before = client.call(Call::get(&path)).await.expect(200);
    let unchanged = client.call(Call::put(&path, &before)).await.expect(200);
    assert_eq!(unchanged, before);
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    let after = client.call(Call::get(&path)).await.expect(200);
    assert_eq!(after, before);
}

/// API-223, API-158: a Scale has a type of its own in bodies and answers.
#[tokio::test]
async fn scales_are_protobuf_for_who_asks_api_223() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let set = json!({"metadata": {"name": "a"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "a", "image": "a"}]}}}});
    client.call(Call::post(sets, &set)).await.expect(201);
    let path = format!("{sets}/a/scale");
    let mut scale = read(&get(&client, &path).await, 200);
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["spec"]["replicas"], 2);
    assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=a"}));
    assert_eq!(scale, client.call(Call::get(&path)).await.expect(200));

    scale["spec"]["replicas"] = 0.into();
    let put = Call::new("PUT", &path).header("accept", PROTOBUF);
    let put = put.body(PROTOBUF, packed(&scale));
    let put = read(&client.call(put).await, 200);
    assert_eq!(put["spec"], json!({}));
    let set = client.call(Call::get(&format!("{sets}/a"))).await;
    let set = set.expect(200);
    assert_eq!(set["spec"]["replicas"], 0);
    assert_eq!(set["metadata"]["generation"], 2);
}
