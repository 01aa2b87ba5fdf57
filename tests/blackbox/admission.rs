//! Admission plugins (http.md section 8). `replay::admission` and `replay::admission_quota` compare
//! responses with kube-apiserver's. These tests show what a single client cannot.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::harness::{Call, Client, Daemon, HELD, PROTECTED};
use crate::servers::etcd::Cluster;

const DEFAULT: &str = "/api/v1/namespaces/default";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

async fn create(client: &Client, path: &str, body: &Value) -> (u16, Value) {
    let answer = client.call(Call::post(path, body)).await;
    (answer.status.as_u16(), answer.json())
}

/// Waits until something is so.
async fn eventually(holds: impl AsyncFn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < patience, "it does not become so");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn quota(client: &Client, name: &str, hard: Value, used: Value) {
    let quotas = format!("{DEFAULT}/resourcequotas");
    let body = json!({"metadata": {"name": name}, "spec": {"hard": hard}});
    client.call(Call::post(&quotas, &body)).await.expect(201);
    let status = json!({"status": {"hard": hard, "used": used}});
    let patch = Call::merge_patch(&format!("{quotas}/{name}/status"), &status);
    client.call(patch).await.expect(200);
}

/// API-265: as many as there is room for, whoever comes first.
async fn never_exceeds(daemons: &[&Daemon]) {
    let clients: Vec<Client> = daemons.iter().map(|daemon| daemon.client()).collect();
    let hard = json!({"configmaps": "17", "count/configmaps": "100"});
    quota(
        &clients[0],
        "q",
        hard,
        json!({"configmaps": "2", "count/configmaps": "2"}),
    )
    .await;
    let maps = format!("{DEFAULT}/configmaps");
    // Every daemon has heard of the quota.
    for client in &clients {
        let dry = format!("{maps}?dryRun=All");
        let big = json!({"metadata": {"name": "dry"}});
        create(client, &dry, &big).await;
        eventually(async || {
            let path = format!("{DEFAULT}/resourcequotas/q?resourceVersion=0");
            let answer = client.call(Call::get(&path)).await;
            answer.status == 200 && answer.json()["status"]["hard"]["configmaps"] == "17"
        })
        .await;
    }
    let creating = (0..40).map(|number| {
        let client = &clients[number % clients.len()];
        let (maps, body) = (&maps, json!({"metadata": {"name": format!("m{number}")}}));
        async move { create(client, maps, &body).await }
    });
    let answers = join_all(creating).await;
    let (made, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.0 == 201);
    assert_eq!(made.len(), 15, "{refused:?}");
    for (status, answer) in refused {
        assert_eq!(*status, 403);
        let message = answer["message"].as_str().unwrap();
        let end = "is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=17, \
                   limited: configmaps=17";
        assert!(message.ends_with(end), "{message}");
    }
    let path = format!("{DEFAULT}/resourcequotas/q");
    let found = clients[0].call(Call::get(&path)).await.expect(200);
    let used = json!({"configmaps": "17", "count/configmaps": "17"});
    assert_eq!(found["status"]["used"], used);
}

#[tokio::test]
async fn many_at_once_never_exceed_a_quota_api_265() {
    let daemon = Daemon::start().await;
    never_exceeds(&[&daemon]).await;
}

#[tokio::test]
async fn two_daemons_never_exceed_a_quota_api_265() {
    let started = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = started.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let one = Daemon::with(&[&servers]).await;
    let other = Daemon::with(&[&servers]).await;
    never_exceeds(&[&one, &other]).await;
}

/// D-61: the quota that comes first is not charged if the second refuses.
#[tokio::test]
async fn a_refused_write_charges_no_quota_api_265() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    quota(
        &client,
        "a",
        json!({"count/secrets": "5"}),
        json!({"count/secrets": "1"}),
    )
    .await;
    quota(
        &client,
        "b",
        json!({"secrets": "1"}),
        json!({"secrets": "1"}),
    )
    .await;
    let secret = json!({"metadata": {"name": "s"}});
    let (status, answer) = create(&client, &format!("{DEFAULT}/secrets"), &secret).await;
    assert_eq!(status, 403, "{answer}");
    let path = format!("{DEFAULT}/resourcequotas/a");
    let found = client.call(Call::get(&path)).await.expect(200);
    assert_eq!(found["status"]["used"]["count/secrets"], "1");
}

