//! Recorded responses of kube-apiserver 1.36, compared with the daemon's.
//!
//! This folder plays the scenarios in `tests/reference` and compares the responses.
//! `TAFFRAIL_REPLAY_SERVER=127.0.0.1:6443 TAFFRAIL_REPLAY_TOKEN=...` plays them against any server,
//! without the daemon's deviations, which checks a recording. It does not know the daemon's code.

mod names;
mod paths;
mod play;
mod scenario;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::KeyPair;
use serde_json::Value;

use self::scenario::Scenario;
use crate::encryption::keys::Keys;
use crate::harness::hook_server::HookServer;
use crate::harness::{Daemon, HELD, PROTECTED, Target};
use crate::servers::etcd::Cluster;

/// The flags with which the answers about access were recorded.
const ACCESS: [&str; 2] = [
    "--enable-admission-plugins=StorageObjectInUseProtection,NodeRestriction",
    "--enable-bootstrap-token-auth",
];

/// Objects of a collection go one after another, as watches were recorded (D-64).
const IN_ORDER: &str = "--delete-collection-workers=1";

const DEVIATIONS: &str = include_str!("../../deviations.md");

/// The storage of the daemon. Clients see no difference.
#[derive(Clone, Copy)]
enum Below {
    Embedded,
    Etcd,
    /// The embedded engine, every value encrypted.
    Encrypted,
}

