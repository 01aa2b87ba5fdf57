//! kubectl in the life of objects, in each tested version: it generates them, scales and rolls out,
//! waits, drains nodes within budgets, and deletes.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::every_kind::BODIES;
use crate::harness::{Call, Client, Daemon, Kubectl};

/// kubectl 1.20 makes or reads them in versions that Kubernetes does not serve any more.
const NOT_WITH_1_20: [&str; 2] = ["cronjob", "pdb"];

/// What a generator is called with, the object that it makes, and what must be in there.
const GENERATED: [(&str, &str, &str, &str); 16] = [
    (
        "job once --image=i",
        "job/once",
        "{.spec.template.spec.containers[0].image}",
        "i",
    ),
    (
        "cronjob nightly --image=i --schedule=0_3_*_*_*",
        "cronjob/nightly",
        "{.spec.schedule}",
        "0 3 * * *",
    ),
    (
        "job again --from=cronjob/nightly",
        "job/again",
        "{.metadata.ownerReferences[0].name}",
        "nightly",
    ),
    (
        "role reader --verb=get,list --resource=pods",
        "role/reader",
        "{.rules[0].verbs[*]}",
        "get list",
    ),
    (
        "rolebinding readers --role=reader --user=ada --serviceaccount=default:default",
        "rolebinding/readers",
        "{.subjects[*].kind}",
        "User ServiceAccount",
    ),
    (
        "clusterrole viewer --verb=get --non-resource-url=/metrics",
        "clusterrole/viewer",
        "{.rules[0].nonResourceURLs[0]}",
        "/metrics",
    ),
    (
        "clusterrolebinding viewers --clusterrole=viewer --group=ops",
        "clusterrolebinding/viewers",
        "{.roleRef.name}",
        "viewer",
    ),
    (
        "ingress front --rule=a.example.com/*=till:80",
        "ingress/front",
        "{.spec.rules[0].http.paths[0].backend.service.port.number}",
        "80",
    ),
    (
        "quota few --hard=pods=3,cpu=2",
        "quota/few",
        "{.spec.hard.pods}",
        "3",
    ),
    (
        "pdb one --selector=app=till --min-available=1",
        "pdb/one",
        "{.spec.minAvailable}",
        "1",
    ),
    (
        "priorityclass urgent --value=1000 --description=first",
        "priorityclass/urgent",
        "{.value}",
        "1000",
    ),
    (
        "service nodeport door --tcp=80 --node-port=30123",
        "service/door",
        "{.spec.ports[0].nodePort}",
        "30123",
    ),
    (
        "service loadbalancer gate --tcp=80:8080",
        "service/gate",
        "{.spec.type}:{.spec.ports[0].targetPort}",
        "LoadBalancer:8080",
    ),
    (
        "service externalname away --external-name=a.example.com",
        "service/away",
        "{.spec.type}:{.spec.externalName}",
        "ExternalName:a.example.com",
    ),
    (
        "secret docker-registry pull --docker-username=ada --docker-password=p",
        "secret/pull",
        "{.type}",
        "kubernetes.io/dockerconfigjson",
    ),
    (
        "secret tls key --cert=CERT --key=KEY",
        "secret/key",
        "{.type}",
        "kubernetes.io/tls",
    ),
];

