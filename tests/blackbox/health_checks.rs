//! Health checks by name: their order, and what each of them says about its part (API-51, D-125).

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{AS_INSTALLED, Call, Client, Daemon, Options};
use crate::servers::etcd::Cluster;

/// The steps of the start, in the order of kube-apiserver.
const STEPS: [&str; 23] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// The names of the checks in a listing that have this mark.
fn marked<'l>(listing: &'l str, mark: &str) -> Vec<&'l str> {
    let lines = listing.lines();
    let lines = lines.filter_map(|line| line.strip_prefix(mark));
    lines.filter_map(|line| line.split(' ').next()).collect()
}

async fn listing(client: &Client, root: &str) -> String {
    let path = format!("/{root}?verbose");
    client.call(Call::get(&path)).await.text()
}

/// Waits until a root lists these checks as failed.
async fn until_failed(client: &Client, root: &str, wanted: &[&str]) {
    let begun = Instant::now();
    loop {
        let listing = listing(client, root).await;
        if marked(&listing, "[-]") == wanted {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(50), "{listing}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a failed check says why.
async fn until_told(client: &Client, path: &str, why: &str) {
    let begun = Instant::now();
    loop {
        let text = client.call(Call::get(path)).await.text();
        if text.contains(why) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(50), "{path}: {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A part that is switched off has its checks all the same, so that probes may name them.
#[tokio::test]
async fn each_root_lists_its_checks_in_the_order_of_kube_apiserver_api_51() {
    let off = [
        "--authorization-mode=AlwaysAllow",
        "--enable-garbage-collector=false",
        "--controllers=namespace-controller",
        "--runtime-config=apiregistration.k8s.io/v1=false,apiextensions.k8s.io/v1=false",
    ];
    let bare = [
        "--watch-cache=false",
        "--runtime-config=discovery.k8s.io/v1=false",
    ];
    for arguments in [&[AS_INSTALLED] as &[&str], &off, &bare] {
        let daemon = Daemon::with(arguments).await;
        let client = daemon.client();
        for (root, before, after) in [
            ("healthz", vec!["ping", "log", "etcd"], vec![]),
            ("livez", vec!["ping", "log"], vec![]),
            (
                "readyz",
                vec![
                    "ping",
                    "log",
                    "etcd",
                    "etcd-readiness",
                    "storage",
                    "storage-integrity",
                    "informer-sync",
                ],
                vec!["shutdown"],
            ),
        ] {
            let all = [before, STEPS.to_vec(), after].concat();
            let listing = listing(&client, root).await;
            assert_eq!(marked(&listing, "[+]"), all, "{root}: {listing}");
            for name in all {
                let one = client.call(Call::get(&format!("/{root}/{name}"))).await;
                assert_eq!((one.status.as_u16(), &*one.text()), (200, "ok"), "{name}");
            }
        }
        for path in ["/livez/etcd", "/healthz/informer-sync", "/livez/shutdown"] {
            assert_eq!(client.call(Call::get(path)).await.status, 404, "{path}");
        }
    }
}

/// A webhook that never answers refuses what the start writes. Each part fails by its own name,
/// until the webhook is gone.
#[tokio::test]
async fn each_part_that_can_not_write_fails_by_its_name_api_51() {
    let without_classes = ["--runtime-config=scheduling.k8s.io/v1=false"];
    let mut daemon = Daemon::with(&without_classes).await;
    let client = daemon.client();
    let group = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let rule = json!({
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "scope": "*",
        "resources": ["namespaces", "configmaps", "services", "priorityclasses", "apiservices",
            "clusterroles", "servicecidrs"],
    });
    let webhook = json!({
        "name": "held.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": [rule],
    });
    let configuration = json!({"metadata": {"name": "held"}, "webhooks": [webhook]});
    client
        .call(Call::post(group, &configuration))
        .await
        .expect(201);
    let kube_system = "/api/v1/namespaces/kube-system/configmaps";
    for path in [
        "/api/v1/namespaces/kube-node-lease",
        &format!("{kube_system}/extension-apiserver-authentication"),
        &format!("{kube_system}/kube-apiserver-legacy-service-account-token-tracking"),
        "/api/v1/namespaces/default/services/kubernetes",
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/view",
    ] {
        client.call(Call::delete(path)).await.expect(200);
        while client.call(Call::get(path)).await.status == 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    daemon.stop(Signal::TERM).await;
    let options = Options::default().over(daemon.folder());
    let daemon = options.launch().await;

    let client = daemon.client();
    let held = [
        "poststarthook/start-system-namespaces-controller",
        "poststarthook/start-cluster-authentication-info-controller",
        "poststarthook/start-legacy-token-tracking-controller",
        "poststarthook/rbac/bootstrap-roles",
        "poststarthook/scheduling/bootstrap-system-priority-classes",
        "poststarthook/bootstrap-controller",
        "poststarthook/kube-apiserver-autoregistration",
        "autoregister-completion",
    ];
    for root in ["readyz", "healthz"] {
        until_failed(&client, root, &held).await;
        let answer = client.call(Call::get(&format!("/{root}"))).await;
        assert_eq!(answer.status, 500, "{root}");
        for name in held {
            let one = client.call(Call::get(&format!("/{root}/{name}"))).await;
            assert_eq!(one.status, 500, "{name}");
            let text = one.text();
            let text = text.strip_prefix("internal server error: not finished");
            assert!(text.is_some(), "{name}");
        }
    }
    // A restart would not mend it.
    assert_eq!(client.call(Call::get("/livez")).await.status, 200);
    for name in [held[0], held[1], held[4], held[5], held[6]] {
        until_told(&client, &format!("/readyz/{name}"), "held.example.com").await;
    }

    let gone = client.call(Call::delete(&format!("{group}/held"))).await;
    gone.expect(200);
    daemon.ready().await;
    for root in ["readyz", "healthz"] {
        let listing = listing(&client, root).await;
        assert!(marked(&listing, "[-]").is_empty(), "{listing}");
    }
    let class = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
    client.call(Call::get(class)).await.expect(200);
}

/// An etcd that hangs holds up every part that reads or writes. Liveness fails only after a grace
/// period, and without one never.
#[tokio::test]
async fn nothing_is_finished_before_etcd_answers_api_51_d_125() {
    let starting = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = starting.await.unwrap();
    cluster.members[0].pause();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let launch = |further: &'static str| {
        let options = Options::default().arguments(&[&servers, further]);
        options.launch()
    };
    let patient = launch("--livez-grace-period=0s").await;
    let strict = launch("--livez-grace-period=1ms").await;

    let works = "poststarthook/generic-apiserver-start-informers";
    let steps = STEPS.into_iter().filter(|name| *name != works);
    let steps: Vec<&str> = steps.collect();
    let all = |before: &[&'static str]| [before, &steps].concat();
    let client = patient.client();
    let of_readyz = all(&["etcd", "etcd-readiness", "informer-sync"]);
    until_failed(&client, "readyz", &of_readyz).await;
    until_failed(&client, "healthz", &all(&["etcd"])).await;
    assert_eq!(client.call(Call::get("/livez")).await.status, 200);
    assert!(marked(&listing(&client, "livez").await, "[-]").is_empty());
    let of_strict = strict.client();
    until_failed(&of_strict, "livez", &steps).await;
    assert_eq!(of_strict.call(Call::get("/livez")).await.status, 500);

    cluster.members[0].resume();
    // The one of them that does not lead leaves the availability of APIServices to the other.
    for daemon in [&patient, &strict] {
        daemon.ready().await;
        for root in ["readyz", "healthz", "livez"] {
            let answer = daemon.client().call(Call::get(&format!("/{root}"))).await;
            assert_eq!(answer.text(), "ok", "{root}");
        }
    }
}
