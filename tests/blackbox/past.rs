//! The past of objects: exact reads of an object, its history, and undo.

use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::daemon::taffrail;
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, body, configmap, version};
use crate::servers::etcd::Cluster;

fn at(revision: u64) -> String {
    let path = configmap("a");
    format!("{path}?resourceVersion={revision}&resourceVersionMatch=Exact")
}

async fn put(client: &Client, value: &str) -> u64 {
    let patch = json!({ "data": { "k": value } });
    let patched = client.call(Call::merge_patch(&configmap("a"), &patch));
    version(&patched.await.expect(200))
}

/// Creates, changes twice, deletes and creates again. Answers the revisions.
async fn lived(client: &Client) -> [u64; 5] {
    let created = client.call(Call::post(CONFIGMAPS, &body("a", "1"))).await;
    let created = version(&created.expect(201));
    // Its key begins as the other one's does.
    client
        .call(Call::post(CONFIGMAPS, &body("ab", "x")))
        .await
        .expect(201);
    let (second, third) = (put(client, "2").await, put(client, "3").await);
    client.call(Call::delete(&configmap("a"))).await.expect(200);
    let again = client.call(Call::post(CONFIGMAPS, &body("a", "4"))).await;
    let again = version(&again.expect(201));
    [created, second, third, again - 1, again]
}

