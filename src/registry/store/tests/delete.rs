use actors::engine::{
    At, Change, DataEngine, Expect, Key, LeaseId, Mutation, Origin, Outcome, Prepared,
};
use serde_json::{Value, json};

use crate::api::options::{DeleteOptions, Propagation};
use crate::api::status::StatusReason;
use crate::registry::tests::fixture::{Fixture, refusal};
use crate::storage::Preconditions;

fn options() -> DeleteOptions {
    DeleteOptions::default()
}

async fn with(resource: &str, body: &str) -> Fixture {
    let fixture = Fixture::new().await;
    fixture
        .create(resource, Some("d"), body)
        .await
        .expect("created");
    fixture
}

fn metadata<'v>(told: &'v Value, name: &str) -> &'v Value {
    &told["metadata"][name]
}

/// API-109, RG-10, API-117: the response to a removal is a Status or the object.
#[tokio::test]
async fn what_nothing_holds_goes_at_once() {
    let fixture = with("configmaps", r#"{"metadata":{"name":"a"}}"#).await;
    let uid = fixture
        .get("configmaps", Some("d"), "a")
        .await
        .expect("stored")
        .uid()
        .to_owned();
    let (code, told) = fixture
        .delete("configmaps", Some("d"), "a", &options())
        .await
        .expect("deleted");
    assert_eq!(code, 200);
    assert_eq!(
        told,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
               "details": {"name": "a", "kind": "configmaps", "uid": uid}})
    );
    let text = "configmaps \"a\" not found".to_owned();
    let again = fixture
        .delete("configmaps", Some("d"), "a", &options())
        .await;
    assert_eq!(refusal(again), (404, StatusReason::NOT_FOUND, text));
    let made = fixture
        .create("serviceaccounts", Some("d"), r#"{"metadata":{"name":"a"}}"#)
        .await;
    let made = made.expect("created");
    let deleted = fixture
        .delete("serviceaccounts", Some("d"), "a", &options())
        .await;
    let (_, told) = deleted.expect("deleted");
    assert_eq!(metadata(&told, "uid"), made.uid());
    // ST-42: the object has the revision of the deletion.
    assert_ne!(metadata(&told, "resourceVersion"), made.resource_version());
}

/// API-111, ST-43: preconditions apply to the stored object.
#[tokio::test]
async fn preconditions_must_hold() {
    let fixture = with("configmaps", r#"{"metadata":{"name":"a"}}"#).await;
    let stored = fixture
        .get("configmaps", Some("d"), "a")
        .await
        .expect("stored");
    let with = |uid: &str, version: &str| DeleteOptions {
        preconditions: Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
        },
        ..options()
    };
    let delete = |options| {
        let fixture = &fixture;
        async move { fixture.delete("configmaps", Some("d"), "a", &options).await }
    };
    let (uid, version) = (stored.uid(), stored.resource_version());
    let (code, reason, text) = refusal(delete(with("x", version)).await);
    assert_eq!((code, reason), (409, StatusReason::CONFLICT));
    assert!(
        text.contains("on ConfigMap \"a\": the UID in the precondition (x)"),
        "{text}"
    );
    let (code, _, text) = refusal(delete(with(uid, "1")).await);
    assert_eq!(code, 409);
    assert!(
        text.contains("the ResourceVersion in the precondition (1)"),
        "{text}"
    );
    delete(with(uid, version)).await.expect("deleted");
    assert_eq!(refusal(delete(with(uid, version)).await).0, 404);
}

/// API-110, API-113, API-115: a marked object exists until its finalizers are gone.
#[tokio::test]
async fn what_finalizers_hold_is_marked() {
    let fixture = with(
        "configmaps",
        r#"{"metadata":{"name":"a","finalizers":["ex.com/a"]}}"#,
    )
    .await;
    let dry = DeleteOptions {
        dry_run: true,
        ..options()
    };
    let (_, told) = fixture
        .delete("configmaps", Some("d"), "a", &dry)
        .await
        .expect("answered");
    assert_eq!(metadata(&told, "deletionGracePeriodSeconds"), 0);
    let stored = fixture
        .get("configmaps", Some("d"), "a")
        .await
        .expect("stored");
    assert!(!stored.is_being_deleted());
    let (code, told) = fixture
        .delete("configmaps", Some("d"), "a", &options())
        .await
        .expect("marked");
    assert_eq!((code, &told["kind"]), (200, &json!("ConfigMap")));
    assert!(metadata(&told, "deletionTimestamp").is_string());
    let no_orphans = DeleteOptions {
        orphan_dependents: Some(false),
        ..options()
    };
    let again = fixture
        .delete("configmaps", Some("d"), "a", &no_orphans)
        .await;
    assert_eq!(again.expect("unchanged"), (202, told));
}

