//! This binary in the places of `etcd` and `kube-apiserver`, as controller-runtime's envtest starts
//! them, together and each with the original other program.

mod control_plane;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use control_plane::Envtest;

use crate::harness::daemon::taffrail;
use crate::harness::own_network::in_own_network;
use crate::harness::{CONFIGMAPS, Call, Client, configmap};
use crate::servers::etcd;
use crate::servers::programs::named;

const FILES: [&str; 5] = [
    "apiserver.crt",
    "apiserver.key",
    "client-cert-auth-ca.crt",
    "sa-signer.crt",
    "sa-signer.key",
];

async fn create(client: &Client, name: &str) -> Value {
    let object = json!({"metadata": {"name": name}, "data": {"k": "v"}});
    client
        .call(Call::post(CONFIGMAPS, &object))
        .await
        .expect(201)
}

/// The object, as it was created.
async fn same(client: &Client, created: &Value) {
    let name = created["metadata"]["name"].as_str().unwrap();
    let found = client.call(Call::get(&configmap(name))).await.expect(200);
    assert_eq!(&found, created);
}

/// The namespace `default`, which envtest waits for, comes by itself.
async fn until_default(client: &Client) {
    let begun = Instant::now();
    while client
        .call(Call::get("/api/v1/namespaces/default"))
        .await
        .status
        != 200
    {
        assert!(begun.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn number(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap();
    version.parse().unwrap()
}

/// Objects and revisions survive a restart of each program, and files appear nowhere else than in
/// etcd's folder.
#[tokio::test]
async fn objects_survive_restarts_of_both_programs_and_belong_to_etcd() {
    let mut envtest = Envtest::new().start().await;
    let client = envtest.client();
    until_default(&client).await;
    let first = create(&client, "first").await;
    assert!(envtest.stop_server().success());
    envtest.start_server(&[]).await;
    let client = envtest.client();
    same(&client, &first).await;
    let second = create(&client, "second").await;
    assert!(number(&second) > number(&first));
    assert!(envtest.stop_server().success());
    assert!(envtest.stop_etcd().success());
    envtest.start_etcd().await;
    envtest.start_server(&[]).await;
    let client = envtest.client();
    same(&client, &first).await;
    same(&client, &second).await;
    assert!(number(&create(&client, "third").await) > number(&second));
    let files = envtest.files();
    assert_eq!(files, [Vec::new(), FILES.map(str::to_owned).to_vec()]);
    assert!(envtest.data().join("store").exists());
    assert_eq!(std::fs::read_dir(envtest.temporary()).unwrap().count(), 0);
    // A message for an operator would be lost on a test.
    let said = envtest.said("kube-apiserver");
    assert!(
        !said.contains("metrics=") && !said.contains("KUBECONFIG"),
        "{said}"
    );
}

/// A process that ended without warning loses nothing that was acknowledged.
#[tokio::test]
async fn killed_programs_lose_nothing() {
    let mut envtest = Envtest::new().start().await;
    let client = envtest.client();
    until_default(&client).await;
    let created = create(&client, "a").await;
    envtest.kill();
    envtest.start_etcd().await;
    envtest.start_server(&[]).await;
    same(&envtest.client(), &created).await;
}

/// A folder has one server. A second one is refused in a line that names the first.
#[tokio::test]
async fn a_second_server_on_one_etcd_is_refused_in_one_line() {
    let envtest = Envtest::new().start().await;
    let client = envtest.client();
    until_default(&client).await;
    let refused = envtest
        .server_command(&["--secure-port=0"])
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let line = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    let pid = envtest.server_pid().to_string();
    for word in [
        &envtest.etcd_url(),
        &pid,
        &envtest.data().display().to_string(),
    ] {
        assert!(line.contains(word.as_str()), "{word}: {line}");
    }
    create(&client, "a").await;
}

/// API-225: a client that removes the finalizer of a namespace right after its deletion, because it
/// expects no controller, is not disturbed. A namespace that is left alone goes by itself, no
/// sooner than with kube-controller-manager.
#[tokio::test]
async fn deleted_namespaces_are_left_to_their_clients_for_a_while_api_225() {
    let envtest = Envtest::new().start().await;
    let client = envtest.client();
    until_default(&client).await;
    let path = |name: &str| format!("/api/v1/namespaces/{name}");
    for name in ["finalized", "left"] {
        let namespace = json!({"metadata": {"name": name}});
        let created = client.call(Call::post("/api/v1/namespaces", &namespace));
        created.await.expect(201);
    }
    let begun = Instant::now();
    client.call(Call::delete(&path("left"))).await.expect(200);
    client
        .call(Call::delete(&path("finalized")))
        .await
        .expect(200);
    let found = client.call(Call::get(&path("finalized"))).await;
    let mut namespace = found.expect(200);
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["status"], json!({"phase": "Terminating"}));
    namespace["spec"]["finalizers"] = json!([]);
    let finalize = format!("{}/finalize", path("finalized"));
    client
        .call(Call::put(&finalize, &namespace))
        .await
        .expect(200);
    let gone = client.call(Call::get(&path("finalized"))).await;
    assert_eq!(gone.status, 404);
    while client.call(Call::get(&path("left"))).await.status != 404 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(begun.elapsed() >= Duration::from_secs(5));
}

/// `--allow-privileged` is what it is in kube-apiserver, where the program is called so.
#[tokio::test]
async fn privileged_containers_need_the_flag() {
    let mut envtest = Envtest::new();
    envtest.start_etcd().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{
        "name": "c", "image": "i", "securityContext": {"privileged": true},
    }]}});
    for (flags, code) in [(&[][..], 422), (&["--allow-privileged=true"], 201)] {
        envtest.start_server(flags).await;
        let client = envtest.client();
        until_default(&client).await;
        let created = client
            .call(Call::post("/api/v1/namespaces/default/pods", &pod))
            .await;
        assert_eq!(created.status, code, "{}", created.text());
        assert!(envtest.stop_server().success());
    }
}

