//! Client certificates, and the change of certificates and tokens while the daemon runs.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use base64::Engine as _;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::daemon::taffrail;
use crate::harness::{
    CONFIGMAPS, Call, Daemon, Kubectl, Protocol, Target, body, configmap, version,
};

/// Longer than any reload on a busy machine.
const SOON: Duration = Duration::from_secs(30);

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn run(arguments: Vec<String>) -> Output {
    let run = move || taffrail().args(arguments).output().unwrap();
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// Runs a command on the daemon's data directory.
async fn command(daemon: &Daemon, arguments: &[&str]) -> Output {
    let data = daemon.data();
    let data = ["--data-dir", data.to_str().unwrap()];
    let all = arguments.iter().chain(&data).map(ToString::to_string);
    run(all.collect()).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The kubeconfig that the command prints, as a client of the daemon.
pub async fn issued(daemon: &Daemon, arguments: &[&str]) -> (String, Target) {
    let arguments = [&["kubeconfig"], arguments].concat();
    let output = command(daemon, &arguments).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kubeconfig = text(&output.stdout);
    let field = |name: &str| {
        let lines = kubeconfig.lines().map(str::trim);
        let value = lines.filter_map(|line| line.strip_prefix(name)).next();
        let value = value.unwrap_or_else(|| panic!("no {name} in {kubeconfig}"));
        let bytes = base64::engine::general_purpose::STANDARD.decode(value);
        text(&bytes.unwrap())
    };
    let certificate = field("client-certificate-data: ");
    let target = daemon
        .target()
        .with_certificate(&certificate, &field("client-key-data: "));
    (kubeconfig, target)
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap()
}

#[tokio::test]
async fn the_kubeconfig_of_a_user_and_its_groups_works_without_a_token_api_277() {
    let daemon = Daemon::start().await;
    let masters = ["--user=ada", "--group=crew", "--group=system:masters"];
    let (kubeconfig, ada) = issued(&daemon, &masters).await;
    assert!(!kubeconfig.contains("token"), "{kubeconfig}");
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = ada.client_over(protocol);
        client.call(Call::get(CONFIGMAPS)).await.expect(200);
        client.call(Call::get(CONFIGMAPS)).await.expect(200);
    }
    let (_, bob) = issued(&daemon, &["--user=bob \"the\" builder", "--group=crew"]).await;
    let refused = bob.client().call(Call::get(CONFIGMAPS)).await;
    let refused = refused.refusal(403, "Forbidden");
    let told = "User \"bob \\\"the\\\" builder\" cannot list resource \"configmaps\"";
    assert!(message(&refused).contains(told), "{refused}");
    // The certificate is asked before the token.
    let both = bob.with_token(&daemon.token());
    let answer = both.client().call(Call::get(CONFIGMAPS)).await;
    answer.refusal(403, "Forbidden");

    let path = daemon.data().join("ada.kubeconfig");
    let output = format!("--output={}", path.display());
    let written = command(&daemon, &["kubeconfig", "--user=ada", masters[2], &output]).await;
    assert!(written.status.success() && written.stdout.is_empty());
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o7777, 0o600);
    for version in ["1.20", "1.32", "1.36"] {
        let Some(kubectl) = Kubectl::find(version, &daemon) else {
            continue;
        };
        let kubectl = kubectl.with_kubeconfig(path.clone());
        kubectl.ok(&["get", "configmaps"]).await;
    }
}

#[tokio::test]
async fn a_kubeconfig_that_would_not_work_is_refused_in_one_line() {
    let daemon = Daemon::start().await;
    for (arguments, told) in [
        (&["--user="][..], "--user=\"\": a name has 1 to 512 bytes"),
        (
            &["--user=a", "--group=a\nb"],
            "--group=\"a\\nb\": a name has",
        ),
        (
            &["--user=a", "--valid-for=0s"],
            "--valid-for=0s: the certificate would never",
        ),
        (
            &["--user=a", "--server=ftp://x"],
            "--server=\"ftp://x\": not a URL of a server",
        ),
        (&["--user=a", "--output=/nosuch/x"], "--output=/nosuch/x: "),
    ] {
        let arguments = [&["kubeconfig"], arguments].concat();
        let output = command(&daemon, &arguments).await;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains(told), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let nobody = ["kubeconfig", "--user=a", "--data-dir"].map(str::to_owned);
    let nobody = [&nobody[..], &[folder.path().to_str().unwrap().to_owned()]].concat();
    let error = text(&run(nobody).await.stderr);
    assert!(
        error.contains("no daemon has run there; start one first"),
        "{error}"
    );
}

/// An authority of an operator.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = parameters.self_signed(&key).unwrap().pem();
    Authority {
        issuer: Issuer::new(parameters, key),
        pem,
    }
}

