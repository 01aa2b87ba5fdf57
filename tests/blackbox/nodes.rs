//! Kubelets: what the node authorizer allows them (AC-42..AC-51), and what NodeRestriction keeps
//! them from (AC-52..AC-58).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::harness::{Call, Client, Daemon};

const CORE: &str = "/api/v1/namespaces/default";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const MERGE: &str = "application/merge-patch+json";

/// A daemon with NodeRestriction.
async fn restricted() -> Daemon {
    Daemon::with(&["--enable-admission-plugins=NodeRestriction"]).await
}

/// Does a request as the kubelet of a node. Returns the code and the message, empty if it is
/// allowed.
async fn as_node(client: &Client, node: &str, call: Call) -> (u16, String) {
    let user = format!("system:node:{node}");
    let call = call.header("Impersonate-User", &user);
    let call = call.header("Impersonate-Group", "system:nodes");
    let answer = client.call(call).await;
    let code = answer.status.as_u16();
    let text = answer.json();
    let message = text["message"].as_str().filter(|_| code >= 400);
    (code, message.unwrap_or_default().to_owned())
}

/// Asserts that a request of the node `n1` is refused for a reason.
async fn refused(client: &Client, call: Call, why: &str) {
    let (code, message) = as_node(client, "n1", call).await;
    assert_eq!(code, 403, "{message}, expected {why}");
    assert!(message.ends_with(why), "{message}, expected {why}");
}

/// Asserts that a request of the node `n1` gets this code.
async fn gets(client: &Client, call: Call, code: u16) {
    let (got, message) = as_node(client, "n1", call).await;
    assert_eq!(got, code, "{message}");
}

fn patch(path: &str, body: &Value) -> Call {
    Call::new("PATCH", path).body(MERGE, body.to_string())
}

async fn create(client: &Client, path: &str, object: Value) -> Value {
    client.call(Call::post(path, &object)).await.expect(201)
}

/// Creates a pod on a node, with an account, a config map, a secret and a claim.
async fn create_pod(client: &Client, name: &str, node: &str) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "labels": {"a": "b"}},
        "spec": {
            "serviceAccountName": "sa", "automountServiceAccountToken": false,
            "containers": [
                {"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "used"}}]},
            ],
            "volumes": [
                {"name": "v", "secret": {"secretName": "used"}},
                {"name": "w", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "t", "projected": {"sources": [
                    {"serviceAccountToken": {"audience": "vault", "path": "t"}},
                ]}},
            ],
        },
    });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = json!(node);
    }
    create(client, &format!("{CORE}/pods"), pod).await
}

async fn create_objects(client: &Client) {
    for kind in ["secrets", "configmaps"] {
        create(
            client,
            &format!("{CORE}/{kind}"),
            json!({"metadata": {"name": "used"}}),
        )
        .await;
    }
    let account = json!({"metadata": {"name": "sa"}});
    create(client, &format!("{CORE}/serviceaccounts"), account).await;
}

async fn create_volume(client: &Client) {
    let claim = json!({"metadata": {"name": "claim"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "volumeName": "pv",
        "resources": {"requests": {"storage": "1Gi"}}}});
    create(client, &format!("{CORE}/persistentvolumeclaims"), claim).await;
    let volume = json!({"metadata": {"name": "pv"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "default", "name": "claim"},
        "csi": {"driver": "d.example", "volumeHandle": "h",
            "nodePublishSecretRef": {"namespace": "default", "name": "publish"}}}});
    create(client, "/api/v1/persistentvolumes", volume).await;
}