/// A certificate and its key, in files.
fn pair(folder: &std::path::Path) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["example.com".to_owned()]).unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    std::fs::write(at("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(at("tls.key"), made.signing_key.serialize_pem()).unwrap();
    (at("tls.crt"), at("tls.key"))
}

async fn generates(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = pair(folder.path());
    for (words, object, path, expected) in GENERATED {
        let old = NOT_WITH_1_20.iter().any(|name| words.contains(name));
        if version == "1.20" && old {
            continue;
        }
        let words = words.replace("=CERT", &format!("={certificate}"));
        let words = words.replace("=KEY", &format!("={key}"));
        let words: Vec<String> = words
            .split(' ')
            .map(|word| word.replace('_', " "))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let created = kubectl.ok(&[&["create"], &words[..]].concat()).await;
        assert!(created.ends_with(" created\n"), "{created}");
        let path = format!("jsonpath={path}");
        assert_eq!(kubectl.ok(&["get", object, "-o", &path]).await, expected);
    }
    kubectl.ok(&["create", "deploy", "till", "--image=i"]).await;
    let get = async |path: &str| {
        let output = format!("jsonpath={path}");
        kubectl.ok(&["get", "deploy/till", "-o", &output]).await
    };
    kubectl
        .ok(&["set", "serviceaccount", "deploy/till", "clerk"])
        .await;
    assert_eq!(
        get("{.spec.template.spec.serviceAccountName}").await,
        "clerk"
    );
    let exposed = kubectl
        .ok(&["expose", "deploy/till", "--port=80", "--name=till"])
        .await;
    assert_eq!(exposed, "service/till exposed\n");
    kubectl
        .ok(&["set", "selector", "svc/till", "app=other"])
        .await;
    let selector = ["get", "svc/till", "-o", "jsonpath={.spec.selector.app}"];
    assert_eq!(kubectl.ok(&selector).await, "other");
}

/// What the controller of Deployments writes when all replicas run.
async fn becomes_available(client: &Client) {
    let path = "/apis/apps/v1/namespaces/default/deployments/till";
    let deployment = client.call(Call::get(path)).await.expect(200);
    let replicas = &deployment["spec"]["replicas"];
    let progressing = json!({"type": "Progressing", "status": "True",
        "reason": "NewReplicaSetAvailable"});
    let available = json!({"type": "Available", "status": "True"});
    let status = json!({"status": {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
        "availableReplicas": replicas, "conditions": [progressing, available],
    }});
    let patch = Call::merge_patch(&format!("{path}/status"), &status);
    client.call(patch).await.expect(200);
}

async fn rolls_out(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    let client = daemon.client();
    kubectl.ok(&["create", "deploy", "till", "--image=i"]).await;
    let scaled = kubectl.ok(&["scale", "deploy/till", "--replicas=3"]).await;
    assert!(scaled.ends_with("/till scaled\n"), "{scaled}");
    let autoscale = [
        "autoscale",
        "deploy/till",
        "--min=2",
        "--max=5",
        "--cpu-percent=80",
    ];
    let autoscaled = kubectl.ok(&autoscale).await;
    assert!(autoscaled.ends_with("/till autoscaled\n"), "{autoscaled}");
    let metrics = "jsonpath={.spec.metrics[0].resource.target.averageUtilization}";
    let metrics = ["get", "hpa.v2.autoscaling/till", "-o", metrics];
    assert_eq!(kubectl.ok(&metrics).await, "80");

    let mut status = kubectl.follow(&["rollout", "status", "deploy/till", "--timeout=60s"]);
    let waiting = status.line().await;
    assert!(waiting.starts_with("Waiting for deployment"), "{waiting}");
    becomes_available(&client).await;
    let mut last = status.line().await;
    while last.starts_with("Waiting for deployment") {
        last = status.line().await;
    }
    assert_eq!(last, "deployment \"till\" successfully rolled out");
    let waited = kubectl
        .ok(&["wait", "--for=condition=Available", "deploy/till"])
        .await;
    assert_eq!(waited, "deployment.apps/till condition met\n");
    if version != "1.20" {
        let ready = "--for=jsonpath={.status.readyReplicas}=3";
        let waited = kubectl.ok(&["wait", ready, "deploy/till"]).await;
        assert_eq!(waited, "deployment.apps/till condition met\n");
        let creation = ["wait", "--for=create", "configmap/late", "--timeout=30s"];
        let late = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            kubectl.ok(&["create", "cm", "late"]).await
        };
        let (waited, _) = tokio::join!(kubectl.ok(&creation), late);
        assert_eq!(waited, "configmap/late condition met\n");
    }
    has_events(&kubectl, &client).await;
}

async fn has_events(kubectl: &Kubectl, client: &Client) {
    let uid = ["get", "deploy/till", "-o", "jsonpath={.metadata.uid}"];
    let event = json!({
        "metadata": {"name": "till.1"},
        "involvedObject": {"kind": "Deployment", "namespace": "default", "name": "till",
            "apiVersion": "apps/v1", "uid": kubectl.ok(&uid).await},
        "reason": "ScalingReplicaSet", "message": "Scaled up", "type": "Normal", "count": 1,
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z",
    });
    let path = "/api/v1/namespaces/default/events";
    client.call(Call::post(path, &event)).await.expect(201);
    let listed = kubectl.ok(&["get", "events"]).await;
    assert!(listed.contains("ScalingReplicaSet"), "{listed}");
    if kubectl.version != "1.20" {
        let events = kubectl.ok(&["events", "--for", "deployment/till"]).await;
        assert!(events.contains("Deployment/till"), "{events}");
        assert!(events.contains("Scaled up"), "{events}");
    }
    let described = kubectl.ok(&["describe", "deploy/till"]).await;
    assert!(described.contains("Scaled up"), "{described}");
}

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn pod_on_node(client: &Client, name: &str) {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u",
        "controller": true});
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "till"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    client.call(Call::post(PODS, &pod)).await.expect(201);
    let ready = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let path = format!("{PODS}/{name}/status");
    client
        .call(Call::merge_patch(&path, &ready))
        .await
        .expect(200);
}

