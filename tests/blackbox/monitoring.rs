//! The pages that Prometheus and operators read: compressed metrics, `/metrics/slis`, the series of
//! known rules, `/statusz`, `/flagz`, and the names of health checks (API-51, API-52).

use std::io::Read;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{CONFIGMAPS, Call, Daemon, Options};
use crate::identity::issued;

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut reader = flate2::read::GzDecoder::new(bytes);
    reader.read_to_string(&mut text).unwrap();
    text
}

/// The packed body that the port for scrapers answers.
async fn scraped(daemon: &Daemon, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(daemon.metrics_address()).await.unwrap();
    let headers = "host: x\r\nconnection: close\r\naccept-encoding: gzip";
    let request = format!("GET {path} HTTP/1.1\r\n{headers}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let head = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let told = String::from_utf8_lossy(&answer[..head]).to_lowercase();
    assert!(told.contains("content-encoding: gzip"), "{told}");
    answer.split_off(head + 4)
}

#[tokio::test]
async fn metrics_are_compressed_for_who_accepts_it_on_both_ports_api_52() {
    // The gate switches the rest off, as in kube-apiserver.
    let daemon = Daemon::with(&["--feature-gates=APIResponseCompression=false"]).await;
    daemon.ready().await;
    let client = daemon.client();
    let get = |path: &str| Call::get(path).header("accept-encoding", "gzip");
    for path in ["/metrics", "/metrics/slis"] {
        let packed = client.call(get(path)).await;
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
        let plain = client.call(Call::get(path)).await;
        assert_eq!(plain.header("content-encoding"), None, "{path}");
        for page in [unpacked(&packed.body), plain.text()] {
            assert!(page.contains("\nkubernetes_healthcheck{"), "{path}: {page}");
            let has_more = page.contains("apiserver_request_total");
            assert_eq!(has_more, path == "/metrics", "{path}");
        }
        let page = scraped(&daemon, path).await;
        assert!(
            unpacked(&page).contains("\nkubernetes_healthcheck{"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_series_of_known_rules_are_there_api_52() {
    let daemon = Daemon::start().await;
    daemon.ready().await;
    let client = daemon.client();
    let created = client
        .call(Call::post(CONFIGMAPS, &json!({"metadata": {"name": "a"}})))
        .await;
    created.expect(201);
    let (_, ada) = issued(&daemon, &["--user=ada", "--group=crew"]).await;
    let version = ada.client().call(Call::get("/api")).await;
    assert_eq!(version.status, 200);
    let page = client.call(Call::get("/metrics")).await.text();
    for line in [
        "apiserver_client_certificate_expiration_seconds_bucket{le=\"604800\"} 0",
        "apiserver_client_certificate_expiration_seconds_count ",
        "apiserver_request_body_size_bytes_count{resource=\"configmaps\",verb=\"create\"} 1",
        "aggregator_unavailable_apiservice{name=\"v1.apps\"} 0",
        "aggregator_unavailable_apiservice{name=\"v1.\"} 0",
        "go_goroutines ",
        "apiserver_admission_controller_admission_duration_seconds_count{name=\"NamespaceLifecycle\",\
         operation=\"CREATE\",rejected=\"false\",type=\"admit\"}",
        "apiserver_authorization_decisions_total{type=\"RBAC\",name=\"rbac\",decision=\"allowed\"}",
        "kubernetes_feature_enabled{name=\"WatchList\",stage=\"BETA\"} 1",
        "kubernetes_feature_enabled{name=\"AllAlpha\",stage=\"ALPHA\"} 0",
        "apiserver_request_filter_duration_seconds_count{filter=\"authentication\"}",
        "apiserver_request_filter_duration_seconds_count{filter=\"authorization\"}",
    ] {
        let is_there = page.lines().any(|one| one.starts_with(line));
        assert!(is_there, "{line} is missing: {page}");
    }
}

#[tokio::test]
async fn checks_have_the_names_of_kube_apiserver_api_51() {
    let daemon = Daemon::start().await;
    daemon.ready().await;
    let client = daemon.client();
    let page = client.call(Call::get("/readyz?verbose")).await.text();
    for name in [
        "log",
        "autoregister-completion",
        "poststarthook/storage-readiness",
        "poststarthook/crd-informer-synced",
        "poststarthook/start-system-namespaces-controller",
        "poststarthook/scheduling/bootstrap-system-priority-classes",
        "poststarthook/bootstrap-controller",
        "poststarthook/start-cluster-authentication-info-controller",
    ] {
        assert!(page.contains(&format!("[+]{name} ok\n")), "{page}");
        let path = format!("/readyz/{name}");
        assert_eq!(client.call(Call::get(&path)).await.status, 200, "{path}");
        let without = format!("/readyz?verbose&exclude={name}");
        let page = client.call(Call::get(&without)).await.text();
        assert!(
            page.contains(&format!("[+]{name} excluded: ok\n")),
            "{page}"
        );
    }
}

#[tokio::test]
async fn statusz_and_flagz_show_what_runs_to_who_may_know() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "m,mona,1,system:monitoring\nc,carl,2,crew\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let flag = format!("--token-auth-file={}", file.display());
    let options = Options::default();
    let daemon = options.arguments(&[&flag, "--event-ttl=2h"]).launch().await;
    daemon.ready().await;
    let client = daemon.client();
    let accepting = |path: &str, accept: &str| Call::get(path).header("accept", accept);
    let statusz = client.call(Call::get("/statusz")).await.text();
    for part in [
        "\nkube-apiserver statusz\nWarning: This endpoint is not meant to be machine parseable",
        "\nStarted: ",
        "\nUp: 0 hr 0",
        "\nBinary version: 1.36.0\nEmulation version: 1.36\n",
        "\nPaths: /flagz /healthz /livez /metrics /readyz /statusz /taffrail /version\n",
    ] {
        assert!(statusz.contains(part), "{part}: {statusz}");
    }
    let flagz = client.call(accepting("/flagz", "*/*")).await.text();
    assert!(
        flagz.starts_with("\nkube-apiserver flagz\nWarning: "),
        "{flagz}"
    );
    assert!(flagz.contains("\nevent-ttl=2h\n"), "{flagz}");

    let object = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
    let answer = client.call(accepting("/flagz", object)).await.expect(200);
    assert_eq!(answer["kind"], "Flagz");
    assert_eq!(answer["apiVersion"], "config.k8s.io/v1beta1");
    assert_eq!(answer["metadata"], json!({"name": "kube-apiserver"}));
    assert_eq!(answer["flags"]["event-ttl"], "2h");
    let yaml = "application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz";
    let yaml = client.call(accepting("/statusz", yaml)).await.text();
    assert!(yaml.contains("emulationVersion: \"1.36\""), "{yaml}");
    let old = "application/json;v=v1alpha1;g=config.k8s.io;as=Statusz";
    let old = client
        .call(accepting("/statusz", &format!("{old},*/*")))
        .await;
    assert!(old.header("warning").unwrap().contains("deprecated"));
    assert_eq!(old.expect(200)["apiVersion"], "config.k8s.io/v1alpha1");
    for accept in [
        "application/json",
        "application/xml",
        "application/json;v=v1beta1;g=config.k8s.io",
        "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
    ] {
        let answer = client.call(accepting("/statusz", accept)).await;
        assert_eq!(answer.status, 406, "{accept}");
    }
    let other = "application/json;v=foo;g=config.k8s.io;as=Statusz,*/*";
    let other = client.call(accepting("/statusz", other)).await;
    assert!(other.text().contains("kube-apiserver statusz"));

    for (token, code) in [("m", 200), ("c", 403)] {
        let user = daemon.target().with_token(token).client();
        for path in ["/statusz", "/flagz", "/metrics", "/metrics/slis"] {
            let answer = user.call(Call::get(path)).await;
            assert_eq!(answer.status, code, "{token} {path}");
        }
    }
    let monitoring = daemon.target().with_token("m").client();
    let refused = monitoring.call(Call::get(CONFIGMAPS)).await;
    refused.refusal(403, "Forbidden");
}