/// AC-43..AC-51, and AC-75. Each right is there with the acknowledgement of the write that gives
/// it, and gone with that of the one that takes it.
#[tokio::test]
async fn a_node_reads_what_its_pods_use_ac_43_ac_44_ac_45_ac_46_ac_47_ac_48_ac_49_ac_51_ac_75() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    create_objects(&client).await;
    let unrelated = "no relationship found between node 'n1' and this object";
    let used = format!("{CORE}/secrets/used");
    refused(&client, Call::get(&used), unrelated).await;
    create_pod(&client, "p1", "n1").await;
    gets(&client, Call::get(&used), 200).await;
    create_pod(&client, "p2", "n2").await;
    create_pod(&client, "p3", "").await;
    let publish = format!("{CORE}/secrets/publish");
    refused(&client, Call::get(&publish), unrelated).await;
    create_volume(&client).await;
    gets(&client, Call::get(&publish), 404).await;
    for path in [
        "secrets?fieldSelector=metadata.name=used",
        "configmaps/used",
        "persistentvolumeclaims/claim",
        "serviceaccounts/sa",
        "pods/p1",
        "services",
    ] {
        gets(&client, Call::get(&format!("{CORE}/{path}")), 200).await;
    }
    for (path, code) in [
        ("/api/v1/persistentvolumes/pv", 200),
        ("/api/v1/pods?fieldSelector=spec.nodeName=n1", 200),
        ("/api/v1/nodes/n1", 404),
        (&format!("{LEASES}/n1"), 404),
    ] {
        gets(&client, Call::get(path), code).await;
    }
    for (path, why) in [
        (&*format!("{CORE}/secrets/other"), unrelated),
        (&format!("{CORE}/secrets"), "No Object name found"),
        (
            &format!("{CORE}/persistentvolumeclaims"),
            "can only get individual resources of this type",
        ),
        (&format!("{CORE}/pods/p2"), unrelated),
        (&format!("{CORE}/pods/p3"), unrelated),
        (
            &format!("{CORE}/pods"),
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "/api/v1/nodes/n2",
            "node 'n1' cannot read 'n2', only its own Node object",
        ),
        (
            "/api/v1/nodes",
            "node 'n1' cannot read all nodes, only its own Node object",
        ),
        (
            &format!("{LEASES}/n2"),
            "can only access node lease with the same name as the requesting node",
        ),
        ("/apis/apps/v1/deployments", "at the cluster scope"),
    ] {
        refused(&client, Call::get(path), why).await;
    }
    let empty = json!({});
    let pod = format!("{CORE}/pods/p1");
    refused(
        &client,
        Call::delete("/api/v1/nodes/n1"),
        "at the cluster scope",
    )
    .await;
    refused(&client, patch(&pod, &empty), "in the namespace \"default\"").await;
    let why = "can only read resources of this type";
    refused(&client, patch(&used, &empty), why).await;
    let delete = format!("{pod}?gracePeriodSeconds=0");
    client.call(Call::delete(&delete)).await.expect(200);
    refused(&client, Call::get(&used), unrelated).await;
    refused(&client, Call::get(&publish), unrelated).await;
    assert!(daemon.count(&action("AddPod")).await >= 2);
    assert!(daemon.count(&action("DeletePod")).await >= 1);
    assert!(daemon.count(&action("AddPV")).await >= 1);
}

/// AC-43: readiness waits for the graph, so the first request after a restart is answered by it.
#[tokio::test]
async fn a_node_has_its_rights_after_a_restart_ac_43() {
    let mut daemon = Daemon::start().await;
    create_objects(&daemon.client()).await;
    create_pod(&daemon.client(), "p1", "n1").await;
    daemon.kill().await;
    daemon.restart().await;
    let client = daemon.client();
    gets(&client, Call::get(&format!("{CORE}/secrets/used")), 200).await;
    let (code, _) = as_node(&client, "n2", Call::get(&format!("{CORE}/secrets/used"))).await;
    assert_eq!(code, 403);
}

