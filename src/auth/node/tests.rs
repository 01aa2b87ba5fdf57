//! Tests of the rules, of what is read, and of the graph against a naive evaluation.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::auth::Attributes;

fn node_user(name: &str) -> UserInfo {
    UserInfo::authenticated(name, vec![NODES.to_owned()])
}

fn named<'n>(kind: Kind, namespace: &'n str, name: &'n str) -> Named<'n> {
    Named {
        kind,
        namespace,
        name,
    }
}

/// Returns the verdict on a request of the node `n`: `verb group/resource[/subresource]
/// [namespace]:name ?selector`. Empty parts may be left out.
fn verdict(request: &str) -> String {
    verdict_for(&node_user("system:node:n"), request)
}

fn verdict_for(user: &UserInfo, request: &str) -> String {
    let mut words = request.split(' ');
    let (verb, path) = (words.next().unwrap(), words.next().unwrap());
    let mut parts = path.split('/');
    let (group, resource) = (parts.next().unwrap(), parts.next().unwrap());
    let mut attributes = Attributes::on_resource(user, verb, group, resource);
    attributes.subresource = parts.next().unwrap_or_default();
    for word in words {
        match word.strip_prefix('?') {
            Some(selector) => attributes.field_selector = selector,
            None => (attributes.namespace, attributes.name) = word.split_once(':').unwrap(),
        }
    }
    match judge(&attributes) {
        Verdict::Allowed => "allowed".to_owned(),
        Verdict::NoOpinion(why) => why.into_owned(),
        Verdict::IfRelated(Question { object, node }) => {
            assert_eq!(node, "n");
            format!("if {:?} {}/{}", object.kind, object.namespace, object.name)
        }
    }
}

fn check(expected: &[(&str, &str)]) {
    for (request, answer) in expected {
        assert_eq!(verdict(request), *answer, "{request}");
    }
}

#[test]
fn a_node_has_a_name_and_a_group_ac_42() {
    let get = "get /nodes :n";
    assert_eq!(verdict_for(&node_user("system:node:n"), get), "allowed");
    let nameless = verdict_for(&node_user("system:node:"), get);
    assert_eq!(nameless, "unknown node for user \"system:node:\"");
    let without_group = UserInfo::authenticated("system:node:n", Vec::new());
    assert_eq!(node_of(&without_group), None);
    assert_eq!(verdict_for(&without_group, get), "");
    assert_eq!(verdict_for(&node_user("alice"), get), "");
    let mut path = node_user("system:node:n");
    path.groups.push("other".to_owned());
    let of_path = Attributes {
        is_resource_request: false,
        ..Attributes::on_resource(&path, "get", "", "nodes")
    };
    assert_eq!(judge(&of_path), Verdict::NoOpinion("".into()));
}

#[test]
fn secrets_and_config_maps_are_read_by_name_ac_44() {
    for (resource, kind) in [("secrets", "Secret"), ("configmaps", "ConfigMap")] {
        for verb in ["get", "list", "watch"] {
            let of = |rest: &str| verdict(&format!("{verb} /{resource}{rest}"));
            assert_eq!(of(" d:a"), format!("if {kind} d/a"));
            assert_eq!(of("/x d:a"), "cannot read subresource");
            assert_eq!(of(" :a"), "can only read namespaced object of this type");
            assert_eq!(of(" d:"), "No Object name found");
        }
        for verb in ["create", "update", "patch", "delete", "deletecollection"] {
            let answer = verdict(&format!("{verb} /{resource} d:a"));
            assert_eq!(answer, "can only read resources of this type");
        }
    }
    let why = "no relationship found between node 'n' and this object";
    assert_eq!(unrelated("n"), why);
}

