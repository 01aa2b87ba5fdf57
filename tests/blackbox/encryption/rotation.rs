//! `taffrail storage rewrite`: an old key becomes unnecessary while clients continue.

use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;

use super::*;
use crate::harness::daemon::taffrail;

/// More than one page of a rewriting.
const SECRETS_COUNT: usize = 1200;

const OLD: &[(&str, &[&str])] = &[("secrets", &["aesgcm:old=1"])];
const BOTH: &[(&str, &[&str])] = &[("secrets", &["secretbox:new=2", "aesgcm:old=1"])];
const NEW: &[(&str, &[&str])] = &[("secrets", &["secretbox:new=2"])];

const OLD_PREFIX: &[u8] = b"k8s:enc:aesgcm:v1:old:";
const DONE: &str = "nothing that is stored needs an old key any more";

fn name(number: usize) -> String {
    format!("s{number:05}")
}

/// Creates many secrets.
async fn fill(daemon: &Daemon) {
    let client = daemon.client();
    let writers = (0..16).map(|writer| {
        let client = &client;
        async move {
            for number in (writer..SECRETS_COUNT).step_by(16) {
                create(client, SECRETS, &secret(&name(number), &name(number))).await;
            }
        }
    });
    join_all(writers).await;
}

/// Starts `taffrail storage rewrite`.
pub fn begin(daemon: &Daemon) -> Child {
    taffrail()
        .args(["storage", "rewrite", "--data-dir"])
        .arg(daemon.data())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

pub async fn end(child: Child) -> Output {
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
    waiting.await.unwrap().unwrap()
}

/// Runs it to success and returns the number of rewritten values.
async fn rewrite(daemon: &Daemon) -> usize {
    let output = end(begin(daemon)).await;
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains(DONE), "{stdout}");
    assert!(stderr.contains("pass 1: secrets: "), "{stderr}");
    let (_, rewritten) = stdout.split_once(" resources, rewrote ").unwrap();
    rewritten.lines().next().unwrap().parse().unwrap()
}

/// Checks that all secrets exist.
async fn check(daemon: &Daemon) {
    let list = until(&daemon.client(), || Call::get(SECRETS), 200).await;
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), SECRETS_COUNT);
    for (number, item) in items.iter().enumerate() {
        let password = BASE64_STANDARD.encode(name(number));
        assert_eq!(item["data"]["password"], password, "{item}");
    }
}

/// Removes the old key, and checks that it is not needed.
async fn part_with_the_old_key(keys: &Keys, daemon: &mut Daemon) {
    assert_eq!(holding(&daemon.data(), OLD_PREFIX), Vec::<String>::new());
    keys.write(NEW);
    reload(daemon, "has been reloaded").await;
    check(daemon).await;
    daemon.kill().await;
    daemon.restart().await;
    check(daemon).await;
}

