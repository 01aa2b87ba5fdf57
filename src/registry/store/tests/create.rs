use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::FutureExt;
use serde_json::json;

use crate::admission::{Admission, Admitted, Attributes, MutatingPlugin, Plugin};
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::status::StatusReason;
use crate::registry::store::{RegistryStore, StoreOptions};
use crate::registry::tests::fixture::{Fixture, refusal, shown};
use crate::registry::tests::hooked::Hooked;
use crate::storage::{ResourceStorage, StorageError, StorageErrorKind};

const DRY: WriteOptions = WriteOptions {
    dry_run: true,
    field_manager: String::new(),
    field_validation: crate::api::options::FieldValidation::Warn,
    given_validation: None,
    force: false,
};

/// API-91, API-94: fields that the server sets are not taken from the body.
#[tokio::test]
async fn a_created_object_has_the_servers_system_fields() {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"name":"a","uid":"x","creationTimestamp":"2001-01-01T00:00:00Z",
        "deletionTimestamp":"2001-01-01T00:00:00Z","deletionGracePeriodSeconds":3,"selfLink":"/x",
        "labels":{},"finalizers":null},"data":{"k":"1"}}"#;
    let made = fixture
        .create("configmaps", Some("d"), body)
        .await
        .expect("created");
    assert_eq!(made.uid().len(), 36);
    assert_eq!(made.namespace(), "d");
    assert_ne!(made.meta("creationTimestamp"), "2001-01-01T00:00:00Z");
    let shown = made.clone().into_document();
    let metadata = shown["metadata"].as_object().expect("metadata");
    let mut members: Vec<&String> = metadata.keys().collect();
    members.sort();
    assert_eq!(
        members,
        [
            "creationTimestamp",
            "managedFields",
            "name",
            "namespace",
            "resourceVersion",
            "uid"
        ]
    );
    let got = fixture
        .get("configmaps", Some("d"), "a")
        .await
        .expect("stored");
    assert_eq!(got, made);
}

/// API-97, RG-3: a name can't be created twice, and the refusal says whether the object is being
/// deleted.
#[tokio::test]
async fn a_name_that_is_taken_is_refused() {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"name":"a","finalizers":["ex.com/a"]}}"#;
    fixture
        .create("configmaps", Some("d"), body)
        .await
        .expect("created");
    let text = "configmaps \"a\" already exists";
    let again = refusal(fixture.create("configmaps", Some("d"), body).await);
    assert_eq!(again, (409, StatusReason::ALREADY_EXISTS, text.to_owned()));
    let dry = refusal(
        fixture
            .create_with("configmaps", Some("d"), body, &DRY)
            .await,
    );
    assert_eq!(dry, again);
    let options = DeleteOptions::default();
    fixture
        .delete("configmaps", Some("d"), "a", &options)
        .await
        .expect("marked");
    let again = refusal(fixture.create("configmaps", Some("d"), body).await);
    let text = format!("object is being deleted: {text}");
    assert_eq!(again, (409, StatusReason::ALREADY_EXISTS, text));
}

/// API-96, ST-31.
#[tokio::test]
async fn a_version_may_not_be_given_unless_it_is_0() {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"name":"a","resourceVersion":"5"}}"#;
    let text = "resourceVersion should not be set on objects to be created".to_owned();
    let answer = refusal(fixture.create("configmaps", Some("d"), body).await);
    assert_eq!(answer, (500, StatusReason::UNKNOWN, text));
    let body = r#"{"metadata":{"name":"a","resourceVersion":"0"}}"#;
    fixture
        .create("configmaps", Some("d"), body)
        .await
        .expect("created");
}

/// API-92, API-203: the URL decides the namespace.
#[tokio::test]
async fn the_namespace_is_that_of_the_url() {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"name":"a","namespace":"elsewhere"}}"#;
    let text = "the namespace of the provided object does not match the namespace sent on the \
                request";
    let answer = refusal(fixture.create("configmaps", Some("d"), body).await);
    assert_eq!(answer, (400, StatusReason::BAD_REQUEST, text.to_owned()));
    let made = fixture.create("nodes", None, body).await.expect("created");
    assert_eq!(made.namespace(), "");
}