#[test]
fn claims_volumes_and_attachments_are_got_ac_45() {
    for (resource, kind) in [
        ("/persistentvolumeclaims", "Claim"),
        ("/persistentvolumes", "Volume"),
        ("resource.k8s.io/resourceclaims", "ResourceClaim"),
        ("storage.k8s.io/volumeattachments", "Attachment"),
    ] {
        let of = |verb: &str, rest: &str| verdict(&format!("{verb} {resource}{rest}"));
        assert_eq!(of("get", " d:a"), format!("if {kind} d/a"));
        assert_eq!(of("get", " d:"), "No Object name found");
        assert_eq!(of("get", "/x d:a"), "cannot get subresource");
        let why = "can only get individual resources of this type";
        assert_eq!(of("list", " d:a"), why);
        assert_eq!(of("update", " d:a"), why);
    }
    check(&[
        ("update /persistentvolumeclaims/status d:a", "if Claim d/a"),
        ("patch /persistentvolumeclaims/status d:a", "if Claim d/a"),
        (
            "get /persistentvolumeclaims/status d:a",
            "can only get/update/patch this type",
        ),
        (
            "get storage.k8s.io/volumeattachments/status :a",
            "cannot get subresource",
        ),
    ]);
}

#[test]
fn pods_are_read_by_node_or_name_ac_46() {
    let why = "can only list/watch pods with spec.nodeName field selector";
    check(&[
        ("get /pods d:p", "if Pod d/p"),
        ("list /pods d:", why),
        ("watch /pods :", why),
        ("list /pods : ?spec.nodeName=n", "allowed"),
        (
            "watch /pods d: ?status.phase!=Failed,spec.nodeName==n",
            "allowed",
        ),
        ("list /pods : ?spec.nodeName=m", why),
        ("list /pods : ?spec.nodeName!=n", why),
        ("list /pods d:p ?metadata.name=p", "if Pod d/p"),
        ("create /pods d:", "allowed"),
        ("delete /pods d:p", "allowed"),
        ("update /pods/status d:p", "allowed"),
        ("patch /pods/status d:p", "allowed"),
        ("create /pods/eviction d:p", "allowed"),
        ("get /pods/status d:p", ""),
        ("get /pods/log d:p", ""),
        ("create /pods/binding d:p", ""),
        ("update /pods d:p", ""),
        ("patch /pods d:p", ""),
        ("deletecollection /pods d:", ""),
    ]);
}

/// A selector that can't be parsed demands nothing, so more must be allowed.
#[test]
fn an_unreadable_selector_is_dropped_ac_32() {
    let why = "can only list/watch pods with spec.nodeName field selector";
    check(&[
        ("list /pods : ?spec.nodeName=n,x", why),
        ("list /pods : ?spec.nodeName=n\\x", why),
        ("list /pods : ?spec.nodeName=n,", "allowed"),
    ]);
}

#[test]
fn a_node_sees_itself_ac_47() {
    let all = "node 'n' cannot read all nodes, only its own Node object";
    let other = "node 'n' cannot read 'm', only its own Node object";
    check(&[
        ("create /nodes :", "allowed"),
        ("update /nodes :m", "allowed"),
        ("patch /nodes :n", "allowed"),
        ("update /nodes/status :n", "allowed"),
        ("patch /nodes/status :m", "allowed"),
        ("get /nodes :n", "allowed"),
        ("list /nodes :n ?metadata.name=n", "allowed"),
        ("watch /nodes :n", "allowed"),
        ("list /nodes :", all),
        ("get /nodes :m", other),
        ("watch /nodes :m", other),
        ("delete /nodes :n", ""),
        ("get /nodes/status :n", ""),
        ("get /nodes/proxy :n", ""),
    ]);
}

#[test]
fn accounts_are_got_and_their_tokens_created_ac_48() {
    let individual = "can only create tokens for individual service accounts";
    check(&[
        ("get /serviceaccounts d:a", "if ServiceAccount d/a"),
        ("create /serviceaccounts/token d:a", "if ServiceAccount d/a"),
        ("create /serviceaccounts/token d:", individual),
        ("list /serviceaccounts d:", individual),
        ("get /serviceaccounts/token d:a", individual),
        (
            "create /serviceaccounts d:a",
            "can only create token subresource of serviceaccount",
        ),
    ]);
}

