use serde_json::{Value, json};

use crate::api::object::Object;
use crate::api::resource::{DeletionRule, ResourceDefinition};
use crate::kinds::definitions::core;
use crate::registry::strategy::Strategy;
use crate::registry::tests::fixture::Fixture;

fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => Object::of(members),
        other => panic!("{other} is not an object"),
    }
}

fn created(definition: ResourceDefinition, value: Value) -> Object {
    let strategy = Strategy::of(definition);
    let created = strategy.created(object(value), jiff::Timestamp::UNIX_EPOCH);
    created.expect("it is valid")
}

fn update(
    definition: ResourceDefinition,
    value: Value,
    stored: &Object,
    subresource: &str,
) -> Result<Object, Vec<String>> {
    let strategy = Strategy::of(definition);
    let now = jiff::Timestamp::UNIX_EPOCH;
    let updated = strategy.updated(object(value), stored, subresource, now);
    updated.map_err(|status| {
        let details = status.details.unwrap_or_default();
        let causes = details.causes.into_iter();
        causes
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    })
}

/// http.md 6.2: the spec names the user of the request, even if the body names another.
#[tokio::test]
async fn a_certificate_request_says_who_created_it() {
    let request = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIUk1Ib0NBUUF3R0RFS01BZ0dBMVVF\
        QXd3QmVERUtNQWdHQTFVRUNnd0JlVEJaTUJNR0J5cUdTTTQ5QWdFRwpDQ3FHU000OUF3RUhBMElBQkJC\
        NEliUFlxVmJjMFVRSDNLdndKUm8zZjI1V1FlUS9ITzlLaGc3WkdNYWpSYXhhClhuM3RMbFVuWXVySndW\
        ZXJ1amVjRjBTcGI5T2lMUjNkdjlmZ21tS2dBREFLQmdncWhrak9QUVFEQWdOSEFEQkUKQWlCUmdVVlFI\
        TWFOQm9ERDV6K09jbldsOEEvaEZoeFdVZGkwblFGVWtOdFBid0lnTm92V0tsZ3RWZ0RjYWhSaApVeTNE\
        bDdraDJJRVRjNFdPRGVQeUZyRGFLQWM9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
    let body = json!({
        "metadata": {"name": "r"},
        "spec": {"request": request, "signerName": "ex.com/s", "usages": ["client auth"],
                 "username": "root", "uid": "0", "extra": {"k": ["v"]}},
    });
    let fixture = Fixture::new().await;
    let resource = "certificatesigningrequests.certificates.k8s.io";
    let made = fixture.create(resource, None, &body.to_string()).await;
    let made = made.expect("it is valid");
    let user = &fixture.context.user;
    assert_eq!(made.text(&["spec", "username"]), user.name);
    assert_eq!(made.at(&["spec", "groups"]), Some(&json!(user.groups)));
    assert_eq!(made.at(&["spec", "uid"]), None);
    assert_eq!(made.at(&["spec", "extra"]), None);
}

/// API-230
#[test]
fn a_limit_range_without_a_name_gets_a_uuid() {
    let body = |metadata: Value| json!({"metadata": metadata, "spec": {"limits": []}});
    let bare = created(core::limitranges(), body(json!({"namespace": "d"})));
    assert_eq!(bare.name(), "u");
    let named = body(json!({"name": "n", "namespace": "d"}));
    assert_eq!(created(core::limitranges(), named).name(), "n");
}

/// API-224: the server sets phase, finalizer and label. A finalizer of the client is kept.
#[test]
fn a_namespace_is_filled_in_on_creation() {
    let made = created(
        core::namespaces(),
        json!({"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "other"}},
               "spec": {"finalizers": ["ex.com/a"]}, "status": {"phase": "Terminating"}}),
    );
    assert_eq!(
        made.at(&["spec"]),
        Some(&json!({"finalizers": ["ex.com/a", "kubernetes"]}))
    );
    assert_eq!(made.at(&["status"]), Some(&json!({"phase": "Active"})));
    let labels = json!({"kubernetes.io/metadata.name": "n"});
    assert_eq!(made.at(&["metadata", "labels"]), Some(&labels));
}

/// http.md 6.2: the main endpoint of a namespace ignores spec and status, and restores the label.
#[test]
fn a_namespaces_spec_and_status_are_not_changed_by_an_update() {
    let stored = created(core::namespaces(), json!({"metadata": {"name": "n"}}));
    let body = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["ex.com/x"]},
                      "status": {"phase": "Terminating"}});
    let updated = update(core::namespaces(), body, &stored, "").expect("valid");
    assert_eq!(updated, stored);
}

/// http.md 6.2: the phase of a namespace depends only on its deletion.
#[test]
fn the_phase_of_a_namespace_is_checked_at_its_status() {
    let stored = created(core::namespaces(), json!({"metadata": {"name": "n"}}));
    let body = json!({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}});
    let refused = update(core::namespaces(), body, &stored, "status");
    let why = "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if \
               `deletionTimestamp` is empty";
    assert_eq!(refused, Err(vec![why.to_owned()]));
}

/// API-224: `/finalize` changes the finalizers and never the status.
#[test]
fn finalize_changes_the_finalizers_of_a_namespace() {
    let stored = created(core::namespaces(), json!({"metadata": {"name": "n"}}));
    let body = json!({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}});
    let updated = update(core::namespaces(), body, &stored, "finalize").expect("valid");
    assert_eq!(updated.at(&["spec"]), Some(&json!({})));
    assert_eq!(updated.at(&["status"]), stored.at(&["status"]));
}