/// API-116, ST-81: a dry run makes every check and keeps the object.
#[tokio::test]
async fn a_dry_run_removes_nothing() {
    let fixture = with("configmaps", r#"{"metadata":{"name":"a"}}"#).await;
    let dry = DeleteOptions {
        dry_run: true,
        ..options()
    };
    let (_, told) = fixture
        .delete("configmaps", Some("d"), "a", &dry)
        .await
        .expect("answered");
    assert_eq!(told["status"], "Success");
    fixture
        .get("configmaps", Some("d"), "a")
        .await
        .expect("it is there");
    let absent = fixture.delete("configmaps", Some("d"), "b", &dry).await;
    assert_eq!(refusal(absent).0, 404);
}

/// API-112, RG-9: a running pod gets a grace period, others are removed at once.
#[tokio::test]
async fn a_pod_is_deleted_gracefully() {
    let running = r#"{"metadata":{"name":"a"},"spec":{"nodeName":"n",
        "terminationGracePeriodSeconds":20,"containers":[{"name":"c","image":"i"}]}}"#;
    let fixture = with("pods", running).await;
    let (_, told) = fixture
        .delete("pods", Some("d"), "a", &options())
        .await
        .expect("marked");
    assert_eq!(metadata(&told, "deletionGracePeriodSeconds"), 20);
    assert_eq!(metadata(&told, "generation"), 2);
    let version = metadata(&told, "resourceVersion").clone();
    let longer = DeleteOptions {
        grace_period_seconds: Some(60),
        ..options()
    };
    let (_, told) = fixture
        .delete("pods", Some("d"), "a", &longer)
        .await
        .expect("unchanged");
    assert_eq!(metadata(&told, "resourceVersion"), &version);
    let now = DeleteOptions {
        grace_period_seconds: Some(0),
        preconditions: Preconditions {
            uid: None,
            resource_version: version.as_str().map(str::to_owned),
        },
        ..options()
    };
    let dry = DeleteOptions {
        dry_run: true,
        ..now.clone()
    };
    let (_, told) = fixture
        .delete("pods", Some("d"), "a", &dry)
        .await
        .expect("answered");
    assert_eq!(metadata(&told, "deletionGracePeriodSeconds"), 0);
    fixture
        .get("pods", Some("d"), "a")
        .await
        .expect("it is there");
    let (_, told) = fixture
        .delete("pods", Some("d"), "a", &now)
        .await
        .expect("deleted");
    assert_eq!(metadata(&told, "deletionGracePeriodSeconds"), 0);
    assert_eq!(refusal(fixture.get("pods", Some("d"), "a").await).0, 404);
    let pending = r#"{"metadata":{"name":"b"},
        "spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    fixture
        .create("pods", Some("d"), pending)
        .await
        .expect("created");
    fixture
        .delete("pods", Some("d"), "b", &options())
        .await
        .expect("deleted");
    assert!(fixture.names("pods", Some("d")).await.is_empty());
}