#[test]
fn a_node_has_a_lease_and_a_csi_node_ac_49() {
    let leases = "coordination.k8s.io/leases kube-node-lease";
    for verb in ["get", "update", "patch", "delete"] {
        assert_eq!(verdict(&format!("{verb} {leases}:n")), "allowed");
        assert_eq!(
            verdict(&format!("{verb} {leases}:m")),
            "can only access node lease with the same name as the requesting node"
        );
        let csi = |name: &str| verdict(&format!("{verb} storage.k8s.io/csinodes :{name}"));
        assert_eq!(csi("n"), "allowed");
        assert_eq!(
            csi("m"),
            "can only access CSINode with the same name as the requesting node"
        );
    }
    check(&[
        (
            "create coordination.k8s.io/leases kube-node-lease:",
            "allowed",
        ),
        (
            "list coordination.k8s.io/leases kube-node-lease:",
            "can only get, create, update, patch, or delete a node lease",
        ),
        (
            "get coordination.k8s.io/leases d:n",
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
        ("create storage.k8s.io/csinodes :", "allowed"),
        (
            "watch storage.k8s.io/csinodes :",
            "can only get, create, update, patch, or delete a CSINode",
        ),
        (
            "get storage.k8s.io/csinodes/x :n",
            "cannot authorize CSINode subresources",
        ),
    ]);
}

#[test]
fn slices_are_those_of_the_node_ac_50() {
    let why = "can only list/watch/deletecollection resourceslices with nodeName field selector";
    let slices = "resource.k8s.io/resourceslices";
    assert_eq!(verdict(&format!("create {slices} :")), "allowed");
    for verb in ["get", "update", "patch", "delete"] {
        assert_eq!(verdict(&format!("{verb} {slices} :s")), "if Slice /s");
    }
    for verb in ["list", "watch", "deletecollection"] {
        assert_eq!(verdict(&format!("{verb} {slices} :")), why);
        let of = |node: &str| verdict(&format!("{verb} {slices} : ?spec.nodeName={node}"));
        assert_eq!(of("n"), "allowed");
        assert_eq!(of("m"), why);
    }
    let subresource = verdict(&format!("get {slices}/x :s"));
    assert_eq!(subresource, "cannot authorize ResourceSlice subresources");
}

#[test]
fn all_nodes_have_some_rights_ac_51() {
    for (resource, verbs) in [
        ("authentication.k8s.io/tokenreviews", "create"),
        ("authorization.k8s.io/subjectaccessreviews", "create"),
        ("authorization.k8s.io/localsubjectaccessreviews", "create"),
        ("authorization.k8s.io/selfsubjectaccessreviews", ""),
        ("/services", "get list watch"),
        ("storage.k8s.io/csidrivers", "get list watch"),
        ("node.k8s.io/runtimeclasses", "get list watch"),
        ("/endpoints", "get"),
        ("/events", "create update patch"),
        ("events.k8s.io/events", "create update patch"),
        (
            "certificates.k8s.io/certificatesigningrequests",
            "create get list watch",
        ),
        ("apps/deployments", ""),
        ("apps/services", ""),
    ] {
        for verb in "get list watch create update patch delete deletecollection".split(' ') {
            let answer = verdict(&format!("{verb} {resource} d:a"));
            let is_allowed = verbs.split(' ').any(|one| one == verb);
            assert_eq!(answer == "allowed", is_allowed, "{verb} {resource}");
            assert_eq!(verdict(&format!("{verb} {resource}/status d:a")), "");
        }
    }
}

fn put(graph: &mut Graph, kind: Kind, object: Value) {
    references::put(kind, object.to_string().as_bytes(), graph).unwrap();
}

/// A pod that refers to objects in every way. Their names say how.
fn pod_with_all() -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "d", "annotations": {"a": "b"}},
        "spec": {
            "nodeName": "n",
            "serviceAccountName": "account",
            "imagePullSecrets": [{"name": "pull"}, {}],
            "containers": [{"name": "c", "env": [
                {"name": "A", "value": "secret"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "env", "key": "k"}}},
                {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ]}],
            "initContainers": [{"name": "i", "envFrom": [
                {"secretRef": {"name": "init"}}, {"configMapRef": {"name": "init"}},
            ]}],
            "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "debug"}}]}],
            "volumes": [
                {"name": "v", "secret": {"secretName": "volume"}},
                {"name": "v", "configMap": {"name": "volume"}},
                {"name": "v", "projected": {"sources": [
                    {"secret": {"name": "projected"}}, {"configMap": {"name": "projected"}},
                    {"serviceAccountToken": {"path": "t"}},
                ]}},
                {"name": "v", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "eph", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "v", "azureFile": {"secretName": "azure", "shareName": "s"}},
                {"name": "v", "cephfs": {"secretRef": {"name": "ceph"}}},
                {"name": "v", "cinder": {"secretRef": {"name": "cinder"}}},
                {"name": "v", "flexVolume": {"secretRef": {"name": "flex"}}},
                {"name": "v", "iscsi": {"secretRef": {"name": "iscsi"}}},
                {"name": "v", "rbd": {"secretRef": {"name": "rbd"}}},
                {"name": "v", "scaleIO": {"secretRef": {"name": "scale"}}},
                {"name": "v", "storageos": {"secretRef": {"name": "os"}}},
                {"name": "v", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "csi"}}},
                {"name": "v", "emptyDir": {}},
            ],
            "resourceClaims": [
                {"name": "direct", "resourceClaimName": "named"},
                {"name": "made", "resourceClaimTemplateName": "t"},
                {"name": "late", "resourceClaimTemplateName": "t"},
            ],
        },
        "status": {
            "resourceClaimStatuses": [
                {"name": "made", "resourceClaimName": "from-template"},
                {"name": "late"},
                {"name": "foreign", "resourceClaimName": "not-in-spec"},
            ],
            "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
        },
    })
}

