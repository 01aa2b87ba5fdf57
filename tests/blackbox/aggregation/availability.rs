//! The condition `Available`, and how extensions are found and asked (CN-14 to CN-19).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::extension::{APISERVICES, Extension};
use super::{GROUP, until_reason};
use crate::harness::own_network::{in_own_network, ip};
use crate::harness::{Call, Client, Daemon};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const NAME: &str = "v1.a.example";

/// Listens on another address, too, and passes connections on to 127.0.0.1.
async fn also_at(address: &str, port: u16) {
    forwarded_from(address, port).await.detach_all();
}

/// Listens on another address and forwards connections to 127.0.0.1, until this is dropped or shut
/// down.
pub async fn forwarded_from(address: &str, port: u16) -> JoinSet<()> {
    let listener = TcpListener::bind((address, port)).await.unwrap();
    let mut way = JoinSet::new();
    way.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            connections.spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                // Either side may close at any time.
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    way
}

pub async fn patch(client: &Client, path: &str, body: Value) -> Value {
    client
        .call(Call::merge_patch(path, &body))
        .await
        .expect(200)
}

pub fn slice(name: &str, addresses: &[&str], port: u16) -> Value {
    let endpoints = addresses.iter().map(|one| json!({"addresses": [one]}));
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "extension"}},
        "addressType": "IPv4", "endpoints": endpoints.collect::<Vec<_>>(),
        "ports": [{"name": "https", "port": port}],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_reason_has_its_text_cn_14_cn_15_cn_16() {
    let daemon = Daemon::with(&["--service-cluster-ip-range=127.200.0.0/24"]).await;
    let (client, extension) = (daemon.client(), Extension::start(GROUP).await);
    let (port, at) = (extension.port, format!("{APISERVICES}/{NAME}"));
    let mut body = extension.api_service(GROUP, "v1");
    body["spec"]["service"]["port"] = 444.into();
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    let is = async |reason: &str, status: &str, message: &str| {
        let condition = until_reason(&client, NAME, reason).await;
        assert_eq!(condition["message"], message, "{reason}");
        assert_eq!(condition["status"], status, "{reason}");
        condition
    };
    let text = "service/extension in \"default\" is not present";
    let absent = is("ServiceNotFound", "False", text).await;
    let service = json!({"metadata": {"name": "extension"}, "spec": {
        "clusterIP": "127.200.0.10", "ports": [{"name": "https", "port": port}]}});
    client
        .call(Call::post(SERVICES, &service))
        .await
        .expect(201);
    let text = "service/extension in \"default\" is not listening on port 444";
    let deaf = is("ServicePortError", "False", text).await;
    assert_eq!(deaf["lastTransitionTime"], absent["lastTransitionTime"]);
    patch(&client, &at, json!({"spec": {"service": {"port": port}}})).await;
    let text = "cannot find endpointslices for service/extension in \"default\"";
    is("EndpointsNotFound", "False", text).await;
    let unready = json!([{"addresses": ["10.1.1.1"], "conditions": {"ready": false,
        "serving": true}}]);
    let mut one = slice("e-1", &[], 8443);
    one["endpoints"] = unready;
    client.call(Call::post(SLICES, &one)).await.expect(201);
    let text = "endpointslices for service/extension in \"default\" have no addresses with port \
                name \"https\"";
    is("MissingEndpoints", "False", text).await;
    let ready = json!({"endpoints": [{"addresses": ["10.1.1.1"]}]});
    patch(&client, &format!("{SLICES}/e-1"), ready).await;
    let url = format!("https://127.200.0.10:{port}/apis/{GROUP}/v1");
    let missing = format!("failing or missing response from {url}: ");
    let refused = format!(
        "{missing}Get \"{url}\": dial tcp 127.200.0.10:{port}: connect: connection refused"
    );
    is("FailedDiscoveryCheck", "False", &refused).await;
    assert!(extension.asked("/").is_empty());
    // It is asked again without another change.
    also_at("127.200.0.10", port).await;
    is("Passed", "True", "all checks passed").await;
    // Unchanged statuses are not written.
    let again = json!({"metadata": {"annotations": {"again": "1"}}});
    extension.forget();
    let patched = patch(&client, &at, again).await;
    let path = format!("/apis/{GROUP}/v1");
    while extension.asked(&path).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let now = client.call(Call::get(&at)).await.expect(200);
    assert_eq!(
        now["metadata"]["resourceVersion"],
        patched["metadata"]["resourceVersion"]
    );
    for code in [404, 302, 503] {
        extension.tell(|told| told.answer = Some((code, "no".to_owned())));
        let again = json!({"metadata": {"annotations": {"again": code.to_string()}}});
        patch(&client, &at, again).await;
        let text = format!("{missing}bad status from {url}: {code}");
        super::until(
            &client,
            || Call::get(&at),
            |answer| answer.json()["status"]["conditions"][0]["message"] == *text,
        )
        .await;
    }
    let page = client.call(Call::get("/metrics")).await.text();
    for line in [
        "aggregator_unavailable_apiservice{name=\"v1.a.example\"} 1",
        "aggregator_unavailable_apiservice{name=\"v1.apps\"} 0",
        "aggregator_unavailable_apiservice_total{name=\"v1.a.example\",\
         reason=\"FailedDiscoveryCheck\"} 1",
    ] {
        assert!(page.lines().any(|one| one == line), "{line}: {page}");
    }
    extension.tell(|told| told.answer = None);
    is("Passed", "True", "all checks passed").await;
    client.call(Call::delete(&at)).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extensions_are_trusted_by_their_bundle_and_know_the_proxy_cn_15_cn_18() {
    let daemon = Daemon::start().await;
    let (client, extension) = (daemon.client(), Extension::start(GROUP).await);
    extension.install(&client, GROUP).await;
    let at = format!("{APISERVICES}/{NAME}");
    until_reason(&client, NAME, "Passed").await;
    let asked = extension.asked(&format!("/apis/{GROUP}/v1"));
    let check = &asked[0];
    assert_eq!(check.header("x-remote-user"), "system:kube-aggregator");
    assert_eq!(check.header("x-remote-group"), "system:masters");
    assert!(check.is_http2 && check.query.is_empty());
    // The daemon has made a certificate and published its authority.
    let maps = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let map = client.call(Call::get(maps)).await.expect(200);
    let data = &map["data"];
    let pki = daemon.data().join("pki");
    let authority = std::fs::read_to_string(pki.join("front-proxy-ca.crt")).unwrap();
    let published = data["requestheader-client-ca-file"].as_str().unwrap();
    assert_eq!(
        published.replace("\r\n", "\n").trim(),
        authority.replace("\r\n", "\n").trim()
    );
    for (key, value) in [
        ("requestheader-username-headers", "[\"X-Remote-User\"]"),
        ("requestheader-group-headers", "[\"X-Remote-Group\"]"),
        ("requestheader-uid-headers", "[\"X-Remote-Uid\"]"),
        (
            "requestheader-extra-headers-prefix",
            "[\"X-Remote-Extra-\"]",
        ),
        ("requestheader-allowed-names", "[]"),
    ] {
        assert_eq!(data[key], value, "{key}");
    }
    let own = std::fs::read(pki.join("front-proxy-client.crt")).unwrap();
    let own = CertificateDer::from_pem_slice(&own).unwrap();
    assert_eq!(check.certificate, Some(BASE64_STANDARD.encode(&own)));
    // It authenticates nobody to the daemon itself.
    let liar = [
        ("x-remote-user", "liar"),
        ("x-remote-group", "system:masters"),
    ];
    let key = std::fs::read_to_string(pki.join("front-proxy-client.key")).unwrap();
    let own = std::fs::read_to_string(pki.join("front-proxy-client.crt")).unwrap();
    let proxy = daemon.target().with_certificate(&own, &key).client();
    let mut call = Call::get("/api/v1/namespaces");
    for (name, value) in liar {
        call = call.header(name, value);
    }
    assert_eq!(proxy.call(call).await.status, 401);
    // Another authority, and one for another name.
    let other = json!({"spec": {"caBundle": extension.other_ca}});
    patch(&client, &at, other).await;
    let condition = until_reason(&client, NAME, "FailedDiscoveryCheck").await;
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.ends_with(
            ": tls: failed to verify certificate: x509: certificate signed by unknown authority"
        ),
        "{message}"
    );
    patch(
        &client,
        &at,
        json!({"spec": {"caBundle": extension.ca_bundle}}),
    )
    .await;
    until_reason(&client, NAME, "Passed").await;
    // A bundle without certificates leaves the condition as it was.
    let none = json!({"spec": {"caBundle": BASE64_STANDARD.encode("no certificate")}});
    patch(&client, &at, none).await;
    let path = format!("/apis/{GROUP}/v1/namespaces/default/flunders");
    let answer = super::until(&client, || Call::get(&path), |answer| answer.status == 500).await;
    assert_eq!(
        answer.text(),
        "unable to load root certificates: unable to parse bytes as PEM block\n"
    );
    assert_eq!(super::condition(&client, NAME).await["reason"], "Passed");
    // The name in the certificate counts, which is of another namespace here.
    let elsewhere = json!({"spec": {"caBundle": extension.ca_bundle,
        "service": {"namespace": "kube-public"}}});
    let service = json!({"metadata": {"name": "extension"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
    let services = SERVICES.replace("default", "kube-public");
    client
        .call(Call::post(&services, &service))
        .await
        .expect(201);
    patch(&client, &at, elsewhere).await;
    let condition = until_reason(&client, NAME, "FailedDiscoveryCheck").await;
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("not extension.kube-public.svc"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_is_noticed_and_harms_no_other_cn_15() {
    let daemon = Daemon::start().await;
    let (client, extension) = (daemon.client(), Extension::start(GROUP).await);
    extension.tell(|told| told.delay = std::time::Duration::from_secs(3600));
    extension.install(&client, GROUP).await;
    let other = Extension::start("b.example").await;
    let mut body = other.api_service("b.example", "v1");
    body["spec"]["service"]["port"] = other.port.into();
    client
        .call(Call::post(APISERVICES, &body))
        .await
        .expect(201);
    until_reason(&client, "v1.b.example", "Passed").await;
    assert_eq!(super::condition(&client, NAME).await, Value::Null);
    let condition = until_reason(&client, NAME, "FailedDiscoveryCheck").await;
    let url = format!("https://127.0.0.1:{}/apis/{GROUP}/v1", extension.port);
    let text = format!(
        "failing or missing response from {url}: Get \"{url}\": context deadline exceeded \
         (Client.Timeout exceeded while awaiting headers)"
    );
    assert_eq!(condition["message"], *text);
}

#[test]
fn endpoints_are_used_if_asked_for_cn_14_cn_17() {
    let name = "aggregation::availability::endpoints_are_used_if_asked_for_cn_14_cn_17";
    in_own_network(name, async {
        for address in ["10.9.9.1/32", "10.9.9.2/32"] {
            ip(&["addr", "add", address, "dev", "lo"]);
        }
        let daemon = Daemon::with(&["--enable-aggregator-routing"]).await;
        let (client, extension) = (daemon.client(), Extension::start(GROUP).await);
        extension.install(&client, GROUP).await;
        let condition = until_reason(&client, NAME, "FailedDiscoveryCheck").await;
        assert_eq!(
            condition["message"],
            "unsupported service type \"ExternalName\""
        );
        let at = format!("{SERVICES}/extension");
        client.call(Call::delete(&at)).await.expect(200);
        let service = json!({"metadata": {"name": "extension"}, "spec": {
            "ports": [{"name": "https", "port": extension.port}]}});
        client
            .call(Call::post(SERVICES, &service))
            .await
            .expect(201);
        // A port of another name is not used.
        let mut other = slice("other", &["10.9.9.9"], 1);
        other["ports"][0]["name"] = "other".into();
        client.call(Call::post(SLICES, &other)).await.expect(201);
        until_reason(&client, NAME, "MissingEndpoints").await;
        also_at("10.9.9.1", extension.port).await;
        also_at("10.9.9.2", extension.port).await;
        let both = slice("both", &["10.9.9.1", "10.9.9.2"], extension.port);
        client.call(Call::post(SLICES, &both)).await.expect(201);
        until_reason(&client, NAME, "Passed").await;
        let path = format!("/apis/{GROUP}/v1/namespaces/default/echoes/e");
        let mut hosts = std::collections::BTreeSet::new();
        for _ in 0..8 {
            let echo = client.call(Call::get(&path)).await.expect(200);
            let host = echo["headers"]["x-forwarded-host"]
                .as_str()
                .unwrap()
                .to_owned();
            hosts.insert(host);
        }
        let expected = [1, 2].map(|number| format!("10.9.9.{number}:{}", extension.port));
        assert_eq!(hosts, expected.into());
        // Without an address that is ready requests are refused at once.
        let path = format!("{SLICES}/both");
        let none = json!({"endpoints": []});
        client
            .call(Call::merge_patch(&path, &none))
            .await
            .expect(200);
        until_reason(&client, NAME, "MissingEndpoints").await;
    });
}