/// Lists of flags may be repeated, as envtest does with values that its user adds.
#[tokio::test]
async fn lists_are_repeated_and_tokens_verified_by_a_certificate() {
    let mut envtest = Envtest::new();
    envtest.start_etcd().await;
    let flags = [
        "--feature-gates=WatchList=true",
        "--feature-gates=APIResponseCompression=false",
        "--disable-admission-plugins=NamespaceLifecycle",
        "--runtime-config=",
    ];
    envtest.start_server(&flags).await;
    let client = envtest.client();
    until_default(&client).await;
    // Without NamespaceLifecycle a namespace need not exist.
    let path = "/api/v1/namespaces/nowhere/configmaps";
    let object = json!({"metadata": {"name": "a"}});
    client.call(Call::post(path, &object)).await.expect(201);
    let account = json!({"metadata": {"name": "a"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    client
        .call(Call::post(accounts, &account))
        .await
        .expect(201);
    let request = json!({"spec": {"expirationSeconds": 600}});
    let path = format!("{accounts}/a/token");
    let token = client.call(Call::post(&path, &request)).await.expect(201);
    let token = token["status"]["token"].as_str().unwrap();
    let user = envtest.bearer(token);
    let review = json!({"metadata": {}});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let reviewed = user.call(Call::post(path, &review)).await.expect(201);
    let name = &reviewed["status"]["userInfo"]["username"];
    assert_eq!(name, "system:serviceaccount:default:a");
}

/// A real etcd at `--etcd-servers` is used as an etcd, and the server leaves no file.
#[tokio::test]
async fn a_real_etcd_is_used_as_etcd() {
    let Some(program) = etcd::find("3.5") else {
        return;
    };
    let mut envtest = Envtest::new().with_program("etcd", &program).start().await;
    let client = envtest.client();
    until_default(&client).await;
    let created = create(&client, "a").await;
    assert_eq!(std::fs::read_dir(envtest.temporary()).unwrap().count(), 1);
    assert!(envtest.stop_server().success());
    assert_eq!(std::fs::read_dir(envtest.temporary()).unwrap().count(), 0);
    envtest.start_server(&[]).await;
    same(&envtest.client(), &created).await;
    assert!(envtest.data().join("member").exists());
    let files = envtest.files();
    assert_eq!(files, [Vec::new(), FILES.map(str::to_owned).to_vec()]);
}

/// The real kube-apiserver keeps its objects in this etcd, and this kube-apiserver reads them.
#[tokio::test]
async fn a_real_kube_apiserver_uses_this_etcd() {
    let Some(program) = named("TAFFRAIL_KUBE_APISERVER") else {
        return;
    };
    let theirs = Envtest::new().with_program("kube-apiserver", &program);
    let mut envtest = theirs.start().await;
    let client = envtest.client();
    until_default(&client).await;
    let created = create(&client, "a").await;
    let shared = client.call(Call::get("/api/v1/namespaces/default")).await;
    envtest.stop_server();
    envtest.stop_etcd();
    envtest.start_etcd().await;
    let ours = std::path::Path::new(env!("CARGO_BIN_EXE_taffrail"));
    let mut envtest = envtest.with_program("kube-apiserver", ours);
    envtest.start_server(&[]).await;
    let client = envtest.client();
    same(&client, &created).await;
    same_namespace(&client, &shared.json()).await;
}

async fn same_namespace(client: &Client, shown: &Value) {
    let found = client.call(Call::get("/api/v1/namespaces/default")).await;
    assert_eq!(found.json()["metadata"]["uid"], shown["metadata"]["uid"]);
}

/// Both programs end when the process that started them is killed, however it was.
#[tokio::test]
async fn programs_end_with_their_parent() {
    let envtest = Envtest::new();
    for (name, flags) in [
        (
            "etcd",
            vec![
                format!("--data-dir={}", envtest.data().display()),
                format!("--listen-client-urls={}", envtest.etcd_url()),
                format!("--advertise-client-urls={}", envtest.etcd_url()),
            ],
        ),
        (
            "kube-apiserver",
            vec![
                "--storage-backend=memory".to_owned(),
                "--secure-port=0".to_owned(),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--cert-dir={}", envtest.certificates().display()),
                format!("--data-dir={}", envtest.data().join("own").display()),
            ],
        ),
    ] {
        // The shell stays the parent, and prints the pid of its child.
        let program = envtest.command(name);
        let program = program.get_program().to_str().unwrap();
        let mut shell = Command::new("sh")
            .arg("-c")
            .arg("\"$@\" 2>/dev/null & echo $!; wait")
            .arg("sh")
            .arg(program)
            .args(flags)
            .current_dir(envtest.temporary())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(shell.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
        let pid = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        // A parent that dies before the program looks for it is not known.
        until(|| watches_parent(pid), name).await;
        kill_process(Pid::from_child(&shell), Signal::KILL).unwrap();
        shell.wait().unwrap();
        // A process that has ended and was waited for is gone.
        until(|| test_kill_process(pid).is_err() || is_zombie(pid), name).await;
    }
}

async fn until(is_so: impl Fn() -> bool, name: &str) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{name}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process has the thread that waits for the death of its parent.
fn watches_parent(pid: Pid) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else {
        return false;
    };
    let names =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.trim() == "parent")
}

/// Whether a process has ended and nobody has waited for it, as in containers without an init.
fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| stat.contains(") Z "))
}