/// The graph has caches of its own where clients read none.
#[tokio::test]
async fn a_node_has_its_rights_without_watch_caches_ac_43() {
    let daemon = Daemon::with(&["--watch-cache=false"]).await;
    let client = daemon.client();
    create_objects(&client).await;
    create_pod(&client, "p1", "n1").await;
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        let (code, message) =
            as_node(&client, "n1", Call::get(&format!("{CORE}/secrets/used"))).await;
        if code == 200 {
            break;
        }
        assert!(Instant::now() < patience, "{message}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// AC-70: a node can't list what it may do.
#[tokio::test]
async fn the_rules_of_a_node_are_incomplete_ac_70() {
    let daemon = Daemon::with_users("t,system:node:n1,u,\"system:nodes\"\n", &[]).await;
    let client = daemon.target().with_token("t").client();
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let status = client.call(Call::post(path, &review)).await.expect(201)["status"].take();
    assert_eq!(status["incomplete"], true, "{status}");
    let why = "node authorizer does not support user rule resolution";
    assert_eq!(status["evaluationError"], why);
}

/// The counter of changes of the graph.
fn action(operation: &str) -> String {
    format!("node_authorizer_graph_actions_duration_seconds_count{{operation=\"{operation}\"}}")
}

/// AC-50: a slice belongs to its node.
#[tokio::test]
async fn a_node_changes_its_own_slices_ac_50_ac_58() {
    let daemon = restricted().await;
    let client = daemon.client();
    let slice = |name: &str, node: &str| {
        json!({"metadata": {"name": name}, "spec": {"driver": "d.example", "nodeName": node,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}})
    };
    gets(&client, Call::post(SLICES, &slice("s1", "n1")), 201).await;
    let same = "ResourceSlice with the same NodeName as the requesting node";
    refused(
        &client,
        Call::post(SLICES, &slice("s2", "n2")),
        &format!("can only create {same}"),
    )
    .await;
    create(&client, SLICES, slice("s2", "n2")).await;
    gets(&client, Call::get(&format!("{SLICES}/s1")), 200).await;
    let unrelated = "no relationship found between node 'n1' and this object";
    refused(&client, Call::get(&format!("{SLICES}/s2")), unrelated).await;
    let why = "can only list/watch/deletecollection resourceslices with nodeName field selector";
    refused(&client, Call::get(SLICES), why).await;
    let own = format!("{SLICES}?fieldSelector=spec.nodeName=n1");
    gets(&client, Call::get(&own), 200).await;
    gets(&client, Call::delete(&own), 200).await;
    refused(&client, Call::delete(&format!("{SLICES}/s2")), unrelated).await;
    client
        .call(Call::get(&format!("{SLICES}/s1")))
        .await
        .expect(404);
}

/// AC-52: somebody of `system:masters` who is a node too is restricted; others are not.
#[tokio::test]
async fn a_master_who_is_a_node_is_restricted_ac_52() {
    let masters = "\"system:nodes,system:masters\"";
    let users = format!("t-1,system:node:n1,u-1,{masters}\nt-2,system:node:,u-2,{masters}\n");
    let daemon = Daemon::with_users(&users, &["--enable-admission-plugins=NodeRestriction"]).await;
    let node = |name: &str| Call::post("/api/v1/nodes", &json!({"metadata": {"name": name}}));
    let client = daemon.target().with_token("t-1").client();
    let status = client.call(node("n2")).await.refusal(403, "Forbidden");
    let why = "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\"";
    assert_eq!(status["message"], why);
    client.call(node("n1")).await.expect(201);
    let client = daemon.target().with_token("t-2").client();
    let map = Call::post(
        &format!("{CORE}/configmaps"),
        &json!({"metadata": {"name": "m"}}),
    );
    let status = client.call(map).await.refusal(403, "Forbidden");
    let why = "configmaps \"m\" is forbidden: could not determine node from user \"system:node:\"";
    assert_eq!(status["message"], why);
    daemon.client().call(node("n2")).await.expect(201);
}

#[tokio::test]
async fn a_node_changes_its_own_node_ac_53_ac_54() {
    let daemon = restricted().await;
    let client = daemon.client();
    let nodes = "/api/v1/nodes";
    let node = |metadata: Value| Call::post(nodes, &json!({ "metadata": metadata }));
    let labels = |labels: Value| json!({"name": "n1", "labels": labels});
    for (metadata, why) in [
        (
            json!({"name": "n2"}),
            "node \"n1\" is not allowed to modify node \"n2\"",
        ),
        (
            json!({"generateName": "n"}),
            "node \"n1\" is not allowed to modify node \"\"",
        ),
        (
            labels(
                json!({"node-restriction.kubernetes.io/x": "1", "foo.k8s.io/z": "3",
                "example.com/y": "2", "topology.kubernetes.io/zone": "z"}),
            ),
            "node \"n1\" is not allowed to set the following labels: foo.k8s.io/z, \
             node-restriction.kubernetes.io/x",
        ),
    ] {
        refused(&client, node(metadata), why).await;
    }
    let allowed = json!({"kubernetes.io/hostname": "n1", "example.com/y": "2",
        "kubelet.kubernetes.io/k": "v"});
    gets(&client, node(labels(allowed)), 201).await;
    let own = format!("{nodes}/n1");
    let control = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
    let taints = json!({"spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}});
    let owner = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}]}});
    for path in [own.clone(), format!("{own}/status")] {
        for (body, why) in [
            (
                &control,
                "is not allowed to modify labels: node-role.kubernetes.io/control-plane",
            ),
            (&taints, "node \"n1\" is not allowed to modify taints"),
            (
                &owner,
                "node \"n1\" is not allowed to modify ownerReferences",
            ),
        ] {
            refused(&client, patch(&path, body), why).await;
        }
    }
    gets(
        &client,
        patch(&own, &json!({"spec": {"podCIDR": "10.0.0.0/24"}})),
        200,
    )
    .await;
    gets(
        &client,
        patch(&own, &json!({"metadata": {"labels": {"a": "b"}}})),
        200,
    )
    .await;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    gets(&client, patch(&format!("{own}/status"), &ready), 200).await;
}

