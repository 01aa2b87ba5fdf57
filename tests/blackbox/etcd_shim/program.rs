//! The program itself: flags, paths, whose the directory is, its start and its end.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Instant;

use etcd_client::{Error, GetOptions, WatchOptions};
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions};

use super::*;

fn run(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(ours())
        .args(arguments)
        .env_clear()
        .current_dir(folder.path())
        .output()
        .unwrap();
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(
        left, 0,
        "{arguments:?} leaves something in the working folder"
    );
    output
}

#[test]
fn help_and_version_are_what_test_environments_look_for() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    assert!(
        String::from_utf8(help.stdout)
            .unwrap()
            .contains("--unsafe-no-fsync")
    );
    let version = run(&["--version"]);
    assert!(version.status.success());
    let text = String::from_utf8(version.stdout).unwrap();
    assert!(text.starts_with("etcd Version: 3.6."), "{text}");
    assert!(
        text.contains("\nGit SHA: ") && text.contains("\nGo OS/Arch: "),
        "{text}"
    );
}

#[test]
fn an_address_that_is_taken_is_named_with_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", taken.local_addr().unwrap());
    let (data, free) = (
        folder.path().display(),
        "--listen-client-urls=http://127.0.0.1:0",
    );
    for (flag, others) in [("listen-client-urls", ""), ("listen-metrics-urls", free)] {
        let others = [others].into_iter().filter(|other| !other.is_empty());
        let given = format!("--{flag}={url}");
        let mut command = Command::new(ours());
        command
            .args([&format!("--data-dir={data}/d"), &given])
            .args(others);
        let refused = command.output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("etcd: {given}: ")), "{said}");
    }
}

#[test]
fn what_cannot_be_obeyed_is_refused_with_code_2() {
    for (arguments, lines) in [
        (
            &["--data-dri=x", "--nothing"][..],
            &[
                "--data-dri is unknown; did you mean --data-dir?",
                "--nothing is unknown; see etcd",
            ][..],
        ),
        (
            &["--client-cert-auth", "--trusted-ca-file=ca.crt"],
            &[
                "--trusted-ca-file: TLS is not offered",
                "--client-cert-auth: TLS is not offered",
            ],
        ),
        (
            &["--initial-cluster=a=http://127.0.0.1:1,b=http://127.0.0.1:2"],
            &["it has several members"],
        ),
        (
            &["--listen-client-urls=http://somewhere:1"],
            &["neither an IP address nor localhost"],
        ),
        (
            &["--config-file=etcd.yaml"],
            &["--config-file: files of settings"],
        ),
    ] {
        let refused = run(arguments);
        let text = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert_eq!(text.trim_end().lines().count(), lines.len(), "{text}");
        for line in lines {
            assert!(text.contains(line), "{arguments:?}: no {line:?} in {text}");
        }
    }
}

#[test]
fn a_port_that_is_taken_is_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut child = command(&folder, port).spawn().unwrap();
    assert_eq!(ended(&mut child).code(), Some(2));
    let text = std::fs::read_to_string(folder.path().join("stderr")).unwrap();
    let complaints: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("etcd: "))
        .collect();
    assert_eq!(complaints.len(), 1, "{text}");
    assert!(
        complaints[0].contains(&format!("http://127.0.0.1:{port}")),
        "{text}"
    );
}

#[test]
fn it_serves_health_and_version_and_writes_only_into_its_directory() {
    let mut etcd = Etcd::start(&["--snapshot-count=1000", "--logger=zap"]);
    let answer = |path| get(etcd.address, path, "127.0.0.1").unwrap();
    let healthy = r#"{"health":"true","reason":""}"#;
    assert_eq!(answer("/health"), (200, healthy.to_owned()));
    let version: Value = serde_json::from_str(&answer("/version").1).unwrap();
    assert!(version["etcdserver"].as_str().unwrap().starts_with("3.6."));
    assert_eq!(answer("/readyz").0, 200);
    assert_eq!(answer("/nothing").0, 404);
    assert!(etcd.stop().success());
    let mut names: Vec<_> = std::fs::read_dir(etcd.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["data", "stderr"]);
    assert_eq!(std::fs::read_dir(etcd.data_dir()).unwrap().count(), 0);
    let log = etcd.stderr();
    let noted: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("no effect"))
        .collect();
    assert_eq!(noted.len(), 1, "{log}");
    assert!(noted[0].contains("--snapshot-count --logger"), "{log}");
}

#[test]
fn data_of_a_real_etcd_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("data/member")).unwrap();
    let mut child = command(&folder, free_port()).spawn().unwrap();
    assert_eq!(ended(&mut child).code(), Some(2));
    let text = std::fs::read_to_string(folder.path().join("stderr")).unwrap();
    assert!(text.contains("holds data of etcd"), "{text}");
}

fn open(directory: &Path) -> Result<Arc<EmbeddedEngine>, String> {
    let opened = EmbeddedEngine::open(EmbeddedOptions::new(directory));
    opened.map_err(|error| error.to_string())
}

