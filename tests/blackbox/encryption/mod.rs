//! Tests of encryption at rest, with a real daemon and its files.
//!
//! They cover the files of keys, the rotation of keys, and daemons over etcd. They use only the
//! daemon's interfaces, not its code.

mod etcd;
pub mod keys;
pub mod rotation;

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::daemon::{Options, command};
use crate::harness::{CONFIGMAPS, Call, Daemon, body, configmap, version};
use keys::Keys;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Long enough for a cache to be filled again after a failure.
const TIMEOUT: Duration = Duration::from_secs(60);

fn secret(name: &str, text: &str) -> Value {
    json!({
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "data": {"password": BASE64_STANDARD.encode(text)},
    })
}

fn secret_path(name: &str) -> String {
    format!("{SECRETS}/{name}")
}

async fn create(client: &Client, collection: &str, object: &Value) -> Value {
    client
        .call(Call::post(collection, object))
        .await
        .expect(201)
}

/// The files below a folder that hold some bytes.
fn holding(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, bytes));
        } else if let Ok(content) = std::fs::read(&path)
            && content.windows(bytes.len()).any(|window| window == bytes)
        {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Sends requests until the answer has this status.
async fn until(client: &Client, call: impl Fn() -> Call, status: u16) -> Value {
    let start = Instant::now();
    loop {
        let answer = client.call(call()).await;
        if answer.status == status {
            return answer.json();
        }
        assert!(
            start.elapsed() < TIMEOUT,
            "{}: {}",
            answer.status,
            answer.text()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_is_encrypted_from_its_first_write_on_is_nowhere_in_clear_en_5() {
    const TEXT: &str = "correct horse battery staple, in clear";
    let keys = Keys::new(&[
        ("secrets", &["aesgcm:k=1", "identity"]),
        ("configmaps", &["secretbox:k=2", "identity"]),
    ]);
    let flags = [&keys.flag(), "--log-level=debug"];
    let mut daemon = Daemon::with(&flags).await;
    let client = daemon.client();
    let created = create(&client, SECRETS, &secret("a", TEXT)).await;
    create(&client, CONFIGMAPS, &body("b", TEXT)).await;
    for number in 0..50 {
        let patch = json!({"metadata": {"labels": {"count": number.to_string()}}});
        let patched = client
            .call(Call::merge_patch(&secret_path("a"), &patch))
            .await;
        patched.expect(200);
        let patched = client
            .call(Call::merge_patch(&configmap("b"), &patch))
            .await;
        patched.expect(200);
    }
    // A value that can't be stored, and its answer, might be logged.
    client
        .call(Call::post(SECRETS, &secret("a", TEXT)))
        .await
        .expect(409);
    client
        .call(Call::post(SECRETS, &secret("A", TEXT)))
        .await
        .expect(422);
    daemon.compact().await;
    daemon.kill().await;
    daemon.restart().await;
    let read = daemon
        .client()
        .call(Call::get(&secret_path("a")))
        .await
        .expect(200);
    assert_eq!(read["data"]["password"], BASE64_STANDARD.encode(TEXT));
    let read = daemon
        .client()
        .call(Call::get(&configmap("b")))
        .await
        .expect(200);
    assert_eq!(read["data"]["k"], TEXT);
    // What happened before the restart is read from history.
    let watch = format!("{SECRETS}?watch=1&resourceVersion={}", version(&created));
    let mut watch = daemon.client().watch(&watch).await;
    for number in 0..50 {
        let event = watch.event().await;
        let label = &event["object"]["metadata"]["labels"]["count"];
        assert_eq!(
            (&event["type"], label),
            (&json!("MODIFIED"), &json!(number.to_string()))
        );
        assert_eq!(event["object"]["data"], created["data"]);
    }
    drop(watch);
    daemon.stop(Signal::TERM).await;

    let folder = daemon.folder();
    // A text may begin at any position within base64's groups of three.
    let encoded = BASE64_STANDARD.encode(TEXT);
    for clear in [
        TEXT.as_bytes(),
        &TEXT.as_bytes()[3..],
        &encoded.as_bytes()[..40],
    ] {
        let found = holding(folder.path(), clear);
        assert!(
            found.is_empty(),
            "{} is in {found:?}",
            String::from_utf8_lossy(clear)
        );
    }
    // The test finds what is there: what is not about a rule is in clear.
    assert!(!holding(folder.path(), b"k8s:enc:aesgcm:v1:k:").is_empty());
    assert!(!holding(folder.path(), b"kube-system").is_empty());
}

#[tokio::test]
async fn a_stale_value_is_written_by_a_put_that_changes_nothing_and_a_fresh_one_is_not_st_56_pf_4()
{
    let keys = Keys::new(&[("secrets", &["aescbc:old=1"])]);
    let daemon = Daemon::with(&[&keys.flag()]).await;
    let client = daemon.client();
    let created = create(&client, SECRETS, &secret("a", "text")).await;
    keys.write(&[("secrets", &["aesgcm:new=2", "aescbc:old=1"])]);
    reload(&daemon, "has been reloaded").await;
    let watch = format!("{SECRETS}?watch=1&resourceVersion={}", version(&created));
    let mut watch = client.watch(&watch).await;

    let put = || Call::put(&secret_path("a"), &created);
    let written = client.call(put()).await.expect(200);
    assert!(version(&written) > version(&created), "nothing was written");
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], version(&event["object"])),
        (&json!("MODIFIED"), version(&written))
    );
    let put = || Call::put(&secret_path("a"), &written);
    let again = client.call(put()).await.expect(200);
    assert_eq!(
        version(&again),
        version(&written),
        "a fresh value was written anew"
    );

    // By a patch, too, and though the value was in clear.
    let plain = create(&client, CONFIGMAPS, &body("b", "text")).await;
    keys.write(&[("secrets, configmaps", &["aesgcm:new=2", "identity"])]);
    reload(&daemon, "has been reloaded").await;
    let patch = || Call::merge_patch(&configmap("b"), &json!({}));
    let written = client.call(patch()).await.expect(200);
    assert!(version(&written) > version(&plain), "nothing was written");
    let again = client.call(patch()).await.expect(200);
    assert_eq!(version(&again), version(&written));
}

/// Reloads the file, and waits until the log has this outcome.
async fn reload(daemon: &Daemon, outcome: &str) {
    let before = daemon.stderr().matches(outcome).count();
    daemon.signal(Signal::HUP);
    let start = Instant::now();
    while daemon.stderr().matches(outcome).count() == before {
        assert!(
            start.elapsed() < TIMEOUT,
            "no {outcome:?} in\n{}",
            daemon.stderr()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_hangup_reloads_the_file_and_a_wrong_one_changes_nothing_en_17() {
    let keys = Keys::new(&[("secrets", &["aesgcm:k=1"])]);
    let flag = "--encryption-provider-config-automatic-reload";
    let daemon = Daemon::with(&[&keys.flag(), flag]).await;
    let client = daemon.client();
    create(&client, SECRETS, &secret("a", "text")).await;
    reload(&daemon, "the encryption configuration has not changed").await;
    keys.write_text("kind: EncryptionConfiguration\n");
    reload(&daemon, "was not reloaded").await;
    create(&client, SECRETS, &secret("b", "text")).await;
    keys.write(&[("secrets", &["secretbox:k=1", "aesgcm:k=1"])]);
    reload(&daemon, "has been reloaded").await;
    create(&client, SECRETS, &secret("c", "text")).await;
    let data = daemon.data();
    assert!(!holding(&data, b"k8s:enc:secretbox:v1:k:").is_empty());
    for name in ["a", "b", "c"] {
        client.call(Call::get(&secret_path(name))).await.expect(200);
    }
    // ME-51 to ME-53, and what is transformed (ME-40, ME-41).
    let page = client.call(Call::get("/metrics")).await.text();
    for line in [
        "apiserver_encryption_config_controller_automatic_reloads_total{status=\"success\",",
        "apiserver_encryption_config_controller_automatic_reloads_total{status=\"failure\",",
        "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds{status=",
        "apiserver_encryption_config_controller_last_config_info{hash=\"sha256:",
        "apiserver_storage_transformation_operations_total{resource=\"secrets\",",
        "apiserver_storage_transformation_duration_seconds_bucket{transformation_type=",
    ] {
        assert!(page.contains(line), "no {line} in\n{page}");
    }
    // EN-18: there whenever the file may bring a key service in, and not a matter of life.
    for (root, status) in [("healthz", 200), ("readyz", 200), ("livez", 404)] {
        let path = format!("/{root}/kms-providers");
        assert_eq!(client.call(Call::get(&path)).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn without_the_key_nothing_is_lost_and_with_it_all_is_there_again_pf_20() {
    let keys = Keys::new(&[("secrets", &["aesgcm:k=1"])]);
    let options = || Options::default().arguments(&[&keys.flag(), "--log-level=info"]);
    let mut daemon = options().start().await;
    let client = daemon.client();
    let mut created = Vec::new();
    for name in ["a", "b"] {
        created.push(create(&client, SECRETS, &secret(name, name)).await);
    }
    create(&client, CONFIGMAPS, &body("c", "1")).await;
    daemon.stop(Signal::TERM).await;

    for (provider, told) in [
        // Another key of the same name, and none of that name.
        (
            "aesgcm:k=2",
            "k8s:enc:aesgcm:v1:k: the key is not the one it was encrypted with",
        ),
        (
            "aesgcm:new=1",
            "k8s:enc:aesgcm:v1:k: this key is not among those configured",
        ),
        ("identity", "it was written by k8s:enc:aesgcm:v1:k:, which"),
    ] {
        keys.write(&[("secrets", &[provider])]);
        let mut daemon = options()
            .over(daemon.folder())
            .arguments(&["--storage-initialization-timeout=100ms"])
            .start()
            .await;
        let client = daemon.client();
        for call in [
            Call::get(&secret_path("a")),
            Call::put(&secret_path("a"), &created[0]),
            Call::merge_patch(
                &secret_path("a"),
                &json!({"metadata": {"labels": {"x": "y"}}}),
            ),
        ] {
            let told_to_client = client.call(call).await.refusal(500, "InternalError");
            let message = told_to_client["message"].as_str().unwrap();
            assert!(message.contains("/registry/secrets/default/a"), "{message}");
            assert!(message.contains(told), "{message}");
        }
        // An unreadable value does not count as absent, and is not replaced or deleted.
        let list = client
            .call(Call::get(SECRETS))
            .await
            .refusal(500, "InternalError");
        assert!(list["message"].as_str().unwrap().contains(told), "{list}");
        let limited = format!("{SECRETS}?limit=1");
        client
            .call(Call::get(&limited))
            .await
            .refusal(500, "InternalError");
        let one = format!("{SECRETS}?fieldSelector=metadata.name=a");
        client
            .call(Call::get(&one))
            .await
            .refusal(500, "InternalError");
        client
            .call(Call::delete(&secret_path("a")))
            .await
            .refusal(500, "InternalError");
        client
            .call(Call::delete(SECRETS))
            .await
            .refusal(500, "InternalError");
        let again = Call::post(SECRETS, &secret("a", "other"));
        assert!(matches!(
            client.call(again).await.status.as_u16(),
            409 | 500
        ));
        // Nothing that a watch of the state could begin with.
        let mut watch = client.watch(&format!("{SECRETS}?watch=1")).await;
        let event = watch.event().await;
        assert_eq!(
            (&event["type"], &event["object"]["code"]),
            (&json!("ERROR"), &json!(500))
        );
        // What can be read is not touched by it.
        let patch = json!({"data": {"k": provider}});
        client
            .call(Call::merge_patch(&configmap("c"), &patch))
            .await
            .expect(200);
        let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
        assert_eq!(list["items"][0]["data"]["k"], provider);
        // A readable value among unreadable ones is still served.
        if provider != "identity" {
            create(&client, SECRETS, &secret("new", "new")).await;
            client
                .call(Call::get(&secret_path("new")))
                .await
                .expect(200);
            client
                .call(Call::get(SECRETS))
                .await
                .refusal(500, "InternalError");
            client
                .call(Call::delete(&secret_path("new")))
                .await
                .expect(200);
        }

        keys.write(&[("secrets", &["aesgcm:k=1"])]);
        reload(&daemon, "has been reloaded").await;
        let list = until(&client, || Call::get(SECRETS), 200).await;
        let items = list["items"].as_array().unwrap();
        let versions: Vec<u64> = items.iter().map(version).collect();
        assert_eq!(versions, created.iter().map(version).collect::<Vec<_>>());
        assert_eq!(items[1]["data"], created[1]["data"]);
        daemon.stop(Signal::TERM).await;
    }
}

#[test]
fn a_file_that_can_not_be_used_ends_the_start_with_one_line_and_exit_code_2_sf_17_sf_32() {
    let keys = Keys::new(&[]);
    let run = |arguments: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let output = command(folder.path(), 0).args(arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
        stderr
    };
    for (rules, told) in [
        (
            "- resources: [secrets]\n  providers: [aesgcm: {keys: [{name: k, secret: MTIzNDU=}]}]\n",
            "error while parsing the file: resources[0].providers[0].aesgcm.keys[0].secret: \
             Invalid value: \"REDACTED\": it has 5 bytes",
        ),
        (
            "- {resources: ['*.'], providers: [identity: {}]}\n\
             - {resources: [secrets], providers: [identity: {}]}\n",
            "error while building the transformers: resources[1].resources[0]: secrets is masked",
        ),
        (
            "- {resources: [secrets], providers: [kms: {name: k, endpoint: 'unix:///k'}]}\n",
            "resources[0].providers[0].kms: Forbidden: kms is not built yet",
        ),
    ] {
        keys.write_text(&format!(
            "kind: EncryptionConfig\napiVersion: v1\nresources:\n{rules}"
        ));
        let stderr = run(&[&keys.flag()]);
        assert!(stderr.contains(told), "{stderr}");
        assert!(stderr.contains(&keys.flag()), "{stderr}");
    }
    let stderr = run(&["--encryption-provider-config=/does/not/exist"]);
    assert!(
        stderr.contains("parsing the file: it can't be read: No such file"),
        "{stderr}"
    );
    // SF-18: it needs the file.
    let stderr = run(&["--encryption-provider-config-automatic-reload"]);
    assert!(
        stderr.contains("without --encryption-provider-config; set both"),
        "{stderr}"
    );
}

#[tokio::test]
async fn a_file_that_others_can_read_and_a_misspelt_resource_are_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let keys = Keys::new(&[("secret, configmaps", &["aesgcm:k=1", "identity"])]);
    let flag = keys.flag();
    let (_, path) = flag.split_once('=').unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let daemon = Daemon::with(&[&flag]).await;
    let log = daemon.stderr();
    assert!(
        log.contains("others than its owner can read the file of keys"),
        "{log}"
    );
    assert!(
        log.contains("no such resource is served") && log.contains("secret"),
        "{log}"
    );
}
