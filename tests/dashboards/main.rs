//! Tests of `dashboards/`: the Grafana board and the Prometheus rules, with real daemons.
//!
//! The tests read the board and the rules, look for every metric that they name on the pages of
//! daemons, and have a real Prometheus evaluate them. `tests/run.sh` fetches Prometheus.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../blackbox/harness/mod.rs"]
mod harness;
#[allow(dead_code)]
#[path = "../resources/process.rs"]
mod process;
#[path = "../servers/mod.rs"]
mod servers;

mod board;
mod custom;
mod evaluated;
mod expressions;
mod faults;
mod fired;
mod load;
mod prometheus;
mod queries;
mod rules;
mod served;
mod troubles;

use std::path::{Path, PathBuf};

/// A file of `dashboards/`.
fn dashboards(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("dashboards")
        .join(name)
}

/// Fails with everything that was found wrong, a line each.
#[track_caller]
fn assert_none(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
}