/// A mirror pod of the node `n1`, with changes.
fn mirror(uid: &str, change: impl FnOnce(&mut Value)) -> Call {
    let mut pod = json!({
        "metadata": {
            "name": "m", "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid,
                "controller": true}],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    change(&mut pod);
    Call::post(&format!("{CORE}/pods"), &pod)
}

#[tokio::test]
async fn a_node_creates_mirror_pods_of_its_own_ac_55() {
    let daemon = restricted().await;
    let client = daemon.client();
    let (code, message) = as_node(&client, "n1", mirror("u", |_| {})).await;
    assert_eq!((code, &*message), (404, "node \"n1\" not found"));
    let node = create(
        &client,
        "/api/v1/nodes",
        json!({"metadata": {"name": "n1"}}),
    )
    .await;
    let uid = node["metadata"]["uid"].as_str().unwrap();
    let set = |pointer: &'static str, value: Value| {
        mirror(uid, move |pod| {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[name] = value;
        })
    };
    let owners = |list: Value| set("/metadata/ownerReferences", list);
    let other = json!({"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "u"});
    let third = json!({"apiVersion": "v1", "kind": "Node", "name": "n3", "uid": "v"});
    let only = |what: &str| format!("node \"n1\" can only create pods with {what}");
    for (call, why) in [
        (
            set("/metadata/annotations", json!({})),
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only \
             create mirror pods"
                .to_owned(),
        ),
        (
            set("/spec/nodeName", json!("n2")),
            only("spec.nodeName set to itself"),
        ),
        (owners(json!([])), only("an owner reference set to itself")),
        (
            owners(json!([other])),
            only("an owner reference set to itself"),
        ),
        (
            owners(json!([other, third])),
            only("a single owner reference set to itself"),
        ),
        (
            set("/metadata/ownerReferences/0/controller", json!(false)),
            only("a controller owner reference set to itself"),
        ),
        (
            set(
                "/metadata/ownerReferences/0/blockOwnerDeletion",
                json!(true),
            ),
            "node \"n1\" must not set blockOwnerDeletion on an owner reference".to_owned(),
        ),
        (
            set("/metadata/ownerReferences/0/uid", json!("u")),
            format!("node n1 UID mismatch: expected u got {uid}"),
        ),
    ] {
        refused(&client, call, &why).await;
    }
    let source = |source: Value| json!([{"name": "v", "projected": {"sources": [source]}}]);
    for (pointer, value, what) in [
        ("/spec/serviceAccountName", json!("sa"), "serviceaccounts"),
        ("/spec/imagePullSecrets", json!([{"name": "s"}]), "secrets"),
        (
            "/spec/volumes",
            json!([{"name": "v", "configMap": {"name": "m"}}]),
            "configmaps",
        ),
        (
            "/spec/resourceClaims",
            json!([{"name": "r", "resourceClaimName": "r"}]),
            "resourceclaims",
        ),
        (
            "/spec/volumes",
            json!([{"name": "h", "hostPath": {"path": "/"}}, {"name": "v", "csi": {"driver": "d"}}]),
            "csidrivers (via CSI volumes)",
        ),
        (
            "/spec/volumes",
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            "persistentvolumeclaims",
        ),
        (
            "/spec/volumes",
            source(json!({"serviceAccountToken": {"path": "t"}})),
            "serviceaccounts (via projected volumes)",
        ),
    ] {
        let why = format!("node \"n1\" can not create pods that reference {what}");
        refused(&client, set(pointer, value), &why).await;
    }
    gets(&client, mirror(uid, |_| {}), 201).await;
    gets(
        &client,
        Call::delete(&format!("{CORE}/pods/m?gracePeriodSeconds=0")),
        200,
    )
    .await;
    create_objects(&client).await;
    create_pod(&client, "p2", "n2").await;
    let why = "node \"n1\" can only delete pods with spec.nodeName set to itself";
    refused(&client, Call::delete(&format!("{CORE}/pods/p2")), why).await;
}

#[tokio::test]
async fn a_node_reports_and_evicts_its_own_pods_ac_56() {
    let daemon = restricted().await;
    let client = daemon.client();
    create_objects(&client).await;
    create_pod(&client, "p1", "n1").await;
    create_pod(&client, "p2", "n2").await;
    create_volume(&client).await;
    let running = json!({"status": {"phase": "Running", "podIP": "10.1.1.1"}});
    let status = |pod: &str| format!("{CORE}/pods/{pod}/status");
    gets(&client, patch(&status("p1"), &running), 200).await;
    for (pod, body, why) in [
        (
            "p2",
            running,
            "can only update pod status for pods with spec.nodeName set to itself",
        ),
        (
            "p1",
            json!({"metadata": {"labels": {"a": "c"}}}),
            "cannot update labels through pod status",
        ),
        (
            "p1",
            json!({"status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "b"}]}}),
            "cannot update resource claim statues",
        ),
    ] {
        refused(
            &client,
            patch(&status(pod), &body),
            &format!("node \"n1\" {why}"),
        )
        .await;
    }
    let eviction = |pod: &str| {
        let body =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
        Call::post(&format!("{CORE}/pods/{pod}/eviction"), &body)
    };
    let why = "node n1 can only evict pods with spec.nodeName set to itself";
    refused(&client, eviction("p2"), why).await;
    let (code, message) = as_node(&client, "n1", eviction("p0")).await;
    assert_eq!((code, &*message), (404, "pod \"p0\" not found"));
    let claim = format!("{CORE}/persistentvolumeclaims/claim/status");
    let grown = json!({"status": {"capacity": {"storage": "2Gi"}, "conditions": [
        {"type": "Resizing", "status": "True"}]}});
    gets(&client, patch(&claim, &grown), 200).await;
    let why = "node \"n1\" is not allowed to update fields other than status.quantity and \
               status.conditions";
    refused(
        &client,
        patch(&claim, &json!({"status": {"phase": "Lost"}})),
        why,
    )
    .await;
    let relabel = json!({"metadata": {"labels": {"a": "b"}}});
    refused(&client, patch(&claim, &relabel), why).await;
    gets(&client, eviction("p1"), 201).await;
    for (path, name, why) in [
        (
            LEASES,
            "n2",
            "can only access node lease with the same name as the requesting node",
        ),
        (
            "/apis/storage.k8s.io/v1/csinodes",
            "n2",
            "can only access CSINode with the same name as the requesting node",
        ),
    ] {
        let of = |name: &str| json!({"metadata": {"name": name}, "spec": {"drivers": []}});
        refused(&client, Call::post(path, &of(name)), why).await;
        let mut own = of("n1");
        if path == LEASES {
            own["spec"] = json!({"holderIdentity": "n1"});
        }
        gets(&client, Call::post(path, &own), 201).await;
    }
}

/// A master has no node authorizer in the way, so the texts of admission show.
#[tokio::test]
async fn a_node_has_no_other_business_with_pods_ac_55_ac_56() {
    let users = "t,system:node:n1,u,\"system:nodes,system:masters\"\n";
    let daemon = Daemon::with_users(users, &["--enable-admission-plugins=NodeRestriction"]).await;
    create_objects(&daemon.client()).await;
    create_pod(&daemon.client(), "p1", "n1").await;
    create_volume(&daemon.client()).await;
    let client = daemon.target().with_token("t").client();
    let pod = format!("{CORE}/pods/p1");
    let claims = format!("{CORE}/persistentvolumeclaims");
    let labels = json!({"metadata": {"labels": {"c": "d"}}});
    for (call, why) in [
        (
            patch(&pod, &labels),
            "unexpected operation \"UPDATE\", node \"n1\" can only create and delete mirror pods",
        ),
        (
            patch(
                &format!("{pod}/ephemeralcontainers"),
                &json!({"spec": {
                "ephemeralContainers": [{"name": "e", "image": "i"}]}}),
            ),
            "unexpected pod subresource \"ephemeralcontainers\", only 'status' and 'eviction' are \
             allowed",
        ),
        (
            patch(&format!("{claims}/claim"), &labels),
            "may only update PVC status",
        ),
        (
            Call::delete(&format!("{claims}/claim")),
            "may only update PVC status",
        ),
        (
            Call::post(
                &LEASES.replace("kube-node-lease", "default"),
                &json!({
                "metadata": {"name": "n1"}}),
            ),
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
    ] {
        let status = client.call(call).await.refusal(403, "Forbidden");
        let message = status["message"].as_str().unwrap();
        assert!(message.ends_with(why), "{message}, expected {why}");
    }
}

#[tokio::test]
async fn tokens_are_for_pods_and_audiences_of_the_node_ac_57() {
    let daemon = restricted().await;
    let client = daemon.client();
    create_objects(&client).await;
    let mut uids = BTreeMap::new();
    for (pod, node) in [("p1", "n1"), ("p2", "n2")] {
        let created = create_pod(&client, pod, node).await;
        uids.insert(pod, created["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    let token = |spec: Value| {
        Call::post(
            &format!("{CORE}/serviceaccounts/sa/token"),
            &json!({ "spec": spec }),
        )
    };
    let bound =
        |pod: &str, uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
    let of = |audiences: Value| {
        token(json!({"audiences": audiences, "boundObjectRef": bound("p1", &uids["p1"])}))
    };
    for (call, why) in [
        (token(json!({})), "node requested token not bound to a pod"),
        (
            token(json!({"boundObjectRef": bound("p1", "")})),
            "node requested token with a pod binding without a uid",
        ),
        (
            token(json!({"boundObjectRef": bound("p1", "u")})),
            "the UID in the bound object reference (u) does not match the UID in record. The \
             object might have been deleted and then recreated",
        ),
        (
            token(json!({"boundObjectRef": bound("p2", &uids["p2"])})),
            "node requested token bound to a pod scheduled on a different node",
        ),
        (
            of(json!(["a", "b"])),
            "node may only request 0 or 1 audiences",
        ),
        // The claim of the pod is not there yet.
        (
            of(json!(["other"])),
            "error validating audience \"other\": persistentvolumeclaim \"claim\" not found",
        ),
    ] {
        refused(&client, call, why).await;
    }
    let absent = token(json!({"boundObjectRef": bound("p0", "u")}));
    let (code, message) = as_node(&client, "n1", absent).await;
    assert_eq!((code, &*message), (404, "pod \"p0\" not found"));
    gets(&client, of(json!(["vault"])), 201).await;
    create_volume(&client).await;
    let why =
        "error validating audience \"other\": csidriver.storage.k8s.io \"d.example\" not found";
    refused(&client, of(json!(["other"])), why).await;
    let driver = json!({"metadata": {"name": "d.example"}, "spec": {
        "attachRequired": false, "tokenRequests": [{"audience": "driver"}]}});
    create(&client, "/apis/storage.k8s.io/v1/csidrivers", driver).await;
    gets(&client, of(json!(["driver"])), 201).await;
    for (audiences, shown) in [(json!(["other"]), "other"), (json!([]), "")] {
        let why = format!(
            "audience \"{shown}\" not found in pod spec volume, system:node:n1 is not authorized \
             to request tokens for this audience"
        );
        refused(&client, of(audiences), &why).await;
    }
    // A role may grant audiences, as resources that have the names of accounts.
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "audience"}, "rules": [{"apiGroups": [""],
        "resources": ["other"], "resourceNames": ["sa"],
        "verbs": ["request-serviceaccounts-token-audience"]}]});
    create(&client, &format!("{rbac}/clusterroles"), role).await;
    let binding = json!({"metadata": {"name": "audience"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "audience"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
            "name": "system:node:n1"}]});
    create(&client, &format!("{rbac}/clusterrolebindings"), binding).await;
    gets(&client, of(json!(["other"])), 201).await;
}

#[tokio::test]
async fn certificates_of_kubelets_are_for_the_node_itself_ac_58() {
    let daemon = restricted().await;
    let client = daemon.client();
    let request = |name: &str, node: &str| {
        let mut params = CertificateParams::default();
        let subject = &mut params.distinguished_name;
        subject.push(DnType::OrganizationName, "system:nodes");
        subject.push(DnType::CommonName, format!("system:node:{node}"));
        let request = params.serialize_request(&KeyPair::generate().unwrap());
        let body = json!({"metadata": {"name": name}, "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "request": STANDARD.encode(request.unwrap().pem().unwrap()),
            "usages": ["digital signature", "client auth"]}});
        Call::post(
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            &body,
        )
    };
    let why = "can only create a node CSR with CN=system:node:n1";
    refused(&client, request("a", "n2"), why).await;
    gets(&client, request("a", "n1"), 201).await;
}
