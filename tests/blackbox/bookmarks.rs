//! The bookmarks of all resources, compared with recorded ones of kube-apiserver.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::Value;

use crate::harness::{Call, Client, Daemon};

/// Recorded by `tools/facts/bookmarks.py`, by the path of the collection.
const RECORDED: &str = include_str!("../fixtures/bookmarks.json");

const QUERY: &str = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
    &resourceVersionMatch=NotOlderThan&labelSelector=nobody%3Dhas-it&timeoutSeconds=1";

#[derive(Deserialize)]
struct Bookmark {
    json: Value,
    protobuf: String,
}

/// The revision of a bookmark, which is taken out.
fn take_revision(event: &mut Value) -> String {
    let revision = event["object"]["metadata"]["resourceVersion"].take();
    revision.as_str().expect("a revision").to_owned()
}

/// Where the recorded bookmark of a collection and the daemon's differ.
async fn difference(client: &Client, path: &str, mut recorded: Bookmark) -> Option<String> {
    let watch = format!("{path}?{QUERY}");
    let mut event = client.watch(&watch).await.event().await;
    let revisions = [take_revision(&mut recorded.json), take_revision(&mut event)];
    if recorded.json != event {
        return Some(format!("{path}: {event}, not {}", recorded.json));
    }
    let accept = "application/vnd.kubernetes.protobuf;stream=watch";
    let lines = client.lines(Call::get(&watch).header("accept", accept));
    let body = lines.await.expect("an answer").whole().await;
    let frame = body.expect("a whole answer").slice(4..);
    let recorded = STANDARD.decode(recorded.protobuf).expect("base64");
    // All but the revision and the lengths around it: what stands behind it, and how much before.
    let parts = |frame: &[u8], revision: &str| {
        let mark = [b"\x32", &[revision.len() as u8], revision.as_bytes()].concat();
        let at = frame.windows(mark.len()).position(|part| part == mark);
        let at = at.unwrap_or_else(|| panic!("{path}: no revision {revision} in {frame:?}"));
        frame[at + mark.len()..].to_vec()
    };
    let [theirs, ours] = [(&*recorded, &revisions[0]), (&*frame, &revisions[1])]
        .map(|(frame, revision)| parts(frame, revision));
    (theirs != ours).then(|| format!("{path}: {ours:?}, not {theirs:?}"))
}

/// WA-41: a bookmark is what kube-apiserver shows of an empty object, in JSON and in protobuf, for
/// every resource.
#[tokio::test]
async fn bookmarks_of_every_resource_are_those_of_kube_apiserver() {
    let recorded: BTreeMap<String, Bookmark> = serde_json::from_str(RECORDED).expect("JSON");
    assert!(recorded.len() >= 60, "{}", recorded.len());
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let client = &client;
    let all = recorded
        .into_iter()
        .map(|(path, bookmark)| async move { difference(client, &path, bookmark).await });
    let differences: Vec<String> = join_all(all).await.into_iter().flatten().collect();
    assert_eq!(differences, Vec::<String>::new());
}

/// API-74: the row of the bookmark that ends the initial events holds the whole empty object if
/// whole objects are asked for, for every resource.
#[tokio::test]
async fn rows_of_bookmarks_hold_the_empty_object_if_objects_are_asked_for_api_74() {
    let recorded: BTreeMap<String, Bookmark> = serde_json::from_str(RECORDED).expect("JSON");
    let daemon = Daemon::start().await;
    let client = &daemon.client();
    let all = recorded.into_iter().map(|(path, bookmark)| async move {
        let watch = format!("{path}?{QUERY}&includeObject=Object");
        let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let lines = client.lines(Call::get(&watch).header("accept", accept));
        let event = lines.await.expect("an answer").event().await;
        let (mut recorded, mut row) = (bookmark.json, event);
        row["object"] = row["object"]["rows"][0]["object"].take();
        let revisions = [take_revision(&mut recorded), take_revision(&mut row)];
        (recorded != row).then(|| format!("{path}: {row}, not {recorded}, of {revisions:?}"))
    });
    let differences: Vec<String> = join_all(all).await.into_iter().flatten().collect();
    assert_eq!(differences, Vec::<String>::new());
}
