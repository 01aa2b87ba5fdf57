use actors::engine::EngineError;
use serde_json::{Value, json};

use super::*;
use crate::api::status::StatusReason;
use crate::controllers::tests::{delete, emptied, terminating};
use crate::registry::tests::fixture::{Fixture, refusal};

const POD: &str = r#"{"metadata":{"name":"a"},"spec":{"nodeName":"n",
    "terminationGracePeriodSeconds":GRACE,"containers":[{"name":"c","image":"i"}]}}"#;

const POLICY: &str = r#"{"metadata":{"name":"a"},"spec":{"podSelector":{}}}"#;

async fn create(fixture: &Fixture, resource: &str, body: &str) {
    let created = fixture.create(resource, Some("d"), body).await;
    created.expect("created");
}

async fn release(fixture: &Fixture, resource: &str, name: &str) {
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    let released = fixture.merge(resource, (Some("d"), name, None), patch);
    released.await.expect("let go");
}

/// The refusal of a pass over `d` whose first write fails.
async fn refused(fixture: &Fixture) -> (u16, StatusReason, String) {
    let fault = EngineError::Unavailable("a test".to_owned());
    fixture.engine.fail_next_commit(fault);
    let namespace = terminating(fixture, "d").await;
    let deleter = NamespacedResourcesDeleter::new(fixture.registry.clone(), None);
    refusal(
        deleter
            .empty(&namespace, &mut ExtensionContent::default())
            .await,
    )
}

/// The namespace `d` with its conditions: of each type the status and the message.
async fn conditions(fixture: &Fixture) -> (Object, Vec<(String, String)>) {
    let namespace = fixture.get("namespaces", None, "d").await;
    let namespace = namespace.expect("it is held");
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let shown = namespace.items(&["status", "conditions"]).iter();
    let shown = shown
        .map(|one| (text(one, "status"), text(one, "message")))
        .collect();
    (namespace, shown)
}

fn said(status: &str, message: &str) -> (String, String) {
    (status.to_owned(), message.to_owned())
}

