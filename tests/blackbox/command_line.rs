//! Flags and the configuration file. An error is reported in one line, with exit code 2.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::daemon::{command, taffrail};
use crate::harness::{Daemon, Options};

fn run(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    taffrail()
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .unwrap()
}

/// Checks for exit code 2 and one line on stderr that contains all of these.
#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) {
    let output = run(arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert_eq!(
        stderr.trim_end().lines().count(),
        1,
        "{arguments:?}: {stderr}"
    );
    for word in words {
        assert!(
            stderr.contains(word),
            "{arguments:?}: no {word:?} in {stderr}"
        );
    }
}

#[test]
fn a_wrong_flag_or_value_is_named_in_one_line() {
    refused(&["--no-such-flag"], &["--no-such-flag"]);
    refused(&["--secure-port", "seventy"], &["--secure-port", "seventy"]);
    refused(&["--secure-port", "65536"], &["--secure-port", "65536"]);
    refused(
        &["--bind-address", "nowhere"],
        &["--bind-address", "nowhere"],
    );
    refused(&["--retention-age", "soon"], &["--retention-age", "soon"]);
    refused(
        &["--retention-bytes", "much"],
        &["--retention-bytes", "much"],
    );
    refused(
        &["--metrics-bind-address", "x:y"],
        &["--metrics-bind-address", "x:y"],
    );
    refused(
        &["--log-level", "tower=loud"],
        &["--log-level", "tower=loud"],
    );
    refused(&["--log-level", "loud"], &["loud: not a level: off, error"]);
    refused(&["--log-level", "info,h2"], &["\"h2\" is not a level"]);
    let pem = [
        "--tls-cert-file=/nosuch.crt",
        "--tls-private-key-file=/nosuch.key",
    ];
    refused(&pem, &["--tls-cert-file=/nosuch.crt: No such file"]);
    refused(&["no-such-command"], &["no-such-command"]);
    refused(
        &["--config", "/nonexistent/file"],
        &["config", "/nonexistent/file"],
    );
}

#[test]
fn a_storage_that_there_is_not_is_refused_and_what_there_is_named_sf_22_sf_43_sf_46() {
    refused(
        &["--storage-media-type=application/cbor"],
        &[
            "--storage-media-type",
            "application/json, application/vnd.kubernetes.protobuf, application/yaml",
        ],
    );
    refused(&["--storage-media-type=json"], &["not a media type"]);
    refused(
        &["--storage.versions=apps=v7"],
        &["storage.versions", "apps=apps/v7", "apps/v1"],
    );
    refused(
        &["--storage.versions=app=v1"],
        &[
            "storage.versions",
            "app",
            "there are core, apiregistration.k8s.io, apps",
        ],
    );
    refused(&["--storage-versions=apps=v1"], &["--storage-versions"]);
    refused(
        &["--watch-cache-sizes=pods#some"],
        &["--watch-cache-sizes", "pods#some"],
    );
    refused(
        &["--etcd-servers-overrides=events#http://127.0.0.1:1"],
        &["--etcd-servers-overrides", "group/resource#url;url"],
    );
}