/// API-224, API-261: a namespace terminates, system namespaces can't be deleted.
#[tokio::test]
async fn a_namespace_terminates() {
    let fixture = Fixture::new().await;
    let wrong = DeleteOptions {
        preconditions: Preconditions {
            uid: Some("x".to_owned()),
            resource_version: None,
        },
        ..options()
    };
    let (code, _, text) = refusal(fixture.delete("namespaces", None, "d", &wrong).await);
    assert_eq!(code, 409);
    assert!(text.contains("on namespaces \"d\": Precondition failed: UID in precondition: x"));
    let (code, told) = fixture
        .delete("namespaces", None, "d", &options())
        .await
        .expect("marked");
    assert_eq!(
        (code, &told["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    assert!(metadata(&told, "deletionTimestamp").is_string());
    assert_eq!(metadata(&told, "deletionGracePeriodSeconds"), &Value::Null);
    let again = fixture
        .delete("namespaces", None, "d", &options())
        .await
        .expect("unchanged");
    assert_eq!(again, (200, told));
    fixture
        .create("namespaces", None, r#"{"metadata":{"name":"default"}}"#)
        .await
        .expect("made");
    let text = "namespaces \"default\" is forbidden: this namespace may not be deleted".to_owned();
    let refused = fixture
        .delete("namespaces", None, "default", &options())
        .await;
    assert_eq!(refusal(refused), (403, StatusReason::FORBIDDEN, text));
}

/// API-224: a namespace without finalizers in its spec is removed at once.
#[tokio::test]
async fn a_finalized_namespace_goes() {
    let fixture = Fixture::new().await;
    fixture
        .delete("namespaces", None, "d", &options())
        .await
        .expect("terminating");
    let finalize = (None, "d", Some("finalize"));
    let body = r#"{"metadata":{"name":"d"},"spec":{}}"#;
    let (_, last) = fixture
        .put("namespaces", finalize, body)
        .await
        .expect("let go");
    assert_eq!(last.at(&["spec"]), Some(&json!({})));
    assert_eq!(refusal(fixture.get("namespaces", None, "d").await).0, 404);
}

/// SF-16: finalizers that no component would remove are not added.
#[tokio::test]
async fn every_policy_means_background_while_nobody_collects() {
    let fixture = Fixture::new().await;
    for policy in [
        Propagation::Foreground,
        Propagation::Orphan,
        Propagation::Background,
    ] {
        let body = r#"{"metadata":{"name":"a"}}"#;
        fixture
            .create("configmaps", Some("d"), body)
            .await
            .expect("created");
        let options = DeleteOptions {
            propagation_policy: Some(policy),
            ..options()
        };
        fixture
            .delete("configmaps", Some("d"), "a", &options)
            .await
            .expect("deleted");
        assert!(fixture.names("configmaps", Some("d")).await.is_empty());
    }
}

const PROTOBUF: &[u8] = b"k8s\0\x0a\x09\x0a\x02v1";

/// A value that a kube-apiserver on the same store has written.
async fn with_protobuf(key: &str) -> Fixture {
    let fixture = Fixture::new().await;
    let mutation = Mutation {
        key: Key::new(format!("/registry/{key}")),
        expect: Expect::Absent,
        change: Change::Put {
            value: PROTOBUF.into(),
            lease: LeaseId::default(),
        },
        origin: Origin::default(),
        prepared: Prepared::default(),
    };
    let outcome = fixture.engine.commit(mutation).await.expect("a commit");
    assert!(matches!(outcome, Outcome::Committed(_)));
    fixture
}

async fn is_stored(fixture: &Fixture, key: &str) -> bool {
    let key = Key::new(format!("/registry/{key}"));
    let answer = fixture.engine.get(key, At::Latest).await.expect("a read");
    answer.item.is_some()
}

#[tokio::test]
async fn admission_is_asked_about_what_can_not_be_read_api_261_rg_15() {
    let fixture = with_protobuf("namespaces/kube-system").await;
    for dry_run in [false, true] {
        let options = DeleteOptions {
            dry_run,
            ..options()
        };
        let refused = fixture
            .delete("namespaces", None, "kube-system", &options)
            .await;
        let text = "namespaces \"kube-system\" is forbidden: this namespace may not be deleted";
        assert_eq!(
            refusal(refused),
            (403, StatusReason::FORBIDDEN, text.to_owned())
        );
    }
    assert!(is_stored(&fixture, "namespaces/kube-system").await);
}

#[tokio::test]
async fn what_its_content_keeps_is_not_deleted_unread_rg_15() {
    let fixture = with_protobuf("namespaces/prod").await;
    let refused = fixture.delete("namespaces", None, "prod", &options()).await;
    let (code, reason, text) = refusal(refused);
    assert_eq!((code, reason), (409, StatusReason::CONFLICT));
    for part in [
        "namespaces \"prod\"",
        "/registry/namespaces/prod",
        "it is protobuf",
        "store it again as application/json",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(is_stored(&fixture, "namespaces/prod").await);

    let fixture = with_protobuf("pods/d/a").await;
    let refused = fixture.delete("pods", Some("d"), "a", &options()).await;
    let (code, _, text) = refusal(refused);
    assert_eq!(code, 409);
    assert!(text.contains("--grace-period=0 --force"), "{text}");
    assert!(is_stored(&fixture, "pods/d/a").await);
    let forced = DeleteOptions {
        grace_period_seconds: Some(0),
        ..options()
    };
    let deleted = fixture.delete("pods", Some("d"), "a", &forced).await;
    assert_eq!(deleted.expect("deleted").0, 200);
    assert!(!is_stored(&fixture, "pods/d/a").await);
}
