//! Values of settings, arguments of commands, and data directories of commands.

use std::fs;

use serde_json::json;

use super::{Bad, Files, fails};
use crate::harness::daemon::{command, taffrail};
use crate::harness::{CONFIGMAPS, Call, Daemon};

#[test]
fn a_wrong_value_of_a_setting_is_named_in_one_line_on_the_command_line_and_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = [
        "audit-log-maxsize",
        "audit-log-maxbackup",
        "audit-log-maxage",
        "max-requests-inflight",
        "max-mutating-requests-inflight",
        "max-watches",
    ];
    let wrong = [
        ("x", "not a whole number"),
        ("-1", "not a whole number"),
        ("1.5", "not a whole number"),
        ("", "not a whole number"),
        ("99999999999999999999999", "too large a number"),
    ];
    let numbers = numbers.map(|name| wrong.map(|(value, problem)| (name, value, problem)));
    let others = [
        ("max-requests-inflight", "0", "at least 1 is needed"),
        (
            "max-mutating-requests-inflight",
            "0",
            "at least 1 is needed",
        ),
        ("max-watches", "0", "at least 1 is needed"),
        ("max-connections", "0", "at least 1 is needed"),
        ("max-connections", "-1", "nor auto"),
        ("max-connections", "many", "nor auto"),
        (
            "metrics-bind-address",
            "192.0.2.1",
            "not an address and port",
        ),
        (
            "metrics-bind-address",
            "127.0.0.1:99999",
            "not an address and port",
        ),
        ("log-level", "", "not a level: off"),
        ("log-level", "info,,", "is not a level: off"),
        ("log-level", "info\n\u{1b}[2Jx", "not a level: off"),
        ("log-format", "xml", "not one of auto, text, json"),
        ("access-log", "some", "not one of off, failures, all"),
        ("shutdown-timeout", "5", "not a duration such as"),
        ("shutdown-timeout", "-1s", "not a duration such as"),
        ("client-ca-file", "a\nb", "a control character"),
        ("token-auth-file", "\u{1b}[2J", "a control character"),
    ];
    for (name, value, problem) in numbers.into_iter().flatten().chain(others) {
        let flag = format!("--{name}={value}");
        let named = format!("--{name}");
        let words = [named.as_str(), problem];
        for arguments in [&["config"][..], &[]] {
            let mut run = taffrail();
            run.args(arguments).arg(&flag).current_dir(folder.path());
            fails(&mut run, folder.path(), &words);
        }
        let file = folder.path().join("config.yaml");
        fs::write(&file, json!({ name: value }).to_string()).unwrap();
        let named = file.display().to_string();
        let mut run = taffrail();
        run.args(["config", "--config", &named])
            .current_dir(folder.path());
        fails(&mut run, folder.path(), &[name, problem]);
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn wrong_words_behind_a_command_are_named_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup");
    fs::write(&backup, "").unwrap();
    for (arguments, problem) in [
        (&["token"][..], "the second word is missing; see its --help"),
        (&["storage"], "the second word is missing; see its --help"),
        (&["token", "rotat\ne"], "rotat\\ne is not a command"),
        (&["storage", "x"], "x is not a command"),
        (&["x\u{1b}[2J"], "is not a command; see taffrail --help"),
        (&["--nosuch\nflag"], "--nosuch\\nflag is unknown"),
        (&["completions"], "<SHELL> is missing"),
        (&["completions", "tcsh"], "it takes bash or elvish or fish"),
        (
            &["man", "--output=backup"],
            "--output=backup: Not a directory",
        ),
        (&["man", "x"], "x is unknown"),
        (&["version", "x"], "x is unknown"),
        (&["config", "x"], "x is unknown"),
        (
            &["config", "--config=a\n\u{1b}b"],
            "--config=a\\n\\u{1b}b: No such file",
        ),
        (&["compact", "x"], "x is unknown"),
        (&["inspect", "--output=xml"], "it takes text or json"),
        (&["kubeconfig"], "--user <NAME> is missing"),
        (
            &["kubeconfig", "--user=a", "--valid-for=x"],
            "not a duration such as",
        ),
        (&["restore"], "<FILE> is missing"),
        (&["restore", "backup", "--to=x"], "--to=x: it takes etcd"),
        (
            &["restore", "backup", "--to-revision=x"],
            "not a whole number",
        ),
        (
            &["restore", "backup", "--bump-revision=-1"],
            "not a whole number",
        ),
        (
            &["restore", "backup", "--to-time=now"],
            "not a time with its zone, such as",
        ),
        (
            &["restore", "nothing", "--to=etcd"],
            "nothing: No such file",
        ),
        (
            &["restore", "a\u{1b}[31m\rb", "--to=etcd"],
            "a\\u{1b}[31m\\rb: No such file",
        ),
        (&["inspect", "--data-dir=a\u{1b}b"], "a\\u{1b}b"),
        (&["history"], "<KIND> or <NAME> is missing"),
        (&["get"], "<KIND> is missing"),
        (&["undo", "cm", "a", "--to=x"], "not a whole number"),
    ] {
        let mut run = taffrail();
        run.args(arguments).current_dir(folder.path());
        fails(&mut run, folder.path(), &["taffrail", problem]);
    }
}