/// API-95, API-148.
#[tokio::test]
async fn an_object_needs_a_name() {
    let fixture = Fixture::new().await;
    let answer = refusal(
        fixture
            .create("configmaps", Some("d"), r#"{"metadata":{}}"#)
            .await,
    );
    let text = "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is \
                required";
    assert_eq!(answer, (422, StatusReason::INVALID, text.to_owned()));
}

/// API-199: five characters are added to at most 58.
#[tokio::test]
async fn names_are_generated_from_a_base() {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"generateName":"gen-"}}"#;
    let made = fixture
        .create("configmaps", Some("d"), body)
        .await
        .expect("created");
    assert!(made.name().starts_with("gen-"));
    assert_eq!(made.name().len(), 9);
    assert_eq!(made.meta("generateName"), "gen-");
    let long = format!(r#"{{"metadata":{{"generateName":"{}"}}}}"#, "a".repeat(80));
    let made = fixture
        .create("configmaps", Some("d"), &long)
        .await
        .expect("created");
    assert_eq!(made.name().len(), 63);
}

/// API-144, ST-80: a dry run returns a complete object without a version and stores nothing.
#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"name":"a"},"data":{"k":"1"}}"#;
    let made = fixture
        .create_with("configmaps", Some("d"), body, &DRY)
        .await
        .expect("answered");
    assert_eq!((made.uid().len(), made.resource_version()), (36, ""));
    assert_eq!(
        refusal(fixture.get("configmaps", Some("d"), "a").await).0,
        404
    );
}

/// API-261: the namespace must exist and not be terminating.
#[tokio::test]
async fn nothing_is_created_in_a_namespace_that_is_missing_or_terminating() {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"name":"late"}}"#;
    let missing = (
        404,
        StatusReason::NOT_FOUND,
        "namespaces \"none\" not found".to_owned(),
    );
    for options in [WriteOptions::default(), DRY] {
        let answer = fixture
            .create_with("configmaps", Some("none"), body, &options)
            .await;
        assert_eq!(refusal(answer), missing);
    }
    let lease = fixture.put(
        "leases.coordination.k8s.io",
        (Some("none"), "late", None),
        body,
    );
    assert_eq!(refusal(lease.await), missing);
    let options = DeleteOptions::default();
    fixture
        .delete("namespaces", None, "d", &options)
        .await
        .expect("terminating");
    let status = fixture
        .create("configmaps", Some("d"), body)
        .await
        .expect_err("refused");
    let text = "configmaps \"late\" is forbidden: unable to create new content in namespace d \
                because it is being terminated";
    assert_eq!((status.code, status.message.as_str()), (403, text));
    let cause = status.details.unwrap_or_default().causes.remove(0);
    assert_eq!(cause.reason, "NamespaceTerminating");
    assert_eq!(cause.message, "namespace d is being terminated");
    assert_eq!(cause.field, "metadata.namespace");
}

/// API-224, through the store.
#[tokio::test]
async fn a_namespace_is_created_active_with_a_finalizer() {
    let fixture = Fixture::new().await;
    let made = fixture.get("namespaces", None, "d").await.expect("stored");
    assert_eq!(made.text(&["status", "phase"]), "Active");
    assert_eq!(
        made.at(&["spec", "finalizers"]),
        Some(&serde_json::json!(["kubernetes"]))
    );
    let label = made.text(&["metadata", "labels", "kubernetes.io/metadata.name"]);
    assert_eq!(label, "d");
}