/// Neither a network nor a host name that means an address is needed.
#[test]
fn programs_are_ready_without_network_and_host_name() {
    let name = "envtest::programs_are_ready_without_network_and_host_name";
    in_own_network(name, async {
        rustix::system::sethostname(b"nowhere.invalid").unwrap();
        let envtest = Envtest::new().start().await;
        until_default(&envtest.client()).await;
    });
}

/// Help and versions end with 0, and unknown flags with 2, a line each.
#[test]
fn help_and_versions_are_those_of_the_programs() {
    let envtest = Envtest::new();
    let run = |name: &str, flags: &[&str]| {
        let mut command = envtest.command(name);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command.args(flags).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), text, complaint)
    };
    let (code, help, _) = run("kube-apiserver", &["--help"]);
    assert_eq!(code, 0);
    // envtest passes a flag of old versions where help has it.
    assert!(
        !help
            .lines()
            .any(|line| line.trim_start().starts_with("--insecure-port"))
    );
    for flag in [
        "--etcd-servers",
        "--allow-privileged",
        "--profiling",
        "--egress-selector-config-file",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
    let (code, help, _) = run("etcd", &["--help"]);
    assert!(code == 0 && help.contains("--unsafe-no-fsync"), "{help}");
    let (code, version, _) = run("kube-apiserver", &["--version"]);
    assert!(
        code == 0 && version.starts_with("Kubernetes v1.36."),
        "{version}"
    );
    let (code, version, _) = run("kube-apiserver", &["--version=raw"]);
    assert!(
        code == 0 && version.starts_with("version.Info{Major:\"1\", Minor:\"36\""),
        "{version}"
    );
    let (code, _, complaint) = run("kube-apiserver", &["--version=v1.30.0"]);
    assert!(
        code == 2 && complaint.starts_with("kube-apiserver: --version=v1.30.0"),
        "{complaint}"
    );
    let (code, _, complaint) = run(
        "kube-apiserver",
        &["--etcd-server=x", "--no-such", "--secure-port=x"],
    );
    assert_eq!((code, complaint.lines().count()), (2, 3), "{complaint}");
    assert!(
        complaint.contains("did you mean --etcd-servers?"),
        "{complaint}"
    );
    // Nothing is waited for, and no object is kept in a folder that will be removed.
    for (flags, text) in [
        (&["--secure-port=0"][..], "--etcd-servers must be specified"),
        (&["--storage-backend=embedded"], "--data-dir"),
        (
            &["--etcd-servers=http://127.0.0.1:1", "--secure-port=x"],
            "--secure-port=x",
        ),
        (
            &[
                "--etcd-servers=http://127.0.0.1:1",
                "--client-ca-file=/none",
            ],
            "--client-ca-file",
        ),
    ] {
        let (code, _, complaint) = run("kube-apiserver", flags);
        assert_eq!((code, complaint.lines().count()), (2, 1), "{complaint}");
        assert!(complaint.contains(text), "{complaint}");
    }
    let (code, version, _) = run("etcd", &["--version"]);
    assert!(
        code == 0 && version.starts_with("etcd Version: 3."),
        "{version}"
    );
}