impl Authority {
    /// A certificate with its key.
    fn sign(&self, purpose: ExtendedKeyUsagePurpose) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, "ada");
        name.push(DnType::OrganizationName, "system:masters");
        parameters.distinguished_name = name;
        parameters.extended_key_usages = vec![purpose];
        let signed = parameters.signed_by(&key, &self.issuer).unwrap();
        (signed.pem(), key.serialize_pem())
    }

    fn client(&self, daemon: &Daemon) -> Target {
        let (certificate, key) = self.sign(ExtendedKeyUsagePurpose::ClientAuth);
        daemon.target().with_certificate(&certificate, &key)
    }
}

fn put(path: &Path, text: &str) {
    let beside = path.with_extension("next");
    std::fs::write(&beside, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&beside, mode).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

#[tokio::test]
async fn authorities_of_clients_change_while_connections_live_api_279() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clients.crt");
    let (first, second) = (authority(), authority());
    put(&file, &first.pem);
    let flag = format!("--client-ca-file={}", file.display());
    let daemon = Daemon::with(&[&flag]).await;
    let (ada, eve) = (first.client(&daemon), second.client(&daemon));
    let (open, waiting) = (ada.client(), eve.client());
    open.call(Call::get(CONFIGMAPS)).await.expect(200);
    let mut watch = open.watch(&format!("{CONFIGMAPS}?watch=true")).await;
    let refused = waiting.call(Call::get(CONFIGMAPS)).await;
    refused.refusal(401, "Unauthorized");
    let log = daemon.stderr();
    assert!(
        log.contains("the client certificate is not signed by a trusted CA"),
        "{log}"
    );
    let of_server = first.sign(ExtendedKeyUsagePurpose::ServerAuth);
    let of_server = daemon.target().with_certificate(&of_server.0, &of_server.1);
    let refused = of_server.client().call(Call::get(CONFIGMAPS)).await;
    refused.refusal(401, "Unauthorized");

    // What can't be used changes nothing.
    put(&file, "nonsense");
    until("the file is looked at", async || {
        daemon.stderr().contains("it holds no certificate")
    })
    .await;
    open.call(Call::get(CONFIGMAPS)).await.expect(200);

    put(&file, &second.pem);
    until("the second is believed", async || {
        waiting.call(Call::get(CONFIGMAPS)).await.status == 200
    })
    .await;
    open.call(Call::get(CONFIGMAPS))
        .await
        .refusal(401, "Unauthorized");
    let rest = tokio::time::timeout(SOON, watch.rest()).await;
    assert_eq!(rest.expect("the watch ends"), Vec::<Value>::new());
    // Kubeconfigs of the daemon's own authority go on.
    let (_, own) = issued(&daemon, &["--user=x", "--group=system:masters"]).await;
    own.client().call(Call::get(CONFIGMAPS)).await.expect(200);
}

#[tokio::test]
async fn certificates_of_a_client_that_are_too_many_end_the_handshake() {
    let daemon = Daemon::start().await;
    let (certificate, key) = authority().sign(ExtendedKeyUsagePurpose::ClientAuth);
    for (count, is_asked) in [(10, true), (60, false)] {
        let target = daemon
            .target()
            .with_certificate(&certificate.repeat(count), &key);
        let answer = target.client().attempt(Call::get(CONFIGMAPS)).await;
        assert_eq!(answer.is_ok_and(|answer| answer.status == 401), is_asked);
    }
    daemon
        .client()
        .call(Call::get(CONFIGMAPS))
        .await
        .expect(200);
}

#[tokio::test]
async fn another_certificate_is_presented_without_dropping_a_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (file, key_file) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let (first, second) = (authority(), authority());
    let (certificate, key) = first.sign(ExtendedKeyUsagePurpose::ServerAuth);
    put(&file, &(certificate + &first.pem));
    put(&key_file, &key);
    let flags = [
        format!("--tls-cert-file={}", file.display()),
        format!("--tls-private-key-file={}", key_file.display()),
    ];
    let daemon = Daemon::with(&[&flags[0], &flags[1]]).await;
    let token = daemon.target().token;
    let address = daemon.target().address;
    let trusting = |pem: &str| Target::new(address, token.clone(), Some(pem.as_bytes()));
    let open = trusting(&first.pem).client();
    let created = open.call(Call::post(CONFIGMAPS, &body("a", "1"))).await;
    let from = version(&created.expect(201));
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={from}");
    let mut watch = open.watch(&path).await;

    // Files that do not fit together yet are no reason to stop.
    let (certificate, key) = second.sign(ExtendedKeyUsagePurpose::ServerAuth);
    put(&file, &(certificate + &second.pem));
    until("the files are looked at", async || {
        daemon
            .stderr()
            .contains("the certificates were not read again")
    })
    .await;
    trusting(&first.pem)
        .client()
        .call(Call::get("/version"))
        .await
        .expect(200);
    put(&key_file, &key);
    until("the second is presented", async || {
        trusting(&second.pem)
            .client()
            .attempt(Call::get("/version"))
            .await
            .is_ok()
    })
    .await;
    let presented = "the serving certificate was replaced";
    until("the kubeconfig is written", async || {
        let told = daemon.stderr();
        let since = told.split_once(presented).map(|(_, since)| since);
        since.is_some_and(|since| since.contains("the token files were read again"))
    })
    .await;
    assert!(
        trusting(&first.pem)
            .client()
            .attempt(Call::get("/version"))
            .await
            .is_err()
    );

    let patch = json!({ "data": { "k": "2" } });
    open.call(Call::merge_patch(&configmap("a"), &patch))
        .await
        .expect(200);
    assert_eq!(watch.event().await["object"]["data"]["k"], "2");
    // The admin's kubeconfig trusts what is presented now, and so do commands.
    let output = command(&daemon, &["compact"]).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[tokio::test]