/// API-254: the type gets a default, plain text becomes base64 and overrides data.
#[test]
fn a_secret_takes_over_plain_text() {
    let made = created(
        core::secrets(),
        json!({"metadata": {"name": "s", "namespace": "d"}, "stringData": {"a": "b"},
               "data": {"a": "YQ==", "c": "Yw=="}}),
    );
    assert_eq!(made.text(&["type"]), "Opaque");
    assert_eq!(made.at(&["data"]), Some(&json!({"a": "Yg==", "c": "Yw=="})));
    assert_eq!(made.at(&["stringData"]), None);
}

/// http.md 6.2: the type of a secret never changes, nor does anything of an immutable one.
#[test]
fn what_is_immutable_is_not_changed() {
    let metadata = json!({"name": "a", "namespace": "d"});
    let stored = created(
        core::secrets(),
        json!({"metadata": metadata, "type": "ex.com/t", "immutable": true, "data": {"a": ""}}),
    );
    let body = json!({"metadata": metadata, "data": {"x": "YQ=="}});
    let why = "Forbidden: field is immutable when `immutable` is set";
    assert_eq!(
        update(core::secrets(), body, &stored, ""),
        Err(vec![
            "type: Invalid value: \"Opaque\": field is immutable".to_owned(),
            format!("immutable: {why}"),
            format!("data: {why}"),
        ])
    );
    let stored = created(
        core::configmaps(),
        json!({"metadata": metadata, "immutable": true, "data": {"a": "b"}}),
    );
    let body = json!({"metadata": metadata, "immutable": true, "binaryData": {"a": ""}});
    assert_eq!(
        update(core::configmaps(), body, &stored, ""),
        Err(vec![format!("data: {why}"), format!("binaryData: {why}")])
    );
}

/// http.md 6.2: a pod is created pending, a node with the status in its body.
#[test]
fn status_on_creation_is_a_matter_of_the_kind() {
    let body = |spec: Value| {
        json!({"metadata": {"name": "a", "namespace": "d"}, "spec": spec,
               "status": {"phase": "Running"}})
    };
    let pod = created(
        core::pods(),
        body(json!({"containers": [{"name": "c", "image": "i"}]})),
    );
    let pending = json!({"phase": "Pending", "qosClass": "BestEffort"});
    assert_eq!(pod.at(&["status"]), Some(&pending));
    let headless = json!({"clusterIP": "None", "ports": [{"port": 1}]});
    let service = created(core::services(), body(headless));
    let empty = json!({"loadBalancer": {}});
    assert_eq!(service.at(&["status"]), Some(&empty));
    let node = created(
        core::nodes(),
        json!({"metadata": {"name": "a"}, "status": {"phase": "Running"}}),
    );
    assert_eq!(node.text(&["status", "phase"]), "Running");
}

/// API-103: an update at any endpoint keeps fields of a disabled feature that the stored object
/// has.
#[test]
fn an_update_keeps_what_a_feature_that_is_off_has_already() {
    let lifecycle = json!({"stopSignal": "SIGTERM"});
    let body = |labels: Value, lifecycle: &Value| {
        let container = json!({"name": "c", "image": "i", "lifecycle": lifecycle});
        let metadata = json!({"name": "a", "namespace": "d", "labels": labels});
        json!({"metadata": metadata, "spec": {"containers": [container]}})
    };
    let kept = |object: &Object| {
        let container = &object.items(&["spec", "containers"])[0];
        container.get("lifecycle").cloned()
    };
    let mut stored = created(core::pods(), body(json!({}), &lifecycle));
    assert_eq!(kept(&stored), None);
    let new = body(json!({"x": "y"}), &lifecycle);
    let dropped = update(core::pods(), new.clone(), &stored, "").expect("valid");
    assert_eq!(kept(&dropped), None);

    let containers = stored.at_mut(&["spec", "containers"]).expect("a list");
    containers[0]["lifecycle"] = lifecycle.clone();
    let updated = update(core::pods(), new, &stored, "").expect("valid");
    assert_eq!(
        updated.at(&["metadata", "labels"]),
        Some(&json!({"x": "y"}))
    );
    assert_eq!(kept(&updated), Some(lifecycle.clone()));
    let status = update(core::pods(), body(json!({}), &json!({})), &stored, "status");
    assert_eq!(kept(&status.expect("valid")), Some(lifecycle));
}

/// API-112: only a pod that runs on a node gets a grace period.
#[test]
fn the_grace_of_a_pod_depends_on_where_it_is() {
    let kind = core::pods().behaviour;
    assert_eq!(kind.rules().deletion, DeletionRule::Graceful);
    let grace = |pod: &Object, asked| kind.grace(pod, asked).expect("a period");
    let pod = |spec: Value, phase: &str| object(json!({"spec": spec, "status": {"phase": phase}}));
    let placed = json!({"nodeName": "n", "terminationGracePeriodSeconds": 20});
    assert_eq!(grace(&pod(placed.clone(), "Running"), None), 20);
    assert_eq!(grace(&pod(placed.clone(), "Running"), Some(5)), 5);
    assert_eq!(grace(&pod(placed.clone(), "Running"), Some(-5)), 1);
    assert_eq!(grace(&pod(placed, "Failed"), Some(5)), 0);
    assert_eq!(grace(&pod(json!({"nodeName": "n"}), "Running"), None), 30);
    assert_eq!(grace(&pod(json!({}), "Pending"), Some(5)), 0);
}
