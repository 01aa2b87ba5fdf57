//! Revoked tokens of a running daemon, and their requests in progress.

use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::harness::client::Lines;
use crate::harness::streams::Connection;
use crate::harness::{CONFIGMAPS, Call, Daemon, Protocol, Target, body, configmap};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const REVOKED: &str = "taffrail_watches_revoked_total";

/// Longer than any effect of a reload on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Puts a file that its owner alone may read in the place of another.
pub fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("next");
    let mut file = std::fs::OpenOptions::new();
    let file = file.write(true).create(true).truncate(true).mode(0o600);
    std::io::Write::write_all(&mut file.open(&beside).unwrap(), text.as_bytes()).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

/// Asks for a reload and answers what is logged of it.
pub async fn reload(daemon: &Daemon) -> String {
    let before = daemon.stderr().len();
    daemon.signal(Signal::HUP);
    let start = Instant::now();
    loop {
        let log = daemon.stderr().split_off(before);
        if log.contains("the token files were read again") {
            return log;
        }
        assert!(start.elapsed() < TIMEOUT, "no reload: {log}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A daemon with a file of users.
async fn daemon(users: &str, folder: &Path) -> Daemon {
    let path = folder.join("tokens.csv");
    replace(&path, users);
    let file = path.to_str().unwrap();
    let uncached = "--watch-cache-sizes=secrets#0";
    Daemon::with(&["--token-auth-file", file, uncached]).await
}

/// Watches over both protocols, with and without a cache.
async fn watches(target: &Target) -> Vec<Lines> {
    let mut watches = Vec::new();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = target.client_over(protocol);
        for path in [CONFIGMAPS, SECRETS] {
            let path = format!("{path}?watch=true&resourceVersion=1");
            watches.push(client.watch(&path).await);
        }
    }
    watches
}

async fn ends(mut watch: Lines) {
    let rest = tokio::time::timeout(TIMEOUT, watch.rest()).await;
    let rest = rest.expect("the watch ends soon");
    assert!(
        rest.iter().all(|event| event["type"] != "ERROR"),
        "{rest:?}"
    );
}

#[tokio::test]
async fn a_token_of_the_admin_that_is_replaced_is_good_no_longer_and_ends_what_it_had_begun() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon("t-ada,ada,1,system:masters\n", folder.path()).await;
    let (old, ada) = (daemon.target(), daemon.target().with_token("t-ada"));
    let ended = watches(&old).await;
    let mut kept = ada
        .client()
        .watch(&format!("{CONFIGMAPS}?watch=true"))
        .await;

    // Unchanged users lose nothing.
    let log = reload(&daemon).await;
    assert!(
        log.contains("admin_token=\"unchanged\" users=1 watches_ended=0"),
        "{log}"
    );

    let new = "another-token-of-the-admin-that-is-as-long-as-it-should-be";
    replace(&daemon.data().join("admin.token"), &format!("{new}\n"));
    let log = reload(&daemon).await;
    assert!(
        log.contains("admin_token=\"replaced\" users=1 watches_ended=4"),
        "{log}"
    );
    assert!(
        !log.contains(new) && !log.contains(&old.token.clone().unwrap()),
        "{log}"
    );
    for watch in ended {
        ends(watch).await;
    }
    let call = || Call::get(CONFIGMAPS);
    old.client().call(call()).await.refusal(401, "Unauthorized");
    let client = old.with_token(new).client();
    client.call(call()).await.expect(200);

    // The kubeconfig is updated, and users with unchanged tokens see no effect.
    assert_eq!(daemon.token(), new);
    let mode = std::fs::metadata(daemon.kubeconfig())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert_eq!(daemon.count(REVOKED).await, 4);
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    assert_eq!(kept.event().await["object"]["metadata"]["name"], "a");

    // A reload recreates a missing kubeconfig.
    std::fs::remove_file(daemon.kubeconfig()).unwrap();
    reload(&daemon).await;
    assert_eq!(daemon.token(), new);
}

#[tokio::test]
async fn a_token_file_of_the_admin_that_is_gone_or_damaged_changes_nothing_but_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon("t-ada,ada,1,system:masters\n", folder.path()).await;
    let target = daemon.target();
    let mut watch = target
        .client()
        .watch(&format!("{CONFIGMAPS}?watch=true"))
        .await;
    let path = daemon.data().join("admin.token");
    for damage in [None, Some(""), Some("two words\n")] {
        match damage {
            Some(text) => replace(&path, text),
            None => std::fs::remove_file(&path).unwrap(),
        }
        // The other file is taken over all the same.
        replace(
            &folder.path().join("tokens.csv"),
            "t-bob,bob,2,system:masters\n",
        );
        let log = reload(&daemon).await;
        let complaints = log.lines().filter(|line| line.contains("ERROR"));
        let complaints: Vec<&str> = complaints.collect();
        assert_eq!(complaints.len(), 1, "{log}");
        for words in ["admin.token: ", "restart the daemon to create one"] {
            assert!(complaints[0].contains(words), "{log}");
        }
        assert!(
            complaints[0].contains("keeping the previous admin token"),
            "{log}"
        );
        assert!(!log.contains("two words"), "{log}");
        assert!(
            log.contains("admin_token=\"kept\" users=1 watches_ended=0"),
            "{log}"
        );
        target
            .client()
            .call(Call::get(CONFIGMAPS))
            .await
            .expect(200);
        let bob = target.with_token("t-bob").client();
        bob.call(Call::get(CONFIGMAPS)).await.expect(200);
    }
    assert!(!log_of_tokens(&daemon), "the log holds a token");
    target
        .client()
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    watch.event().await;
}