const SECRETS: &[&str] = &[
    "pull",
    "env",
    "init",
    "debug",
    "volume",
    "projected",
    "azure",
    "ceph",
    "cinder",
    "flex",
    "iscsi",
    "rbd",
    "scale",
    "os",
    "csi",
];

#[test]
fn a_pod_relates_what_it_refers_to_to_its_node_ac_43() {
    let mut graph = Graph::new();
    put(&mut graph, Kind::Pod, pod_with_all());
    let secrets = SECRETS.iter().map(|name| (Kind::Secret, *name));
    let maps = ["env", "init", "volume", "projected"].map(|name| (Kind::ConfigMap, name));
    let claims = ["named", "from-template", "extended"].map(|name| (Kind::ResourceClaim, name));
    let others = [
        (Kind::Pod, "p"),
        (Kind::ServiceAccount, "account"),
        (Kind::Claim, "claim"),
        (Kind::Claim, "p-eph"),
    ];
    let all: Vec<_> = secrets.chain(maps).chain(claims).chain(others).collect();
    for (kind, name) in &all {
        let object = named(*kind, "d", name);
        assert!(graph.is_related(object, "n"), "{kind:?} {name}");
        assert!(!graph.is_related(object, "m"));
        assert!(!graph.is_related(named(*kind, "e", name), "n"));
    }
    assert_eq!(graph.len(), all.len() + 1);
    assert!(!graph.is_related(named(Kind::ResourceClaim, "d", "not-in-spec"), "n"));
    graph.remove(named(Kind::Pod, "d", "p"));
    assert!(graph.is_empty());
}

#[test]
fn a_mirror_pod_relates_nothing_else_ac_43() {
    let mut graph = Graph::new();
    let mut pod = pod_with_all();
    pod["metadata"]["annotations"][MIRROR] = json!("x");
    put(&mut graph, Kind::Pod, pod);
    assert!(graph.is_related(named(Kind::Pod, "d", "p"), "n"));
    assert_eq!(graph.len(), 2);
}

