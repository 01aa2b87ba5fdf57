//! The data of custom resources: backups, keys, rewrites and history.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    LAMPS, conditioned, definition, establish, lamp, lamps, over_each, path_of, schema, until,
    version,
};
use crate::backups::{done, path, restored};
use crate::encryption::keys::Keys;
use crate::harness::{Answer, Call, Client, Daemon};
use crate::servers::etcd::{self, Cluster};

const KEY_1: &[u8] = b"k8s:enc:aesgcm:v1:one:";
const KEY_2: &[u8] = b"k8s:enc:secretbox:v1:two:";

/// A definition of lamps with two versions, of which one is stored.
fn two_versions(storage: &str) -> Value {
    definition(
        "lamps",
        "Lamp",
        &json!([
            version("v1", storage == "v1", &schema()),
            version("v2", storage == "v2", &schema())
        ]),
    )
}

async fn create(client: &Client, name: &str, colour: &str) -> Value {
    let made = lamp(name, json!({"colour": colour}));
    client.call(Call::post(LAMPS, &made)).await.expect(201)
}

/// Changes which version of lamps is stored.
async fn store_as(client: &Client, storage: &str) {
    let versions = two_versions(storage)["spec"]["versions"].clone();
    let patch = json!({"spec": {"versions": versions}});
    let patch = Call::merge_patch(&path_of(&lamps()), &patch);
    client.call(patch).await.expect(200);
    // An unknown path waits until all definitions are served.
    let gate = Call::get("/apis/example.com/v1/nothing");
    assert_eq!(client.call(gate).await.status, 404);
}

