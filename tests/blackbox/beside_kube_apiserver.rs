//! A real kube-apiserver and the daemon on one etcd (KV-20, KV-21, KV-23, SF-6): each reads what
//! the other stores, and the daemon is a watch replica beside it.
//!
//! TAFFRAIL_KUBE_APISERVER names the program. Without it the test says so and passes.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon, Target};
use crate::servers::etcd::Cluster;
use crate::servers::ports::free_port;

const TOKEN: &str = "the-token-of-the-test";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
/// kube-apiserver needs some ten seconds to start on a free core.
const TIMEOUT: Duration = Duration::from_secs(150);

/// A kube-apiserver, which is killed when this is dropped.
struct KubeApiserver {
    child: Child,
    client: Client,
    _folder: tempfile::TempDir,
}

impl Drop for KubeApiserver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> Option<PathBuf> {
    match std::env::var_os("TAFFRAIL_KUBE_APISERVER") {
        Some(path) if path != "none" => Some(PathBuf::from(path)),
        _ => {
            eprintln!("no TAFFRAIL_KUBE_APISERVER: nothing was tried beside a kube-apiserver");
            None
        }
    }
}

impl KubeApiserver {
    /// With its defaults for storage.
    async fn start(program: PathBuf, cluster: &Cluster) -> KubeApiserver {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("tokens.csv"), format!("{TOKEN},ada,1,system:masters\n")).unwrap();
        let key = KeyPair::generate().unwrap();
        std::fs::write(at("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(at("public.pem"), key.public_key_pem()).unwrap();
        let port = free_port();
        let mut child = Command::new(program)
            .arg(format!("--etcd-servers={}", cluster.urls().join(",")))
            .arg(format!("--secure-port={port}"))
            .arg(format!("--cert-dir={}", at("certificates")))
            .arg(format!("--token-auth-file={}", at("tokens.csv")))
            .arg(format!("--service-account-key-file={}", at("public.pem")))
            .arg(format!(
                "--service-account-signing-key-file={}",
                at("key.pem")
            ))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg("--service-cluster-ip-range=10.0.0.0/24")
            .arg("--bind-address=127.0.0.1")
            .arg("--advertise-address=127.0.0.1")
            .arg("--endpoint-reconciler-type=none")
            .arg("--authorization-mode=RBAC")
            .arg("--disable-admission-plugins=ServiceAccount")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = format!("127.0.0.1:{port}").parse().unwrap();
        let client = Target::new(address, Some(TOKEN.to_owned()), None).client();
        let begun = Instant::now();
        loop {
            let ready = client.attempt(Call::get("/readyz")).await;
            if ready.is_ok_and(|answer| answer.status == 200) {
                break;
            }
            assert_eq!(child.try_wait().unwrap(), None, "kube-apiserver ended");
            assert!(begun.elapsed() < TIMEOUT, "kube-apiserver is not ready");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        KubeApiserver {
            child,
            client,
            _folder: folder,
        }
    }
}

fn configmap(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name},
        "data": {"text": name}, "binaryData": {"b": "AAE="}})
}

/// Both show the same of an object.
async fn agree(one: &Client, other: &Client, path: &str) -> Value {
    let begun = Instant::now();
    loop {
        let shown = one.call(Call::get(path)).await.expect(200);
        let also = other.call(Call::get(path)).await.expect(200);
        if shown == also {
            return shown;
        }
        // Caches may be a moment behind the store.
        assert!(begun.elapsed() < Duration::from_secs(10), "{shown}\n{also}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// SF-43: definitions of custom resources are stored in a version that is not served. Each changes
/// one that the other made.
async fn definition_is_shared(ours: &Client, theirs: &Client, short: &str) {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for (server, other, plural) in [(ours, theirs, "knots"), (theirs, ours, "ropes")] {
        let group = format!("{short}.example.com");
        let name = format!("{plural}.{group}");
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let column =
            json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
        let definition = json!({"metadata": {"name": name}, "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "kind": if plural == "knots" { "Knot" } else { "Rope" }},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema,
                "additionalPrinterColumns": [column]}],
        }});
        let created = server.call(Call::post(DEFINITIONS, &definition)).await;
        created.expect(201);
        let path = format!("{DEFINITIONS}/{name}");
        // A cache may not have it yet, and a controller sets its status.
        agree(server, other, &path).await;
        let patch = json!({"metadata": {"labels": {"seen": "yes"}}});
        other
            .call(Call::merge_patch(&path, &patch))
            .await
            .expect(200);
        let shown = agree(server, other, &path).await;
        assert_eq!(shown["metadata"]["labels"]["seen"], "yes");
        let columns = &shown["spec"]["versions"][0]["additionalPrinterColumns"];
        assert_eq!(columns[0]["jsonPath"], ".metadata.creationTimestamp");
    }
}

#[tokio::test]
async fn both_read_what_the_other_stores_kv_20_kv_23_sf_6() {
    let Some(program) = program() else {
        return;
    };
    let cluster = Cluster::single("3.5");
    let theirs = KubeApiserver::start(program, &cluster).await;
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    for media_type in [PROTOBUF, "application/json"] {
        let storage = format!("--storage-media-type={media_type}");
        let daemon = Daemon::with(&[&servers, &storage]).await;
        let ours = daemon.client();
        // The replica sees what happens beside it.
        let mut watch = ours.watch(&format!("{CONFIGMAPS}?watch=true")).await;
        let short = media_type.rsplit(['.', '/']).next().unwrap();
        let (first, second) = (format!("theirs-{short}"), format!("ours-{short}"));
        let created = theirs
            .client
            .call(Call::post(CONFIGMAPS, &configmap(&first)))
            .await;
        created.expect(201);
        let created = ours.call(Call::post(CONFIGMAPS, &configmap(&second))).await;
        created.expect(201);
        let mut seen = Vec::new();
        while seen.len() < 2 {
            let event = watch.event().await;
            let name = event["object"]["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned();
            if name == first || name == second {
                seen.push(name);
            }
        }
        assert_eq!(seen, [first.clone(), second.clone()]);
        for name in [&first, &second] {
            let path = format!("{CONFIGMAPS}/{name}");
            let shown = agree(&ours, &theirs.client, &path).await;
            assert_eq!(shown["data"]["text"], name.as_str());
            // Each changes what the other wrote.
            let patch = json!({"data": {"more": "yes"}});
            let patch = Call::merge_patch(&path, &patch);
            let server = if *name == first {
                &ours
            } else {
                &theirs.client
            };
            server.call(patch).await.expect(200);
            let shown = agree(&ours, &theirs.client, &path).await;
            assert_eq!(shown["data"]["more"], "yes");
        }
        definition_is_shared(&ours, &theirs.client, short).await;
        // What kube-apiserver made for itself: roles, priority levels, Services and more.
        for path in [
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            "/api/v1/namespaces",
        ] {
            let shown = ours.call(Call::get(path)).await.expect(200);
            let also = theirs.client.call(Call::get(path)).await.expect(200);
            assert!(!shown["items"].as_array().unwrap().is_empty(), "{path}");
            assert_eq!(shown["items"], also["items"], "{path}");
        }
    }
}