#[test]
fn a_pod_without_a_node_relates_nothing_ac_43() {
    let mut graph = Graph::new();
    let mut pod = pod_with_all();
    pod["spec"]["nodeName"] = json!("");
    put(&mut graph, Kind::Pod, pod);
    assert!(graph.is_empty());
    // The scheduler binds it, and somebody adds a container.
    put(&mut graph, Kind::Pod, pod_with_all());
    let mut pod = pod_with_all();
    let late = json!({"name": "f", "envFrom": [{"configMapRef": {"name": "late"}}]});
    pod["spec"]["ephemeralContainers"]
        .as_array_mut()
        .unwrap()
        .push(late);
    assert!(!graph.is_related(named(Kind::ConfigMap, "d", "late"), "n"));
    put(&mut graph, Kind::Pod, pod);
    assert!(graph.is_related(named(Kind::ConfigMap, "d", "late"), "n"));
}

#[test]
fn a_volume_relates_its_secrets_to_the_nodes_of_its_claim_ac_43() {
    let mut graph = Graph::new();
    let volume = |source: Value| {
        let mut spec = json!({"claimRef": {"namespace": "d", "name": "claim"}});
        spec.as_object_mut()
            .unwrap()
            .extend(source.as_object().unwrap().clone());
        json!({"metadata": {"name": "pv"}, "spec": spec})
    };
    let own = |name: &str| json!({"secretRef": {"name": name, "namespace": "e"}});
    let defaulted = |name: &str| json!({"secretRef": {"name": name}});
    put(&mut graph, Kind::Pod, pod_with_all());
    for (source, namespace, is_known) in [
        (
            json!({"azureFile": {"secretName": "s", "secretNamespace": "e"}}),
            "e",
            true,
        ),
        (json!({"azureFile": {"secretName": "s"}}), "d", true),
        (json!({"cephfs": own("s")}), "e", true),
        (json!({"cephfs": defaulted("s")}), "d", true),
        (json!({"cinder": own("s")}), "e", true),
        (json!({"cinder": defaulted("s")}), "d", false),
        (json!({"flexVolume": own("s")}), "e", true),
        (json!({"flexVolume": defaulted("s")}), "d", true),
        (json!({"rbd": own("s")}), "e", true),
        (json!({"scaleIO": defaulted("s")}), "d", true),
        (json!({"iscsi": own("s")}), "e", true),
        (json!({"storageos": own("s")}), "e", true),
        (
            json!({"csi": {"nodePublishSecretRef": {"name": "s", "namespace": "e"}}}),
            "e",
            true,
        ),
        (
            json!({"csi": {"nodeStageSecretRef": {"name": "s", "namespace": "e"}}}),
            "e",
            true,
        ),
        (
            json!({"csi": {"nodeExpandSecretRef": {"name": "s", "namespace": "e"}}}),
            "e",
            true,
        ),
        (
            json!({"csi": {"controllerPublishSecretRef": {"name": "s", "namespace": "e"}}}),
            "e",
            false,
        ),
        (
            json!({"csi": {"controllerExpandSecretRef": {"name": "s", "namespace": "e"}}}),
            "e",
            false,
        ),
    ] {
        put(&mut graph, Kind::Volume, volume(source.clone()));
        assert!(graph.is_related(named(Kind::Volume, "", "pv"), "n"));
        let secret = named(Kind::Secret, namespace, "s");
        assert_eq!(graph.is_related(secret, "n"), is_known, "{source}");
        // Relations go with the pod, and come with it.
        graph.remove(named(Kind::Pod, "d", "p"));
        assert!(!graph.is_related(secret, "n"));
        assert!(!graph.is_related(named(Kind::Volume, "", "pv"), "n"));
        put(&mut graph, Kind::Pod, pod_with_all());
        assert_eq!(graph.is_related(secret, "n"), is_known, "{source}");
    }
    put(
        &mut graph,
        Kind::Volume,
        json!({"metadata": {"name": "pv"}, "spec": {}}),
    );
    assert!(!graph.is_related(named(Kind::Volume, "", "pv"), "n"));
}