/// API-199, RG-3: after eight attempts a generated name is refused with its own message.
#[tokio::test]
async fn generated_names_are_tried_eight_times() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let fixture = Fixture::over(|storages| {
        let attempts = attempts.clone();
        let mut storage = Hooked::new(storages.storage);
        storage.before_create = Box::new(move |key| {
            attempts.fetch_add(1, Ordering::SeqCst);
            let error = StorageError {
                key: key.to_owned(),
                kind: StorageErrorKind::KeyExists,
            };
            std::future::ready(Err(error)).boxed()
        });
        ResourceStorage {
            storage: Arc::new(storage),
            ..storages
        }
    });
    let body = r#"{"metadata":{"generateName":"n-"}}"#;
    let status = fixture
        .create("nodes", None, body)
        .await
        .expect_err("all names are taken");
    assert_eq!(attempts.load(Ordering::SeqCst), 8);
    assert_eq!((status.code, status.retry_after_seconds()), (409, 1));
    let text = "already exists, the server was not able to generate a unique name for the object";
    assert!(status.message.ends_with(text), "{}", status.message);
    let named = fixture
        .create("nodes", None, r#"{"metadata":{"name":"n"}}"#)
        .await;
    assert_eq!(
        refusal(named),
        (
            409,
            StatusReason::ALREADY_EXISTS,
            "nodes \"n\" already exists".to_owned()
        )
    );
    assert_eq!(attempts.load(Ordering::SeqCst), 9);
}

/// API-225, API-261: a namespace is not released while the outcome of a write is unknown, even if
/// the client has disconnected.
#[tokio::test]
async fn a_creation_whose_client_hangs_up_is_under_way_until_it_is_decided() {
    let fixture = Fixture::new().await;
    let creations = fixture.store("configmaps").pending_creates().clone();
    let body = r#"{"metadata":{"name":"a"}}"#;
    let leases = "leases.coordination.k8s.io";
    for resource in ["configmaps", leases] {
        let held = fixture.engine.hold_commits().await;
        let given_up = if resource == leases {
            let path = (Some("d"), "a", None);
            fixture.put(resource, path, body).now_or_never().is_none()
        } else {
            let creating = fixture.create(resource, Some("d"), body);
            creating.now_or_never().is_none()
        };
        assert!(given_up, "the storage was to be busy with others");
        let mut settling = Box::pin(creations.settle());
        assert_eq!(settling.as_mut().now_or_never(), None, "{resource}");
        drop(held);
        settling.await;
        assert_eq!(fixture.names(resource, Some("d")).await, ["a"]);
    }
}

/// An admission plugin that leaves unreadable managedFields.
struct Breaking;

impl Plugin for Breaking {
    fn name(&self) -> &'static str {
        "Breaking"
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for Breaking {
    fn admit<'p>(&'p self, _: &'p Attributes<'_>, object: Option<&'p mut Object>) -> Admitted<'p> {
        if let Some(object) = object {
            let broken = json!([{ "manager": "broken" }]);
            let metadata = object.metadata_mut();
            metadata.insert("managedFields".to_owned(), broken);
        }
        async { Ok(()) }.boxed()
    }
}

/// API-189: the entries from before admission are stored, and the client is warned.
#[tokio::test]
async fn managed_fields_that_admission_breaks_are_restored_api_189() {
    let fixture = Fixture::new().await;
    let plain = fixture.store("configmaps");
    let options = StoreOptions {
        admission: Admission::new(vec![Arc::new(Breaking)]),
        ..StoreOptions::default()
    };
    let definition = plain.definition().clone();
    let store = RegistryStore::new(definition, plain.storages().clone(), options);
    let body = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"},
        "data": {"k": "1"}});
    let object = Object::of(body.as_object().expect("an object").clone());
    let options = WriteOptions::default();
    let creating = store.create(&fixture.context, Some("d"), object, &options);
    let created = shown(&creating.await.expect("created"));
    let created = created.into_document();
    let entry = |member: &str| created["metadata"]["managedFields"][0][member].clone();
    assert_eq!(entry("operation"), "Update");
    let fields = json!({"f:data": {".": {}, "f:k": {}}});
    assert_eq!(entry("fieldsV1"), fields);
    let warnings = fixture.context.warnings.take();
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    let expected = ".metadata.managedFields was in an invalid state after admission";
    assert!(warning.contains(expected), "{warning}");
}
