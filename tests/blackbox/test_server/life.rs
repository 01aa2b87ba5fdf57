//! Start, ready line, end and leftovers.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use rustix::process::Signal;
use serde_json::json;

use super::{Server, end_of, killed_by, names, refused, until};
use crate::harness::daemon::taffrail;
use crate::harness::{CONFIGMAPS, Call, body};
use crate::kube_rs::client_by;

#[tokio::test]
async fn the_ready_line_is_enough_for_a_client() {
    let server = Server::start(&[]);
    assert_eq!(server.ready["pid"], server.child.id());
    assert_eq!(server.text("version"), env!("CARGO_PKG_VERSION"));
    let client = server.client();
    client.call(Call::get("/readyz")).await;
    let made = client.call(Call::post(CONFIGMAPS, &body("a", "b"))).await;
    made.expect(201);
    // No port of metrics: several servers run at a time.
    let other = Server::start(&[]);
    assert_ne!(server.text("url"), other.text("url"));
    let listed = other.client().call(Call::get(CONFIGMAPS)).await.expect(200);
    let names = listed["items"].as_array().unwrap().iter();
    let mut names = names.map(|one| one["metadata"]["name"].clone());
    assert!(!names.any(|name| name == json!("a")));
    other.stop();
    server.stop();
}

#[tokio::test]
async fn kube_rs_reaches_the_server_by_its_kubeconfig() {
    let server = Server::start(&[]);
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let namespaces: Api<Namespace> = Api::all(client_by(kubeconfig).await);
    let all = namespaces.list(&ListParams::default()).await.unwrap();
    assert!(all.items.len() >= 4);
    server.stop();
}

#[tokio::test]
async fn only_the_owner_reads_the_folder() {
    let server = Server::start(&[]);
    let folder = names(server.temporary.path());
    assert_eq!(folder.len(), 1);
    let path = server.temporary.path().join(&folder[0]);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    server.stop();
}

#[tokio::test]
async fn each_signal_to_stop_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let mut server = Server::start(&[]);
        server.signal(Signal::USR1);
        server.signal(signal);
        assert_eq!(server.ended().code(), Some(0), "{signal:?}");
        server.left_nothing();
    }
}

#[tokio::test]
async fn watches_end_cleanly_when_the_server_stops() {
    let mut server = Server::start(&[]);
    let client = server.client();
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion=0");
    let mut watches = Vec::new();
    for _ in 0..200 {
        watches.push(client.watch(&path).await);
    }
    server.signal(Signal::TERM);
    for mut watch in watches {
        // It ends, and not by an error of the connection.
        watch.rest().await;
    }
    assert_eq!(server.ended().code(), Some(0));
    server.left_nothing();
}

#[tokio::test]
async fn a_later_run_removes_what_a_killed_one_has_left() {
    let mut killed = Server::start(&[]);
    killed.signal(Signal::KILL);
    assert!(killed_by(killed.ended(), Signal::KILL));
    let left = names(killed.temporary.path());
    assert_eq!(left.len(), 1);
    // Folders of somebody else, whose names begin likewise.
    let others = ["results", "0123456789abcdef0123456789abcdef"];
    let others = others.map(|name| format!("taffrail-test-{name}"));
    for name in &others {
        std::fs::create_dir(killed.temporary.path().join(name)).unwrap();
        std::fs::write(killed.temporary.path().join(name).join("report.xml"), "x").unwrap();
    }
    let mut next = super::command(killed.temporary.path(), &["--", "sleep", "1000"])
        .spawn()
        .unwrap();
    until(|| !killed.temporary.path().join(&left[0]).exists());
    rustix::process::kill_process(super::pid(&next), Signal::TERM).unwrap();
    end_of(&mut next);
    for name in &others {
        let folder = killed.temporary.path().join(name);
        assert!(folder.join("report.xml").is_file(), "{name}");
        std::fs::remove_dir_all(folder).unwrap();
    }
    killed.left_nothing();
}

#[test]
fn a_folder_that_can_not_be_made_is_named() {
    let output = super::output(Path::new("/none/such"), &[]);
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(
        line.contains("/none/such") && line.contains("TMPDIR"),
        "{line}"
    );
}

