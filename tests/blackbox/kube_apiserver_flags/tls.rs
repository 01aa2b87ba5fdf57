//! Flags of TLS, as clients see them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::process::Signal;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Pki, self_signed};
use crate::harness::client::AnyCertificate;
use crate::harness::{Call, Daemon, Options};

/// A client that offers certain versions, suites and groups, by their numbers.
#[derive(Clone, Copy, Default)]
struct Offer {
    is_tls12: bool,
    suite: Option<u16>,
    group: Option<u16>,
    name: Option<&'static str>,
}

async fn connect(daemon: &Daemon, offer: Offer) -> std::io::Result<TlsStream<TcpStream>> {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(number) = offer.suite {
        let is_it = |suite: &rustls::SupportedCipherSuite| u16::from(suite.suite()) == number;
        provider.cipher_suites.retain(is_it);
    }
    if let Some(number) = offer.group {
        provider.kx_groups = aws_lc_rs::ALL_KX_GROUPS.to_vec();
        provider
            .kx_groups
            .retain(|group| u16::from(group.name()) == number);
    }
    let provider = Arc::new(provider);
    let versions = match offer.is_tls12 {
        true => &[&rustls::version::TLS12][..],
        false => &[&rustls::version::TLS13],
    };
    let mut config = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let address = daemon.target().address;
    let name = match offer.name {
        Some(name) => ServerName::try_from(name).unwrap(),
        None => ServerName::from(address.ip()),
    };
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

async fn is_served(daemon: &Daemon, offer: Offer) -> bool {
    connect(daemon, offer).await.is_ok()
}

fn tls12(suite: u16) -> Offer {
    Offer {
        is_tls12: true,
        suite: Some(suite),
        ..Offer::default()
    }
}

fn tls13(suite: u16) -> Offer {
    Offer {
        suite: Some(suite),
        ..Offer::default()
    }
}

#[tokio::test]
async fn only_the_suites_of_the_list_are_used_d_119() {
    let daemon = Daemon::with(&[
        "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    ])
    .await;
    assert!(is_served(&daemon, tls12(0xc02c)).await);
    assert!(!is_served(&daemon, tls12(0xc02b)).await);
    // A list without suites of TLS 1.3 says nothing about that version, as in kube-apiserver.
    assert!(is_served(&daemon, tls13(0x1301)).await);
    let daemon = Daemon::with(&["--tls-cipher-suites=TLS_AES_256_GCM_SHA384"]).await;
    assert!(is_served(&daemon, tls13(0x1302)).await);
    assert!(!is_served(&daemon, tls13(0x1301)).await);
    assert!(!is_served(&daemon, tls12(0xc02c)).await);
}

#[tokio::test]
async fn versions_and_groups_are_restricted() {
    let daemon = Daemon::with(&[
        "--tls-min-version=VersionTLS13",
        "--tls-curve-preferences=23,24",
    ])
    .await;
    assert!(is_served(&daemon, Offer::default()).await);
    let older = Offer {
        is_tls12: true,
        ..Offer::default()
    };
    assert!(!is_served(&daemon, older).await);
    for (number, is_allowed) in [(23, true), (24, true), (29, false), (4588, false)] {
        let offer = Offer {
            group: Some(number),
            ..Offer::default()
        };
        assert_eq!(is_served(&daemon, offer).await, is_allowed, "{number}");
    }
    let daemon = Daemon::with(&["--tls-min-version=VersionTLS10"]).await;
    assert!(is_served(&daemon, older).await);
}

#[tokio::test]
async fn http2_is_not_offered_where_it_is_disabled() {
    let chosen = async |daemon: &Daemon| {
        let stream = connect(daemon, Offer::default()).await.unwrap();
        stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
    };
    let daemon = Options::default()
        .arguments(&["--disable-http2-serving"])
        .launch()
        .await;
    assert_eq!(chosen(&daemon).await.as_deref(), Some(&b"http/1.1"[..]));
    daemon
        .client_http1()
        .call(Call::get("/api"))
        .await
        .expect(200);
    let daemon = Daemon::start().await;
    assert_eq!(chosen(&daemon).await.as_deref(), Some(&b"h2"[..]));
}

/// The certificate that a client gets which asks for a name.
async fn presented(daemon: &Daemon, name: &'static str) -> Vec<u8> {
    let offer = Offer {
        name: Some(name),
        ..Offer::default()
    };
    let stream = connect(daemon, offer).await.unwrap();
    let certificates = stream.get_ref().1.peer_certificates().unwrap();
    certificates[0].to_vec()
}

fn der(path: &str) -> Vec<u8> {
    CertificateDer::from_pem_file(path).unwrap().to_vec()
}

#[tokio::test]
async fn clients_get_the_certificate_of_the_name_that_they_ask_for_d_119() {
    let folder = tempfile::tempdir().unwrap();
    let made = |file, host| self_signed(folder.path(), file, host);
    let [extracted, extracted_key] = made("a", "api.example");
    let [given, given_key] = made("b", "other.example");
    let flags = [
        format!("--tls-sni-cert-key={extracted},{extracted_key}"),
        format!("--tls-sni-cert-key={given},{given_key}:*.example,b.api.example"),
    ];
    let daemon = Daemon::with(&[&flags[0], &flags[1]]).await;
    for (name, file) in [
        // A whole name wins over one with a star.
        ("api.example", &extracted),
        ("API.example", &extracted),
        ("b.api.example", &given),
        ("any.example", &given),
    ] {
        assert_eq!(presented(&daemon, name).await, der(file), "{name}");
    }
    let usual = presented(&daemon, "localhost").await;
    assert!(usual != der(&extracted) && usual != der(&given));
    assert_eq!(presented(&daemon, "c.any.example").await, usual);
    // It is followed as the others are.
    made("a", "api.example");
    daemon.signal(Signal::HUP);
    while presented(&daemon, "api.example").await != der(&extracted) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn faulty_certificates_for_names_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, _] = self_signed(folder.path(), "a", "api.example");
    let [_, key] = self_signed(folder.path(), "b", "other.example");
    let flag = format!("--tls-sni-cert-key={certificate},{key}");
    let refused = Options::default().arguments(&[&flag]).attempt().await;
    let said = refused.err().unwrap();
    let wanted = format!("--tls-sni-cert-key={certificate}: ");
    assert!(said.contains(&wanted), "{said}");
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_folder_of_certificates_is_used_as_it_is() {
    let pki = Pki::new();
    let folder = tempfile::tempdir().unwrap();
    for name in ["apiserver.crt", "apiserver.key"] {
        std::fs::copy(pki.path(name), folder.path().join(name)).unwrap();
    }
    let flag = format!("--cert-dir={}", folder.path().display());
    let daemon = Daemon::with(&[&flag]).await;
    let path = pki.path("apiserver.crt");
    let wanted = der(path.to_str().unwrap());
    assert_eq!(presented(&daemon, "localhost").await, wanted);
    daemon.client().call(Call::get("/api")).await.expect(200);
    assert_eq!(files(folder.path()), ["apiserver.crt", "apiserver.key"]);
    drop(daemon);
    std::fs::remove_file(folder.path().join("apiserver.key")).unwrap();
    let refused = Options::default().arguments(&[&flag]).attempt().await;
    let said = refused.err().unwrap();
    assert!(
        said.contains("it has only one of apiserver.crt and apiserver.key"),
        "{said}"
    );
}

#[tokio::test]
async fn a_folder_without_certificates_gets_a_pair() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("of/certificates");
    let flag = format!("--cert-dir={}", made.display());
    let mut daemon = Daemon::with(&[&flag]).await;
    assert_eq!(files(&made), ["apiserver.crt", "apiserver.key"]);
    let key = std::fs::metadata(made.join("apiserver.key")).unwrap();
    assert_eq!(key.mode() & 0o777, 0o600);
    let first = presented(&daemon, "localhost").await;
    assert_eq!(first, der(made.join("apiserver.crt").to_str().unwrap()));
    daemon.client().call(Call::get("/api")).await.expect(200);
    assert!(!daemon.data().join("pki/apiserver.crt").exists());
    // It is kept, and so is its authority in kubeconfigs.
    daemon.stop(Signal::TERM).await;
    daemon.restart().await;
    assert_eq!(presented(&daemon, "localhost").await, first);
}
