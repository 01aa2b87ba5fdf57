//! The first hour with the daemon: features that work as installed, and the output and arguments of
//! commands.

use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::harness::daemon::{Options, command, taffrail};
use crate::harness::{AS_INSTALLED, CONFIGMAPS, Call, Daemon, Kubectl, body, configmap};
use crate::servers::etcd::{self, Cluster};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn run(arguments: &[&str]) -> Output {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let folder = tempfile::tempdir().unwrap();
    let run = move || {
        let mut command = taffrail();
        command.args(arguments).current_dir(folder.path());
        command.output().unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a command that succeeds prints.
async fn done(arguments: &[&str]) -> String {
    let output = run(arguments).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// What a command that fails says.
async fn fails(arguments: &[&str], code: i32) -> String {
    let output = run(arguments).await;
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

/// The names and addresses of the certificate that a daemon made.
fn names(daemon: &Daemon) -> Vec<String> {
    let pem = std::fs::read(daemon.data().join("pki/apiserver.crt")).unwrap();
    let der = CertificateDer::from_pem_slice(&pem).unwrap();
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    let names = names.value.general_names.iter().map(|name| match name {
        GeneralName::DNSName(name) => (*name).to_owned(),
        GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
            Ok(bytes) => IpAddr::from(bytes).to_string(),
            Err(_) => IpAddr::from(<[u8; 16]>::try_from(*bytes).unwrap()).to_string(),
        },
        other => panic!("{other:?}"),
    });
    names.collect()
}

/// The address of this machine towards others, if it has one.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("198.51.100.1:9").ok()?;
    Some(socket.local_addr().unwrap().ip())
}

#[tokio::test]
async fn the_certificate_holds_the_addresses_that_clients_use() {
    let arguments = [
        "--bind-address=0.0.0.0",
        "--advertise-address=192.0.2.7",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--tls-san=api.example",
    ];
    let daemon = Options::default().arguments(&arguments).launch().await;
    let names = names(&daemon);
    for name in [
        "192.0.2.7",
        "10.96.0.1",
        "127.0.0.1",
        "api.example",
        "kubernetes.default.svc",
    ] {
        assert!(names.iter().any(|one| one == name), "{name}: {names:?}");
    }
    let Some(own) = own_address() else { return };
    let server = format!("--server=https://{own}:{}", daemon.port());
    let kubeconfig = format!("--kubeconfig={}", daemon.kubeconfig().display());
    let begun = Instant::now();
    loop {
        let output = run(&["get", "namespaces", &server, &kubeconfig]).await;
        if output.status.success() {
            break;
        }
        let said = text(&output.stderr);
        assert!(begun.elapsed() < PATIENCE, "{said}");
        assert!(!said.contains("certificate"), "{said}");
    }
}

/// The default issuer, API-226: as installed, and not where an operator or an etcd forbids it.
#[tokio::test]
async fn a_token_can_be_had_as_installed() {
    let mut daemon = Daemon::with(&[AS_INSTALLED]).await;
    let Some(kubectl) = Kubectl::find("1.36", &daemon).or_else(|| Kubectl::find("1.32", &daemon))
    else {
        return;
    };
    let token = kubectl.ok(&["create", "token", "default"]).await;
    let issuer = "https://kubernetes.default.svc.cluster.local";
    let path = "/.well-known/openid-configuration";
    let told = daemon.client().call(Call::get(path)).await.expect(200);
    assert_eq!(told["issuer"], issuer);
    daemon.stop(Signal::TERM).await;
    daemon.restart().await;
    let client = daemon.target().with_token(token.trim()).client();
    client.call(Call::get("/api")).await.expect(200);

    let off = Daemon::with(&["--service-account-issuer="]).await;
    let cluster = Cluster::single("3.5");
    let servers = format!("--etcd-servers={}", cluster.urls()[0]);
    let shared = Daemon::with(&[&servers]).await;
    for daemon in [off, shared] {
        let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
        let answer = daemon.client().call(Call::post(path, &json!({}))).await;
        assert_eq!(answer.status.as_u16(), 404);
        assert!(!daemon.data().join("service-account.key").exists());
    }
    let named = "--service-account-issuer=https://taffrail.example";
    let said = fails(&[&servers, named], 2).await;
    assert!(said.contains("service-account-signing-key-file"), "{said}");
}

#[tokio::test]
async fn all_unknown_flags_are_named_at_once_with_those_that_are_meant() {
    let said = fails(
        &[
            "--no-such=1",
            "--secure-prot=1",
            "--port",
            "2",
            "--v=4",
            "--vv=4",
        ],
        2,
    )
    .await;
    assert_eq!(
        said,
        "taffrail: --no-such is unknown; see taffrail --help\n\
         --secure-prot is unknown; did you mean --secure-port?\n\
         --port is unknown; --secure-port is the port of HTTPS\n\
         --vv is unknown; did you mean --v?\n"
    );
    let said = fails(&["get", "cm", "--namespce=a", "--att=5"], 2).await;
    assert!(said.contains("did you mean --namespace?"), "{said}");
    assert!(said.contains("did you mean --at?"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, "secure-prot: 1\nno-such: 2\n").unwrap();
    let said = fails(&["--config", file.to_str().unwrap()], 2).await;
    assert!(said.contains(": no-such is unknown"), "{said}");
    let words = "\nsecure-prot is unknown; did you mean secure-port?";
    assert!(said.contains(words), "{said}");
    for (arguments, words) in [
        (&["help"][..], "Usage: taffrail"),
        (&["help", "serve"], "--secure-port"),
        (&["help", "compact"], "Usage: taffrail compact"),
    ] {
        let told = done(arguments).await;
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
}

#[tokio::test]
async fn compact_does_not_ignore_a_retention_beside_a_daemon() {
    let mut daemon = Daemon::start().await;
    let data = format!("--data-dir={}", daemon.data().display());
    let arguments = [
        "compact",
        &data,
        "--retention-age=1s",
        "--retention-bytes=1MiB",
    ];
    let said = fails(&arguments, 1).await;
    let words = "--retention-age, --retention-bytes: a daemon is running here";
    assert!(said.contains(words), "{said}");
    done(&["compact", &data]).await;
    daemon.stop(Signal::TERM).await;
    done(&arguments).await;
}

#[tokio::test]
async fn json_is_asked_for_in_one_way() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let data = format!("--data-dir={}", daemon.data().display());
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let history = done(&["history", "cm", "a", &data, "-o", "json"]).await;
    assert_eq!(parsed(&history)["type"], "ADDED");
    assert_eq!(
        done(&["history", "cm", "a", &data, "--json"]).await,
        history
    );
    let inspected = parsed(&done(&["inspect", &data, "-o", "json"]).await);
    assert_eq!(inspected["stores"][0]["name"], "base");
    let got = parsed(&done(&["get", "cm", "a", &data, "-o", "json"]).await);
    assert_eq!(got["data"]["k"], "1");
    let servers = "--etcd-servers=http://127.0.0.1:1";
    let table = parsed(&done(&["storage", "table", "-o", "json", servers]).await);
    let rows = table["resources"].as_array().unwrap();
    let nodes = rows.iter().find(|row| row["resource"] == "nodes").unwrap();
    assert_eq!(nodes["prefix"], "/registry/minions/");
    assert_eq!(
        table["backEnds"][0]["servers"],
        json!(["http://127.0.0.1:1"])
    );
}

#[tokio::test]
async fn get_takes_all_namespaces_and_a_time_that_counts_back() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let elsewhere = CONFIGMAPS.replace("/default/", "/kube-public/");
    client
        .call(Call::post(&elsewhere, &body("b", "1")))
        .await
        .expect(201);
    let data = format!("--data-dir={}", daemon.data().display());
    let table = done(&["get", "cm", "-A", &data]).await;
    assert!(table.starts_with("NAMESPACE "), "{table}");
    for row in ["default ", "kube-public "] {
        assert!(table.lines().any(|line| line.starts_with(row)), "{table}");
    }
    let list = done(&["get", "cm", "--all-namespaces", "-ojson", &data]).await;
    let list: Value = serde_json::from_str(&list).unwrap();
    assert!(list["items"].as_array().unwrap().len() >= 2, "{list}");
    let nodes = done(&["get", "namespaces", "-A", &data]).await;
    assert!(nodes.starts_with("NAME "), "{nodes}");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    done(&["get", "cm", "a", "--at", "-1s", &data]).await;
    let said = fails(&["get", "cm", "a", "--at", "-1h", &data], 1).await;
    assert!(said.contains("history begins at"), "{said}");
    let said = fails(&["get", "cm", "a", "-A", &data], 1).await;
    assert!(said.contains("leave out its name"), "{said}");
}

/// The commands that ask a daemon do so from elsewhere: by a token and by a client certificate.
#[tokio::test]
async fn commands_work_from_elsewhere_with_a_kubeconfig() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let created = client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let created = created["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    client
        .call(Call::put(&configmap("a"), &body("a", "2")))
        .await
        .expect(200);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::copy(daemon.kubeconfig(), at("token")).unwrap();
    let data = format!("--data-dir={}", daemon.data().display());
    let made = at("certificate");
    let user = ["--user=ada", "--group=system:masters"];
    done(&["kubeconfig", user[0], user[1], &data, "-o", &made]).await;
    for file in ["token", "certificate"] {
        let kubeconfig = format!("--kubeconfig={}", at(file));
        let server = format!("--server=https://localhost:{}", daemon.port());
        let told = done(&["history", "cm", "a", &kubeconfig]).await;
        assert!(
            told.contains(&format!("revision {created}: created")),
            "{told}"
        );
        let told = done(&[
            "get",
            "cm",
            "a",
            "-oyaml",
            "--at",
            &created,
            &kubeconfig,
            &server,
        ])
        .await;
        assert!(told.contains("k: \"1\""), "{told}");
        done(&["undo", "cm", "a", "--to", &created, &kubeconfig]).await;
        let told = done(&["inspect", &kubeconfig]).await;
        assert!(told.contains("cacher/configmaps"), "{told}");
    }
    let got = client.call(Call::get(&configmap("a"))).await.expect(200);
    assert_eq!(got["data"]["k"], "1");

    let kubeconfig = format!("--kubeconfig={}", at("token"));
    let nobody = [
        "inspect",
        &kubeconfig,
        "--server=https://127.0.0.1:1",
        &data,
    ];
    assert!(fails(&nobody, 1).await.contains("no daemon answers"));
    for (arguments, words) in [
        (
            &["get", "cm", "--server=127.0.0.1:1", &data][..],
            "not a URL of a server",
        ),
        (
            &["get", "cm", "--server=https://127.0.0.1:1"],
            "name a --kubeconfig",
        ),
        (&["get", "cm"], "or name a --kubeconfig"),
        (
            &["get", "cm", "--kubeconfig=/no/such"],
            "--kubeconfig=/no/such: ",
        ),
    ] {
        let said = fails(arguments, 1).await;
        assert!(said.contains(words) && said.lines().count() == 1, "{said}");
    }
}

#[tokio::test]
async fn an_etcd_is_counted_and_an_empty_prefix_makes_no_backup() {
    let cluster = Cluster::single("3.5");
    let servers = format!("--etcd-servers={}", cluster.urls()[0]);
    let daemon = Daemon::with(&[&servers]).await;
    let data = format!("--data-dir={}", daemon.data().display());
    let told = done(&["inspect", "-o", "json", &data]).await;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert!(told["stores"][0]["keys"].as_u64().unwrap() >= 5, "{told:#}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    let backup = ["backup", file.to_str().unwrap(), "--from=etcd", &servers];
    let mistyped = [&backup[..], &["--etcd-prefix=/regsitry"]].concat();
    let said = fails(&mistyped, 1).await;
    assert!(
        said.contains("--etcd-prefix=/regsitry: the etcd holds nothing there"),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    done(&backup).await;
    assert!(file.exists());
}

#[tokio::test]
async fn the_manual_is_printed_or_written_into_a_new_directory() {
    assert!(done(&["man"]).await.contains(".TH taffrail"));
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man/man1");
    done(&["man", "-o", pages.to_str().unwrap()]).await;
    for page in ["taffrail.1", "taffrail-history.1"] {
        assert!(pages.join(page).is_file(), "{page}");
    }
}

/// The first indented block of a page.
fn block(page: &str) -> String {
    let lines = page.lines().skip_while(|line| !line.starts_with("    "));
    let lines = lines.map_while(|line| line.strip_prefix("    "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Processes that end with this.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

/// The block of docs/etcd.md, pasted as it is, but at another address of this machine.
#[tokio::test(flavor = "multi_thread")]
async fn the_daemons_of_the_page_on_etcd_start_as_it_says() {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find("1.36", &daemon).or_else(|| Kubectl::find("1.32", &daemon))
    else {
        return;
    };
    let Some(etcd) = etcd::find("3.5") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for part in ["bin", "target/release"] {
        std::fs::create_dir_all(at(part)).unwrap();
    }
    symlink(etcd, at("bin/etcd")).unwrap();
    symlink(kubectl.binary(), at("bin/kubectl")).unwrap();
    symlink(taffrail().get_program(), at("target/release/taffrail")).unwrap();
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = format!("127.77.{high}.{low}");
    let script = block(include_str!("../../docs/etcd.md")).replace("127.0.0.1", &address);
    let bound = format!("--bind-address {address} --secure-port");
    let script = script.replace("--secure-port", &bound);
    let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").unwrap());
    let open = |name: &str| std::fs::File::create(at(name)).unwrap();
    let mut command = Command::new("bash");
    command
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("HOME", folder.path())
        .stdout(open("stdout"))
        .stderr(open("stderr"))
        .process_group(0);
    let mut shell = command.spawn().unwrap();
    let _group = Group(Pid::from_raw(shell.id().cast_signed()).unwrap());
    let begun = Instant::now();
    let said = |name: &str| std::fs::read_to_string(at(name)).unwrap();
    let status = loop {
        if let Some(status) = shell.try_wait().unwrap() {
            break status;
        }
        let limit = 3 * PATIENCE;
        assert!(
            begun.elapsed() < limit,
            "{}{}",
            said("stdout"),
            said("stderr")
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(status.success(), "{}", said("stderr"));
    assert!(
        said("stdout").contains("\ngreeting   1 "),
        "{}",
        said("stdout")
    );
}

/// A library that shows a process this time, in seconds since 1970.
fn clock(folder: &Path, seconds: u64) -> std::path::PathBuf {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    let text = format!(
        "#define _GNU_SOURCE\n#include <time.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n\
         int clock_gettime(clockid_t id, struct timespec *now) {{\n\
           if (id == CLOCK_REALTIME) {{ now->tv_sec = {seconds}; now->tv_nsec = 0; return 0; }}\n\
           return syscall(SYS_clock_gettime, id, now);\n}}\n"
    );
    std::fs::write(&source, text).unwrap();
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(cc);
    compile
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source);
    assert!(compile.status().unwrap().success());
    library
}

#[tokio::test(flavor = "multi_thread")]
async fn no_authority_is_made_by_a_clock_that_was_never_set() {
    let folder = tempfile::tempdir().unwrap();
    let output = command(folder.path(), 0)
        .env("LD_PRELOAD", clock(folder.path(), 86_400))
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let words = "this machine's clock says 1970-01-02T00:00:00Z, which can't be";
    assert!(
        said.contains(words) && said.contains("set the clock"),
        "{said}"
    );
    assert!(!folder.path().join("data/pki/ca.crt").exists());
}
