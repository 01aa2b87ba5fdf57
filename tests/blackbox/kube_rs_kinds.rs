//! kube-rs' typed clients for every built-in kind: responses have the types of k8s-openapi, without
//! any other field.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::{
    admissionregistration, apps, autoscaling, batch, certificates, coordination, core, discovery,
    events, flowcontrol, networking, node, policy, rbac, resource, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::custom_resources::until;
use crate::every_kind::BODIES;
use crate::harness::{Answer, Call, Client, Daemon};
use crate::kube_rs::client;

/// A document in a form that types print, too: without nulls and empty texts, and with integers for
/// whole floats.
fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => json!(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            let members = members.filter(|(_, value)| !value.is_null() && value != "");
            members.map(|(name, value)| (name, plain(value))).collect()
        }
        other => other,
    }
}

/// The body with most fields for a kind, and the path of its collection.
fn body(bodies: &Value, api_version: &str, kind: &str) -> (String, Value) {
    let found = bodies.as_object().unwrap().iter().find_map(|(path, of)| {
        let full = of[1].clone();
        (full["apiVersion"] == api_version && full["kind"] == kind).then(|| (path.clone(), full))
    });
    found.unwrap_or_else(|| panic!("there is no body of {api_version} {kind}"))
}

async fn until_established(raw: &Client, path: &str) {
    let is_established =
        |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    loop {
        let shown = raw.call(Call::get(path)).await.expect(200);
        let conditions = shown["status"]["conditions"].as_array();
        if conditions.is_some_and(|conditions| conditions.iter().any(is_established)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Creates, reads, lists and watches an object by its type, and compares each answer with the
/// daemon's JSON. Returns the path of the collection.
async fn exchange<K>(api: Api<K>, raw: &Client, bodies: &Value) -> String
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + PartialEq,
{
    let (api_version, kind) = (K::api_version(&()).into_owned(), K::kind(&()).into_owned());
    let what = format!("{api_version} {kind}");
    let (path, mut body) = body(bodies, &api_version, &kind);
    if ["autoscaling/v1", "events.k8s.io/v1"].contains(&&*api_version) {
        // The same object is there in another version.
        body["metadata"]["name"] = json!("sweep-of-another-version");
    }
    let name = body["metadata"]["name"].as_str().unwrap().to_owned();
    let sent: K = serde_json::from_value(body).unwrap_or_else(|error| panic!("{what}: {error}"));
    let created = api.create(&PostParams::default(), &sent).await;
    let mut created = created.unwrap_or_else(|error| panic!("{what}: {error}"));
    if kind == "CustomResourceDefinition" {
        // Its status changes until it is served.
        until_established(raw, &format!("{path}/{name}")).await;
        created = api.get(&name).await.unwrap();
    }

    if kind == "APIService" {
        // Its availability is checked once.
        let path = format!("{path}/{name}");
        let is_checked = |answer: &Answer| answer.json()["status"]["conditions"].is_array();
        until(raw, || Call::get(&path), is_checked).await;
        created = api.get(&name).await.unwrap();
    }

    // The type has every member of the answer, and the answer has none of another form.
    let answer = raw.call(Call::get(&format!("{path}/{name}"))).await;
    let shown = answer.expect(200);
    let typed = serde_json::to_value(&created).unwrap();
    assert_eq!(plain(typed), plain(shown), "{what}");

    assert_eq!(api.get(&name).await.unwrap(), created, "{what}");
    let one = ListParams::default().fields(&format!("metadata.name={name}"));
    let list = api
        .list(&one)
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(list.items, std::slice::from_ref(&created), "{what}");

    let watch = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = pin!(api.watch(&watch, "0").await.unwrap());
    match events.next().await {
        Some(Ok(WatchEvent::Added(added))) => assert_eq!(added, created, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
    path
}

#[tokio::test]
async fn every_kind_has_the_form_of_its_type_api_212() {
    let daemon = Daemon::start().await;
    let (client, raw) = (client(&daemon).await, daemon.client());
    let bodies: Value = serde_json::from_str(BODIES).unwrap();
    // The CustomResourceDefinition below adds a kind.
    let built_in = collections(&raw).await;
    let mut paths = BTreeSet::new();
    macro_rules! exchange {
        ($api:ident: $($group:ident::$version:ident: $($kind:ident)+;)+) => {
            $($(
                let api: Api<$group::$version::$kind> = Api::$api(client.clone());
                assert!(paths.insert(exchange(api, &raw, &bodies).await));
            )+)+
        };
    }
    exchange!(all:
        admissionregistration::v1:
            MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
            ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
            ValidatingWebhookConfiguration;
        apiregistration::v1: APIService;
        apiextensions::v1: CustomResourceDefinition;
        certificates::v1: CertificateSigningRequest;
        core::v1: Namespace Node PersistentVolume;
        flowcontrol::v1: FlowSchema PriorityLevelConfiguration;
        networking::v1: IPAddress IngressClass ServiceCIDR;
        node::v1: RuntimeClass;
        rbac::v1: ClusterRole ClusterRoleBinding;
        resource::v1: DeviceClass ResourceSlice;
        scheduling::v1: PriorityClass;
        storage::v1: CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass;
    );
    exchange!(default_namespaced:
        apps::v1: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet;
        autoscaling::v1: HorizontalPodAutoscaler;
        autoscaling::v2: HorizontalPodAutoscaler;
        batch::v1: CronJob Job;
        coordination::v1: Lease;
        core::v1:
            ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate
            ReplicationController ResourceQuota Secret Service ServiceAccount;
        discovery::v1: EndpointSlice;
        events::v1: Event;
        networking::v1: Ingress NetworkPolicy;
        policy::v1: PodDisruptionBudget;
        rbac::v1: Role RoleBinding;
        resource::v1: ResourceClaim ResourceClaimTemplate;
        storage::v1: CSIStorageCapacity;
    );
    assert_eq!(paths, built_in, "kinds without a test");
}

/// The paths of all collections that objects can be created in and listed from.
pub async fn collections(raw: &Client) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for root in ["/api", "/apis"] {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let call = Call::get(root).header("accept", accept);
        let groups = raw.call(call).await.expect(200);
        for group in groups["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().unwrap() {
                let number = version["version"].as_str().unwrap();
                let base = match name {
                    "" => format!("/api/{number}"),
                    name => format!("/apis/{name}/{number}"),
                };
                for of in version["resources"].as_array().unwrap() {
                    let has = |verb: &str| of["verbs"].as_array().unwrap().contains(&json!(verb));
                    let plural = of["resource"].as_str().unwrap();
                    if has("create") && has("list") {
                        let namespace = match of["scope"].as_str() {
                            Some("Namespaced") => "/namespaces/default",
                            _ => "",
                        };
                        paths.insert(format!("{base}{namespace}/{plural}"));
                    }
                }
            }
        }
    }
    paths
}