/// Resources that must outlive a daemon.
enum Kept {
    Nothing,
    Cluster(#[allow(dead_code)] Cluster),
    Keys(#[allow(dead_code)] Keys),
}

impl Below {
    /// A daemon with these flags of [`of_tokens()`] and those of a scenario, and what must outlive
    /// it.
    async fn start(self, name: &str, tokens: &[String; 3]) -> (Daemon, Kept) {
        let tokens = tokens.each_ref().map(String::as_str);
        let own = match name.starts_with("access-") {
            true => &ACCESS[..],
            false => &[PROTECTED],
        };
        let flags = [own, &[HELD, IN_ORDER], &tokens[..]].concat();
        match self {
            Below::Embedded => (Daemon::with(&flags).await, Kept::Nothing),
            Below::Encrypted => {
                let keys = Keys::new(&[("'*.*'", &["aesgcm:k=1", "identity"])]);
                let key = keys.flag();
                let daemon = Daemon::with(&[&flags[..], &[&key]].concat()).await;
                (daemon, Kept::Keys(keys))
            }
            Below::Etcd => {
                let started = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
                let cluster = started.await.unwrap();
                let servers = format!("--etcd-servers={}", cluster.urls().join(","));
                let daemon = Daemon::with(&[&flags[..], &[&servers]].concat()).await;
                (daemon, Kept::Cluster(cluster))
            }
        }
    }
}

/// What daemons need that make tokens: an issuer, and a key in this folder. Those on one etcd have
/// none of their own.
fn of_tokens(folder: &Path) -> [String; 3] {
    let key = folder.join("key");
    std::fs::write(&key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    [
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-signing-key-file={}", key.display()),
        format!("--service-account-key-file={}", key.display()),
    ]
}

async fn agrees(name: &str, below: Below) {
    let scenario = Scenario::read(name);
    let folder = tempfile::tempdir().unwrap();
    let tokens = of_tokens(folder.path());
    let other = std::env::var("TAFFRAIL_REPLAY_SERVER").ok().map(|address| {
        let token = std::env::var("TAFFRAIL_REPLAY_TOKEN").unwrap();
        Target::new(address.parse().unwrap(), Some(token), None)
    });
    let daemon = match other {
        None => Some(below.start(name, &tokens).await),
        Some(_) => None,
    };
    let target = other
        .clone()
        .unwrap_or_else(|| daemon.as_ref().unwrap().0.target());
    let mut report = String::new();
    let names_hooks = |body: &String| body.contains("{ca_bundle}");
    let mut steps = scenario.steps.iter();
    let has_hooks =
        steps.any(|step| step.to.is_some() || step.body.as_ref().is_some_and(names_hooks));
    let hooks = match has_hooks {
        true => Some(HookServer::start().await),
        false => None,
    };
    for played in play::play(&target, &scenario, hooks.as_ref()).await {
        let step = &scenario.steps[played.step];
        let (wanted, deviation) = match &other {
            Some(_) => (&step.answers[played.index], None),
            None => step.wanted(played.index),
        };
        if *wanted != played.answer {
            let deviation = deviation
                .map(|name| format!(" ({name})"))
                .unwrap_or_default();
            writeln!(report, "\n{}{deviation}", played.title).unwrap();
            report += &difference(wanted, &played.answer);
        }
    }
    assert!(
        report.is_empty(),
        "{name} differs (- wanted, + got):\n{report}"
    );
}

/// The different lines of two documents, with some common lines around them.
pub fn difference(wanted: &Value, got: &Value) -> String {
    let (wanted, got) = (pretty(wanted), pretty(got));
    let (wanted, got): (Vec<&str>, Vec<&str>) = (wanted.lines().collect(), got.lines().collect());
    let same = wanted
        .iter()
        .zip(&got)
        .take_while(|(one, two)| one == two)
        .count();
    let tail = wanted[same..].iter().rev().zip(got[same..].iter().rev());
    let tail = tail.take_while(|(one, two)| one == two).count();
    let mut out = String::new();
    for line in &wanted[same.saturating_sub(3)..same] {
        writeln!(out, "    {line}").unwrap();
    }
    for line in &wanted[same..wanted.len() - tail] {
        writeln!(out, "  - {line}").unwrap();
    }
    for line in &got[same..got.len() - tail] {
        writeln!(out, "  + {line}").unwrap();
    }
    out
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

macro_rules! scenarios {
    ($($test:ident $name:literal,)*) => {
        const SCENARIOS: &[&str] = &[$($name),*];
        $(
            #[tokio::test]
            async fn $test() {
                agrees($name, Below::Embedded).await;
            }
        )*
        mod encrypted_en_1 {
            $(
                #[tokio::test]
                async fn $test() {
                    super::agrees($name, super::Below::Encrypted).await;
                }
            )*
        }
        mod over_etcd {
            $(
                #[tokio::test]
                async fn $test() {
                    super::agrees($name, super::Below::Etcd).await;
                }
            )*
        }
    };
}

scenarios! {
    access_bootstrap "access-bootstrap",
    access_escalation "access-escalation",
    access_evaluate "access-evaluate",
    access_impersonation "access-impersonation",
    access_node "access-node",
    access_noderestriction "access-noderestriction",
    access_refused "access-refused",
    access_reviews "access-reviews",
    access_signers "access-signers",
    access_surfaces "access-surfaces",
    access_tokens "access-tokens",
    access_verbs "access-verbs",
    admission "admission",
    admission_nodes "admission-nodes",
    admission_quota "admission-quota",
    apply "apply",
    apply_subresources "apply-subresources",
    approval "approval",
    binding "binding",
    bodies "bodies",
    crd_life "crd",
    crd_apply "crd-apply",
    crd_columns "crd-columns",
    crd_defaults "crd-defaults",
    crd_definition "crd-definition",
    crd_doors "crd-doors",
    crd_invalid "crd-invalid",
    crd_keywords "crd-keywords",
    crd_names "crd-names",
    crd_protected "crd-protected",
    crd_ratchet "crd-ratchet",
    crd_rules "crd-rules",
    crd_schemas "crd-schemas",
    crd_subresources "crd-subresources",
    crd_versions "crd-versions",
    crd_watch "crd-watch",
    conversion "conversion",
    conversion_failures "conversion-failures",
    create "create",
    defaults_others "defaults-others",
    defaults_pod "defaults-pod",
    defaults_workloads "defaults-workloads",
    delete "delete",
    delete_collection "delete-collection",
    delete_collection_pages "delete-collection-pages",
    delete_preconditions "delete-preconditions",
    discovery "discovery",
    discovery_groups "discovery-groups",
    dry_run "dry-run",
    dry_run_deletion "dry-run-deletion",
    dry_run_services "dry-run-services",
    dry_run_verbs "dry-run-verbs",
    empty_segments "empty-segments",
    ephemeral_containers "ephemeralcontainers",
    eviction "eviction",
    fanout_bookmarks "fanout-bookmarks",
    fanout_deleted_version "fanout-deleted-version",
    fanout_events_involved "fanout-events-involved",
    fanout_fields "fanout-fields",
    fanout_initial_events "fanout-initial-events",
    fanout_label_transitions "fanout-label-transitions",
    fanout_list_matrix "fanout-list-matrix",
    fanout_list_options "fanout-list-options",
    fanout_many_watches "fanout-many-watches",
    fanout_pod_selectors "fanout-pod-selectors",
    fanout_projections "fanout-projections",
    fanout_remaining "fanout-remaining",
    fanout_resume "fanout-resume",
    fanout_scopes "fanout-scopes",
    fanout_secret_type "fanout-secret-type",
    field_validation "field-validation",
    finalize "finalize",
    finalizers "finalizers",
    generation "generation",
    http "http",
    impersonation "impersonation",
    list_paging "list-paging",
    list_versions "list-versions",
    malformed "malformed",
    managed_fields "managed-fields",
    managed_fields_server "managed-fields-server",
    metadata "metadata",
    metadata_members "metadata-members",
    names_of_objects "names",
    namespaces "namespaces",
    node_features "node-features",
    patch_errors "patch-errors",
    patch_json "patch-json",
    patch_merge "patch-merge",
    patch_rules "patch-rules",
    patch_strategic "patch-strategic",
    pod_deletion "pod-deletion",
    pod_security "pod-security",
    policy_configurations "policy-configurations",
    policy_mutate "policy-mutate",
    policy_params "policy-params",
    policy_subresources "policy-subresources",
    policy_validate "policy-validate",
    propagation "propagation",
    quota_devices "quota-devices",
    quota_rules "quota-rules",
    quota_limits "quota-limits",
    resize "resize",
    reviews "reviews",
    scale "scale",
    scale_owners "scale-owners",
    scale_refusals "scale-refusals",
    secrets_and_leases "secrets-leases",
    selectors "selectors",
    services "services",
    status_core "status-core",
    status_deployment "status-deployment",
    tables "tables",
    token_requests "token-requests",
    tables_others "tables-others",
    tables_subresources "tables-subresources",
    tables_workloads "tables-workloads",
    update "update",
    update_versions "update-versions",
    validation_others "validation-others",
    validation_pods "validation-pods",
    warnings "warnings",
    webhook_calls "webhook-calls",
    webhook_deny "webhook-deny",
    webhook_match "webhook-match",
    webhook_mutate "webhook-mutate",
    webhook_subresources "webhook-subresources",
    watch "watch",
    watch_options "watch-options",
    write_options "write-options",
    write_rules "write-rules",
    yaml "yaml",
}

#[test]
fn every_scenario_is_played() {
    assert_eq!(Scenario::all(), {
        let mut names: Vec<String> = SCENARIOS.iter().map(ToString::to_string).collect();
        names.sort();
        names
    });
}

#[test]
fn every_deviation_of_a_scenario_is_written_down() {
    let known: BTreeSet<&str> = DEVIATIONS
        .lines()
        .filter_map(|line| line.strip_prefix("### ")?.split(':').next())
        .collect();
    assert!(!known.is_empty());
    for name in Scenario::all() {
        for step in Scenario::read(&name).steps {
            for deviation in step.deviates {
                assert!(
                    known.contains(deviation.by.as_str()),
                    "{name}: {}: no heading {} in tests/deviations.md",
                    step.name,
                    deviation.by
                );
            }
        }
    }
}