/// API-267, API-268: classes that are marked as the default.
#[tokio::test]
async fn default_classes_are_filled_in_api_267_api_268() {
    let daemon = Daemon::with(&[PROTECTED, HELD]).await;
    let client = daemon.client();
    let marked = |mark: &str, name: &str| json!({"name": name, "annotations": {mark: "true"}});
    let mark = "storageclass.kubernetes.io/is-default-class";
    let class = json!({"metadata": marked(mark, "fast"), "provisioner": "x.y/z",
        "allowVolumeExpansion": true});
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    client.call(Call::post(classes, &class)).await.expect(201);
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let claims = format!("{DEFAULT}/persistentvolumeclaims");
    let made = client.call(Call::post(&claims, &claim)).await.expect(201);
    assert_eq!(made["spec"]["storageClassName"], "fast");
    assert_eq!(
        made["metadata"]["finalizers"],
        json!(["kubernetes.io/pvc-protection"])
    );
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    let status = Call::merge_patch(&format!("{claims}/c/status"), &bound);
    client.call(status).await.expect(200);
    let more = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let growing = Call::merge_patch(&format!("{claims}/c"), &more);
    client.call(growing).await.expect(200);

    let mark = "ingressclass.kubernetes.io/is-default-class";
    let class = json!({"metadata": marked(mark, "web"), "spec": {"controller": "x.y/z"}});
    let classes = "/apis/networking.k8s.io/v1/ingressclasses";
    client.call(Call::post(classes, &class)).await.expect(201);
    let backend = json!({"service": {"name": "s", "port": {"number": 1}}});
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}});
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let made = client.call(Call::post(ingresses, &ingress)).await;
    assert_eq!(made.expect(201)["spec"]["ingressClassName"], "web");

    let class = |name: &str, is_default: bool| {
        json!({"metadata": {"name": name}, "value": 7, "globalDefault": is_default,
            "preemptionPolicy": "Never"})
    };
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let made = client.call(Call::post(classes, &class("a", true))).await;
    made.expect(201);
    let second = client.call(Call::post(classes, &class("b", true))).await;
    let refusal = second.refusal(403, "Forbidden");
    assert_eq!(
        refusal["message"],
        "priorityclasses.scheduling.k8s.io \"b\" is forbidden: PriorityClass a is already marked \
         as default. Only one default can exist"
    );
    let made = client.call(Call::post(classes, &class("b", false))).await;
    made.expect(201);
    let pods = format!("{DEFAULT}/pods");
    let made = client.call(Call::post(&pods, &pod("p"))).await.expect(201);
    assert_eq!(made["spec"]["priorityClassName"], "a");
    assert_eq!(made["spec"]["priority"], 7);
    assert_eq!(made["spec"]["preemptionPolicy"], "Never");
}

/// API-268: where nothing protects a claim, no controller has to release it.
#[tokio::test]
async fn claims_go_at_once_unless_they_are_protected() {
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let claims = format!("{DEFAULT}/persistentvolumeclaims");
    let path = format!("{claims}/c");
    let left = async |daemon: &Daemon| {
        let client = daemon.client();
        client.call(Call::post(&claims, &claim)).await.expect(201);
        client.call(Call::delete(&path)).await.expect(200);
        client.call(Call::get(&path)).await.status
    };
    assert_eq!(left(&Daemon::start().await).await, 404);
    assert_eq!(left(&Daemon::with(&[PROTECTED, HELD]).await).await, 200);
}

