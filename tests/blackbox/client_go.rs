//! The typed clients of the real client-go over protobuf, and its metadata client, for every
//! built-in kind (API-58, API-319). `tests/informers` compares the objects that they decode with
//! the same objects as JSON.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::process::Command;

use crate::harness::Daemon;
use crate::informers::binary;
use crate::kube_rs_kinds::collections;

const TIMEOUT: Duration = Duration::from_secs(300);

/// For each collection the least body and one with most fields.
const BODIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/facts/sweep_bodies.json");

/// What client-go has no types for: those of other servers than kube-apiserver's own.
const UNTYPED: &[&str] = &[
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiregistration.k8s.io/v1/apiservices",
];

/// Goes through all collections, and returns what is said of them, as `typed PATH`.
async fn run(daemon: &Daemon, mode: &str) -> BTreeSet<String> {
    let mut command = Command::new(binary());
    command
        .arg(mode)
        .arg("-kubeconfig")
        .arg(daemon.kubeconfig());
    command.args(["-bodies", BODIES]).kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, command.output()).await;
    let output = output.expect("it ends").unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn typed_clients_of_every_kind_work_over_protobuf_api_58_api_319() {
    let daemon = Daemon::start().await;
    let served = collections(&daemon.client()).await;
    let expected = served.iter().map(|path| {
        let word = match UNTYPED.contains(&&**path) {
            true => "untyped",
            false => "typed",
        };
        format!("{word} {path}")
    });
    let expected: BTreeSet<String> = expected.collect();
    assert_eq!(run(&daemon, "typed").await, expected);
}

#[tokio::test]
async fn the_metadata_client_works_for_every_kind_api_58_api_66() {
    let daemon = Daemon::start().await;
    let served = collections(&daemon.client()).await;
    let expected: BTreeSet<String> = served
        .iter()
        .map(|path| format!("metadata {path}"))
        .collect();
    assert_eq!(run(&daemon, "metadata").await, expected);
}