/// The folder has both programs, and the archive is one that `setup-envtest sideload` takes.
#[tokio::test]
async fn assets_are_made_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let (assets, archive) = (folder.path().join("assets"), folder.path().join("a.tar.gz"));
    let make = || {
        let mut command = taffrail();
        command
            .args(["test", "assets"])
            .arg(&assets)
            .arg("--archive")
            .arg(&archive);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let said = make();
    assert_eq!(
        said,
        format!("export KUBEBUILDER_ASSETS={}\n", assets.display())
    );
    // It is made again after an update of the program.
    assert_eq!(make(), said);
    let envtest = Envtest::new().with_assets(&assets).start().await;
    until_default(&envtest.client()).await;
    let unpacked = flate2::read::GzDecoder::new(std::fs::File::open(&archive).unwrap());
    let mut tar = tar::Archive::new(unpacked);
    for entry in tar.entries().unwrap() {
        let entry = entry.unwrap();
        assert!(entry.header().entry_type().is_file());
        let name = entry.path().unwrap().file_name().unwrap().to_owned();
        assert!(name == "etcd" || name == "kube-apiserver", "{name:?}");
    }
    // A link whose program is gone is made again, or removed where PATH has no kubectl.
    let kubectl = assets.join("kubectl");
    let _ = std::fs::remove_file(&kubectl);
    std::os::unix::fs::symlink("nowhere", &kubectl).unwrap();
    assert_eq!(make(), said);
    assert_ne!(std::fs::read_link(&kubectl).ok(), Some("nowhere".into()));
    std::fs::remove_file(assets.join("etcd")).unwrap();
    std::fs::write(assets.join("etcd"), "another program").unwrap();
    let mut command = taffrail();
    let refused = command
        .args(["test", "assets"])
        .arg(&assets)
        .output()
        .unwrap();
    let line = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(
        (refused.status.code(), line.lines().count()),
        (Some(1), 1),
        "{line}"
    );
    assert!(line.contains("--replace"), "{line}");
    assert_eq!(
        std::fs::read(assets.join("etcd")).unwrap(),
        b"another program"
    );
}

/// Faults of the folder and of the archive have a line each, which says what is wrong.
#[test]
fn assets_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("file"), "").unwrap();
    std::fs::create_dir_all(at("taken/etcd")).unwrap();
    let archive = format!("--archive={}", at("absent/a.tar.gz"));
    for (arguments, words) in [
        (&[&*at("file")][..], "file: it is not a folder"),
        (&[&*at("file/below")], "file/below: Not a directory"),
        (&[&*at("taken"), "--replace"], "etcd: a folder is there"),
        (&[&*at("assets"), &archive], "absent/a.tar.gz: No such file"),
    ] {
        let mut command = taffrail();
        let refused = command.args(["test", "assets"]).args(arguments).output();
        let refused = refused.unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        let line = said.lines().last().unwrap_or_default();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(line.starts_with("taffrail test assets: "), "{said}");
        assert!(line.contains(words), "{said}");
        assert_eq!(refused.stdout, b"");
    }
}