/// What the controllers of a kube-controller-manager do is done by the daemon.
#[tokio::test]
async fn what_is_deleted_goes_when_nothing_uses_it_any_more_api_268() {
    let daemon = Daemon::with(&[PROTECTED]).await;
    let client = daemon.client();
    let claims = format!("{DEFAULT}/persistentvolumeclaims");
    let pods = format!("{DEFAULT}/pods");
    let volumes = "/api/v1/persistentvolumes";
    let classes = "/apis/storage.k8s.io/v1/volumeattributesclasses";
    let status = async |path: &str| client.call(Call::get(path)).await.status.as_u16();
    let make = async |path: &str, body: &Value| {
        client.call(Call::post(path, body)).await.expect(201);
    };
    let delete = async |path: &str| {
        client.call(Call::delete(path)).await.expect(200);
    };
    for name in ["used", "waiting", "free"] {
        let spec = json!({"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}});
        make(&claims, &json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    for (claim, node) in [("used", "n"), ("waiting", "")] {
        let mut body = pod(claim);
        body["spec"]["nodeName"] = node.into();
        let source = json!({"claimName": claim});
        body["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": source}]);
        make(&pods, &body).await;
    }
    for name in ["used", "waiting", "free"] {
        delete(&format!("{claims}/{name}")).await;
    }
    // A pod that is on no node is not started with a claim that is deleted.
    for name in ["waiting", "free"] {
        eventually(async || status(&format!("{claims}/{name}")).await == 404).await;
    }
    assert_eq!(status(&format!("{claims}/used")).await, 200);
    delete(&format!("{pods}/used?gracePeriodSeconds=0")).await;
    eventually(async || status(&format!("{claims}/used")).await == 404).await;

    let class = json!({"metadata": {"name": "gold"}, "driverName": "a.b",
        "parameters": {"speed": "high"}});
    make(classes, &class).await;
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "csi": {"driver": "a.b", "volumeHandle": "h"}, "volumeAttributesClassName": "gold",
    });
    make(volumes, &json!({"metadata": {"name": "v"}, "spec": spec})).await;
    let (volume, class) = (format!("{volumes}/v"), format!("{classes}/gold"));
    let phase = async |phase: &str| {
        let body = json!({"status": {"phase": phase}});
        let patch = Call::merge_patch(&format!("{volume}/status"), &body);
        client.call(patch).await.expect(200);
    };
    phase("Bound").await;
    delete(&class).await;
    delete(&volume).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((status(&volume).await, status(&class).await), (200, 200));
    phase("Released").await;
    eventually(async || status(&volume).await == 404).await;
    eventually(async || status(&class).await == 404).await;
}

/// API-261 to API-269: plugins are switched as in kube-apiserver.
#[tokio::test]
async fn plugins_that_are_disabled_do_nothing() {
    let disabled = "--disable-admission-plugins=Priority,DefaultTolerationSeconds,\
                    NamespaceLifecycle";
    let daemon = Daemon::with(&[disabled]).await;
    let client = daemon.client();
    let pods = "/api/v1/namespaces/nowhere/pods";
    let made = client.call(Call::post(pods, &pod("p"))).await.expect(201);
    assert!(made["spec"].get("priority").is_none(), "{made}");
    assert!(made["spec"].get("tolerations").is_none(), "{made}");
}

/// API-263.
#[tokio::test]
async fn pods_run_under_accounts_if_the_plugin_is_enabled_api_263() {
    let daemon = Daemon::with(&["--enable-admission-plugins=ServiceAccount"]).await;
    let client = daemon.client();
    let space = json!({"metadata": {"name": "fresh"}});
    let spaces = "/api/v1/namespaces";
    client.call(Call::post(spaces, &space)).await.expect(201);
    // At once: the account is made meanwhile.
    let pods = format!("{spaces}/fresh/pods");
    let made = client.call(Call::post(&pods, &pod("p"))).await.expect(201);
    assert_eq!(made["spec"]["serviceAccountName"], "default");
    assert_eq!(made["spec"]["serviceAccount"], "default");
    let volume = &made["spec"]["volumes"][0];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-"), "{name}");
    assert_eq!(
        volume["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"],
        3607
    );
    let mount = &made["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["name"], name);
    assert_eq!(
        mount["mountPath"],
        "/var/run/secrets/kubernetes.io/serviceaccount"
    );

    let mut other = pod("q");
    other["spec"]["serviceAccountName"] = json!("other");
    let refused = client.call(Call::post(&pods, &other)).await;
    assert_eq!(
        refused.refusal(403, "Forbidden")["message"],
        "pods \"q\" is forbidden: error looking up service account fresh/other: serviceaccount \
         \"other\" not found"
    );

    let authority = format!("{spaces}/fresh/configmaps/kube-root-ca.crt");
    let account = format!("{spaces}/fresh/serviceaccounts/default");
    for path in [&authority, &account] {
        let is_there = async || client.call(Call::get(path)).await.status == 200;
        eventually(is_there).await;
        client.call(Call::delete(path)).await.expect(200);
        eventually(is_there).await;
    }
    let map = client.call(Call::get(&authority)).await.expect(200);
    let pem = map["data"]["ca.crt"].as_str().unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
}
