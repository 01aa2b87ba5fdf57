//! Whether each metric that the board and the rules name is on the page of a running daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::expressions::{self, Expression};
use crate::harness::{Daemon, Target};
use crate::process::Running;
use crate::servers::etcd::Cluster;
use crate::{assert_none, board, faults, load, rules};

/// Longer than daemons take to count their objects once more.
const SOON: Duration = Duration::from_secs(30);

/// What other programs serve, by whom it is served.
const OF_OTHERS: [(&str, &str); 5] = [
    ("up", "Prometheus"),
    ("node_filesystem_avail_bytes", "node_exporter"),
    ("node_filesystem_size_bytes", "node_exporter"),
    ("kubelet_volume_stats_available_bytes", "the kubelet"),
    ("kubelet_volume_stats_capacity_bytes", "the kubelet"),
];

/// The names that have a series on a page. A name that is described only has none.
fn served(page: &str) -> BTreeSet<String> {
    let lines = page
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(str::to_owned)
        .collect()
}

/// The metrics that expressions name, each with the places that name it.
fn named(expressions: &[Expression]) -> BTreeMap<String, Vec<String>> {
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for expression in expressions {
        for metric in expressions::metrics(&expression.text) {
            let places = named.entry(metric).or_default();
            places.push(expression.place.clone());
        }
    }
    named
}

fn all_expressions() -> Vec<Expression> {
    let mut all = board::expressions();
    all.extend(rules::expressions());
    all
}

#[test]
fn every_recorded_name_that_is_read_is_recorded() {
    let recorded = rules::recorded(&rules::all());
    let named = named(&all_expressions());
    let missing = named.iter().filter(|(name, _)| name.contains(':'));
    let missing = missing.filter(|(name, _)| !recorded.contains(*name));
    let missing: Vec<String> = missing
        .map(|(name, places)| format!("{name}, named by {}", places.join("; ")))
        .collect();
    assert_none("no rule records these", &missing);
    for rule in rules::all() {
        let name = rule.text("record");
        let is_like_kubernetes = name.is_empty() || name.contains(':');
        assert!(is_like_kubernetes, "{name} looks like a metric of a daemon");
    }
}

/// The pages of a daemon with its own store, after load.
async fn embedded(folder: &std::path::Path) -> Daemon {
    let encryption = load::encryption(folder, 1);
    let flags = [&load::FLAGS[..], &[&encryption]].concat();
    let daemon = Daemon::with(&flags).await;
    load::round(&daemon.target(), 0).await;
    load::many_compactions(&daemon.client()).await;
    daemon
}

/// The same over etcd.
async fn over_etcd(cluster: &Cluster) -> Daemon {
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let flags = [&load::FLAGS[..], &[&servers]].concat();
    let daemon = Daemon::with(&flags).await;
    load::round(&daemon.target(), 0).await;
    daemon
}

/// Besides what is there in good health, the page of one daemon tells of parts that failed.
#[test]
fn every_metric_that_board_or_rules_name_has_a_series() {
    let cluster = Cluster::single("3.5");
    let folder = tempfile::tempdir().unwrap();
    let faulty = Running::start(&["--data-threads=1"]);
    let mut named = named(&all_expressions());
    named.retain(|name, _| {
        let of_others = OF_OTHERS.iter().any(|(other, _)| other == name);
        !name.contains(':') && !of_others
    });
    assert!(named.len() > 60, "only {} metrics are named", named.len());
    faulty.block_on(async {
        let (one, other) = tokio::join!(embedded(folder.path()), over_etcd(&cluster));
        faults::stall_a_part(&faulty.client()).await;
        faults::leave_a_cacher_alone(&faulty.client()).await;
        let targets: [Target; 3] = [one.target(), other.target(), faulty.target().clone()];
        let begun = Instant::now();
        loop {
            let mut series = BTreeSet::new();
            for target in &targets {
                series.extend(served(&faults::page(&target.client()).await));
            }
            let missing = named.iter().filter(|(name, _)| !series.contains(*name));
            let missing: Vec<String> = missing
                .map(|(name, places)| format!("{name}, named by {}", places.join("; ")))
                .collect();
            if missing.is_empty() {
                return;
            }
            if begun.elapsed() > SOON {
                assert_none("no daemon has a series of these metrics", &missing);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    faulty.stop();
}
