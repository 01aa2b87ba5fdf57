//! Recorded answers of kube-apiserver 1.36, compared with the daemon's.
//!
//! This folder owns the player of the scenarios in `tests/reference` and the comparison.
//! `TAFFRAIL_REPLAY_SERVER=127.0.0.1:6443 TAFFRAIL_REPLAY_TOKEN=...` plays them against any server,
//! without the daemon's deviations. This checks a recording. It must not know the daemon's code.

mod names;
mod paths;
mod play;
mod scenario;

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use self::scenario::Scenario;
use crate::encryption::keys::Keys;
use crate::harness::{Daemon, HELD, PROTECTED, Target};
use crate::servers::etcd::Cluster;

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
    /// A daemon, and what must outlive it.
    async fn start(self) -> (Daemon, Kept) {
        match self {
            Below::Embedded => (Daemon::with(&[PROTECTED, HELD]).await, Kept::Nothing),
            Below::Encrypted => {
                let keys = Keys::new(&[("'*.*'", &["aesgcm:k=1", "identity"])]);
                (
                    Daemon::with(&[PROTECTED, HELD, &keys.flag()]).await,
                    Kept::Keys(keys),
                )
            }
            Below::Etcd => {
                let started = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
                let cluster = started.await.unwrap();
                let servers = format!("--etcd-servers={}", cluster.urls().join(","));
                (
                    Daemon::with(&[PROTECTED, HELD, &servers]).await,
                    Kept::Cluster(cluster),
                )
            }
        }
    }
}

async fn agrees(name: &str, below: Below) {
    let scenario = Scenario::read(name);
    let other = std::env::var("TAFFRAIL_REPLAY_SERVER").ok().map(|address| {
        let token = std::env::var("TAFFRAIL_REPLAY_TOKEN").unwrap();
        Target::new(address.parse().unwrap(), Some(token), None)
    });
    let daemon = match other {
        None => Some(below.start().await),
        Some(_) => None,
    };
    let target = other
        .clone()
        .unwrap_or_else(|| daemon.as_ref().unwrap().0.target());
    let mut report = String::new();
    for played in play::play(&target, &scenario).await {
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
    admission "admission",
    admission_nodes "admission-nodes",
    admission_quota "admission-quota",
    apply_subresources "apply-subresources",
    approval "approval",
    binding "binding",
    bodies "bodies",
    create "create",
    delete "delete",
    discovery "discovery",
    dry_run "dry-run",
    endpoints_warn "endpoints-warnings",
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
    finalizers "finalizers",
    http "http",
    impersonation "impersonation",
    list_paging "list-paging",
    list_versions "list-versions",
    malformed "malformed",
    metadata "metadata",
    metadata_members "metadata-members",
    names_of_objects "names",
    namespaces "namespaces",
    patch_json "patch-json",
    patch_merge "patch-merge",
    patch_rules "patch-rules",
    pod_security "pod-security",
    propagation "propagation",
    resize "resize",
    reviews "reviews",
    services "services",
    scale "scale",
    scale_owners "scale-owners",
    scale_refusals "scale-refusals",
    secrets_and_leases "secrets-leases",
    selectors "selectors",
    tables "tables",
    update "update",
    update_versions "update-versions",
    watch_options "watch-options",
    watch "watch",
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
