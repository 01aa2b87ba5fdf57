//! Load that affects every metric: requests of each verb, watches, failures, compaction.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::join_all;
use serde_json::json;

use crate::harness::{CONFIGMAPS, Call, Client, Target, body, configmap};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const NAMESPACES: &str = "/api/v1/namespaces";

/// How long anything may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Objects are counted each second, events expire soon, and the rings are so small that watches
/// fall behind them.
pub const FLAGS: [&str; 3] = [
    "--etcd-count-metric-poll-period=1s",
    "--event-ttl=10s",
    "--watch-ring-bytes=1KiB",
];

/// A file of `--encryption-provider-config` that encrypts Secrets with this key; its flag.
pub fn encryption(folder: &Path, key: u8) -> String {
    let path = folder.join(format!("encryption-{key}.yaml"));
    let config = json!({
        "kind": "EncryptionConfiguration",
        "apiVersion": "apiserver.config.k8s.io/v1",
        "resources": [{
            "resources": ["secrets"],
            "providers": [
                { "aesgcm": { "keys": [
                    { "name": "key", "secret": BASE64_STANDARD.encode([key; 32]) },
                ] } },
                { "identity": {} },
            ],
        }],
    });
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&path);
    // JSON is YAML.
    file.unwrap()
        .write_all(config.to_string().as_bytes())
        .unwrap();
    format!("--encryption-provider-config={}", path.display())
}

/// One round of everything. `number` tells the objects of rounds apart.
pub async fn round(target: &Target, number: usize) {
    let client = target.client();
    let name = format!("r{number}");
    let created = client.call(Call::post(CONFIGMAPS, &body(&name, "1"))).await;
    created.expect(201);
    let initial = format!(
        "{CONFIGMAPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
         &resourceVersionMatch=NotOlderThan"
    );
    let mut watch = client.watch(&initial).await;
    watch.event().await;
    reads(&client, &name).await;
    writes(&client, &name).await;
    watch.event().await;
    goes_back(&client).await;
    namespace_comes_and_goes(&client, &name).await;
    owners_come_and_go(&client, &name).await;
    fails(&client, target).await;
    let compacted = client.call(Call::new("POST", "/taffrail/v1/compact"));
    compacted.await.expect(200);
}

async fn reads(client: &Client, name: &str) {
    client.call(Call::get(&configmap(name))).await.expect(200);
    for list in [
        CONFIGMAPS.to_owned(),
        "/api/v1/configmaps".to_owned(),
        format!("{CONFIGMAPS}?limit=1"),
        format!("{SECRETS}?resourceVersion=0"),
    ] {
        client.call(Call::get(&list)).await.expect(200);
    }
    for path in ["/readyz", "/healthz", "/livez", "/version", "/apis"] {
        client.call(Call::get(path)).await;
    }
}

async fn writes(client: &Client, name: &str) {
    let path = configmap(name);
    let updated = client.call(Call::put(&path, &body(name, "2"))).await;
    updated.expect(200);
    let patch = json!({ "data": { "k": "3" } });
    let patched = client.call(Call::merge_patch(&path, &patch)).await;
    patched.expect(200);
    let secret = json!({ "metadata": { "name": name }, "data": { "k": "MQ==" } });
    client.call(Call::post(SECRETS, &secret)).await.expect(201);
    let event = json!({
        "metadata": { "generateName": "e" },
        "involvedObject": { "namespace": "default" },
    });
    client.call(Call::post(EVENTS, &event)).await.expect(201);
    client.call(Call::delete(&path)).await.expect(200);
}

/// Both ask for what the rings no longer hold.
async fn goes_back(client: &Client) {
    let exact = "/api/v1/configmaps?resourceVersionMatch=Exact&resourceVersion=1";
    client.call(Call::get(exact)).await.expect(200);
    let begun = format!("{CONFIGMAPS}?watch=true&resourceVersion=1");
    client.watch(&begun).await.event().await;
}

/// The namespace controller has something to do.
async fn namespace_comes_and_goes(client: &Client, name: &str) {
    let namespace = json!({ "metadata": { "name": name } });
    let created = client.call(Call::post(NAMESPACES, &namespace)).await;
    created.expect(201);
    let path = format!("{NAMESPACES}/{name}");
    let within = format!("{path}/configmaps");
    let created = client.call(Call::post(&within, &body("a", "1"))).await;
    created.expect(201);
    client.call(Call::delete(&path)).await;
}

/// The garbage collector has something to do: objects go with one owner, and stay without another.
async fn owners_come_and_go(client: &Client, name: &str) {
    for policy in ["Background", "Orphan"] {
        let owner = format!("{name}-{}", policy.to_lowercase());
        let made = client
            .call(Call::post(CONFIGMAPS, &body(&owner, "1")))
            .await;
        let made = made.expect(201);
        let mut owned = body(&format!("{owner}-owned"), "1");
        owned["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": made["metadata"]["uid"],
        }]);
        let owned = client.call(Call::post(CONFIGMAPS, &owned)).await;
        owned.expect(201);
        let path = format!("{}?propagationPolicy={policy}", configmap(&owner));
        let deleted = client.call(Call::delete(&path)).await;
        deleted.expect(200);
    }
}

/// What is not found, not credible, not allowed, or not answered within its time.
async fn fails(client: &Client, target: &Target) {
    let missing = client.call(Call::get(&configmap("none"))).await;
    missing.expect(404);
    let stranger = target.with_token("wrong").client();
    let unknown = stranger.call(Call::get(CONFIGMAPS)).await;
    unknown.expect(401);
    let nobody = target.anonymous().client();
    let forbidden = nobody.call(Call::get(CONFIGMAPS)).await;
    forbidden.expect(403);
    // A revision that is far ahead does not come in time.
    let late = "/api/v1/configmaps?resourceVersion=999999999&timeout=100ms";
    let late = client.call(Call::get(late)).await;
    late.expect(504);
}

/// More compactions at a time than the Compactor's mailbox takes.
pub async fn many_compactions(client: &Client) {
    let calls = (0..12).map(|_| client.call(Call::new("POST", "/taffrail/v1/compact")));
    for answer in join_all(calls).await {
        answer.expect(200);
    }
}

/// Waits until something holds, and says what did not.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
