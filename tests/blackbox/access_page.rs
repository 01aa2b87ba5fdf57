//! The commands of docs/access.md, in their order, against a daemon as it is installed.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output};

use serde_json::json;

use crate::harness::daemon::taffrail;
use crate::harness::{AS_INSTALLED, Daemon, Kubectl};

const PAGE: &str = include_str!("../../docs/access.md");
const REFUSAL: &str = "secrets is forbidden: User \"system:serviceaccount:lamps:operator\" cannot \
                       list resource \"secrets\" in API group \"\" in the namespace \"lamps\"";

/// The commands of the page: all that is indented, but for the refusal that it shows.
fn script() -> String {
    let lines = PAGE.lines().filter_map(|line| line.strip_prefix("    "));
    let is_shown = |line: &&str| REFUSAL.starts_with(line) || REFUSAL.ends_with(line);
    let commands: Vec<&str> = lines.filter(|line| !is_shown(line)).collect();
    format!("set -eo pipefail\n{}\n", commands.join("\n"))
}

/// Runs the commands with programs of their names.
async fn run(daemon: &Daemon, kubectl: &Kubectl) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    symlink(kubectl.binary(), bin.join("kubectl")).unwrap();
    // The page has the default data directory.
    let program = taffrail().get_program().to_owned();
    let (program, data) = (program.display(), daemon.data());
    let data = data.display();
    let lines = [
        "#!/bin/sh".to_owned(),
        format!("[ $1 != kubeconfig ] || set -- \"$@\" --data-dir {data}"),
        format!("exec {program} \"$@\"\n"),
    ];
    let text = lines.join("\n");
    std::fs::write(bin.join("taffrail"), text).unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bin.join("taffrail"), mode).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command
        .args(["-c", &script()])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder.path())
        .env("KUBECONFIG", daemon.kubeconfig());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    output.await.unwrap()
}

/// AC-30: the message of a Status, and not its JSON.
#[tokio::test]
async fn commands_show_what_the_user_may_not() {
    let daemon = Daemon::with_users("t-bob,bob,u-bob\n", &[AS_INSTALLED]).await;
    let kubeconfig = daemon.kubeconfig_of("bob", &json!({ "token": "t-bob" }));
    for (arguments, said) in [
        (
            "inspect",
            "the daemon answered 403 Forbidden: forbidden: User \"bob\" cannot get path \
             \"/taffrail/v1/inspect\"",
        ),
        (
            "get configmaps",
            "configmaps is forbidden: User \"bob\" cannot list resource \"configmaps\" in API \
             group \"\" in the namespace \"default\"",
        ),
        (
            "history configmap a",
            "forbidden: User \"bob\" cannot get path \
             \"/taffrail/v1/history/api/v1/namespaces/default/configmaps/a\"",
        ),
    ] {
        let mut command = taffrail();
        command.args(arguments.split(' '));
        command.arg("--kubeconfig").arg(&kubeconfig);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = output.await.unwrap();
        assert!(!output.status.success(), "{arguments}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(
            errors.ends_with(&format!("{said}\n")),
            "{arguments}: {errors}"
        );
    }
}

/// AC-27, AC-30, AC-67, AC-69, API-226.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_about_access_work_as_they_are_written() {
    let one_line = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains(REFUSAL), "the page shows the refusal");
    // Earlier versions have no `create token`.
    for version in ["1.32", "1.36"] {
        let daemon = Daemon::with(&[AS_INSTALLED]).await;
        let Some(kubectl) = Kubectl::find(version, &daemon) else {
            continue;
        };
        let output = run(&daemon, &kubectl).await;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{version}: {said}{errors}");
        for expected in [
            "yes\n",
            "configmap/greeting created\n",
            "system:serviceaccount:lamps:operator",
            "[get list watch patch]",
        ] {
            assert!(said.contains(expected), "{version} {expected}: {said}");
        }
        let refused = format!("Error from server (Forbidden): {REFUSAL}\n");
        assert!(errors.contains(&refused), "{errors}");
        assert!(
            errors.ends_with("No resources found in lamps namespace.\n"),
            "{errors}"
        );
    }
}