/// What a kubelet does until no pod is left: pods that are deleted end.
async fn ends_pods(client: &Client) {
    loop {
        let list = client.call(Call::get(PODS)).await.expect(200);
        let pods = list["items"].as_array().unwrap();
        if pods.is_empty() {
            return;
        }
        for pod in pods {
            if pod["metadata"].get("deletionTimestamp").is_some() {
                let name = pod["metadata"]["name"].as_str().unwrap();
                let path = format!("{PODS}/{name}?gracePeriodSeconds=0");
                client.call(Call::delete(&path)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn drains(version: &'static str) {
    // The owner of the pods is nowhere.
    let daemon = Daemon::with(&["--controllers=-garbage-collector"]).await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    let client = daemon.client();
    let node = json!({"metadata": {"name": "n"}});
    client
        .call(Call::post("/api/v1/nodes", &node))
        .await
        .expect(201);
    for name in ["till-0", "till-1"] {
        pod_on_node(&client, name).await;
    }
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 2,
        "selector": {"matchLabels": {"app": "till"}}}});
    client.call(Call::post(budgets, &budget)).await.expect(201);
    let allow = async |number: u64| {
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": number,
            "currentHealthy": 2, "desiredHealthy": 2 - number, "expectedPods": 2}});
        let patch = Call::merge_patch(&format!("{budgets}/b/status"), &status);
        client.call(patch).await.expect(200);
    };
    allow(0).await;
    let refused = kubectl
        .fails(&["drain", "n", "--force", "--timeout=3s"])
        .await;
    let reason = "Cannot evict pod as it would violate the pod's disruption budget.";
    assert!(refused.contains(reason), "{refused}");
    let unschedulable = ["get", "node/n", "-o", "jsonpath={.spec.unschedulable}"];
    assert_eq!(kubectl.ok(&unschedulable).await, "true");

    allow(2).await;
    let drain = ["drain", "n", "--force", "--timeout=60s"];
    let (drained, ()) = tokio::join!(kubectl.ok(&drain), ends_pods(&client));
    assert!(drained.contains("pod/till-0 evicted"), "{drained}");
    let status = client
        .call(Call::get(&format!("{budgets}/b")))
        .await
        .expect(200);
    assert_eq!(status["status"]["disruptionsAllowed"], 0, "{status}");
    kubectl.ok(&["uncordon", "n"]).await;
    assert_eq!(kubectl.ok(&unschedulable).await, "");
}

async fn deletes(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    let names = async || kubectl.ok(&["get", "cm,pods,svc", "-o", "name"]).await;
    let before = names().await;
    for name in ["a", "b", "c", "d"] {
        kubectl.ok(&["create", "cm", name]).await;
        let side = if name < "c" {
            "side=left"
        } else {
            "side=right"
        };
        kubectl.ok(&["label", "cm", name, side]).await;
    }
    let deleted = kubectl.ok(&["delete", "cm", "-l", "side=left"]).await;
    assert_eq!(deleted.lines().count(), 2, "{deleted}");
    let manifest = kubectl.ok(&["get", "cm/c", "-o", "yaml"]).await;
    let deleted = kubectl
        .ok_with(&["delete", "-f", "-", "--wait=false"], &manifest)
        .await;
    assert_eq!(
        deleted,
        "configmap \"c\" deleted\n".replace(" deleted", from(version))
    );
    kubectl
        .ok(&["delete", "cm", "--field-selector=metadata.name=d"])
        .await;
    assert_eq!(names().await, before);

    let client = daemon.client();
    let node = json!({"metadata": {"name": "n"}});
    client
        .call(Call::post("/api/v1/nodes", &node))
        .await
        .expect(201);
    pod_on_node(&client, "till-0").await;
    kubectl.ok(&["delete", "pod/till-0", "--wait=false"]).await;
    let marked = client
        .call(Call::get(&format!("{PODS}/till-0")))
        .await
        .expect(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    let force = ["delete", "pod/till-0", "--grace-period=0", "--force"];
    kubectl.ok(&force).await;
    assert_eq!(names().await, before);
    pod_on_node(&client, "till-1").await;
    let all = ["delete", "pods", "--all", "--grace-period=0", "--force"];
    kubectl.ok(&all).await;
    assert_eq!(names().await, before);
}

/// How it prints a deletion: newer ones name the namespace.
fn from(version: &str) -> &'static str {
    match version {
        "1.36" => " deleted from default namespace",
        _ => " deleted",
    }
}

