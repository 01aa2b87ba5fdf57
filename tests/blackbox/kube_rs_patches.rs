//! Patches of each type by kube-rs, on typed objects, with conflicts and force.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::Daemon;
use crate::kube_rs::{client, refusal};

fn metadata() -> ObjectMeta {
    ObjectMeta {
        name: Some("till".to_owned()),
        ..ObjectMeta::default()
    }
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), "till".to_owned())])
}

fn container(name: &str, image: Option<&str>, variables: &[&str]) -> Container {
    let variables = variables.iter().map(|name| EnvVar {
        name: (*name).to_owned(),
        value: Some("v".to_owned()),
        ..EnvVar::default()
    });
    Container {
        name: name.to_owned(),
        image: image.map(str::to_owned),
        env: Some(variables.collect()).filter(|all: &Vec<_>| !all.is_empty()),
        ..Container::default()
    }
}

fn deployment(replicas: Option<i32>, containers: Vec<Container>) -> Deployment {
    let selector = LabelSelector {
        match_labels: Some(labels()),
        ..LabelSelector::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels()),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers,
            ..PodSpec::default()
        }),
    };
    Deployment {
        metadata: metadata(),
        spec: Some(DeploymentSpec {
            replicas,
            selector,
            template,
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// `name=image:variable,variable` of each container.
fn shown(deployment: &Deployment) -> Vec<String> {
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref();
    let containers = pod.unwrap().containers.iter();
    let show = |one: &Container| {
        let variables = one.env.iter().flatten().map(|variable| &*variable.name);
        let variables: Vec<_> = variables.collect();
        let image = one.image.as_deref().unwrap();
        format!("{}={image}:{}", one.name, variables.join(","))
    };
    containers.map(show).collect()
}

/// Manager, operation and subresource of each entry of managedFields.
fn managers(object: &impl ResourceExt) -> BTreeSet<String> {
    let entries = object.managed_fields().iter().map(|entry| {
        let manager = entry.manager.as_deref().unwrap();
        let operation = entry.operation.as_deref().unwrap();
        let subresource = entry.subresource.as_deref().unwrap_or_default();
        format!("{manager} {operation} {subresource}")
            .trim_end()
            .to_owned()
    });
    entries.collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// API-172 to API-175, API-178.
#[tokio::test]
async fn typed_objects_are_applied_with_conflicts_and_force() {
    let daemon = Daemon::start().await;
    let api: Api<Deployment> = Api::default_namespaced(client(&daemon).await);
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    let apply = async |by: &PatchParams, object: &Deployment| {
        api.patch("till", by, &Patch::Apply(object)).await
    };
    let till = container("till", Some("till:1"), &["A", "B"]);
    let log = container("log", Some("log:1"), &[]);
    let first = deployment(Some(2), vec![till, log]);
    let created = apply(&one, &first).await.unwrap();
    assert_eq!(shown(&created), ["till=till:1:A,B", "log=log:1:"]);
    assert_eq!(apply(&one, &first).await.unwrap(), created);

    // Who wants it otherwise is refused, and takes it by force.
    let other = deployment(None, vec![container("till", Some("till:2"), &["C"])]);
    let conflict = refusal(apply(&two, &other).await);
    let expected = "Apply failed with 1 conflict: conflict with \"one\": \
        .spec.template.spec.containers[name=\"till\"].image";
    assert_eq!((conflict.code, &*conflict.message), (409, expected));
    let causes = conflict.details.unwrap().causes;
    assert_eq!(causes[0].reason, "FieldManagerConflict");
    let dry = apply(&two.clone().force().dry_run(), &other).await;
    assert_eq!(shown(&dry.unwrap())[0], "till=till:2:A,B,C");
    assert_eq!(api.get("till").await.unwrap(), created);
    let forced = apply(&two.clone().force(), &other).await.unwrap();
    assert_eq!(shown(&forced), ["till=till:2:A,B,C", "log=log:1:"]);
    assert_eq!(managers(&forced), set(&["one Apply", "two Apply"]));

    // What an applier leaves out goes, but for what another has.
    let conflict = refusal(apply(&one, &first).await);
    assert!(conflict.is_conflict(), "{conflict:?}");
    let less = deployment(Some(3), vec![container("till", None, &["B"])]);
    let pruned = apply(&one, &less).await.unwrap();
    assert_eq!(shown(&pruned), ["till=till:2:B,C"]);

    // The status has owners of its own; of what else is sent to it nothing counts.
    let mut status = deployment(Some(9), vec![container("none", None, &[])]);
    status.status = Some(DeploymentStatus {
        observed_generation: Some(1),
        ..DeploymentStatus::default()
    });
    let patch = Patch::Apply(&status);
    let controller = PatchParams::apply("controller");
    let status = api.patch_status("till", &controller, &patch).await.unwrap();
    assert_eq!(status.status.as_ref().unwrap().observed_generation, Some(1));
    assert_eq!(status.spec, pruned.spec);
    let all = ["one Apply", "two Apply", "controller Apply status"];
    assert_eq!(managers(&status), set(&all));

    // A plain patch takes over, and conflicts name the version it used.
    let merge = Patch::Merge(json!({ "spec": { "replicas": 4 } }));
    let scaler = PatchParams {
        field_manager: Some("scaler".to_owned()),
        ..PatchParams::default()
    };
    api.patch_scale("till", &scaler, &merge).await.unwrap();
    let conflict = refusal(apply(&one, &less).await);
    let expected = "conflict with \"scaler\" with subresource \"scale\" using apps/v1: \
        .spec.replicas";
    assert!(conflict.message.ends_with(expected), "{conflict:?}");
}

/// API-160 to API-168: what each type does to a list of containers.
#[tokio::test]
async fn typed_objects_are_patched_by_each_type() {
    let daemon = Daemon::start().await;
    let api: Api<Deployment> = Api::default_namespaced(client(&daemon).await);
    let by = PatchParams {
        field_manager: Some("patcher".to_owned()),
        ..PatchParams::default()
    };
    let till = container("till", Some("till:1"), &["A", "B"]);
    let log = container("log", Some("log:1"), &[]);
    let object = deployment(Some(2), vec![till, log]);
    let created = api.create(&Default::default(), &object).await.unwrap();
    let operation = |operations: Value| -> Patch<Deployment> {
        Patch::Json(serde_json::from_value(operations).unwrap())
    };

    // A strategic merge patch finds items by their names, in a typed object too.
    let patch = deployment(None, vec![container("log", Some("log:2"), &["C"])]);
    let patched = api.patch("till", &by, &Patch::Strategic(&patch)).await;
    let patched = patched.unwrap();
    assert_eq!(shown(&patched), ["till=till:1:A,B", "log=log:2:C"]);
    assert_eq!(
        managers(&patched),
        set(&["unknown Update", "patcher Update"])
    );
    let patch = json!({ "spec": { "template": { "spec": { "containers": [
        { "name": "log", "$patch": "delete" },
        { "name": "till", "env": [{ "name": "A", "$patch": "delete" }] },
    ] } } } });
    let patched = api.patch("till", &by, &Patch::Strategic(&patch)).await;
    assert_eq!(shown(&patched.unwrap()), ["till=till:1:B"]);

    // A merge patch replaces the list, and null takes a member away, which has a default then.
    let patch = json!({ "spec": { "replicas": null, "template": { "spec": { "containers": [
        { "name": "audit", "image": "audit:1" },
    ] } } } });
    let patched = api.patch("till", &by, &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(shown(&patched), ["audit=audit:1:"]);
    assert_eq!(patched.spec.unwrap().replicas, Some(1));

    let image = "/spec/template/spec/containers/0/image";
    let patch = operation(json!([
        { "op": "test", "path": image, "value": "audit:1" },
        { "op": "replace", "path": image, "value": "audit:2" },
    ]));
    let patched = api.patch("till", &by, &patch).await.unwrap();
    assert_eq!(shown(&patched), ["audit=audit:2:"]);
    let failed = refusal(api.patch("till", &by, &patch).await);
    assert_eq!(failed.code, 422);

    // A version in a patch must be the newest, whatever the type.
    let version = json!({ "metadata": { "resourceVersion": created.resource_version() } });
    for patch in [Patch::Strategic(&version), Patch::Merge(&version)] {
        assert!(refusal(api.patch("till", &by, &patch).await).is_conflict());
    }
}

/// API-193: ports are told apart by number and protocol, which is TCP where nobody says it.
#[tokio::test]
async fn ports_are_shared_by_appliers_and_merged_by_patches() {
    let daemon = Daemon::start().await;
    let api: Api<Service> = Api::default_namespaced(client(&daemon).await);
    let service = |ports: &[(&str, i32, Option<&str>)]| {
        let ports = ports.iter().map(|(name, port, protocol)| ServicePort {
            name: Some((*name).to_owned()),
            port: *port,
            protocol: protocol.map(str::to_owned),
            ..ServicePort::default()
        });
        Service {
            metadata: metadata(),
            spec: Some(ServiceSpec {
                selector: Some(labels()),
                ports: Some(ports.collect()),
                ..ServiceSpec::default()
            }),
            status: None,
        }
    };
    let shown = |service: &Service| -> Vec<String> {
        let ports = service.spec.as_ref().unwrap().ports.iter().flatten();
        let show = |port: &ServicePort| {
            let name = port.name.as_deref().unwrap();
            format!("{name} {} {}", port.port, port.protocol.as_deref().unwrap())
        };
        ports.map(show).collect()
    };
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    let first = service(&[("http", 80, None), ("quic", 443, Some("UDP"))]);
    api.patch("till", &one, &Patch::Apply(&first))
        .await
        .unwrap();
    let more = service(&[("http", 80, Some("TCP")), ("https", 443, None)]);
    let shared = api.patch("till", &two, &Patch::Apply(&more)).await.unwrap();
    assert_eq!(
        shown(&shared),
        ["http 80 TCP", "quic 443 UDP", "https 443 TCP"]
    );
    let renamed = service(&[("web", 80, None)]);
    let conflict = refusal(api.patch("till", &two, &Patch::Apply(&renamed)).await);
    let expected = "conflict with \"one\": .spec.ports[port=80,protocol=\"TCP\"].name";
    assert!(conflict.message.ends_with(expected), "{conflict:?}");
    let forced = two.force();
    let renamed = api.patch("till", &forced, &Patch::Apply(&renamed)).await;
    assert_eq!(shown(&renamed.unwrap()), ["web 80 TCP", "quic 443 UDP"]);

    // A strategic merge patch tells them apart by number alone.
    let patch = json!({ "spec": { "ports": [{ "port": 443, "name": "tls" }] } });
    let by = PatchParams::default();
    let patched = api.patch("till", &by, &Patch::Strategic(&patch)).await;
    assert_eq!(shown(&patched.unwrap()), ["web 80 TCP", "tls 443 UDP"]);
}
