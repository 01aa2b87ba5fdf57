//! Helm, lightkube, kr8s and kopf, driven by the scripts of `tests/clients`. Their responses, and
//! the stored objects after each step including managedFields, equal those in
//! `tests/clients/recorded`, which the same scripts got from kube-apiserver 1.36.2.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::custom_resources::over_each;
use crate::harness::not_run::not_run;
use crate::harness::{AS_INSTALLED, Daemon};

const TIMEOUT: Duration = Duration::from_secs(120);

/// The folder with the packages; `None` only if the environment says `none`.
pub fn packages() -> Option<PathBuf> {
    let folder = match std::env::var_os("TAFFRAIL_PYTHON_CLIENTS") {
        Some(none) if none == "none" => {
            not_run("clients in Python");
            return None;
        }
        Some(folder) => PathBuf::from(folder),
        None => crate::harness::cache().join("taffrail/python-clients"),
    };
    assert!(
        folder.join("kopf").is_dir(),
        "no Python packages in {}: tests/run.sh fetches them, or set TAFFRAIL_PYTHON_CLIENTS",
        folder.display()
    );
    Some(folder)
}

/// Runs a script and compares what it prints with what was recorded. `name` is the script's, with
/// what it is told after a dash.
async fn is_as_recorded(name: &str) {
    let daemon = Daemon::start().await;
    is_as_recorded_with(&daemon, name).await;
}

async fn is_as_recorded_with(daemon: &Daemon, name: &str) {
    let (script, mode) = name.split_once('-').unwrap_or((name, ""));
    prints(daemon, script, mode, &[name]).await;
}

/// The same, but the client runs under a service account that may do no more than it needs.
/// Its refusals without one of these rights are recorded separately.
async fn is_as_recorded_under_an_account(name: &str) {
    let daemon = Daemon::with(&[AS_INSTALLED]).await;
    let (script, mode) = name.split_once('-').unwrap_or((name, ""));
    let mode = format!("{mode}-account");
    let refused = format!("{name}-refused");
    prints(
        &daemon,
        script,
        mode.trim_start_matches('-'),
        &[&refused, name],
    )
    .await;
}

/// Runs a script and compares what it prints with what was recorded in these files.
async fn prints(daemon: &Daemon, script: &str, mode: &str, names: &[&str]) {
    let Some(printed) = printed_by(daemon, script, mode).await else {
        return;
    };
    let recorded = names.iter().map(|name| {
        let path = scripts().join("recorded").join(name);
        std::fs::read_to_string(path.with_extension("jsonl")).unwrap()
    });
    let recorded: String = recorded.collect();
    for (printed, recorded) in printed.lines().zip(recorded.lines()) {
        assert_eq!(printed, recorded, "{script} {mode}");
    }
    assert_eq!(printed.lines().count(), recorded.lines().count());
}

/// The folder with the scripts.
fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Runs a script that must succeed. Returns its output, `None` where there are no packages.
pub async fn printed_by(daemon: &Daemon, script: &str, mode: &str) -> Option<String> {
    let packages = packages()?;
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command
        .arg("-B")
        .arg(scripts().join(script).with_extension("py"))
        .arg(daemon.kubeconfig())
        .args((!mode.is_empty()).then_some(mode))
        .env("PYTHONPATH", packages)
        .env("HOME", home.path())
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, command.output()).await;
    let output = output.expect("the script ends in time").unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} {mode}: {errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// API-172 to API-177, API-190.
#[tokio::test]
async fn helm_installs_upgrades_rolls_back_and_uninstalls_by_server_side_apply() {
    is_as_recorded("helm_releases-server").await;
}

/// API-152, API-163.
#[tokio::test]
async fn helm_installs_upgrades_rolls_back_and_uninstalls_by_patches_of_its_own() {
    is_as_recorded("helm_releases-client").await;
}

/// AC-31, AC-61: a tenant who may write the objects of the chart in one namespace.
#[tokio::test]
async fn helm_works_under_an_account_by_server_side_apply_ac_27() {
    is_as_recorded_under_an_account("helm_releases-server").await;
}

#[tokio::test]
async fn helm_works_under_an_account_by_patches_of_its_own_ac_27() {
    is_as_recorded_under_an_account("helm_releases-client").await;
}

/// CRD-60, CRD-220: definitions in a chart's folder `crds`, and objects of them, by server-side
/// apply.
#[tokio::test]
async fn helm_installs_definitions_and_their_objects_by_server_side_apply_crd_60_crd_220() {
    over_each(async |daemon| is_as_recorded_with(daemon, "helm_definitions-server").await).await;
}

/// CRD-60, CRD-86.
#[tokio::test]
async fn helm_installs_definitions_and_their_objects_by_patches_of_its_own_crd_60_crd_86() {
    over_each(async |daemon| is_as_recorded_with(daemon, "helm_definitions-client").await).await;
}

#[tokio::test]
async fn lightkube_creates_applies_patches_watches_and_deletes() {
    is_as_recorded("lightkube_objects").await;
}

#[tokio::test]
async fn kr8s_creates_applies_patches_watches_and_deletes() {
    is_as_recorded("kr8s_objects").await;
}

/// API-106, API-113: an operator that holds objects by a finalizer, owns others and posts events.
#[tokio::test]
async fn an_operator_of_kopf_makes_changes_and_releases_objects() {
    is_as_recorded("kopf_operator").await;
}

/// AC-27, AC-30: an operator that may do what it needs in one namespace, and no more.
#[tokio::test]
async fn an_operator_of_kopf_works_under_an_account_ac_27() {
    is_as_recorded_under_an_account("kopf_operator").await;
}

/// CRD-69, CRD-101, CRD-185: an operator of a kind that is defined while it runs, with handlers of
/// fields, a daemon, a timer, a status, and a second start.
#[tokio::test]
async fn an_operator_of_kopf_works_on_a_kind_of_its_own_crd_69_crd_185() {
    over_each(async |daemon| is_as_recorded_with(daemon, "kopf_custom").await).await;
}

/// HK-19, HK-24, HK-31, HK-34, HK-35: an operator that serves the webhooks of its kind over TLS
/// with a certificate of its own, and manages their configurations.
#[tokio::test]
async fn an_operator_of_kopf_serves_and_manages_webhooks_hk_19_hk_31() {
    over_each(async |daemon| is_as_recorded_with(daemon, "kopf_admission").await).await;
}