fn items(list: &Value) -> Vec<Value> {
    let mut items = list["items"].as_array().unwrap().clone();
    for item in &mut items {
        let metadata = item["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
    }
    items
}

/// Lists lamps when they are served.
async fn listed(client: &Client) -> Value {
    until(client, || Call::get(LAMPS), |answer| answer.status == 200)
        .await
        .json()
}

/// The files in the data directory that hold some bytes.
fn holding(daemon: &Daemon, bytes: &[u8]) -> usize {
    let files = std::fs::read_dir(daemon.data()).unwrap();
    let files = files.filter_map(|entry| std::fs::read(entry.unwrap().path()).ok());
    files
        .filter(|content| content.windows(bytes.len()).any(|window| window == bytes))
        .count()
}

async fn cluster() -> Option<Cluster> {
    etcd::find("3.5")?;
    let starting = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    Some(starting.await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_has_definitions_and_their_objects() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let established = establish(&client, &two_versions("v1")).await;
    create(&client, "old", "red").await;
    let from = create(&client, "gone", "red").await;
    let gone = format!("{LAMPS}/gone");
    client.call(Call::delete(&gone)).await.expect(200);
    store_as(&client, "v2").await;
    create(&client, "new", "red").await;
    let wanted = listed(&client).await;
    let file = folder.path().join("backup");
    let data = daemon.data();
    done(&["backup", path(&file), "--data-dir", path(&data)]).await;
    daemon.stop(Signal::TERM).await;

    let (other, _) = restored(&file, &[]).await;
    let client = other.client();
    assert_eq!(listed(&client).await["items"], wanted["items"]);
    let kept = client.call(Call::get(&path_of(&lamps()))).await.expect(200);
    assert_eq!(kept["metadata"]["uid"], established["metadata"]["uid"]);
    assert_eq!(kept["status"]["storedVersions"], json!(["v1", "v2"]));
    // The history is there, too.
    let version = from["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("{LAMPS}?watch=true&resourceVersion={version}");
    let event = client.watch(&watch).await.event().await;
    assert_eq!(
        (&event["type"], &event["object"]["metadata"]["name"]),
        (&json!("DELETED"), &json!("gone"))
    );
    create(&client, "after", "red").await;

    let Some(cluster) = cluster().await else {
        return;
    };
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    done(&["restore", path(&file), "--to=etcd", &servers]).await;
    let over = Daemon::with(&[&servers]).await;
    let client = over.client();
    assert_eq!(items(&listed(&client).await), items(&wanted));
    conditioned(&client, &path_of(&lamps()), "Established", "True").await;
    create(&client, "after", "red").await;
    // And back again.
    let file = folder.path().join("of-etcd");
    done(&["backup", path(&file), "--from=etcd", &servers]).await;
    let (back, _) = restored(&file, &[]).await;
    assert_eq!(
        listed(&back.client()).await["items"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

/// EN-14: a rule for a group holds for resources that are defined later, and after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_for_resources_that_are_defined_later_en_14() {
    const TEXT: &str = "lilac-ish";
    let both: &[&str] = &["secretbox:two=2", "aesgcm:one=1"];
    let keys = Keys::new(&[("'*.example.com'", &["aesgcm:one=1", "identity"])]);
    let mut daemon = Daemon::with(&[&keys.flag()]).await;
    let client = daemon.client();
    establish(&client, &lamps()).await;
    create(&client, "a", TEXT).await;
    daemon.kill().await;
    // The definitions are not encrypted, and known before the keys of their objects are needed.
    assert_eq!(holding(&daemon, TEXT.as_bytes()), 0);
    assert!(holding(&daemon, KEY_1) > 0);
    daemon.relaunch().await;
    let client = daemon.client();
    assert_eq!(listed(&client).await["items"][0]["spec"]["colour"], TEXT);

    // A named rule for a resource that is not defined yet.
    keys.write(&[("balls.example.com", both), ("'*.example.com'", both)]);
    let data = daemon.data();
    let rewrite = ["storage", "rewrite", "--data-dir", path(&data)];
    let told = done(&rewrite).await;
    assert!(told.contains("resources, rewrote 1\n"), "{told}");
    assert!(
        told.contains("nothing that is stored needs an old key"),
        "{told}"
    );
    assert_eq!(holding(&daemon, KEY_1), 0);
    assert!(holding(&daemon, KEY_2) > 0);
    let balls = definition("balls", "Ball", &json!([version("v1", true, &schema())]));
    establish(&client, &balls).await;
    let ball = json!({"apiVersion": "example.com/v1", "kind": "Ball",
        "metadata": {"name": "b"}, "spec": {"colour": TEXT}});
    let at = "/apis/example.com/v1/namespaces/default/balls";
    client.call(Call::post(at, &ball)).await.expect(201);
    keys.write(&[("'*.example.com'", &["secretbox:two=2"])]);
    daemon.kill().await;
    assert_eq!(holding(&daemon, TEXT.as_bytes()), 0);
    daemon.relaunch().await;
    let client = daemon.client();
    assert_eq!(listed(&client).await["items"][0]["spec"]["colour"], TEXT);
    let found = until(&client, || Call::get(at), |answer| answer.status == 200).await;
    assert_eq!(found.json()["items"][0]["spec"]["colour"], TEXT);
}

/// A rewrite encrypts values that were written in clear before a rule existed, over etcd too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_in_clear_are_encrypted_by_a_rewrite() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let mut plain = Daemon::with(&[&servers]).await;
    let client = plain.client();
    establish(&client, &lamps()).await;
    create(&client, "a", "red").await;
    plain.stop(Signal::TERM).await;
    let keys = Keys::new(&[("lamps.example.com", &["aesgcm:one=1", "identity"])]);
    let mut daemon = Daemon::with(&[&servers, &keys.flag()]).await;
    assert!(
        daemon.stderr().contains("lamps.example.com"),
        "nobody says that the resource is not known yet: {}",
        daemon.stderr()
    );
    let client = daemon.client();
    assert_eq!(listed(&client).await["items"][0]["spec"]["colour"], "red");
    let data = daemon.data();
    let told = done(&["storage", "rewrite", "--data-dir", path(&data)]).await;
    assert!(told.contains("resources, rewrote 1\n"), "{told}");
    // Without a key for them nobody can read them.
    keys.write(&[("lamps.example.com", &["aesgcm:one=1"])]);
    daemon.stop(Signal::TERM).await;
    let keyed = Daemon::with(&[&servers, &keys.flag()]).await;
    assert_eq!(
        listed(&keyed.client()).await["items"][0]["spec"]["colour"],
        "red"
    );
    let blind = Daemon::with(&[&servers]).await;
    let is_there = |answer: &Answer| answer.status != 429 && answer.status != 503;
    let refused = until(&blind.client(), || Call::get(LAMPS), is_there).await;
    refused.refusal(500, "InternalError");
}

/// CRD-118, CRD-119: objects of other versions are rewritten, and their definition need not list
/// these versions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewrite_of_versions_says_which_versions_are_not_stored_any_more_crd_119() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &two_versions("v1")).await;
        for name in ["a", "b"] {
            create(&client, name, "red").await;
        }
        store_as(&client, "v2").await;
        let new = create(&client, "c", "red").await;
        let data = daemon.data();
        let rewrite = ["storage", "rewrite", "--version", "--data-dir", path(&data)];
        let told = done(&rewrite).await;
        assert!(told.contains("resources, rewrote 2\n"), "{told}");
        assert!(
            told.contains(
                "lamps.example.com: all objects are stored as v2, so status.storedVersions may be \
                 shortened from [v1, v2] to [v2]:\n  kubectl patch customresourcedefinitions \
                 lamps.example.com --subresource=status --type=merge"
            ),
            "{told}"
        );
        assert!(told.contains("Keys and history are as they were"), "{told}");
        let again = done(&rewrite).await;
        assert!(again.contains("resources, rewrote 0\n"), "{again}");
        let kept = client
            .call(Call::get(&format!("{LAMPS}/c")))
            .await
            .expect(200);
        assert_eq!(kept, new, "it was of this version");

        // An administrator does as it says, and then v1 may go altogether.
        let shorter = json!({"status": {"storedVersions": ["v2"]}});
        let status = format!("{}/status", path_of(&lamps()));
        client
            .call(Call::merge_patch(&status, &shorter))
            .await
            .expect(200);
        let quiet = done(&rewrite).await;
        assert!(!quiet.contains("storedVersions"), "{quiet}");
        let only = definition("lamps", "Lamp", &json!([version("v2", true, &schema())]));
        let only = json!({"spec": {"versions": only["spec"]["versions"]}});
        client
            .call(Call::merge_patch(&path_of(&lamps()), &only))
            .await
            .expect(200);
        let at = LAMPS.replace("/v1/", "/v2/");
        let list = until(&client, || Call::get(&at), |answer| answer.status == 200).await;
        assert_eq!(list.json()["items"].as_array().unwrap().len(), 3);
        let wrong = Call::new("POST", "/taffrail/v1/storage/rewrite?only=keys");
        client.call(wrong).await.refusal(400, "BadRequest");
    })
    .await;
}

/// The past of an object in each of its versions, by the API and by the commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_past_of_a_custom_object_is_read_and_comes_back() {
    over_each(async |daemon: &Daemon| {
        let client = daemon.client();
        establish(&client, &two_versions("v1")).await;
        let first = create(&client, "a", "red").await;
        let at = format!("{LAMPS}/a");
        let revision = |object: &Value| object["metadata"]["resourceVersion"].clone();
        let green = json!({"spec": {"colour": "green"}});
        let second = client
            .call(Call::merge_patch(&at, &green))
            .await
            .expect(200);
        store_as(&client, "v2").await;
        client.call(Call::delete(&at)).await.expect(200);
        let first_at = revision(&first);
        let first_at = first_at.as_str().unwrap();
        let exact = format!("{at}?resourceVersion={first_at}&resourceVersionMatch=Exact");
        let then = client.call(Call::get(&exact)).await.expect(200);
        assert_eq!(
            (&then["spec"]["colour"], revision(&then)),
            (&json!("red"), revision(&first))
        );

        let history = client
            .call(Call::get(&format!("/taffrail/v1/history{at}")))
            .await;
        assert_eq!(history.status, 200, "{}", history.text());
        let text = history.text();
        let changes = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let changes: Vec<Value> = changes.collect();
        let kinds: Vec<&Value> = changes.iter().map(|change| &change["type"]).collect();
        assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"]);
        assert_eq!(
            changes[1]["object"]["spec"],
            json!({"colour": "green", "watts": 5})
        );

        let data = daemon.data();
        let flags = ["--data-dir", path(&data)];
        let run = async |arguments: &[&str]| done(&[arguments, &flags].concat()).await;
        let told = run(&["history", "lamp", "a"]).await;
        assert!(told.contains("  +   colour: green\n"), "{told}");
        let told = run(&["get", "lamps.example.com", "a", "-oyaml", "--at", first_at]).await;
        assert!(told.contains("  colour: red\n"), "{told}");
        let second_at = revision(&second);
        let told = run(&["undo", "lamps", "a", "--to", second_at.as_str().unwrap()]).await;
        assert!(told.contains("created again as it was"), "{told}");
        let back = client.call(Call::get(&at)).await.expect(200);
        assert_eq!(back["spec"], second["spec"]);
        let told = run(&["undo", "Lamp", "a", "--to", first_at]).await;
        assert!(told.contains("as it was"), "{told}");
        let back = client.call(Call::get(&at)).await.expect(200);
        assert_eq!(back["spec"], first["spec"]);
        let told = run(&["inspect", "-o", "json"]).await;
        let told: Value = serde_json::from_str(&told).unwrap();
        let resources = told["resources"].as_array().unwrap().iter();
        let mut lamps = resources.filter(|one| one["resource"] == "lamps");
        let found = lamps.next().unwrap_or_else(|| panic!("{told:#}"));
        assert_eq!(found["objects"], 1, "{found}");
    })
    .await;
}

/// A restart in the middle: a namespace or a rewrite waits until all definitions are served.
#[tokio::test]
async fn a_rewrite_right_after_the_start_goes_over_custom_objects() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &two_versions("v1")).await;
    for number in 0..20 {
        create(&client, &format!("l{number}"), "red").await;
    }
    store_as(&client, "v2").await;
    daemon.kill().await;
    daemon.relaunch().await;
    let client = daemon.client();
    let rewrite = || Call::new("POST", "/taffrail/v1/storage/rewrite?only=version");
    let done = until(&client, rewrite, |answer| answer.status != 503).await;
    assert_eq!(done.status, 200, "{}", done.text());
    let text = done.text();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["step"], &last["rewritten"]),
        (&json!("done"), &json!(20)),
        "{text}"
    );
    assert_eq!(last["storedAs"]["lamps.example.com"], "example.com/v2");
}