#[test]
fn attachments_and_slices_have_a_node_ac_43() {
    let mut graph = Graph::new();
    for kind in [Kind::Attachment, Kind::Slice] {
        let of = |node: &str| json!({"metadata": {"name": "a"}, "spec": {"nodeName": node}});
        put(&mut graph, kind, of("n"));
        let object = named(kind, "", "a");
        assert!(graph.is_related(object, "n"));
        put(&mut graph, kind, of("m"));
        assert!(!graph.is_related(object, "n") && graph.is_related(object, "m"));
        put(
            &mut graph,
            kind,
            json!({"metadata": {"name": "a"}, "spec": {"allNodes": true}}),
        );
        assert!(graph.is_empty());
    }
}

#[test]
fn a_listing_forgets_what_it_does_not_have() {
    let mut graph = Graph::new();
    let pods: Vec<String> = (0..10).map(|number| format!("p{number}")).collect();
    let slice = named(Kind::Slice, "", "s");
    graph.put(slice, "n", []);
    for round in 0..3 {
        let listing = graph.begin_listing(Kind::Pod);
        for pod in pods.iter().skip(round) {
            graph.put(
                named(Kind::Pod, "d", pod),
                "n",
                [named(Kind::Secret, "d", pod)],
            );
        }
        graph.end_listing(listing);
        for (number, pod) in pods.iter().enumerate() {
            let secret = named(Kind::Secret, "d", pod);
            assert_eq!(graph.is_related(secret, "n"), number >= round);
        }
        assert!(graph.is_related(slice, "n"));
    }
}

/// A change of the naive model: pods with a node and references, volumes with a claim and secrets.
#[derive(Clone, Debug)]
enum Change {
    Pod(u8, Option<u8>, Vec<(u8, u8)>),
    Volume(u8, Option<u8>, Vec<u8>),
}

#[derive(Default)]
struct Naive {
    pods: BTreeMap<u8, (u8, Vec<(u8, u8)>)>,
    volumes: BTreeMap<u8, (u8, Vec<u8>)>,
}

impl Naive {
    fn uses(&self, kind: u8, name: u8) -> BTreeSet<u8> {
        let pods = self.pods.values();
        let users = pods.filter(|(_, references)| references.contains(&(kind, name)));
        users.map(|(node, _)| *node).collect()
    }

    /// The nodes that an object is related to.
    fn nodes(&self, kind: Kind, name: u8) -> BTreeSet<u8> {
        match kind {
            Kind::Pod => self
                .pods
                .get(&name)
                .map(|(node, _)| *node)
                .into_iter()
                .collect(),
            Kind::Volume => match self.volumes.get(&name) {
                Some((claim, _)) => self.uses(1, *claim),
                None => BTreeSet::new(),
            },
            Kind::Claim => self.uses(1, name),
            Kind::Secret => {
                let volumes = self.volumes.values();
                let of = volumes.filter(|(_, secrets)| secrets.contains(&name));
                let through = of.flat_map(|(claim, _)| self.uses(1, *claim));
                through.chain(self.uses(0, name)).collect()
            }
            _ => self.uses(2, name),
        }
    }
}

const REFERRED: [Kind; 3] = [Kind::Secret, Kind::Claim, Kind::ConfigMap];

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let references = prop::collection::vec((0_u8..3, 0_u8..5), 0..6);
    let pod = (0_u8..8, prop::option::weighted(0.8, 0_u8..20), references);
    let secrets = prop::collection::vec(0_u8..5, 0..3);
    let volume = (0_u8..6, prop::option::weighted(0.8, 0_u8..5), secrets);
    let change = prop_oneof![
        3 => pod.prop_map(|(name, node, references)| Change::Pod(name, node, references)),
        1 => volume.prop_map(|(name, claim, secrets)| Change::Volume(name, claim, secrets)),
    ];
    prop::collection::vec(change, 0..60)
}