fn log_of_tokens(daemon: &Daemon) -> bool {
    let log = daemon.stderr();
    log.contains("t-bob") || log.contains("t-ada") || log.contains(&daemon.token())
}

#[tokio::test]
async fn who_is_taken_out_of_the_file_or_its_groups_loses_the_watches_and_nobody_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let users = "t1,ada,1,system:masters\nt2,bob,2,system:masters\nt3,eve,3,system:masters\n";
    let daemon = daemon(users, folder.path()).await;
    let target = daemon.target();
    let [ada, bob, eve] = ["t1", "t2", "t3"].map(|token| target.with_token(token));
    let mut ended = watches(&ada).await;
    ended.extend(watches(&bob).await);
    let mut kept = watches(&eve).await;
    // Ada is removed, bob has no rights any more, eve has one more group.
    replace(
        &folder.path().join("tokens.csv"),
        "t2,bob,2,crew\nt3,eve,3,\"crew,system:masters\"\n",
    );
    let log = reload(&daemon).await;
    assert!(log.contains("users=2 watches_ended=8"), "{log}");
    for watch in ended {
        ends(watch).await;
    }
    let call = || Call::get(CONFIGMAPS);
    ada.client().call(call()).await.refusal(401, "Unauthorized");
    bob.client().call(call()).await.refusal(403, "Forbidden");
    eve.client().call(call()).await.expect(200);
    for path in [CONFIGMAPS, SECRETS] {
        target
            .client()
            .call(Call::post(path, &body("a", "MQ==")))
            .await
            .expect(201);
    }
    for watch in &mut kept {
        assert_eq!(watch.event().await["object"]["metadata"]["name"], "a");
    }
    assert_eq!(daemon.count(REVOKED).await, 8);

    // A later reload ends what the one before left open.
    replace(&folder.path().join("tokens.csv"), "t2,bob,2,crew\n");
    let log = reload(&daemon).await;
    assert!(log.contains("users=1 watches_ended=4"), "{log}");
    for watch in kept {
        ends(watch).await;
    }
}

