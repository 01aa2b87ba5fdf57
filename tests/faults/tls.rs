//! An etcd with TLS that demands client certificates (SF-4, OP-24).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Call, Daemon, Options};
use crate::servers::etcd::{Cluster, Tls};
use crate::turn;

/// An authority and what it has signed, as files of a folder.
struct Signed {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Signed {
    fn new() -> Signed {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
        Signed {
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate of 127.0.0.1 and its key.
    fn sign(&self, name: &str) -> Tls {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = Tls {
            authority: self.path("ca.crt"),
            certificate: self.path(&format!("{name}.crt")),
            key: self.path(&format!("{name}.key")),
        };
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }
}

fn arguments(cluster: &Cluster, authority: &Path, client: Option<&Tls>) -> Vec<String> {
    let mut arguments = vec![
        format!("--etcd-servers={}", cluster.urls()[0]),
        format!("--etcd-cafile={}", authority.display()),
    ];
    if let Some(client) = client {
        arguments.push(format!("--etcd-certfile={}", client.certificate.display()));
        arguments.push(format!("--etcd-keyfile={}", client.key.display()));
    }
    arguments
}

async fn launch(arguments: &[String]) -> Daemon {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Options::default().arguments(&words).launch().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_spoken_to_over_tls_by_who_has_a_certificate_sf_4() {
    let _turn = turn().await;
    let signed = Signed::new();
    let (server, client) = (signed.sign("server"), signed.sign("client"));
    let files = server.clone();
    let started = tokio::task::spawn_blocking(move || Cluster::with_tls("3.5", &files));
    let cluster = started.await.unwrap();

    let daemon = launch(&arguments(&cluster, &server.authority, Some(&client))).await;
    daemon.ready().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let object = json!({ "metadata": { "name": "a" } });
    daemon
        .client()
        .call(Call::post(path, &object))
        .await
        .expect(201);
    let list = daemon.client().call(Call::get(path)).await.expect(200);
    assert_eq!(list["items"][0]["metadata"]["name"], "a");

    // Without a certificate, and with an authority that has signed nothing here.
    let stranger = Signed::new();
    for arguments in [
        arguments(&cluster, &server.authority, None),
        arguments(&cluster, &stranger.path("ca.crt"), Some(&client)),
    ] {
        let daemon = launch(&arguments).await;
        let answer = daemon.client().call(Call::post(path, &object)).await;
        answer.refusal(500, "ServerTimeout");
        assert_eq!(daemon.client().call(Call::get("/readyz")).await.status, 500);
    }
}

/// Longer than any reload on a busy machine.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_towards_etcd_are_read_again_and_no_request_is_lost_sf_4() {
    let _turn = turn().await;
    let signed = Signed::new();
    let (server, client) = (signed.sign("server"), signed.sign("client"));
    // Of clients etcd believes what this file says when it starts.
    let believed = Tls {
        authority: signed.path("clients.crt"),
        ..server.clone()
    };
    std::fs::copy(&server.authority, &believed.authority).unwrap();
    let files = believed.clone();
    let started = tokio::task::spawn_blocking(move || Cluster::with_tls("3.5", &files));
    let mut cluster = started.await.unwrap();
    let daemon = launch(&arguments(&cluster, &server.authority, Some(&client))).await;
    daemon.ready().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let object = json!({ "metadata": { "generateName": "a-" } });
    let http = daemon.client();
    let create = async || http.call(Call::post(path, &object)).await;
    create().await.expect(201);

    // Renewed by the same authority: one file after the other, by which they don't fit meanwhile.
    let renewed = signed.sign("renewed");
    std::fs::copy(&renewed.certificate, &client.certificate).unwrap();
    daemon.signal(Signal::HUP);
    let told = "keeping the previous certificates towards etcd";
    let until = Instant::now() + SOON;
    while !daemon.stderr().contains(told) {
        create().await.expect(201);
        assert!(Instant::now() < until, "{}", daemon.stderr());
    }
    std::fs::copy(&renewed.key, &client.key).unwrap();
    daemon.signal(Signal::HUP);
    while !daemon
        .stderr()
        .contains("new connections to etcd use the reloaded")
    {
        create().await.expect(201);
        assert!(Instant::now() < until, "{}", daemon.stderr());
    }
    create().await.expect(201);

    // etcd believes another authority from now on. Nobody can have taken a write.
    let other = Signed::new();
    std::fs::copy(other.path("ca.crt"), &believed.authority).unwrap();
    cluster.members[0].kill();
    cluster.members[0].restart();
    for _ in 0..3 {
        create().await.refusal(500, "ServerTimeout");
    }
    assert!(daemon.stderr().contains("etcd"), "{}", daemon.stderr());

    // The files are followed without a signal, too.
    let good = other.sign("client");
    std::fs::copy(&good.certificate, &client.certificate).unwrap();
    std::fs::copy(&good.key, &client.key).unwrap();
    let until = Instant::now() + SOON;
    while create().await.status != 201 {
        assert!(Instant::now() < until, "{}", daemon.stderr());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    create().await.expect(201);
}
