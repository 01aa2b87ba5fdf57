//! `taffrail backup` and `taffrail restore`: of a daemon under load, without a daemon, from and to
//! an etcd, to a point in the past, and with bad input.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::daemon::{Options, taffrail};
use crate::harness::{CONFIGMAPS, Call, Daemon, body, configmap, version};
use crate::load::mixed::{MixedLoad, collection};
use crate::load::{Random, seed};
use crate::servers::etcd::Cluster;

async fn run(arguments: &[&str]) -> Output {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let run = move || taffrail().args(arguments).output().unwrap();
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// What a command that succeeds prints.
pub async fn done(arguments: &[&str]) -> String {
    let output = run(arguments).await;
    let (told, problem) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {told}{problem}");
    told
}

/// The only line of a command that fails.
async fn refused(arguments: &[&str]) -> String {
    let output = run(arguments).await;
    let problem = text(&output.stderr);
    assert!(!output.status.success(), "{arguments:?} succeeds");
    assert_eq!(problem.lines().count(), 1, "{arguments:?}: {problem}");
    problem
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The number after a word.
fn number_after(text: &str, word: &str) -> u64 {
    let (_, rest) = text
        .split_once(word)
        .unwrap_or_else(|| panic!("{word} in {text}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Backs a daemon up. Answers the file and its revision.
async fn backup(daemon: &Daemon, folder: &Path, name: &str) -> (PathBuf, u64) {
    let file = folder.join(name);
    let data = daemon.data();
    let told = done(&["backup", path(&file), "--data-dir", path(&data)]).await;
    (file, number_after(&told, "revision "))
}

/// A daemon on a store that is restored with these further flags.
pub async fn restored(file: &Path, flags: &[&str]) -> (Daemon, String) {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let data = folder.path().join("data");
    let mut arguments = vec!["restore", path(file), "--data-dir", path(&data)];
    arguments.extend(flags);
    let told = done(&arguments).await;
    (Options::default().over(folder).start().await, told)
}

async fn listed(daemon: &Daemon, at: &str) -> Value {
    let path = format!("{}{at}", collection());
    daemon.client().call(Call::get(&path)).await.expect(200)
}

fn exact(revision: u64) -> String {
    format!("?resourceVersion={revision}&resourceVersionMatch=Exact")
}

/// The objects without what an etcd numbers itself.
fn without_versions(list: &Value) -> Vec<Value> {
    let mut items = list["items"].as_array().unwrap().clone();
    for item in &mut items {
        item["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
    }
    items
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_the_state_and_history_of_one_revision() {
    let seed = seed();
    println!("TAFFRAIL_SEED={seed}");
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start().await;
    let load = MixedLoad::begin(&daemon.target(), &mut random).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let (file, revision) = backup(&daemon, folder.path(), "one").await;
    let earlier = revision - random.below(revision / 2);
    // Restored while the daemon goes on.
    let (newest, told) = restored(&file, &[]).await;
    assert!(
        told.contains("--bump-revision makes them list again"),
        "{told}"
    );
    let to = format!("--to-revision={earlier}");
    let (past, told) = restored(&file, &[&to]).await;
    assert!(
        told.contains(&format!("the state of revision {earlier};")),
        "{told}"
    );
    load.end(&daemon.target()).await;

    let wanted = listed(&daemon, &exact(revision)).await;
    assert!(wanted["items"].as_array().unwrap().len() > 10);
    assert_eq!(listed(&newest, &exact(revision)).await, wanted);
    assert_eq!(
        listed(&newest, &exact(earlier)).await,
        listed(&daemon, &exact(earlier)).await
    );
    assert_eq!(
        listed(&past, &exact(earlier)).await,
        listed(&daemon, &exact(earlier)).await
    );
    // History goes on where it was, event by event.
    let from = format!(
        "{}?watch=true&resourceVersion={earlier}&timeoutSeconds=2",
        collection()
    );
    let events = |all: Vec<Value>| {
        let is_old = |event: &Value| version(&event["object"]) <= revision;
        all.into_iter().filter(is_old).collect::<Vec<_>>()
    };
    let before = events(daemon.client().watch(&from).await.rest().await);
    let after = events(newest.client().watch(&from).await.rest().await);
    assert_eq!(after, before);
    let created = newest
        .client()
        .call(Call::post(CONFIGMAPS, &body("new", "1")))
        .await;
    assert!(version(&created.expect(201)) > revision);
}

#[tokio::test]
async fn a_raised_revision_makes_clients_of_later_ones_list_again() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let (file, revision) = backup(&daemon, folder.path(), "one").await;
    // Written after the backup, and seen by a client.
    let created = client
        .call(Call::post(CONFIGMAPS, &body("lost", "1")))
        .await;
    let seen = version(&created.expect(201));
    let (restored, told) = restored(&file, &["--bump-revision=1000000"]).await;
    let raised = revision + 1_000_000;
    assert!(
        told.contains(&format!("which is revision {raised} from now on")),
        "{told}"
    );
    let client = restored.client();
    let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    assert!(version(&list) >= raised, "{list}");
    let names: Vec<&Value> = list["items"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0]["metadata"]["name"], "a");
    for stale in [seen, revision] {
        let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={stale}");
        let event = client.watch(&path).await.event().await;
        assert_eq!(
            (&event["type"], &event["object"]["code"]),
            (&json!("ERROR"), &json!(410))
        );
    }
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={}", version(&list));
    let mut watch = client.watch(&path).await;
    let patch = json!({ "data": { "k": "2" } });
    let patched = client
        .call(Call::merge_patch(&configmap("a"), &patch))
        .await;
    assert!(version(&patched.expect(200)) > raised);
    assert_eq!(watch.event().await["object"]["data"]["k"], "2");
}

#[tokio::test]
async fn a_backup_goes_back_to_a_time_within_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let then = jiff::Timestamp::now().to_string();
    tokio::time::sleep(Duration::from_millis(50)).await;
    client.call(Call::delete(&configmap("a"))).await.expect(200);
    let (file, _) = backup(&daemon, folder.path(), "one").await;
    let (restored, _) = restored(&file, &[&format!("--to-time={then}")]).await;
    let found = restored.client().call(Call::get(&configmap("a"))).await;
    assert_eq!(found.expect(200)["data"]["k"], "1");

    let data = folder.path().join("early");
    let early = [
        "restore",
        path(&file),
        "--data-dir",
        path(&data),
        "--to-time=2001-01-01T00:00:00Z",
    ];
    let problem = refused(&early).await;
    assert!(problem.contains("its history begins at 20"), "{problem}");
    let late = [
        "restore",
        path(&file),
        "--data-dir",
        path(&data),
        "--to-revision=1000000",
    ];
    let problem = refused(&late).await;
    assert!(
        problem.contains("revision 1000000 is not in it: it holds revisions"),
        "{problem}"
    );
    assert!(!data.join("events.redb").exists());
}

/// Objects with a lease go when what was left of it is over, and not before a restart of it.
#[tokio::test]
async fn what_expires_is_restored_with_the_time_that_it_has_left() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with(&["--event-ttl=12s"]).await;
    let event = json!({
        "metadata": { "name": "e", "namespace": "default" },
        "involvedObject": { "namespace": "default" },
    });
    let events = "/api/v1/namespaces/default/events";
    daemon
        .client()
        .call(Call::post(events, &event))
        .await
        .expect(201);
    let (file, _) = backup(&daemon, folder.path(), "one").await;
    let (restored, _) = restored(&file, &[]).await;
    let client = restored.client();
    let one = format!("{events}/e");
    client.call(Call::get(&one)).await.expect(200);
    let begun = std::time::Instant::now();
    while client.call(Call::get(&one)).await.status != 404 {
        assert!(begun.elapsed() < Duration::from_secs(40), "it stays");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_goes_to_an_etcd_and_an_etcd_into_a_backup() {
    let mut random = Random::new(seed());
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start().await;
    let load = MixedLoad::begin(&daemon.target(), &mut random).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    load.end(&daemon.target()).await;
    let wanted = without_versions(&listed(&daemon, "").await);
    daemon.stop(rustix::process::Signal::TERM).await;
    // Without a daemon the command opens the directory.
    let (file, revision) = backup(&daemon, folder.path(), "one").await;

    let cluster = Cluster::single("3.5");
    let url = cluster.urls()[0].clone();
    let servers = format!("--etcd-servers={url}");
    let told = done(&["restore", path(&file), "--to=etcd", &servers]).await;
    assert!(
        told.contains(&format!("the state of revision {revision}, which etcd")),
        "{told}"
    );
    let over = Daemon::with(&[&servers]).await;
    assert_eq!(without_versions(&listed(&over, "").await), wanted);
    let again = refused(&["restore", path(&file), "--to=etcd", &servers]).await;
    assert!(
        again.contains("it holds keys below /registry/ already"),
        "{again}"
    );

    // Once through the daemon, once without it; then back into a directory.
    let (through, _) = backup(&over, folder.path(), "through").await;
    let direct = folder.path().join("direct");
    let told = done(&["backup", path(&direct), "--from=etcd", &servers]).await;
    assert!(told.contains("without history"), "{told}");
    for file in [through, direct] {
        let (restored, _) = restored(&file, &[]).await;
        assert_eq!(without_versions(&listed(&restored, "").await), wanted);
        let etcd = listed(&over, "").await;
        assert_eq!(
            listed(&restored, "").await["items"],
            etcd["items"],
            "with etcd's versions"
        );
    }
}

#[tokio::test]
async fn bad_input_is_refused_in_one_line_and_leaves_everything_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start().await;
    let (file, _) = backup(&daemon, folder.path(), "one").await;
    let served = daemon.data();
    let (file, served) = (path(&file), path(&served));
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();

    let bytes = std::fs::read(file).unwrap();
    let mut changed = bytes.clone();
    changed[bytes.len() / 2] ^= 1;
    std::fs::write(at("changed"), &changed).unwrap();
    std::fs::write(at("short"), &bytes[..bytes.len() / 2]).unwrap();
    std::fs::write(at("text"), "kind: ConfigMap\n").unwrap();
    std::fs::write(at("empty"), "").unwrap();
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&Path::new(file).metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    let (new, fifo) = (at("new"), at("fifo"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fifo.as_str(),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let nothing_there = at("nothing");
    let unwritable = "/proc/nowhere/backup".to_owned();
    let cases: &[(&[&str], &str)] = &[
        (
            &["backup", file, "--data-dir", served],
            "exists already; choose another name",
        ),
        (
            &["backup", &unwritable, "--data-dir", served],
            "No such file or directory",
        ),
        (
            &["backup", &at("b"), "--data-dir", &nothing_there],
            "there is no such directory",
        ),
        (
            &["backup", &at("b"), "--from=etcd"],
            "--etcd-servers names no server",
        ),
        (
            &["backup", &at("b"), "--from=tape"],
            "--from=tape: it takes etcd",
        ),
        (&["backup"], "<FILE> is missing"),
        (
            &["restore", &at("changed"), "--data-dir", &new],
            "it is damaged",
        ),
        (
            &["restore", &at("short"), "--data-dir", &new],
            "it is cut short after",
        ),
        (
            &["restore", &at("text"), "--data-dir", &new],
            "it is not a taffrail backup",
        ),
        (
            &["restore", &at("empty"), "--data-dir", &new],
            "it is cut short after 0 bytes",
        ),
        (
            &["restore", &at("none"), "--data-dir", &new],
            "No such file or directory",
        ),
        (
            &["restore", &fifo, "--data-dir", &new],
            "a named pipe and not a regular file",
        ),
        (
            &["restore", path(folder.path()), "--data-dir", &new],
            "a directory and not a regular file",
        ),
        (&["restore", file, "--data-dir", served], "is in use by"),
        (
            &["restore", file, "--data-dir", &new, "--to-time=yesterday"],
            "--to-time",
        ),
        (
            &[
                "restore",
                file,
                "--data-dir",
                &new,
                "--to-revision=1",
                "--to-time=2026-01-01T00:00:00Z",
            ],
            "give one of them",
        ),
        (
            &[
                "restore",
                file,
                "--data-dir",
                &new,
                "--bump-revision=18446744073709551615",
            ],
            "revisions end at",
        ),
        (
            &["restore", file, "--to=etcd", "--bump-revision=1"],
            "an etcd numbers revisions itself",
        ),
    ];
    for (arguments, said) in cases {
        let problem = refused(arguments).await;
        assert!(problem.contains(said), "{arguments:?}: {problem}");
    }
    assert!(!Path::new(&new).join("events.redb").exists());
    assert!(!Path::new(&at("b")).exists());
    daemon
        .client()
        .call(Call::get(CONFIGMAPS))
        .await
        .expect(200);
    assert_eq!(std::fs::read(file).unwrap(), bytes);
    no_second_store(file, folder).await;
}

/// A directory that holds a store is left alone.
async fn no_second_store(file: &str, folder: TempDir) {
    let new = folder.path().join("twice");
    let arguments = ["restore", file, "--data-dir", path(&new)];
    done(&arguments).await;
    let before = std::fs::read(new.join("events.redb")).unwrap();
    let problem = refused(&arguments).await;
    assert!(
        problem.contains("holds a store already: choose a new or empty"),
        "{problem}"
    );
    assert_eq!(std::fs::read(new.join("events.redb")).unwrap(), before);
}
