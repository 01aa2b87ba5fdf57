//! A stop of the daemon while one of its actors is stalled.
//!
//! The daemon runs in the process of the test. The stop gives up on the actors of the stalled
//! thread, and they live on until the process ends. So this test has a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../blackbox/harness/mod.rs"]
mod harness;
#[allow(dead_code)]
#[path = "../resources/process.rs"]
mod process;

use std::time::{Duration, Instant};

use actors::testing::failpoints;

use crate::process::Running;

#[test]
fn a_stop_does_not_wait_for_an_actor_that_does_not_turn() {
    let running = Running::start(&["--data-threads=1", "--shutdown-timeout=3s"]);
    let part = "compactor/base";
    failpoints::stall_at(part, Duration::from_secs(30));
    let begun = Instant::now();
    while failpoints::is_pending(part) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it is not stalled"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let begun = Instant::now();
    running.stop();
    let taken = begun.elapsed();
    assert!(taken < Duration::from_secs(8), "{taken:?}");
}
