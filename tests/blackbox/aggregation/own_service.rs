//! APIServices whose Service is the daemon itself (CN-17).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

use super::availability::{patch, slice};
use super::extension::{APISERVICES, authority};
use super::{api_service, until, until_has, until_message, until_reason};
use crate::harness::{Call, Daemon};
use crate::revocation::replace;

const NAME: &str = "v1.self.example";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// An APIService whose Service is `default/kubernetes`, and which trusts the daemon.
fn behind_itself(daemon: &Daemon) -> Value {
    let authority = std::fs::read(daemon.data().join("pki/ca.crt")).unwrap();
    json!({
        "metadata": {"name": NAME},
        "spec": {"group": "self.example", "version": "v1", "groupPriorityMinimum": 1500,
            "versionPriority": 15, "caBundle": BASE64_STANDARD.encode(authority),
            "service": {"namespace": "default", "name": "kubernetes"}},
    })
}

/// An EndpointSlice of `default/kubernetes`. Nothing is at its address: without it the check does
/// not come so far as to ask.
fn elsewhere() -> Call {
    let mut slice = slice("elsewhere", &["192.0.2.1"], 6443);
    slice["metadata"]["labels"]["kubernetes.io/service-name"] = "kubernetes".into();
    Call::post(SLICES, &slice)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn default_kubernetes_at_443_is_the_daemon_itself_cn_17() {
    for flag in [
        "--enable-aggregator-routing=false",
        "--enable-aggregator-routing",
    ] {
        let daemon = Daemon::with(&[flag]).await;
        let client = daemon.client();
        client.call(elsewhere()).await.expect(201);
        let body = behind_itself(&daemon);
        let made = client.call(Call::post(APISERVICES, &body)).await;
        assert_eq!(made.expect(201)["spec"]["service"]["port"], 443);
        // Its certificate names the Service. The daemon does not trust the authority of the front
        // proxy, so it answers 401.
        let url = format!("https://127.0.0.1:{}/apis/self.example/v1", daemon.port());
        let message = format!("failing or missing response from {url}: bad status from {url}: 401");
        until_message(&client, NAME, &message).await;
        let answer = client.call(Call::get("/apis/self.example/v1/x")).await;
        let answer = (answer.status.as_u16(), answer.text());
        assert_eq!(answer, (503, "service unavailable\n".to_owned()));

        // Another port and another namespace are those of any Service.
        let other = json!({"spec": {"service": {"port": 444}}});
        patch(&client, &api_service(NAME), other).await;
        let condition = until_reason(&client, NAME, "ServicePortError").await;
        let message = "service/kubernetes in \"default\" is not listening on port 444";
        assert_eq!(condition["message"], message);
        let other = json!({"spec": {"service": {"port": 443, "namespace": "kube-system"}}});
        patch(&client, &api_service(NAME), other).await;
        let condition = until_reason(&client, NAME, "ServiceNotFound").await;
        let message = "service/kubernetes in \"kube-system\" is not present";
        assert_eq!(condition["message"], message);
    }
}

/// The front proxy may be one that the daemon trusts. Then a request comes back again and again,
/// until the daemon notices, and other groups are served meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_behind_the_daemon_itself_goes_round_and_harms_no_other_cn_17() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (pem, issuer) = authority("front-proxies");
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    let subject = &mut parameters.distinguished_name;
    subject.push(DnType::CommonName, "proxy");
    let key = KeyPair::generate().unwrap();
    let proxy = parameters.signed_by(&key, &issuer).unwrap();
    for (name, text) in [
        ("ca.crt", pem),
        ("proxy.crt", proxy.pem()),
        ("proxy.key", key.serialize_pem()),
    ] {
        replace(&path(name), &text);
    }
    let flags = [
        ("requestheader-client-ca-file", "ca.crt"),
        ("proxy-client-cert-file", "proxy.crt"),
        ("proxy-client-key-file", "proxy.key"),
    ];
    let flags = flags.map(|(flag, name)| format!("--{flag}={}", path(name).display()));
    let headers = [
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
    ];
    let flags = flags.iter().map(String::as_str).chain(headers);
    let daemon = Daemon::with(&flags.collect::<Vec<_>>()).await;
    let client = daemon.client();
    client.call(elsewhere()).await.expect(201);
    let body = behind_itself(&daemon);
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    // The daemon asks itself whether it serves the group, and answers 503.
    let url = format!("https://127.0.0.1:{}/apis/self.example/v1", daemon.port());
    let message = format!("failing or missing response from {url}: bad status from {url}: 503");
    until_message(&client, NAME, &message).await;

    // The core group is not checked, so its APIService counts as available.
    let spec = &body["spec"];
    let core = json!({"spec": {"caBundle": spec["caBundle"], "service": spec["service"]}});
    patch(&client, &api_service("v1."), core).await;
    let is_remote = |object: &Value| super::available(object)["reason"] == "Passed";
    until_has(&client, || Call::get(&api_service("v1.")), is_remote).await;
    let loops = "the request loops: it has passed this server before, or too many others\n";
    for path in ["/api/v1", "/api/v1/namespaces", "/api/v1/pods?watch=true"] {
        let answer = client.call(Call::get(path)).await;
        let answer = (answer.status.as_u16(), answer.text());
        assert_eq!(answer, (508, loops.to_owned()), "{path}");
    }
    let deployments = "/apis/apps/v1/deployments";
    client.call(Call::get(deployments)).await.expect(200);
    let own = json!({"spec": {"caBundle": null, "service": null}});
    patch(&client, &api_service("v1."), own).await;
    let namespaces = || Call::get("/api/v1/namespaces");
    until(&client, namespaces, |answer| answer.status == 200).await;
}
