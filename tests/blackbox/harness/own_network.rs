//! Tests in a network of their own, where they may drop packets and there is nothing else.

use std::process::Command;

use super::not_run::not_run;

/// Set in the network of its own.
const INSIDE: &str = "TAFFRAIL_TEST_NETWORK";

/// Runs a command of iproute2.
pub fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output();
    let done = done.expect("the program ip, of the package iproute2");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {arguments:?}: {said}");
}

/// Runs the rest of the test of this name in a network that has nothing but the loopback, and with
/// a host name of its own. The test starts itself again there.
pub fn in_own_network(name: &str, inside: impl Future<Output = ()>) {
    if std::env::var_os(INSIDE).is_some() {
        ip(&["link", "set", "lo", "up"]);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(inside);
    }
    if std::env::var("TAFFRAIL_NETWORKS").is_ok_and(|networks| networks == "none") {
        not_run("network of a test's own");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let run = Command::new("unshare")
        .args(["--map-root-user", "--net", "--uts", "--"])
        .arg(program)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("the program unshare, of the package util-linux");
    let stdout = String::from_utf8_lossy(&run.stdout);
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed"), "{stdout}\n{stderr}");
}
