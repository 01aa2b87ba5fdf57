use futures_util::future::join_all;
use serde_json::json;

use crate::api::object::Object;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::patch::{Patch, PatchKind};
use crate::api::status::StatusReason;
use crate::registry::UpdateSource;
use crate::registry::tests::fixture::{Fixture, refusal};

const A: (Option<&str>, &str, Option<&str>) = (Some("d"), "a", None);
const LEASES: &str = "leases.coordination.k8s.io";
const DEPLOYMENTS: &str = "deployments.apps";
const STALE: &str = "Operation cannot be fulfilled on configmaps \"a\": the object has been \
                     modified; please apply your changes to the latest version and try again";

async fn with_configmap() -> (Fixture, String) {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"name":"a","labels":{"l":"1"}},"data":{"k":"1"}}"#;
    let made = fixture
        .create("configmaps", Some("d"), body)
        .await
        .expect("created");
    let version = made.resource_version().to_owned();
    (fixture, version)
}

/// API-102, RG-5: a version is an optimistic lock. Without a version the last write wins.
#[tokio::test]
async fn a_version_in_the_body_is_an_optimistic_lock() {
    let (fixture, version) = with_configmap().await;
    let body = |version: &str, k: &str| {
        format!(
            r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}},"data":{{"k":"{k}"}}}}"#
        )
    };
    let (created, changed) = fixture
        .put("configmaps", A, &body(&version, "2"))
        .await
        .expect("current");
    assert!(!created);
    assert_ne!(changed.resource_version(), version);
    assert_eq!(changed.at(&["metadata", "labels"]), None);
    let stale = fixture.put("configmaps", A, &body(&version, "3")).await;
    assert_eq!(
        refusal(stale),
        (409, StatusReason::CONFLICT, STALE.to_owned())
    );
    for unset in ["", "0"] {
        fixture
            .put("configmaps", A, &body(unset, "4"))
            .await
            .expect("unconditional");
    }
    let odd = fixture.put("configmaps", A, &body("abc", "5")).await;
    assert_eq!(refusal(odd).0, 500);
}

/// API-105, PF-3, ST-55: an update without a change writes nothing. A stale version is still
/// refused.
#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let (fixture, version) = with_configmap().await;
    let same = r#"{"metadata":{"name":"a","labels":{"l":"1"},"annotations":{},"finalizers":[]},
        "data":{"k":"1"},"binaryData":null}"#;
    let (_, put) = fixture.put("configmaps", A, same).await.expect("no change");
    assert_eq!(put.resource_version(), version);
    for patch in ["{}", r#"{"data":{"k":"1"}}"#, r#"{"data":{"absent":null}}"#] {
        let patched = fixture
            .merge("configmaps", A, patch)
            .await
            .expect("no change");
        assert_eq!(patched.resource_version(), version);
    }
    let stale = r#"{"metadata":{"name":"a","resourceVersion":"1","labels":{"l":"1"}},
        "data":{"k":"1"}}"#;
    assert_eq!(refusal(fixture.put("configmaps", A, stale).await).2, STALE);
}