proptest! {
    /// Whatever changes in whatever order, the graph answers as a search through all objects does.
    #[test]
    fn the_graph_is_a_naive_evaluation_ac_43(changes in changes()) {
        let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        let name = |number: u8| names[usize::from(number)].as_str();
        let (mut graph, mut naive) = (Graph::new(), Naive::default());
        for change in changes {
            match change {
                Change::Pod(pod, node, references) => {
                    let referred = references.iter();
                    let referred = referred.map(|(kind, of)| {
                        named(REFERRED[usize::from(*kind)], "d", name(*of))
                    });
                    graph.put(named(Kind::Pod, "d", name(pod)), node.map_or("", name), referred);
                    match node {
                        Some(node) => naive.pods.insert(pod, (node, references)),
                        None => naive.pods.remove(&pod),
                    };
                }
                Change::Volume(volume, claim, secrets) => {
                    let of_claim = claim.map(|claim| named(Kind::Claim, "d", name(claim)));
                    let of_secrets = secrets.iter().map(|of| named(Kind::Secret, "d", name(*of)));
                    graph.put_volume(named(Kind::Volume, "", name(volume)), of_claim, of_secrets);
                    match claim {
                        Some(claim) => naive.volumes.insert(volume, (claim, secrets)),
                        None => naive.volumes.remove(&volume),
                    };
                }
            }
            for kind in [Kind::Pod, Kind::Volume, Kind::Claim, Kind::Secret, Kind::ConfigMap] {
                let namespace = if kind == Kind::Volume { "" } else { "d" };
                for number in 0..8 {
                    let nodes = naive.nodes(kind, number);
                    for node in 0..20 {
                        let object = named(kind, namespace, name(number));
                        let is_related = graph.is_related(object, name(node));
                        prop_assert_eq!(is_related, nodes.contains(&node), "{:?} {}", kind, number);
                    }
                }
            }
        }
        // Nothing stays behind.
        for number in 0..8 {
            graph.remove(named(Kind::Pod, "d", name(number)));
            graph.remove(named(Kind::Volume, "", name(number)));
        }
        prop_assert!(graph.is_empty());
    }
}

/// The pods of a cluster: 20 on each node, each with an account and a config map of its namespace,
/// a config map of its workload of five pods, and a secret and a claim of its own.
fn cluster(graph: &mut Graph, pods: usize, nodes: usize) {
    for number in 0..pods {
        let namespace = format!("team-{}", number / 500);
        let workload = format!("deployment-{}", number / 5);
        let name = format!("{workload}-5d8f7c6b9c-{number:05}");
        let claim = format!("data-{name}");
        let secret = format!("{name}-tls");
        let referred = [
            named(Kind::ServiceAccount, &namespace, "default"),
            named(Kind::ConfigMap, &namespace, "kube-root-ca.crt"),
            named(Kind::ConfigMap, &namespace, &workload),
            named(Kind::Secret, &namespace, &secret),
            named(Kind::Claim, &namespace, &claim),
        ];
        // Pods of one workload are on different nodes.
        let node = format!("node-{}", number * 7919 % nodes);
        graph.put(named(Kind::Pod, &namespace, &name), &node, referred);
    }
}

/// At most 400 bytes for each pod with five references, with 100,000 pods on 5,000 nodes. Here with
/// a tenth of them; `the_memory_of_a_large_cluster` has all.
#[test]
fn a_pod_takes_at_most_400_bytes() {
    assert!(bytes_of_pods(10_000, 500) <= 400);
}

/// `cargo test --lib the_memory_of_a_large_cluster -- --ignored --nocapture` prints the figure.
#[test]
#[ignore = "it is a measurement"]
fn the_memory_of_a_large_cluster() {
    let bytes = bytes_of_pods(100_000, 5_000);
    println!("{bytes} bytes for each pod");
    assert!(bytes <= 400);
}

fn bytes_of_pods(pods: usize, nodes: usize) -> i64 {
    let mut graph = Graph::new();
    let measured = allocation_counter::measure(|| cluster(&mut graph, pods, nodes));
    let node = format!("node-{}", 7919 % nodes);
    assert!(graph.is_related(named(Kind::ConfigMap, "team-0", "deployment-0"), &node));
    measured.bytes_current / i64::try_from(pods).unwrap()
}