#[tokio::test]
async fn a_watch_as_somebody_else_ends_with_the_access_of_who_opened_it_api_284() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(
        "t1,ada,1,system:masters\nt2,bob,2,system:masters\n",
        folder.path(),
    )
    .await;
    let call = |token| {
        let client = daemon.target().with_token(token).client();
        let call = Call::get(&format!("{CONFIGMAPS}?watch=true"));
        let call = call.header("Impersonate-User", "bob");
        (client, call.header("Impersonate-Group", "system:masters"))
    };
    let (client, as_bob) = call("t1");
    let watch = client.lines(as_bob).await.unwrap();
    // Bob, whom it is a watch of, loses what nobody needs here.
    replace(
        &folder.path().join("tokens.csv"),
        "t1,ada,1,system:masters\nt2,bob,2,crew\n",
    );
    let log = reload(&daemon).await;
    assert!(log.contains("users=2 watches_ended=0"), "{log}");
    replace(
        &folder.path().join("tokens.csv"),
        "t1,ada,1,crew\nt2,bob,2,crew\n",
    );
    let log = reload(&daemon).await;
    assert!(log.contains("users=2 watches_ended=1"), "{log}");
    ends(watch).await;
    let (client, as_bob) = call("t1");
    client.call(as_bob).await.refusal(403, "Forbidden");
}

#[tokio::test]
async fn a_file_of_users_that_is_emptied_locks_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon("t-ada,ada,1,system:masters\n", folder.path()).await;
    let ada = daemon.target().with_token("t-ada");
    let mut watch = ada
        .client()
        .watch(&format!("{CONFIGMAPS}?watch=true"))
        .await;
    let path = folder.path().join("tokens.csv");
    for text in ["", "\n", "t-ada,ad"] {
        std::fs::write(&path, text).unwrap();
        let log = reload(&daemon).await;
        let complaints = log.lines().filter(|line| line.contains("ERROR"));
        let complaints: Vec<&str> = complaints.collect();
        assert_eq!(complaints.len(), 1, "{log}");
        for words in ["tokens.csv: ", "keeping the previous users"] {
            assert!(complaints[0].contains(words), "{log}");
        }
        let is_empty = text.trim().is_empty();
        for words in ["renaming a complete file over it", "without this flag"] {
            assert_eq!(complaints[0].contains(words), is_empty, "{log}");
        }
        assert!(log.contains("watches_ended=0"), "{log}");
        let call = Call::get(CONFIGMAPS);
        ada.client().call(call).await.expect(200);
    }
    let call = Call::post(CONFIGMAPS, &body("a", "1"));
    ada.client().call(call).await.expect(201);
    watch.event().await;
    // The last one is taken away by what the message says.
    std::fs::write(&path, "t-joe,joe,1\n").unwrap();
    let log = reload(&daemon).await;
    assert!(log.contains("users=1 watches_ended=1"), "{log}");
    let call = Call::get(CONFIGMAPS);
    ada.client().call(call).await.refusal(401, "Unauthorized");
    ends(watch).await;
}

#[tokio::test]
async fn watches_that_nobody_reads_end_too() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon("t-ada,ada,1,system:masters\n", folder.path()).await;
    let (client, ada) = (daemon.client(), daemon.target().with_token("t-ada"));
    // More than the buffers of sockets on both sides hold.
    let value = "x".repeat(900 << 10);
    for number in 0..10 {
        let name = format!("a{number}");
        client
            .call(Call::post(CONFIGMAPS, &body(&name, &value)))
            .await
            .expect(201);
    }
    let path = format!("{CONFIGMAPS}?watch=true");
    let mut http1 = ada.narrow(16 << 10).tls(&[b"http/1.1"]).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t-ada\r\n\r\n");
    http1.write_all(request.as_bytes()).await.unwrap();
    let http2 = Connection::open(&ada, 1 << 10).await.unwrap();
    let mut stalled = http2.watch(&path).await.unwrap();
    let mut quiet = http2.watch(&format!("{SECRETS}?watch=true")).await.unwrap();

    let open = "apiserver_longrunning_requests";
    until(&daemon, open, 3).await;
    // Until no more data moves.
    tokio::time::sleep(Duration::from_millis(500)).await;
    replace(&folder.path().join("tokens.csv"), "t-bob,bob,2,crew\n");
    let log = reload(&daemon).await;
    assert!(log.contains("watches_ended=3"), "{log}");
    until(&daemon, REVOKED, 3).await;
    until(&daemon, open, 0).await;

    // One stream ends inside an event, which must not look like a normal end.
    let end = tokio::time::timeout(TIMEOUT, stalled.event())
        .await
        .unwrap();
    assert!(end.is_err(), "{end:?}");
    assert!(quiet.event().await.unwrap().is_none());
    client.call(Call::get(&configmap("a0"))).await.expect(200);
}