/// API-92, API-99, API-154: an update must be for the object in the URL.
#[tokio::test]
async fn the_body_is_of_the_object_in_the_url() {
    let (fixture, _) = with_configmap().await;
    let bad = |text: &str| (400, StatusReason::BAD_REQUEST, text.to_owned());
    let other = bad("the name of the object (b) does not match the name on the URL (a)");
    let unnamed =
        bad("the name of the object (a based on URL) was undeterminable: name must be provided");
    let elsewhere = bad(
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    let put = |body| fixture.put("configmaps", A, body);
    assert_eq!(refusal(put(r#"{"metadata":{"name":"b"}}"#).await), other);
    assert_eq!(refusal(put(r#"{"metadata":{}}"#).await), unnamed);
    assert_eq!(
        refusal(put(r#"{"metadata":{"name":"a","namespace":"e"}}"#).await),
        elsewhere
    );
    let merge = |patch| fixture.merge("configmaps", A, patch);
    assert_eq!(refusal(merge(r#"{"metadata":{"name":"b"}}"#).await), other);
    assert_eq!(
        refusal(merge(r#"{"metadata":{"name":null}}"#).await),
        unnamed
    );
    assert_eq!(
        refusal(merge(r#"{"metadata":{"namespace":"e"}}"#).await),
        elsewhere
    );
    merge(r#"{"metadata":{"namespace":null}}"#)
        .await
        .expect("it means the URL's");
    assert_eq!(refusal(merge(r#"{"kind":"Secret"}"#).await).0, 422);
}

/// API-100, API-101, RG-4, API-152: a uid is a precondition in a PUT and immutable in a patch.
#[tokio::test]
async fn another_uid_is_refused() {
    let (fixture, _) = with_configmap().await;
    let uid = fixture
        .get("configmaps", Some("d"), "a")
        .await
        .expect("stored")
        .uid()
        .to_owned();
    let put = fixture
        .put("configmaps", A, r#"{"metadata":{"name":"a","uid":"x"}}"#)
        .await;
    let text = format!(
        "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: \
         4, Key: /registry/configmaps/d/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: x, UID in object meta: {uid}"
    );
    assert_eq!(refusal(put), (409, StatusReason::CONFLICT, text));
    let same = format!(r#"{{"metadata":{{"name":"a","uid":"{uid}"}}}}"#);
    fixture
        .put("configmaps", A, &same)
        .await
        .expect("the right uid");
    let patch = fixture
        .merge("configmaps", A, r#"{"metadata":{"uid":"x"}}"#)
        .await;
    let text = "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable";
    assert_eq!(
        refusal(patch),
        (422, StatusReason::INVALID, text.to_owned())
    );
    let lease = r#"{"metadata":{"name":"a","uid":"x"}}"#;
    let text = "Operation cannot be fulfilled on leases.coordination.k8s.io \"a\": StorageError: \
                invalid object, Code: 4, Key: /registry/leases/d/a, ResourceVersion: 0, \
                AdditionalErrorMsg: Precondition failed: UID in precondition: x, UID in object \
                meta: ";
    assert_eq!(
        refusal(fixture.put(LEASES, A, lease).await),
        (409, StatusReason::CONFLICT, text.to_owned())
    );
}

/// API-101, API-102, API-108, http.md 6.2: PUT creates leases, and later updates need a version.
#[tokio::test]
async fn some_kinds_are_created_by_an_update() {
    let (fixture, _) = with_configmap().await;
    let absent = fixture.put(
        "configmaps",
        (Some("d"), "b", None),
        r#"{"metadata":{"name":"b"}}"#,
    );
    let text = "configmaps \"b\" not found".to_owned();
    assert_eq!(refusal(absent.await), (404, StatusReason::NOT_FOUND, text));
    let patch = fixture.merge(LEASES, A, "{}").await;
    let text = "leases.coordination.k8s.io \"a\" not found".to_owned();
    assert_eq!(refusal(patch), (404, StatusReason::NOT_FOUND, text));
    let body = r#"{"metadata":{"name":"a","resourceVersion":"7"},"spec":{"holderIdentity":"me"}}"#;
    let (created, made) = fixture.put(LEASES, A, body).await.expect("created");
    assert!(created);
    assert_eq!(made.uid().len(), 36);
    let body = r#"{"metadata":{"name":"a"},"spec":{"holderIdentity":"you"}}"#;
    let text = "leases.coordination.k8s.io \"a\" is invalid: metadata.resourceVersion: Invalid \
                value: 0: must be specified for an update";
    assert_eq!(
        refusal(fixture.put(LEASES, A, body).await),
        (422, StatusReason::INVALID, text.to_owned())
    );
    let patched = fixture
        .merge(LEASES, A, r#"{"spec":{"holderIdentity":"you"}}"#)
        .await;
    assert_eq!(
        patched.expect("patched").text(&["spec", "holderIdentity"]),
        "you"
    );
}

/// RG-6, API-103: fields that the server has set stay, whatever the update contains.
#[tokio::test]
async fn an_update_keeps_what_the_server_has_set() {
    let fixture = Fixture::new().await;
    let spec = r#""spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}"#;
    let body = |metadata: &str| format!(r#"{{"metadata":{{"name":"a"{metadata}}},{spec}}}"#);
    let made = fixture.create("pods", Some("d"), &body("")).await;
    made.expect("created");
    let options = DeleteOptions::default();
    let deleted = fixture.delete("pods", Some("d"), "a", &options).await;
    deleted.expect("it ends gracefully");
    let before = fixture.get("pods", Some("d"), "a").await.expect("there");
    assert!(before.is_being_deleted());
    let changed = body(r#","generation":9,"labels":{"l":"1"}"#);
    let (_, after) = fixture.put("pods", A, &changed).await.expect("updated");
    assert_eq!(after.text(&["metadata", "labels", "l"]), "1");
    for name in [
        "generation",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let of = |object: &Object| object.at(&["metadata", name]).cloned();
        assert!(of(&before).is_some(), "{name}");
        assert_eq!(of(&after), of(&before), "{name}");
    }
}

/// RG-6: a manager that sends the same fields later does not cause a write.
#[tokio::test]
async fn the_time_of_a_manager_alone_writes_nothing() {
    let (fixture, version) = with_configmap().await;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let body = r#"{"metadata":{"name":"a","labels":{"l":"1"}},"data":{"k":"1"}}"#;
    let (_, same) = fixture.put("configmaps", A, body).await.expect("the same");
    assert_eq!(same.resource_version(), version);
}

/// API-106, RG-7: the update that removes the last finalizer succeeds and removes the object.
#[tokio::test]
async fn the_last_finalizer_removes_a_deleted_object() {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"name":"a","finalizers":["ex.com/a","ex.com/b"]}}"#;
    fixture
        .create("configmaps", Some("d"), body)
        .await
        .expect("created");
    let options = DeleteOptions::default();
    fixture
        .delete("configmaps", Some("d"), "a", &options)
        .await
        .expect("marked");
    let put = r#"{"metadata":{"name":"a","finalizers":["ex.com/b"]},"data":{"k":"1"}}"#;
    let (_, held) = fixture.put("configmaps", A, put).await.expect("one less");
    assert!(held.is_being_deleted());
    let dry = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    let store = fixture.store("configmaps");
    let patch = br#"{"metadata":{"finalizers":[]}}"#;
    let patch = || UpdateSource::Patch(Patch::parse(PatchKind::Merge, patch).expect("a patch"));
    let (_, shown) = fixture
        .update(&store, A, patch(), &dry)
        .await
        .expect("answered");
    assert!(shown.finalizers().is_empty());
    assert_eq!(
        fixture
            .get("configmaps", Some("d"), "a")
            .await
            .expect("still there"),
        held
    );
    let options = WriteOptions::default();
    let (_, last) = fixture
        .update(&store, A, patch(), &options)
        .await
        .expect("answered");
    assert!(last.finalizers().is_empty() && last.is_being_deleted());
    assert_eq!(last.text(&["data", "k"]), "1");
    assert_eq!(
        refusal(fixture.get("configmaps", Some("d"), "a").await).0,
        404
    );
}

/// API-212 to API-214: status has its own endpoint, which creates nothing.
#[tokio::test]
async fn status_is_written_through_its_own_endpoint() {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"name":"a"},"status":{"replicas":9},"spec":{"replicas":1,
        "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    fixture
        .create(DEPLOYMENTS, Some("d"), body)
        .await
        .expect("created");
    let status = (Some("d"), "a", Some("status"));
    let patch = r#"{"metadata":{"labels":{"l":"1"},"annotations":{"n":"1"}},
        "spec":{"replicas":7},"status":{"replicas":7}}"#;
    let patched = fixture
        .merge(DEPLOYMENTS, status, patch)
        .await
        .expect("patched");
    assert_eq!(patched.at(&["spec", "replicas"]), Some(&json!(1)));
    assert_eq!(patched.at(&["status", "replicas"]), Some(&json!(7)));
    assert_eq!(patched.at(&["metadata", "labels"]), None);
    assert_eq!(
        patched.at(&["metadata", "annotations"]),
        Some(&json!({"n": "1"}))
    );
    assert_eq!(patched.at(&["metadata", "generation"]), Some(&json!(1)));
    let through_main = fixture
        .merge(DEPLOYMENTS, A, r#"{"status":{"replicas":8}}"#)
        .await;
    let through_main = through_main.expect("ignored");
    assert_eq!(through_main.resource_version(), patched.resource_version());
}

/// API-107, API-151: concurrent patches of one object all succeed.
#[tokio::test]
async fn patches_that_race_are_all_applied() {
    let (fixture, _) = with_configmap().await;
    let patches: Vec<String> = (0..50)
        .map(|n| format!(r#"{{"data":{{"k{n}":"{n}"}}}}"#))
        .collect();
    let answers = join_all(
        patches
            .iter()
            .map(|patch| fixture.merge("configmaps", A, patch)),
    )
    .await;
    assert!(answers.iter().all(Result::is_ok));
    let end = fixture
        .get("configmaps", Some("d"), "a")
        .await
        .expect("stored");
    let data = end
        .at(&["data"])
        .and_then(serde_json::Value::as_object)
        .expect("a map");
    assert_eq!(data.len(), 51);
}

/// API-151: only a version in the patch itself is an optimistic lock.
#[tokio::test]
async fn a_version_in_a_patch_is_a_lock() {
    let (fixture, version) = with_configmap().await;
    fixture
        .merge("configmaps", A, r#"{"data":{"k":"2"}}"#)
        .await
        .expect("patched");
    let patch = format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"data":{{"k":"3"}}}}"#);
    let stale = refusal(fixture.merge("configmaps", A, &patch).await);
    assert_eq!(stale, (409, StatusReason::CONFLICT, STALE.to_owned()));
}

/// API-144, ST-82: a dry run answers with the new content at the old version.
#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let (fixture, version) = with_configmap().await;
    let store = fixture.store("configmaps");
    let dry = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    let patch = Patch::parse(PatchKind::Merge, br#"{"data":{"k":"2"}}"#).expect("a patch");
    let source = UpdateSource::Patch(patch);
    let (_, shown) = fixture
        .update(&store, A, source, &dry)
        .await
        .expect("answered");
    assert_eq!(
        (shown.text(&["data", "k"]), shown.resource_version()),
        ("2", version.as_str())
    );
    let stored = fixture
        .get("configmaps", Some("d"), "a")
        .await
        .expect("stored");
    assert_eq!(stored.text(&["data", "k"]), "1");
}