/// The lock decides whose the directory is: that of a program which opens it, or the shim's once a
/// client speaks gRPC.
#[tokio::test]
async fn the_directory_is_lent_or_served() {
    let etcd = Etcd::start(&[]);
    let asked = etcd.data_directory();
    assert_eq!(asked["directory"], etcd.data_dir().to_str().unwrap());
    assert_eq!(asked["state"], "free");
    assert_eq!(asked["syncs"], false);
    assert_eq!(asked["holder"], Value::Null);

    let other = open(&etcd.data_dir()).unwrap();
    let lent = etcd.data_directory();
    assert_eq!(lent["state"], "lent");
    assert_eq!(lent["holder"]["pid"], std::process::id());
    let mut client = etcd.client().await;
    let Err(Error::GRpcStatus(status)) = client.get("a", None).await else {
        panic!("it serves a store that another process has");
    };
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert!(status.message().contains("is lent to process"), "{status}");
    // Health is that of the program, not of the store.
    assert_eq!(get(etcd.address, "/health", "127.0.0.1").unwrap().0, 200);

    drop(other);
    client.put("a", "1", None).await.unwrap();
    let served = etcd.data_directory();
    assert_eq!(served["state"], "served");
    assert_eq!(served["holder"]["pid"], etcd.child.id());
    let refused = open(&etcd.data_dir()).err().unwrap();
    assert!(refused.contains("is in use by process"), "{refused}");
}

#[test]
fn only_a_program_on_this_machine_may_ask_for_the_directory() {
    let etcd = Etcd::start(&[]);
    for host in ["localhost", "127.0.0.1:1", "[::1]"] {
        assert_eq!(get(etcd.address, DATA_DIRECTORY, host).unwrap().0, 200);
    }
    let page = "a.example";
    assert_eq!(get(etcd.address, DATA_DIRECTORY, page).unwrap().0, 403);
    let with_origin = "localhost\r\nOrigin: http://a.example";
    assert_eq!(
        get(etcd.address, DATA_DIRECTORY, with_origin).unwrap().0,
        403
    );
}

/// The process of a shell that has started the program, and the program's.
fn below_a_shell(etcd: &str) -> (Child, u32) {
    let mut shell = Command::new("sh")
        .args(["-c", &format!("{etcd} & echo $!; cat")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = shell.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    (shell, line.trim().parse().unwrap())
}

#[test]
fn it_ends_when_the_process_that_started_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    for (further, ends) in [("", true), ("--outlive-parent", false)] {
        let port = free_port();
        let data = folder.path().join(port.to_string());
        let (mut shell, process) = below_a_shell(&format!(
            "exec {} --data-dir={} --listen-client-urls=http://127.0.0.1:{port} {further}",
            ours().display(),
            data.display()
        ));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let healthy = || get(address, "/health", "127.0.0.1").is_some();
        until(healthy);
        shell.kill().unwrap();
        shell.wait().unwrap();
        if ends {
            until(|| !healthy());
            continue;
        }
        // The other one would have ended by now.
        assert!(healthy());
        let pid = Pid::from_raw(process as i32).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        until(|| !healthy());
    }
}

fn until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < WITHIN);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn a_kill_and_a_restart_keep_keys_and_revisions() {
    let mut etcd = Etcd::start(&["--unsafe-no-fsync=false"]);
    assert_eq!(etcd.data_directory()["syncs"], true);
    let mut client = etcd.client().await;
    let empty = client.get("a", None).await.unwrap();
    let first = empty.header().unwrap().clone();
    assert_eq!(first.revision(), 1, "an empty etcd is at revision 1");
    let lease = client.lease_grant(1000, None).await.unwrap().id();
    let options = etcd_client::PutOptions::new().with_lease(lease);
    client.put("leased", "x", Some(options)).await.unwrap();
    for number in 0..50 {
        client
            .put(format!("k{number:02}"), "v", None)
            .await
            .unwrap();
    }
    client.delete("k00", None).await.unwrap();
    etcd.kill();
    let again = Etcd::over(Arc::clone(&etcd.folder), &[]);
    let mut client = again.client().await;
    let all = Some(GetOptions::new().with_all_keys());
    let found = client.get("", all).await.unwrap();
    assert_eq!(found.count(), 50);
    assert_eq!(found.header().unwrap().revision(), 53);
    let same = |header: &etcd_client::ResponseHeader| (header.cluster_id(), header.member_id());
    assert_eq!(same(found.header().unwrap()), same(&first));
    let revisions: Vec<i64> = found.kvs().iter().map(|kv| kv.mod_revision()).collect();
    assert_eq!(
        revisions,
        [&(4..=52).collect::<Vec<_>>()[..], &[2]].concat()
    );
    let left = client.lease_time_to_live(lease, None).await.unwrap();
    assert!((1..=1000).contains(&left.ttl()), "{left:?}");
}

/// A stop waits for nobody. How long it takes is measured elsewhere.
#[tokio::test]
async fn a_stop_waits_for_none_of_a_thousand_watches() {
    let mut etcd = Etcd::start(&[]);
    let mut clients = Vec::new();
    let mut watches = Vec::new();
    for number in 0..1000 {
        if number % 100 == 0 {
            clients.push(etcd.client().await);
        }
        let client = clients.last_mut().unwrap();
        let options = WatchOptions::new().with_prefix();
        watches.push(
            client
                .watch(format!("/{number}/"), Some(options))
                .await
                .unwrap(),
        );
    }
    until(|| {
        let page = get(etcd.address, "/metrics", "127.0.0.1").unwrap().1;
        page.contains("etcd_debugging_mvcc_watcher_total 1000\n")
    });
    let began = Instant::now();
    assert!(etcd.stop().success());
    println!("stopped with 1,000 watches in {:?}", began.elapsed());
    // Each client learns it, after what it had not read yet.
    for watch in &mut watches {
        while let Ok(Some(message)) = watch.message().await {
            assert!(message.created());
        }
    }
}