/// The least bodies of all kinds that have namespaces, by their paths in this one. Quotas and
/// limits come last, because they would refuse what comes behind them.
fn namespaced(namespace: &str) -> [Vec<(String, Value)>; 2] {
    let bodies: Value = serde_json::from_str(BODIES).unwrap();
    let bodies = bodies.as_object().unwrap().iter();
    let namespaced = bodies.filter(|(path, _)| path.contains("/namespaces/default/"));
    let found = namespaced.map(|(path, bodies)| {
        let path = path.replace("/namespaces/default/", &format!("/namespaces/{namespace}/"));
        // Events name the namespace of what they are about.
        let own = format!("\"namespace\":\"{namespace}\"");
        let body = bodies[0]
            .to_string()
            .replace("\"namespace\":\"default\"", &own);
        (path, serde_json::from_str(&body).unwrap())
    });
    let refuses = |path: &str| path.ends_with("/resourcequotas") || path.ends_with("/limitranges");
    let (last, first) = found.partition(|(path, _)| refuses(path));
    [first, last]
}

/// The names of resources in these paths, as kubectl prints them.
fn resources<'p>(paths: impl Iterator<Item = &'p String>) -> BTreeSet<String> {
    let names = paths.map(|path| {
        let parts: Vec<&str> = path.split('/').collect();
        let plural = parts[parts.len() - 1];
        match parts[1] {
            "api" => plural.to_owned(),
            _ => format!("{plural}.{}", parts[2]),
        }
    });
    names.collect()
}

/// Creates so many objects of each kind. Tells how many there are now.
async fn fill(daemon: &Daemon, kinds: &[(String, Value)], each: usize) -> usize {
    let creating = (0..8).map(|worker| {
        let (client, kinds) = (daemon.client(), kinds.to_vec());
        tokio::spawn(async move {
            let mut created = 0;
            for (path, body) in &kinds {
                for number in (worker..each).step_by(8) {
                    let mut body = body.clone();
                    body["metadata"]["name"] = json!(format!("o{number}"));
                    let answer = client.call(Call::post(path, &body)).await;
                    // Events of both groups are the same objects, and so are autoscalers of both
                    // versions.
                    if answer.status != 409 {
                        answer.expect(201);
                        created += 1;
                    }
                }
            }
            created
        })
    });
    let created = join_all(creating).await.into_iter();
    created.map(Result::unwrap).sum()
}

/// Namespaces can hold objects of thirty kinds.
async fn empties(version: &'static str) {
    let daemon = Daemon::start().await;
    let Some(kubectl) = Kubectl::find(version, &daemon) else {
        return;
    };
    kubectl.ok(&["create", "ns", "full"]).await;
    let [first, last] = namespaced("full");
    let paths: Vec<&String> = first.iter().chain(&last).map(|(path, _)| path).collect();
    let known = [
        "api-resources",
        "--namespaced",
        "--verbs=create,delete,list",
        "-o",
        "name",
    ];
    let known = kubectl.ok(&known).await;
    let known: BTreeSet<String> = known.lines().map(str::to_owned).collect();
    assert_eq!(resources(paths.iter().copied()), known);
    let each = 5_000 / paths.len() + 1;
    let created = fill(&daemon, &first, each).await + fill(&daemon, &last, each).await;
    assert!(created > 4_500, "{created}");
    kubectl.ok(&["delete", "ns", "full"]).await;
    for path in paths {
        let left = daemon.client().call(Call::get(path)).await.expect(200);
        assert_eq!(left["items"], json!([]), "{path}");
    }
}

macro_rules! empties {
    ($($test:ident: $version:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() { empties($version).await; }
    )*};
}

empties! {
    a_namespace_with_five_thousand_objects_of_all_kinds_is_deleted_1_20: "1.20";
    a_namespace_with_five_thousand_objects_of_all_kinds_is_deleted_1_32: "1.32";
    a_namespace_with_five_thousand_objects_of_all_kinds_is_deleted_1_36: "1.36";
}

macro_rules! for_each_version {
    ($($scenario:ident: $v1_20:ident, $v1_32:ident, $v1_36:ident;)*) => {$(
        #[tokio::test]
        async fn $v1_20() { $scenario("1.20").await; }
        #[tokio::test]
        async fn $v1_32() { $scenario("1.32").await; }
        #[tokio::test]
        async fn $v1_36() { $scenario("1.36").await; }
    )*};
}

for_each_version! {
    generates: generates_1_20, generates_1_32, generates_1_36;
    rolls_out: rolls_out_1_20, rolls_out_1_32, rolls_out_1_36;
    drains: drains_1_20, drains_1_32, drains_1_36;
    deletes: deletes_1_20, deletes_1_32, deletes_1_36;
}