#[test]
fn the_table_of_storage_says_what_is_stored_where() {
    let output = run(&[
        "storage",
        "table",
        "--etcd-prefix=/else",
        "--watch-cache-sizes=pods#0",
    ]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{table}");
    let pods = table.lines().find(|line| line.starts_with("pods")).unwrap();
    let cells: Vec<&str> = pods.split_whitespace().collect();
    let expected = [
        "pods",
        "base",
        "/else/pods/",
        "v1",
        "v1",
        "application/json",
        "no",
    ];
    assert_eq!(cells, expected);
    refused(
        &["storage", "table", "--storage.versions=apps=v7"],
        &["apps/v1"],
    );
    let output = run(&[
        "storage",
        "table",
        "--default-watch-cache-size=100",
        "--etcd-servers-overrides=/evnets#http://127.0.0.1:1",
    ]);
    let said = String::from_utf8(output.stderr).unwrap();
    for words in ["default-watch-cache-size=100: ", "evnets: no such resource"] {
        assert!(said.contains(words), "{said}");
    }
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(!table.contains("override-0"), "{table}");
}

#[test]
fn files_and_versions_that_can_not_be_used_are_told_together_sf_30() {
    let folder = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", folder.path().display());
    let output = run(&[
        &data,
        "--secure-port=0",
        "--metrics-bind-address=0",
        "--etcd-servers=https://127.0.0.1:1",
        "--etcd-cafile=/does/not/exist.crt",
        "--etcd-certfile=/does/not/exist.pem",
        "--etcd-keyfile=/does/not/exist.key",
        "--encryption-provider-config=/does/not/exist.yaml",
        "--storage.versions=apps=v7",
    ]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 5, "{said}");
    for words in [
        "--etcd-cafile=/does/not/exist.crt: ",
        "--etcd-certfile=/does/not/exist.pem: ",
        "--etcd-keyfile=/does/not/exist.key: ",
        "--encryption-provider-config=/does/not/exist.yaml: ",
        "storage.versions: apps=apps/v7: ",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_wrong_configuration_file_is_named_with_its_fault() {
    let folder = tempfile::tempdir().unwrap();
    for (text, words) in [
        ("no-such-key: 1\n", &["no-such-key"][..]),
        ("secure-port: seventy\n", &["secure-port"]),
        ("secure-port: [\n", &[]),
        ("retention-age: soon\n", &["retention-age", "soon"]),
        ("- a\n", &[]),
        (
            "data-dir: a\ndata-dir: b\n",
            &["line 2", "duplicate", "data-dir"],
        ),
    ] {
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let words = [words, &[path]].concat();
        refused(&["--config", path], &words);
        refused(&["config", "--config", path], &words);
    }
}

#[test]
fn advice_for_programmers_is_not_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, "data-dir: a\ndata-dir: b\n").unwrap();
    let output = run(&["--config", path.to_str().unwrap()]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("DuplicateKeyPolicy"), "{stderr}");
    assert!(!stderr.contains("error: "), "{stderr}");
}

#[test]
fn a_data_directory_that_is_a_file_is_called_so_and_nothing_else_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    for (path, words) in [
        (file.clone(), "it is not a directory"),
        (file.join("below"), "a directory above it is a file"),
    ] {
        let data = format!("--data-dir={}", path.display());
        let output = run(&[&data, "--secure-port=0", "--metrics-bind-address=0"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
        assert!(stderr.contains(path.to_str().unwrap()), "{stderr}");
        assert!(!stderr.contains("os error"), "{stderr}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
}

#[tokio::test]
async fn localhost_is_the_loopback_address() {
    let daemon = Daemon::with(&["--bind-address=localhost"]).await;
    let stdout = daemon.stdout();
    assert!(stdout.contains("https://127.0.0.1:"), "{stdout}");
    let metrics = ["config", "--metrics-bind-address=localhost:9000"];
    let printed = String::from_utf8(run(&metrics).stdout).unwrap();
    assert!(
        printed.contains("metrics-bind-address: \"127.0.0.1:9000\""),
        "{printed}"
    );
}

/// A key and a certificate for 127.0.0.1 that is its own authority, as `openssl req -x509` makes
/// it, or one that is none.
fn certificate(folder: &Path, is_ca: IsCa) -> [String; 2] {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    parameters.is_ca = is_ca;
    let certificate = parameters.self_signed(&key).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    [
        format!("--tls-cert-file={}", write("tls.crt", certificate.pem())),
        format!(
            "--tls-private-key-file={}",
            write("tls.key", key.serialize_pem())
        ),
    ]
}

#[tokio::test]
async fn commands_work_with_the_certificates_that_kubectl_works_with() {
    let unlimited = IsCa::Ca(BasicConstraints::Unconstrained);
    for is_ca in [unlimited, IsCa::NoCa, IsCa::ExplicitNoCa] {
        let folder = tempfile::tempdir().unwrap();
        let files = certificate(folder.path(), is_ca);
        let arguments: Vec<&str> = files.iter().map(String::as_str).collect();
        let mut daemon = Options::default().arguments(&arguments).launch().await;
        daemon.compact().await;
        // Another one with the same name is not trusted.
        daemon.stop(Signal::TERM).await;
        let certificates = std::fs::read_to_string(daemon.kubeconfig()).unwrap();
        certificate(folder.path(), IsCa::NoCa);
        daemon.relaunch().await;
        std::fs::write(daemon.kubeconfig(), certificates).unwrap();
        let data = daemon.data();
        let output = run(&["compact", "--data-dir", data.to_str().unwrap()]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("certificate"), "{stderr}");
    }
}

#[tokio::test]
async fn the_log_says_what_is_served_from_where_and_when_it_stopped() {
    let mut daemon = Daemon::with(&["--log-format=json"]).await;
    daemon.stop(Signal::TERM).await;
    let stderr = daemon.stderr();
    let lines = stderr
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let find = |message: &str| lines.iter().find(|line| line["message"] == message);
    let serving = find("serving").unwrap();
    assert_eq!(serving["version"], env!("CARGO_PKG_VERSION"), "{serving}");
    assert_eq!(serving["api"], daemon.target().address.to_string());
    assert_eq!(serving["backend"], "embedded");
    assert!(
        serving["data"].as_str().unwrap().ends_with("data"),
        "{serving}"
    );
    assert!(serving["revision"].as_u64().is_some(), "{serving}");
    assert!(find("stopped").is_some(), "{stderr}");
}

/// D-77, API-272: an operator who relies on such a plugin learns that it does nothing.
#[tokio::test]
async fn admission_plugins_that_are_not_built_are_warned_of() {
    let named = "NodeRestriction,AlwaysPullImages,Priority,JobValidation";
    let built = ["NodeRestriction", "Priority"];
    let enabled = format!("--enable-admission-plugins={named}");
    let daemon = Daemon::with(&[&enabled, "--log-format=json"]).await;
    let stderr = daemon.stderr();
    let lines = stderr
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let warned = |name: &str| {
        let words = format!("{name}: this plugin is NOT built");
        lines.iter().any(|line| {
            line["level"] == "WARN" && line["message"].as_str().unwrap().contains(&words)
        })
    };
    for name in named.split(',') {
        assert_eq!(warned(name), !built.contains(&name), "{stderr}");
    }
}

#[test]
fn the_effective_configuration_is_printed_and_can_be_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, "secure-port: 7443\nretention-age: 2h\n").unwrap();
    let path = path.to_str().unwrap();
    let print = |arguments: &[&str]| {
        let output = run(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    };
    // A flag wins over the file.
    let printed = print(&["config", "--config", path, "--retention-bytes", "1MiB"]);
    let effective: serde_json::Value = serde_saphyr::from_str(&printed).unwrap();
    assert_eq!(effective["secure-port"], 7443, "{printed}");
    assert!(printed.contains("retention-age: 2h"), "{printed}");
    let again = folder.path().join("again.yaml");
    std::fs::write(&again, &printed).unwrap();
    assert_eq!(
        print(&["config", "--config", again.to_str().unwrap()]),
        printed
    );
}

#[test]
fn help_and_version_are_printed() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).unwrap();
    for flag in [
        "--data-dir",
        "--secure-port",
        "--bind-address",
        "--retention-age",
        "--config",
    ] {
        assert!(help.contains(flag), "no {flag} in {help}");
    }
    assert!(run(&["--version"]).status.success());
    let version = String::from_utf8(run(&["version"]).stdout).unwrap();
    let mut lines = version.lines();
    let ours = format!("taffrail {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(lines.next(), Some(ours.as_str()));
    for (line, name) in lines.zip(["API", "commit", "built", "compiler", "platform"]) {
        let (found, value) = line.split_once(' ').unwrap();
        assert_eq!(found, name, "{version}");
        assert!(!value.trim().is_empty(), "{version}");
    }
    assert_eq!(version.lines().count(), 6, "{version}");
}

#[test]
fn the_samples_of_the_configuration_are_right() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let output = run(&["config", "--config", path.to_str().unwrap()]);
            assert!(output.status.success(), "{}: {output:?}", path.display());
            read += 1;
        }
    }
    assert!(read > 0, "there are none");
}