const COMMANDS: [&[&str]; 8] = [
    &["kubeconfig", "--user=a"],
    &["token", "rotate"],
    &["compact"],
    &["storage", "rewrite"],
    &["inspect"],
    &["backup", "new-backup"],
    &["history", "cm", "a"],
    &["undo", "cm", "a", "--to=1"],
];

#[test]
fn a_command_refuses_what_is_no_data_directory_and_leaves_it_as_it_is() {
    let files = Files::new();
    let folder = files.folder.path();
    for (bad, problem) in [
        (Bad::Missing, ""),
        (Bad::Empty, "Not a directory"),
        (Bad::Directory, ""),
        (Bad::Pipe, "Not a directory"),
        (Bad::DanglingLink, ""),
    ] {
        files.put("place", bad);
        let place = files.path("place").display().to_string();
        for arguments in COMMANDS {
            let mut run = taffrail();
            run.args(arguments).current_dir(folder);
            run.arg("--data-dir").arg(&place);
            fails(&mut run, folder, &[arguments[0], &place, problem]);
        }
    }
}

#[test]
fn a_command_refuses_a_kubeconfig_that_no_daemon_wrote() {
    let files = Files::new();
    let data = files.path("data");
    fs::create_dir(&data).unwrap();
    for (bad, problem) in [
        (Bad::Empty, "not a kubeconfig that a daemon wrote"),
        (
            Bad::Text("users: [{}]\n"),
            "not a kubeconfig that a daemon wrote",
        ),
        (Bad::Cut, "not a kubeconfig that a daemon wrote"),
        (Bad::Garbage, "it is not valid UTF-8"),
        (Bad::Huge, "it is longer than "),
        (Bad::Directory, "it is a directory and not a regular file"),
        (Bad::Pipe, "it is a named pipe and not a regular file"),
        (
            Bad::DanglingLink,
            "it is a symbolic link and not a regular file",
        ),
    ] {
        files.put("data/admin.kubeconfig", bad);
        for arguments in COMMANDS {
            let mut run = taffrail();
            run.args(arguments).current_dir(files.folder.path());
            run.arg("--data-dir").arg(&data);
            let words = [arguments[0], "data/admin.kubeconfig: ", problem];
            fails(&mut run, files.folder.path(), &words);
        }
    }
}

#[tokio::test]
async fn kubeconfigs_and_starts_that_can_not_be_leave_a_running_daemon_and_no_key_behind() {
    let files = Files::new();
    let daemon = Daemon::start().await;
    let (data, folder) = (daemon.data(), files.folder.path());
    files.put("directory", Bad::Directory);
    files.put("pipe", Bad::Pipe);
    files.put("link", Bad::DanglingLink);
    for (flag, problem) in [
        (
            "--valid-for=9999999d",
            "--valid-for=9999999d: at most 36500d is possible",
        ),
        ("--valid-for=99999999999d", "at most 36500d is possible"),
        (
            "--output=directory",
            "--output=directory: it is a directory",
        ),
        ("--output=pipe", "--output=pipe: it is a named pipe"),
        ("--output=link", "--output=link: it is a symbolic link"),
        ("--output=nosuch/file", "--output=nosuch/file: No such file"),
        ("--output=client-ca-file/x", "Not a directory"),
    ] {
        let mut run = taffrail();
        run.args(["kubeconfig", "--user=a", flag, "--data-dir"]);
        run.arg(&data).current_dir(folder);
        fails(&mut run, folder, &["taffrail kubeconfig: ", problem]);
    }
    // Another daemon on the same data, with a file that is wrong and with one that is right.
    files.put("token-auth-file", Bad::Garbage);
    for problem in ["it is not valid UTF-8", "is in use by"] {
        let mut start = command(data.parent().unwrap(), 0);
        start.arg(files.flag("token-auth-file"));
        fails(&mut start, folder, &[problem]);
        files.put_good("token-auth-file");
    }
    daemon
        .client()
        .call(Call::get(CONFIGMAPS))
        .await
        .expect(200);
}
