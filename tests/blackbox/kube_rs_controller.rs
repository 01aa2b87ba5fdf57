//! A controller that uses kube-rs' runtime: it protects ConfigMaps by a finalizer, creates a Secret
//! for each, recreates the Secret when it is deleted, and cleans up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

use crate::harness::Daemon;
use crate::kube_rs::client;

const FINALIZER: &str = "example.com/cleanup";
const MANAGER: &str = "controller-of-the-test";
const TIMEOUT: Duration = Duration::from_secs(60);

/// What reconciliations share.
struct Context {
    client: Client,
    /// The names of those that were cleaned up. A cleanup is repeated if its object has changed
    /// meanwhile.
    cleaned: Mutex<BTreeSet<String>>,
}

type Failure = finalizer::Error<kube::Error>;

async fn reconcile(object: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, Failure> {
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), "default");
    finalizer(&api, FINALIZER, object, async |event| match event {
        Event::Apply(object) => has_secret(&object, &context).await,
        Event::Cleanup(object) => {
            context.cleaned.lock().insert(object.name_any());
            Ok(Action::await_change())
        }
    })
    .await
}

/// Applies the Secret of a ConfigMap.
async fn has_secret(object: &ConfigMap, context: &Context) -> Result<Action, kube::Error> {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(object.name_any()),
            owner_references: Some(object.controller_owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        data: object.data.clone().map(|data| {
            let data = data.into_iter();
            data.map(|(name, value)| (name, ByteString(value.into_bytes())))
                .collect()
        }),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), "default");
    let parameters = PatchParams::apply(MANAGER).force();
    api.patch(&object.name_any(), &parameters, &Patch::Apply(&secret))
        .await?;
    Ok(Action::await_change())
}

/// The names of a set.
fn cleaned(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Waits until something is the case.
async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is().await {
        assert!(begun.elapsed() < TIMEOUT, "{what} does not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn configmap(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("k".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

/// API-106, API-113, API-172, API-209.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_owns_restores_and_cleans_up() {
    let daemon = Daemon::start().await;
    let client = client(&daemon).await;
    let configmaps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let context = Arc::new(Context {
        client: client.clone(),
        cleaned: Mutex::default(),
    });
    let controller = Controller::new(configmaps.clone(), watcher::Config::default())
        .owns(secrets.clone(), watcher::Config::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(200)),
            Arc::clone(&context),
        );
    let running = tokio::spawn(controller.for_each(async |_| {}));

    for name in ["a", "b"] {
        let object = configmap(name, "one");
        let parameters = PostParams::default();
        configmaps.create(&parameters, &object).await.unwrap();
    }
    let value_of = async |name: &str| {
        let secret = secrets.get_opt(name).await.unwrap();
        let data = secret.and_then(|secret| secret.data)?;
        Some(String::from_utf8(data["k"].0.clone()).unwrap())
    };
    for name in ["a", "b"] {
        until("its secret", async || value_of(name).await.is_some()).await;
        let held = configmaps.get(name).await.unwrap();
        assert_eq!(held.finalizers(), [FINALIZER]);
    }
    // A change of the owner, and the loss of what it owns.
    let patch = Patch::Merge(json!({"data": {"k": "two"}}));
    configmaps
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    until("a change", async || {
        value_of("a").await.as_deref() == Some("two")
    })
    .await;
    let lost = secrets.get("b").await.unwrap().uid();
    secrets.delete("b", &DeleteParams::default()).await.unwrap();
    until("another secret", async || {
        let found = secrets.get_opt("b").await.unwrap();
        found.is_some_and(|found| found.uid() != lost)
    })
    .await;

    configmaps
        .delete("a", &DeleteParams::foreground())
        .await
        .unwrap();
    until("the end of both", async || {
        configmaps.get_opt("a").await.unwrap().is_none()
            && secrets.get_opt("a").await.unwrap().is_none()
    })
    .await;
    assert_eq!(*context.cleaned.lock(), cleaned(&["a"]));
    assert!(configmaps.get_opt("b").await.unwrap().is_some());
    running.abort();
}