/// The log of a daemon that may open 400 files, until it listens.
fn said_with_few_files(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let daemon = command(folder.path(), 0);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -n 400 && exec \"$@\"", "sh"])
        .arg(daemon.get_program())
        .args(daemon.get_args())
        .args(arguments)
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = limited.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("https://"))));
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn few_open_files_are_complained_of_only_where_a_number_of_connections_was_set() {
    let said = said_with_few_files(&[]);
    assert!(!said.contains("WARN"), "{said}");
    let said = said_with_few_files(&["--max-connections", "200"]);
    let complaints: Vec<&str> = said.lines().filter(|line| line.contains("WARN")).collect();
    let [complaint] = complaints.as_slice() else {
        panic!("one complaint is wanted: {said}");
    };
    for word in ["max-connections=200", "144", "ulimit -n"] {
        assert!(complaint.contains(word), "{complaint}");
    }
    let said = said_with_few_files(&["--max-connections", "100"]);
    assert!(!said.contains("WARN"), "{said}");
}

/// B17: no panic of a library is what an operator reads.
#[test]
fn limits_within_which_nothing_works_are_told_in_one_line() {
    for (limit, word) in [
        ("ulimit -n 8", "at most 8 files may be open"),
        ("ulimit -n 20", "at most 20 files may be open"),
        ("ulimit -n 40", "at most 40 files may be open"),
        ("ulimit -v 120000", "at most 117 MiB of address space"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let daemon = command(folder.path(), 0);
        let script = format!("{limit} && exec \"$@\"");
        let limited = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(daemon.get_program())
            .args(daemon.get_args())
            .current_dir(folder.path())
            .output();
        let output = limited.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{limit}: {said}");
        assert!(
            said.starts_with("taffrail: ") && said.contains(word),
            "{limit}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{limit}: {said}");
    }
}

#[test]
fn numbers_that_make_no_daemon_are_refused_with_what_is_possible() {
    for (setting, fault) in [
        ("http-threads=100000", "at most 1024 is possible"),
        ("data-threads=100000", "at most 1024 is possible"),
        ("handshake-timeout=0s", "from 100ms to 1h is possible"),
        ("header-timeout=0s", "from 100ms to 1h is possible"),
        ("idle-timeout=1ms", "from 100ms to 365d is possible"),
        (
            "shutdown-timeout=200000000000d",
            "from 0s to 1d is possible",
        ),
        (
            "etcd-compaction-interval=1ms",
            "0, or from 100ms to 365d, is possible",
        ),
        ("max-requests-inflight=0", "at least 1 is needed"),
    ] {
        let flag = format!("--{setting}");
        refused(&[&flag], &[&flag, fault]);
    }
}

/// What a command prints. It must succeed.
fn printed(arguments: &[&str]) -> String {
    let output = taffrail().args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_is_grouped_narrow_and_shows_what_matters_to_the_command() {
    for command in [
        &[][..],
        &["serve"],
        &["config"],
        &["compact"],
        &["storage", "table"],
        &["storage", "rewrite"],
        &["kubeconfig"],
        &["token", "rotate"],
        &["completions"],
        &["man"],
        &["version"],
    ] {
        let help = printed(&[command, &["--help"]].concat());
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{command:?}: {line}");
        }
        let serves = matches!(command, [] | ["serve"] | ["config"]);
        assert_eq!(help.contains("--max-connections"), serves, "{command:?}");
        let has_data = !matches!(command, ["completions" | "man" | "version"]);
        assert_eq!(help.contains("--data-dir"), has_data, "{command:?}");
    }
    let help = printed(&["--help"]);
    for group in [
        "Addresses and data:",
        "Certificates and users:",
        "etcd:",
        "Logs:",
    ] {
        assert!(help.lines().any(|line| line == group), "{group}");
    }
}

#[test]
fn shells_and_manuals_know_every_command_and_flag() {
    for (shell, word) in [
        ("bash", "--tls-cert-file"),
        ("zsh", "--tls-cert-file"),
        ("fish", "tls-cert-file"),
    ] {
        let script = printed(&["completions", shell]);
        for word in [word, "kubeconfig", "rotate"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("completions");
    std::fs::write(&script, printed(&["completions", "bash"])).unwrap();
    let checked = Command::new("bash").arg("-n").arg(&script).status();
    assert!(checked.unwrap().success());

    let page = printed(&["man"]);
    assert!(
        page.contains(".TH taffrail 1") && page.contains("tls\\-cert\\-file"),
        "{page}"
    );
    let to = format!("--output={}", folder.path().display());
    printed(&["man", &to]);
    for name in ["taffrail", "taffrail-compact", "taffrail-token-rotate"] {
        let page = std::fs::read_to_string(folder.path().join(format!("{name}.1")));
        assert!(page.unwrap().contains(".SH NAME"), "{name}");
    }
    let below = format!("--output={}/below", script.display());
    let refused = taffrail().args(["man", &below]).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(
        error.starts_with(&format!("taffrail man: {below}: ")),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1);
}