async fn history(client: &Client, object: &str) -> Vec<Value> {
    let path = format!("/taffrail/v1/history{object}");
    let answer = client.call(Call::get(&path)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn types(history: &[Value]) -> Vec<&str> {
    history
        .iter()
        .map(|change| change["type"].as_str().unwrap())
        .collect()
}

async fn the_past_is_read(daemon: &Daemon, knows_origins: bool) {
    let client = daemon.client();
    let [created, second, third, deleted, again] = lived(&client).await;
    for (revision, value) in [(created, "1"), (second, "2"), (third, "3"), (again, "4")] {
        let object = client.call(Call::get(&at(revision))).await.expect(200);
        assert_eq!(object["data"]["k"], value);
        assert_eq!(version(&object), revision);
    }
    // Between two changes it is what the earlier one made it.
    let between = client.call(Call::get(&at(created + 1))).await.expect(200);
    assert_eq!(
        (version(&between), &between["data"]["k"]),
        (created, &json!("1"))
    );
    for absent in [created - 1, deleted] {
        client
            .call(Call::get(&at(absent)))
            .await
            .refusal(404, "NotFound");
    }
    client
        .call(Call::get(&at(again + 1_000_000)))
        .await
        .refusal(504, "Timeout");
    for nothing in [
        "resourceVersionMatch=Exact",
        "resourceVersion=0&resourceVersionMatch=Exact",
    ] {
        let path = format!("{}?{nothing}", configmap("a"));
        client
            .call(Call::get(&path))
            .await
            .refusal(400, "BadRequest");
    }

    let changes = history(&client, &configmap("a")).await;
    assert_eq!(
        types(&changes),
        ["ADDED", "MODIFIED", "MODIFIED", "DELETED", "ADDED"]
    );
    let revisions: Vec<String> = [created, second, third, deleted, again]
        .map(|r| r.to_string())
        .into();
    let told: Vec<&str> = changes
        .iter()
        .map(|c| c["resourceVersion"].as_str().unwrap())
        .collect();
    assert_eq!(told, revisions);
    assert_eq!(changes[1]["object"]["data"]["k"], "2");
    assert!(changes[3].get("object").is_none());
    let user = if knows_origins { "admin" } else { "" };
    assert!(
        changes.iter().all(|change| change["user"] == user),
        "{changes:?}"
    );
    assert_eq!(changes[0].get("time").is_some(), knows_origins);
}

#[tokio::test]
async fn the_past_of_an_object_is_read_from_the_embedded_store() {
    the_past_is_read(&Daemon::start().await, true).await;
}

#[tokio::test]
async fn the_past_of_an_object_is_read_without_a_watch_cache() {
    the_past_is_read(&Daemon::with(&["--watch-cache=false"]).await, true).await;
}

#[tokio::test]
async fn the_past_of_an_object_is_read_from_etcd() {
    let cluster = Cluster::single("3.5");
    let servers = format!("--etcd-servers={}", cluster.urls()[0]);
    the_past_is_read(&Daemon::with(&[&servers]).await, false).await;
}

#[tokio::test]
async fn what_is_compacted_is_gone_and_history_says_what_was_before() {
    let daemon = Daemon::with(&["--retention-age=1ms"]).await;
    let client = daemon.client();
    let created = client.call(Call::post(CONFIGMAPS, &body("a", "1"))).await;
    let created = version(&created.expect(201));
    let second = put(&client, "2").await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    daemon.compact().await;
    client
        .call(Call::get(&at(created)))
        .await
        .refusal(410, "Expired");
    let third = put(&client, "3").await;
    let changes = history(&client, &configmap("a")).await;
    assert_eq!(types(&changes), ["EARLIER", "MODIFIED"]);
    assert_eq!(changes[0]["resourceVersion"], second.to_string());
    assert_eq!(changes[0]["object"]["data"]["k"], "2");
    assert_eq!(changes[1]["resourceVersion"], third.to_string());
    let path = "/taffrail/v1/revision?time=2001-01-01T00:00:00Z";
    client.call(Call::get(path)).await.refusal(410, "Expired");
    assert_eq!(
        history(&client, &configmap("never")).await,
        Vec::<Value>::new()
    );
}

#[tokio::test]
async fn only_who_may_get_an_object_learns_its_history() {
    let daemon = Daemon::start().await;
    let object = format!("/taffrail/v1/history{}", configmap("a"));
    let anonymous = daemon.target().anonymous().client();
    anonymous
        .call(Call::get(&object))
        .await
        .refusal(403, "Forbidden");
    let client = daemon.client();
    let ada = Call::get(&object).header("impersonate-user", "ada");
    client.call(ada).await.refusal(403, "Forbidden");
    for path in [
        "",
        "/",
        "/version",
        CONFIGMAPS,
        "/api/v1/pots/a",
        "/%zz",
        "/api/v1/watch",
    ] {
        let path = format!("/taffrail/v1/history{path}");
        let refused = client.call(Call::get(&path)).await;
        assert!(
            matches!(refused.status.as_u16(), 400 | 404),
            "{path}: {}",
            refused.text()
        );
    }
    let refused = client
        .call(Call::get("/taffrail/v1/revision?time=soon"))
        .await;
    refused.refusal(400, "BadRequest");
    let posted = Call::new("POST", &object);
    client.call(posted).await.refusal(405, "MethodNotAllowed");
}

async fn run(daemon: &Daemon, arguments: &[&str]) -> Output {
    let data = daemon.data().to_str().unwrap().to_owned();
    let mut all: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    all.extend(["--data-dir".to_owned(), data]);
    let run = move || taffrail().args(all).output().unwrap();
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn done(daemon: &Daemon, arguments: &[&str]) -> String {
    let output = run(daemon, arguments).await;
    let problem = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {problem}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn commands_show_the_past_and_go_back() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let [created, second, third, deleted, again] = lived(&client).await;
    let told = done(&daemon, &["history", "cm", "a"]).await;
    assert!(
        told.contains(&format!("revision {created}: created at 20")),
        "{told}"
    );
    assert!(told.contains(" by admin\n"), "{told}");
    assert!(told.contains("  -   k: \"2\"\n  +   k: \"3\"\n"), "{told}");
    assert!(
        told.contains(&format!("revision {deleted}: deleted at")),
        "{told}"
    );
    assert!(!told.contains('\x1b'), "{told}");
    let coloured = done(&daemon, &["history", "cm", "a", "--color=always"]).await;
    assert!(
        coloured.contains("\x1b[32m  +   k: \"3\"\x1b[0m"),
        "{coloured}"
    );
    let lines = done(&daemon, &["history", "configmap", "a", "--json"]).await;
    assert_eq!(lines.lines().count(), 5);

    let now = done(&daemon, &["get", "ConfigMap", "a", "-o", "yaml"]).await;
    assert!(now.contains("k: \"4\""), "{now}");
    let then = done(
        &daemon,
        &["get", "cm", "a", "-oyaml", "--at", &second.to_string()],
    )
    .await;
    assert!(then.contains("k: \"2\""), "{then}");
    let table = done(&daemon, &["get", "cm", "--at", &third.to_string()]).await;
    assert!(
        table.starts_with("NAME   DATA   AGE\na      1      "),
        "{table}"
    );
    let time = jiff::Timestamp::now().to_string();
    tokio::time::sleep(Duration::from_millis(20)).await;

    let undone = done(&daemon, &["undo", "cm", "a", "--to", &second.to_string()]).await;
    let object = client.call(Call::get(&configmap("a"))).await.expect(200);
    assert_eq!(object["data"]["k"], "2");
    assert!(version(&object) > again);
    assert_eq!(
        undone,
        format!("configmaps/a: as it was, revision {}\n", version(&object))
    );
    let same = done(&daemon, &["undo", "cm", "a", "--to", &second.to_string()]).await;
    assert!(same.contains("nothing is changed"), "{same}");
    let before = done(&daemon, &["get", "cm", "a", "-o", "json", "--at", &time]).await;
    assert!(before.contains("\"k\": \"4\""), "{before}");
    client.call(Call::delete(&configmap("a"))).await.expect(200);
    let back = done(&daemon, &["undo", "cm", "a", "--to", &third.to_string()]).await;
    assert!(back.contains("created again as it was"), "{back}");
    let object = client.call(Call::get(&configmap("a"))).await.expect(200);
    assert_eq!(object["data"]["k"], "3");

    let to = deleted.to_string();
    let cases: &[(&[&str], &str)] = &[
        (&["history", "pot", "a"], "\"pot\" is not a served kind"),
        (
            &["history", "cm", "never"],
            "it is not in the history that is kept",
        ),
        (&["history", "cm", "../../x"], "names no object"),
        (
            &["get", "cm", "a", "--at", "yesterday"],
            "neither a revision nor a time",
        ),
        (
            &["get", "cm", "a", "--at", "999999999"],
            "Too large resource version",
        ),
        (&["get", "cm", "never"], "configmaps \"never\" not found"),
        (
            &["undo", "cm", "a", "--to", &to],
            "configmaps \"a\" not found",
        ),
        (&["undo", "cm", "a"], "--to <REVISION> is missing"),
        (
            &["undo", "cm", "a", "--to=-1"],
            "--to=-1: not a whole number",
        ),
    ];
    for (arguments, said) in cases {
        let output = run(&daemon, arguments).await;
        let problem = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?} succeeds");
        assert!(
            problem.contains(said) && problem.lines().count() == 1,
            "{arguments:?}: {problem}"
        );
    }
}