/// Waits until one secret is rewritten.
async fn has_begun(client: &Client, secret: &str, before: u64) {
    let start = Instant::now();
    loop {
        let found = client
            .call(Call::get(&secret_path(secret)))
            .await
            .expect(200);
        if version(&found) > before {
            return;
        }
        assert!(start.elapsed() < TIMEOUT, "it does not begin");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_key_may_go_once_everything_is_rewritten_st_56_pf_4() {
    let keys = Keys::new(OLD);
    let mut daemon = Daemon::with(&[&keys.flag()]).await;
    fill(&daemon).await;
    let client = daemon.client();
    let client = &client;
    // A deleted secret is still in history, under the old key.
    create(client, SECRETS, &secret("gone", "text")).await;
    client
        .call(Call::delete(&secret_path("gone")))
        .await
        .expect(200);
    let before = client
        .call(Call::get(&secret_path(&name(7))))
        .await
        .expect(200);
    let watch = format!(
        "{SECRETS}?watch=1&fieldSelector=metadata.name={}&resourceVersion={}",
        name(7),
        version(&before)
    );
    let mut watch = client.watch(&watch).await;
    assert!(!holding(&daemon.data(), OLD_PREFIX).is_empty());

    // The file was not reloaded. The rewrite checks it itself.
    keys.write(BOTH);
    assert_eq!(rewrite(&daemon).await, SECRETS_COUNT);
    let event = watch.event().await;
    assert_eq!(event["type"], "MODIFIED");
    assert!(version(&event["object"]) > version(&before));
    assert_eq!(event["object"]["data"], before["data"]);
    assert_eq!(rewrite(&daemon).await, 0, "it was done before");
    check(&daemon).await;
    part_with_the_old_key(&keys, &mut daemon).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewriting_that_was_cut_off_goes_on_where_it_was() {
    let keys = Keys::new(OLD);
    let mut daemon = Daemon::with(&[&keys.flag()]).await;
    fill(&daemon).await;
    keys.write(BOTH);

    // The client dies.
    let before = daemon
        .client()
        .call(Call::get(&secret_path(&name(0))))
        .await
        .expect(200);
    let mut client = begin(&daemon);
    has_begun(&daemon.client(), &name(0), version(&before)).await;
    client.kill().unwrap();
    client.wait().unwrap();

    // The daemon dies. Both together may have come to the end, on a very fast machine.
    let client = begin(&daemon);
    daemon.kill().await;
    let output = end(client).await;
    assert!(!output.status.success());
    assert!(!String::from_utf8(output.stdout).unwrap().contains(DONE));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.starts_with("taffrail storage rewrite: ")
            || stderr.contains("\ntaffrail storage rewrite: "),
        "{stderr}"
    );

    daemon.restart().await;
    let rewritten = rewrite(&daemon).await;
    assert!(rewritten < SECRETS_COUNT, "all were rewritten once more");
    check(&daemon).await;
    part_with_the_old_key(&keys, &mut daemon).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_write_on_while_everything_is_rewritten_and_lose_nothing() {
    const WRITERS: usize = 4;
    let keys = Keys::new(OLD);
    let mut daemon = Daemon::with(&[&keys.flag()]).await;
    fill(&daemon).await;
    keys.write(BOTH);
    let done = Arc::new(AtomicBool::new(false));
    let writers = (0..WRITERS).map(|writer| {
        let (client, done) = (daemon.client(), done.clone());
        tokio::spawn(async move {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) || count < 50 {
                let number = (count * 37 + writer) % SECRETS_COUNT;
                let label = format!("writer-{writer}");
                let patch = json!({"metadata": {"labels": {label: count.to_string()}}});
                let patch = Call::merge_patch(&secret_path(&name(number)), &patch);
                client.call(patch).await.expect(200);
                count += 1;
            }
            count
        })
    });
    let writers: Vec<_> = writers.collect();
    let rewritten = rewrite(&daemon).await;
    done.store(true, Ordering::Relaxed);
    assert!(rewritten > 0 && rewritten <= SECRETS_COUNT, "{rewritten}");
    for (writer, counting) in writers.into_iter().enumerate() {
        // The newest of a writer's labels on each object is what it wrote last there.
        let count = counting.await.unwrap();
        let mut last = vec![None; SECRETS_COUNT];
        for step in 0..count {
            last[(step * 37 + writer) % SECRETS_COUNT] = Some(step.to_string());
        }
        let list = daemon.client().call(Call::get(SECRETS)).await.expect(200);
        for (item, last) in list["items"].as_array().unwrap().iter().zip(last) {
            let label = &item["metadata"]["labels"][format!("writer-{writer}")];
            assert_eq!(label.as_str(), last.as_deref(), "{item}");
        }
    }
    check(&daemon).await;
    assert_eq!(rewrite(&daemon).await, 0);
    part_with_the_old_key(&keys, &mut daemon).await;
}

#[tokio::test]
async fn a_rewriting_that_can_not_read_everything_says_what_and_keeps_the_key() {
    let keys = Keys::new(OLD);
    let daemon = Daemon::with(&[&keys.flag()]).await;
    let client = daemon.client();
    create(&client, SECRETS, &secret("a", "text")).await;
    keys.write(&[("secrets", &["aesgcm:middle=3", "aesgcm:old=1"])]);
    reload(&daemon, "has been reloaded").await;
    create(&client, SECRETS, &secret("b", "text")).await;

    // The key of one value is removed too early.
    keys.write(&[("secrets", &["secretbox:new=2", "aesgcm:old=1"])]);
    let output = end(begin(&daemon)).await;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(output.stdout.is_empty());
    assert!(
        stderr.contains("1 values can't be read by any key"),
        "{stderr}"
    );
    assert!(stderr.contains("/registry/secrets/default/b"), "{stderr}");
    assert!(stderr.contains("k8s:enc:aesgcm:v1:middle:"), "{stderr}");

    // Unauthorized users may not request it.
    let stranger = daemon.target().anonymous().client();
    let asked = stranger
        .call(Call::new("POST", "/taffrail/v1/storage/rewrite"))
        .await;
    assert!(
        matches!(asked.status.as_u16(), 401 | 403),
        "{}",
        asked.text()
    );
    let asked = client.call(Call::get("/taffrail/v1/storage/rewrite")).await;
    assert_eq!(asked.status, 405);

    // A file that is wrong is not gone by.
    keys.write_text("kind: EncryptionConfiguration\n");
    let output = end(begin(&daemon)).await;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error while parsing the file"), "{stderr}");

    keys.write(&[(
        "secrets",
        &["secretbox:new=2", "aesgcm:middle=3", "aesgcm:old=1"],
    )]);
    assert_eq!(rewrite(&daemon).await, 1);
    let list = until(&client, || Call::get(SECRETS), 200).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn without_encryption_a_rewrite_of_current_values_touches_nothing_and_history_stays() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let from = version(&create(&client, SECRETS, &secret("a", "a")).await);
    create(&client, SECRETS, &secret("b", "b")).await;
    let output = end(begin(&daemon)).await;
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    for part in [
        "rewrote 0\n",
        "--encryption-provider-config is not set",
        "no history was forgotten",
    ] {
        assert!(stdout.contains(part), "{stdout}");
    }
    let path = format!("{SECRETS}?watch=true&resourceVersion={from}");
    let event = client.watch(&path).await.event().await;
    assert_eq!(event["object"]["metadata"]["name"], "b");
}