async fn the_daemon_s_own_certificate_is_renewed_while_it_serves() {
    let daemon = Daemon::start().await;
    let open = daemon.client();
    open.call(Call::get("/version")).await.expect(200);
    let path = daemon.data().join("pki/apiserver.crt");
    let before = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    daemon.signal(Signal::HUP);
    until("there is another one", async || {
        daemon
            .stderr()
            .contains("the serving certificate was replaced")
    })
    .await;
    assert_ne!(std::fs::read_to_string(&path).unwrap(), before);
    open.call(Call::get("/version")).await.expect(200);
    daemon
        .client()
        .call(Call::get("/version"))
        .await
        .expect(200);
    let page = open.call(Call::get("/metrics")).await.text();
    for which in ["serving", "authority"] {
        let line = format!(
            "taffrail_certificate_expiration_timestamp_seconds{{certificate=\"{which}\"}} "
        );
        let mut lines = page.lines();
        let end = lines.find_map(|candidate| candidate.strip_prefix(&line));
        let end: f64 = end.unwrap_or_else(|| panic!("no {which}")).parse().unwrap();
        assert!(end > 1.7e9, "{end}");
    }
}

#[tokio::test]
async fn the_admin_s_token_is_rotated_with_and_without_a_daemon() {
    let mut daemon = Daemon::start().await;
    let old = daemon.target();
    let client = old.client();
    let mut watch = client.watch(&format!("{CONFIGMAPS}?watch=true")).await;
    let output = command(&daemon, &["token", "rotate"]).await;
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(said.contains("was replaced; 1 watches ended"), "{said}");
    let rest = tokio::time::timeout(SOON, watch.rest()).await;
    assert_eq!(rest.expect("the watch ends"), Vec::<Value>::new());
    client
        .call(Call::get(CONFIGMAPS))
        .await
        .refusal(401, "Unauthorized");
    let second = daemon.token();
    assert_ne!(Some(&second), old.token.as_ref());
    assert!(!said.contains(&second) && !daemon.stderr().contains(&second));
    daemon
        .client()
        .call(Call::get(CONFIGMAPS))
        .await
        .expect(200);

    daemon.stop(Signal::TERM).await;
    let output = command(&daemon, &["token", "rotate"]).await;
    let said = text(&output.stdout);
    assert!(
        said.contains("no daemon is running"),
        "{said}{}",
        text(&output.stderr)
    );
    daemon.relaunch().await;
    daemon.ready().await;
    assert_ne!(daemon.token(), second);
    daemon
        .client()
        .call(Call::get(CONFIGMAPS))
        .await
        .expect(200);
    let refused = old.with_token(&second).client();
    refused
        .call(Call::get(CONFIGMAPS))
        .await
        .refusal(401, "Unauthorized");

    // Nobody but the admin may do it.
    let (_, bob) = issued(&daemon, &["--user=bob"]).await;
    let refused = bob
        .client()
        .call(Call::new("POST", "/taffrail/v1/token/rotate"))
        .await;
    refused.refusal(403, "Forbidden");
}

#[tokio::test]
async fn a_file_of_users_is_read_again_when_it_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.csv");
    put(&file, "t-ada,ada,1,system:masters\n");
    let flag = format!("--token-auth-file={}", file.display());
    let daemon = Daemon::with(&[&flag]).await;
    let bob = daemon.target().with_token("t-bob").client();
    bob.call(Call::get(CONFIGMAPS))
        .await
        .refusal(401, "Unauthorized");
    put(
        &file,
        "t-ada,ada,1,system:masters\nt-bob,bob,2,system:masters\n",
    );
    until("bob is known", async || {
        bob.call(Call::get(CONFIGMAPS)).await.status == 200
    })
    .await;
    assert!(daemon.stderr().contains("because=\"a file has changed\""));
}
