//! The certificate of the front proxy, which changes while the daemon runs (CN-18).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

use super::availability::patch;
use super::extension::{APISERVICES, Extension, authority};
use super::{GROUP, PATIENCE, condition, until_reason};
use crate::harness::{Call, Client, Daemon};
use crate::revocation::replace;

const NAME: &str = "v1.a.example";
const CHECKED: &str = "/apis/a.example/v1";
const ECHO: &str = "/apis/a.example/v1/namespaces/default/echoes/e";

/// A certificate of a front proxy, and its key.
struct Pair {
    certificate: String,
    key: String,
}

impl Pair {
    fn new(authority: &Issuer<'static, KeyPair>, name: &str) -> Pair {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        let subject = &mut parameters.distinguished_name;
        subject.push(DnType::CommonName, name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        Pair {
            certificate: parameters.signed_by(&key, authority).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// The certificate as an extension records it: DER in base64.
    fn seen(&self) -> Option<String> {
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap();
        Some(BASE64_STANDARD.encode(der))
    }
}

/// The files that the flags name.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn within(folder: &Path) -> Files {
        Files {
            certificate: folder.join("proxy.crt"),
            key: folder.join("proxy.key"),
        }
    }

    fn flags(&self) -> [String; 2] {
        [
            format!("--proxy-client-cert-file={}", self.certificate.display()),
            format!("--proxy-client-key-file={}", self.key.display()),
        ]
    }
}

/// Waits until the log says something once more than it did.
async fn logged(daemon: &Daemon, text: &str, before: usize) {
    let begun = Instant::now();
    while daemon.stderr().matches(text).count() <= before {
        assert!(begun.elapsed() < PATIENCE, "{}", daemon.stderr());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Makes the extension see a request of a client and a check, and compares their certificates.
async fn all_see(client: &Client, extension: &Extension, pair: &Pair, which: &str) {
    extension.forget();
    client.call(Call::get(ECHO)).await.expect(200);
    let again = json!({"metadata": {"annotations": {"again": which}}});
    patch(client, &format!("{APISERVICES}/{NAME}"), again).await;
    let checks = || {
        let asked = extension.asked(CHECKED).into_iter();
        let checks = asked.filter(|one| one.header("x-remote-user") == "system:kube-aggregator");
        checks.filter(|one| one.path == CHECKED).count()
    };
    let begun = Instant::now();
    while checks() == 0 {
        assert!(begun.elapsed() < PATIENCE, "{which}: it is not checked");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for asked in extension.asked("/apis/a.example/v1") {
        assert_eq!(asked.certificate, pair.seen(), "{which}: {}", asked.path);
    }
    assert_eq!(condition(client, NAME).await["reason"], "Passed", "{which}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_certificate_is_shown_without_a_restart_cn_18() {
    const KEPT: &str = "keeping the previous certificate towards aggregated servers";
    const REPLACED: &str = "the certificate towards aggregated servers was replaced";
    let folder = tempfile::tempdir().unwrap();
    let files = Files::within(folder.path());
    let (_, issuer) = authority("front-proxies");
    let [one, two, three] = ["one", "two", "three"].map(|name| Pair::new(&issuer, name));
    replace(&files.certificate, &one.certificate);
    replace(&files.key, &one.key);
    let flags = files.flags();
    let daemon = Daemon::with(&[&flags[0], &flags[1]]).await;
    let (client, extension) = (daemon.client(), Extension::start(GROUP).await);
    extension.install(&client, GROUP).await;
    until_reason(&client, NAME, "Passed").await;
    all_see(&client, &extension, &one, "first").await;

    // A request that runs goes on over its connection.
    let path = "/apis/a.example/v1/namespaces/default/streams/2";
    extension.release();
    let mut running = client.lines(Call::get(path)).await.unwrap();
    assert_eq!(running.next().await.unwrap().unwrap(), "chunk 0");

    // The files are replaced one after the other, so they do not belong together for a while.
    replace(&files.certificate, &two.certificate);
    logged(&daemon, KEPT, 0).await;
    all_see(&client, &extension, &one, "half").await;
    replace(&files.key, &two.key);
    logged(&daemon, REPLACED, 0).await;
    all_see(&client, &extension, &two, "second").await;

    // A broken pair changes nothing but the log, which names the file.
    let broken = [
        (&files.key, "nonsense\n", "--proxy-client-key-file="),
        (&files.key, &*three.key, "--proxy-client-cert-file="),
        (&files.certificate, "", "--proxy-client-cert-file="),
    ];
    for (number, (file, text, named)) in broken.into_iter().enumerate() {
        replace(file, text);
        logged(&daemon, KEPT, 1 + number).await;
        let log = daemon.stderr();
        let line = log.lines().rfind(|line| line.contains(KEPT)).unwrap();
        assert!(line.contains(named), "{line}");
        all_see(&client, &extension, &two, &format!("broken {number}")).await;
    }
    std::fs::remove_file(&files.certificate).unwrap();
    logged(&daemon, KEPT, 4).await;
    all_see(&client, &extension, &two, "missing").await;

    replace(&files.certificate, &three.certificate);
    logged(&daemon, REPLACED, 1).await;
    all_see(&client, &extension, &three, "third").await;
    extension.release();
    assert_eq!(running.next().await.unwrap().unwrap(), "chunk 1");
    assert_eq!(running.next().await.unwrap(), None);
}