/// API-225: an object with a finalizer is marked, keeps its namespace, and is counted in its
/// conditions. They are written only when they change.
#[tokio::test]
async fn finalizers_in_a_namespace_hold_it_and_are_counted() {
    let fixture = Fixture::new().await;
    for (resource, body) in [
        (
            "configmaps",
            r#"{"metadata":{"name":"a","finalizers":["ex.com/a","ex.com/b"]}}"#,
        ),
        (
            "configmaps",
            r#"{"metadata":{"name":"b","finalizers":["ex.com/a"]}}"#,
        ),
        ("secrets", r#"{"metadata":{"name":"a"}}"#),
        (
            "networkpolicies.networking.k8s.io",
            r#"{"metadata":{"name":"a","finalizers":["ex.com/b"]},"spec":{"podSelector":{}}}"#,
        ),
    ] {
        create(&fixture, resource, body).await;
    }
    delete(&fixture, "namespaces", None, "d").await;
    let Progress::Held(remaining) = emptied(&fixture, "d").await else {
        panic!("it is held");
    };
    let counts = [("configmaps.", 2), ("networkpolicies.networking.k8s.io", 1)];
    let counts = counts.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(remaining.resources, counts.into());
    assert!(fixture.names("secrets", Some("d")).await.is_empty());
    let marked = fixture.get("configmaps", Some("d"), "a").await;
    assert!(marked.expect("it is held").is_being_deleted());
    let (before, shown) = conditions(&fixture).await;
    assert_eq!(shown.len(), 5);
    assert_eq!(
        shown[2..],
        [
            said(
                "False",
                "All content successfully deleted, may be waiting on finalization"
            ),
            said(
                "True",
                "Some resources are remaining: configmaps. has 2 resource instances, \
                 networkpolicies.networking.k8s.io has 1 resource instances"
            ),
            said(
                "True",
                "Some content in the namespace has finalizers remaining: ex.com/a in 2 resource \
                 instances, ex.com/b in 2 resource instances"
            ),
        ]
    );
    assert!(matches!(emptied(&fixture, "d").await, Progress::Held(_)));
    let (again, _) = conditions(&fixture).await;
    assert_eq!(again.resource_version(), before.resource_version());
    for (resource, name) in [
        ("configmaps", "a"),
        ("configmaps", "b"),
        ("networkpolicies.networking.k8s.io", "a"),
    ] {
        release(&fixture, resource, name).await;
    }
    assert_eq!(emptied(&fixture, "d").await, Progress::Done);
    assert_eq!(refusal(fixture.get("namespaces", None, "d").await).0, 404);
}

/// API-225: nothing else is deleted while a pod is left.
#[tokio::test]
async fn pods_go_first() {
    let fixture = Fixture::new().await;
    create(&fixture, "pods", &POD.replace("GRACE", "600")).await;
    create(&fixture, "configmaps", r#"{"metadata":{"name":"a"}}"#).await;
    delete(&fixture, "namespaces", None, "d").await;
    let Progress::Held(remaining) = emptied(&fixture, "d").await else {
        panic!("it is held");
    };
    assert_eq!(remaining.resources, [("pods.".to_owned(), 1)].into());
    // Its grace period keeps it.
    assert_eq!(remaining.failures, [""; 0]);
    let (_, shown) = conditions(&fixture).await;
    let counts = said("False", "All content successfully removed");
    assert_eq!((shown.len(), &shown[3]), (5, &counts));
    assert_eq!(fixture.names("configmaps", Some("d")).await, ["a"]);
    let now = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    let ended = fixture.delete("pods", Some("d"), "a", &now).await;
    ended.expect("it ends");
    assert_eq!(emptied(&fixture, "d").await, Progress::Done);
    assert!(fixture.names("configmaps", Some("d")).await.is_empty());
}

/// API-225: a pod that nothing keeps any more is a failure, unless it has ended.
#[tokio::test]
async fn a_pod_beyond_its_grace_is_a_failure() {
    let fixture = Fixture::new().await;
    create(&fixture, "pods", &POD.replace("GRACE", "20")).await;
    delete(&fixture, "namespaces", None, "d").await;
    let pod = fixture.get("pods", Some("d"), "a").await.expect("it runs");
    let left = |phase: &str, seconds: i64| {
        let deleted = clock::now() - SignedDuration::from_secs(seconds);
        let mut namespace = Object::default();
        namespace.set_meta("name", "d");
        namespace.set_meta("deletionTimestamp", &whole_seconds(deleted));
        let mut pod = pod.clone();
        pod.0.insert("status".to_owned(), json!({"phase": phase}));
        let mut deleted = DeletedCollection::default();
        deleted.keep(&pod, true);
        let mut remaining = RemainingContent::default();
        let pods = fixture.store("pods");
        deleted.count_in(&mut remaining, pods.definition(), &namespace);
        assert_eq!(remaining.resources, [("pods.".to_owned(), 1)].into());
        remaining.failures
    };
    let failure = "unexpected items still remain in namespace: d for gvr: /v1, Resource=pods";
    assert_eq!(left("Running", 10), [""; 0]);
    assert_eq!(left("Running", 21), [failure]);
    assert_eq!(left("Failed", 10), [failure]);
}

/// API-225: what can't be deleted spares nothing else and is named.
#[tokio::test]
async fn a_refused_deletion_is_told_in_the_conditions() {
    let fixture = Fixture::new().await;
    for resource in ["configmaps", "secrets"] {
        create(&fixture, resource, r#"{"metadata":{"name":"a"}}"#).await;
    }
    delete(&fixture, "namespaces", None, "d").await;
    let (_, _, why) = refused(&fixture).await;
    assert_eq!(fixture.names("configmaps", Some("d")).await, ["a"]);
    assert!(fixture.names("secrets", Some("d")).await.is_empty());
    let (_, shown) = conditions(&fixture).await;
    let message = format!("Failed to delete all resource types, 1 remaining: {why}");
    assert_eq!(shown[2], said("True", &message));
    assert_eq!(shown[3], said("False", "All content successfully removed"));
    assert_eq!(emptied(&fixture, "d").await, Progress::Done);
}

/// D-70: as long as pods can't be deleted, nothing else is.
#[tokio::test]
async fn a_refused_deletion_of_a_pod_spares_all_else() {
    let fixture = Fixture::new().await;
    create(&fixture, "pods", &POD.replace("GRACE", "20")).await;
    create(&fixture, "networkpolicies.networking.k8s.io", POLICY).await;
    delete(&fixture, "namespaces", None, "d").await;
    let (_, _, why) = refused(&fixture).await;
    let policies = fixture.names("networkpolicies.networking.k8s.io", Some("d"));
    assert_eq!(policies.await, ["a"]);
    let (_, shown) = conditions(&fixture).await;
    let message = format!("Failed to delete all resource types, 1 remaining: {why}");
    assert_eq!(shown[2], said("True", &message));
}