/// `TAFFRAIL_CYCLES` sets their number.
#[tokio::test]
async fn many_starts_and_stops_leave_nothing() {
    let cycles = std::env::var("TAFFRAIL_CYCLES").ok();
    let cycles = cycles.map_or(50, |text| text.parse().expect("a number"));
    let temporary = tempfile::tempdir().unwrap();
    let mut ports = std::collections::BTreeSet::new();
    for _ in 0..cycles {
        let output = super::output(temporary.path(), &["--", "sh", "-c", "cat $KUBECONFIG"]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let server = text.lines().find(|line| line.contains("server: ")).unwrap();
        let address = server.rsplit("//").next().unwrap().to_owned();
        // Nobody listens any more.
        assert!(std::net::TcpStream::connect(&*address).is_err());
        ports.insert(address);
    }
    assert!(!ports.is_empty());
    assert_eq!(names(temporary.path()), Vec::<String>::new());
}

#[tokio::test]
async fn the_server_ends_with_its_parent() {
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("out");
    let servers = tempfile::tempdir().unwrap();
    let mut parent = Command::new("sh");
    let script = "\"$0\" test --with-parent > \"$1\" & wait";
    parent
        .args(["-c", script])
        .arg(taffrail().get_program())
        .arg(&out)
        .env("TMPDIR", servers.path())
        .stdin(Stdio::null());
    let mut parent = parent.spawn().unwrap();
    until(|| std::fs::read_to_string(&out).is_ok_and(|text| text.ends_with('\n')));
    assert_eq!(names(servers.path()).len(), 1);
    parent.kill().unwrap();
    parent.wait().unwrap();
    until(|| names(servers.path()).is_empty());
}

#[tokio::test]
async fn settings_of_the_daemon_are_obeyed() {
    let port = crate::servers::ports::free_port();
    let secure = format!("--secure-port={port}");
    let server = Server::start(&[
        &secure,
        "--enable-admission-plugins=AlwaysPullImages",
        "--feature-gates=AllAlpha=false",
    ]);
    assert!(server.text("url").ends_with(&format!(":{port}")));
    server.stop();
}

#[test]
fn bad_values_are_refused_in_one_line() {
    for (arguments, part) in [
        (&["--nodes=-1"][..], "--nodes"),
        (&["--nodes=1001"], "--nodes"),
        (&["--nodes=x"], "--nodes"),
        (&["--load"], "--load"),
        (&["--pods-run=maybe"], "--pods-run"),
        (&["--workloads=2"], "--workloads"),
        (&["--with-parent=x"], "--with-parent"),
        (&["--secure-port=x"], "secure-port"),
        (&["--data-dir=/tmp/x"], "--data-dir"),
        (&["--storage-backend=embedded"], "--storage-backend"),
        (
            &["--storage-backend=etcd3", "--etcd-servers=http://[::1]:1"],
            "--etcd-servers",
        ),
        (&["--etcd-servers=http://127.0.0.1:1"], "--etcd-servers"),
        (
            &["--etcd-servers-overrides=/events#http://127.0.0.1:1"],
            "--etcd-servers-overrides",
        ),
        (&["--data-dir=./taffrail-data"], "--data-dir"),
        (
            &["--nodse=1"],
            "--nodse is unknown; see taffrail test --help",
        ),
        (&["--xyzzy"], "--xyzzy is unknown; see taffrail test --help"),
        (&["go", "test"], "taffrail test -- go"),
        (&["--"], "no command follows --"),
        (&["--nodes=1", "--"], "no command follows --"),
    ] {
        let (code, line) = refused(arguments);
        assert_eq!(code, 2, "{line}");
        assert!(line.contains(part), "{arguments:?}: {line}");
    }
}

#[test]
fn other_stores_are_refused_in_files_of_settings_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.yaml");
    let file = path.to_str().unwrap();
    for (setting, name) in [
        ("data-dir: /tmp/x", "data-dir"),
        ("data-dir: ./taffrail-data", "data-dir"),
        ("storage-backend: embedded", "storage-backend"),
        ("etcd-servers: http://127.0.0.1:1", "etcd-servers"),
    ] {
        std::fs::write(&path, setting).unwrap();
        let (code, line) = refused(&["--config", file]);
        assert_eq!(code, 2, "{line}");
        assert!(line.contains(&format!("{name} in the file")), "{line}");
    }
}

/// Switches take a value, as those of the daemon do, and the store may be named.
#[test]
fn values_that_change_nothing_are_accepted() {
    let temporary = tempfile::tempdir().unwrap();
    let switches = ["--pods-run=true", "--workloads=false", "--with-parent"];
    let store = ["--storage-backend=memory", "--", "true"];
    let output = super::output(temporary.path(), &[&switches[..], &store].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_port_in_use_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, line) = refused(&["--secure-port", &port]);
    assert_eq!(code, 1);
    assert!(line.contains(&port), "{line}");
}