async fn until(daemon: &Daemon, metric: &str, wanted: u64) {
    let start = Instant::now();
    loop {
        let count = daemon.count(metric).await;
        if count == wanted {
            return;
        }
        assert!(
            start.elapsed() < TIMEOUT,
            "{metric} is {count}, not {wanted}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Lets bob and the service account `a` watch, and returns the token of the account.
async fn grant_watches(daemon: &Daemon) -> String {
    let admin = daemon.client();
    let made = async |path: &str, name: &str, members: Value| {
        let mut object = members;
        object["metadata"] = json!({ "name": name });
        admin.call(Call::post(path, &object)).await.expect(201)
    };
    made(ACCOUNTS, "a", json!({})).await;
    let resources = json!(["configmaps", "secrets"]);
    let rule = json!({ "apiGroups": [""], "resources": resources, "verbs": ["list", "watch"] });
    let roles = format!("{RBAC}/roles");
    made(&roles, "watcher", json!({ "rules": [rule] })).await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "roleRef": { "apiGroup": group, "kind": "Role", "name": "watcher" },
        "subjects": [
            { "apiGroup": group, "kind": "User", "name": "bob" },
            { "kind": "ServiceAccount", "name": "a", "namespace": "default" },
        ],
    });
    made(&format!("{RBAC}/rolebindings"), "watchers", binding).await;
    let token = Call::post(&format!("{ACCOUNTS}/a/token"), &json!({}));
    let token = admin.call(token).await.expect(201)["status"]["token"].clone();
    token.as_str().unwrap().to_owned()
}

/// API-288: the right to watch is checked when a watch begins, as in kube-apiserver. A lost
/// credential ends watches (API-278), but for a deleted account, whose token is refused.
#[tokio::test]
async fn a_right_that_is_taken_away_ends_no_watch_and_begins_none_api_288() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon("t-bob,bob,2,crew\n", folder.path()).await;
    let (admin, token) = (daemon.client(), grant_watches(&daemon).await);
    let users = ["t-bob", &token].map(|token| daemon.target().with_token(token));
    let [mut of_bob, mut of_account] = [watches(&users[0]).await, watches(&users[1]).await];
    let binding = format!("{RBAC}/rolebindings/watchers");
    admin.call(Call::delete(&binding)).await.expect(200);
    for user in &users {
        for path in [CONFIGMAPS, SECRETS] {
            for path in [path.to_owned(), format!("{path}?watch=true")] {
                let refused = user.client().call(Call::get(&path)).await;
                refused.refusal(403, "Forbidden");
            }
        }
    }
    let delivered = async |watches: &mut [Lines], name: &str| {
        for path in [CONFIGMAPS, SECRETS] {
            let object = Call::post(path, &body(name, "MQ=="));
            admin.call(object).await.expect(201);
        }
        for watch in watches {
            while watch.event().await["object"]["metadata"]["name"] != name {}
        }
    };
    delivered(&mut of_bob, "after-the-right").await;
    let account = format!("{ACCOUNTS}/a");
    admin.call(Call::delete(&account)).await.expect(200);
    let refused = users[1].client().call(Call::get(CONFIGMAPS)).await;
    refused.refusal(401, "Unauthorized");
    delivered(&mut of_account, "after-the-account").await;
    assert_eq!(daemon.count(REVOKED).await, 0);

    replace(&folder.path().join("tokens.csv"), "t-eve,eve,3\n");
    let log = reload(&daemon).await;
    assert!(log.contains("users=1 watches_ended=4"), "{log}");
    for watch in of_bob {
        ends(watch).await;
    }
    let refused = users[0].client().call(Call::get(CONFIGMAPS)).await;
    refused.refusal(401, "Unauthorized");
    delivered(&mut of_account, "after-the-token").await;
}
