//! Watchers of kube-rs on custom resources, over kills of the daemon and changes of the definition.

use std::collections::BTreeMap;
use std::fmt::Debug;

use futures_util::{StreamExt, TryStreamExt};
use kube::api::{ListParams, PartialObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::core::CustomResourceExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::InitialListStrategy;
use kube::runtime::{WatchStreamExt, reflector as reflect, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::super::over_each_killed;
use super::{Bakery, Flour, bakeries, bakery, install, until};
use crate::harness::Daemon;
use crate::kube_rs::client;

/// The versions of objects by their names.
type Versions = BTreeMap<String, String>;

fn version_of<T: Resource<DynamicType = ()>>(object: &T) -> (String, String) {
    (object.name_any(), object.resource_version().unwrap())
}

/// Starts a watcher. Returns its store.
fn follow<K>(api: Api<K>, strategy: InitialListStrategy) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let config = watcher::Config {
        initial_list_strategy: strategy,
        ..watcher::Config::default()
    };
    let (reader, writer) = reflector::store();
    let stream = watcher(api, config).default_backoff();
    tokio::spawn(reflect(writer, stream).for_each(async |_| {}));
    reader
}

fn held<K: Resource<DynamicType = ()> + Clone>(store: &Store<K>) -> Versions {
    let state = store.state();
    state.iter().map(|object| version_of(&**object)).collect()
}

/// The stores of the three watchers.
struct Stores {
    api: Api<Bakery>,
    listed: Store<Bakery>,
    streamed: Store<Bakery>,
    metadata: Store<PartialObjectMeta<Bakery>>,
}

impl Stores {
    fn start(api: Api<Bakery>) -> Stores {
        Stores {
            listed: follow(api.clone(), InitialListStrategy::ListWatch),
            streamed: follow(api.clone(), InitialListStrategy::StreamingList),
            metadata: follow(
                Api::default_namespaced(api.clone().into_client()),
                InitialListStrategy::ListWatch,
            ),
            api,
        }
    }

    /// Waits until all stores have the objects of a list.
    async fn equal_a_list(&self) {
        let list = self.api.list(&ListParams::default()).await.unwrap();
        let listed: Versions = list.iter().map(version_of).collect();
        assert!(!listed.is_empty());
        until("the state of the list", async || {
            held(&self.listed) == listed
                && held(&self.streamed) == listed
                && held(&self.metadata) == listed
        })
        .await;
    }

    async fn create(&self, name: &str) {
        let made = bakery(name, Flour::Rye, 1);
        let parameters = PostParams::default();
        self.api.create(&parameters, &made).await.unwrap();
    }
}

/// CRD-91, CRD-215, API-133, API-314: kills, another schema, and another version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_end_equal_to_a_list_whatever_becomes_of_a_definition_crd_91_crd_215() {
    over_each_killed(async |daemon: &mut Daemon| {
        let client = client(daemon).await;
        let stores = Stores::start(bakeries(&client).await);
        stores.create("a").await;
        stores.equal_a_list().await;
        daemon.kill().await;
        daemon.restart().await;
        stores.create("b").await;
        stores.equal_a_list().await;
        let mut changed = Bakery::crd();
        let mut described = serde_json::to_value(&changed.spec.versions).unwrap();
        let properties = "/0/schema/openAPIV3Schema/properties/spec/properties";
        described.pointer_mut(properties).unwrap()["oven"] = json!({"type": "string"});
        changed.spec.versions = serde_json::from_value(described).unwrap();
        install(&client, &changed).await;
        stores.create("c").await;
        stores.equal_a_list().await;
        let mut another = changed.spec.versions[0].clone();
        another.name = "v2".to_owned();
        another.storage = false;
        changed.spec.versions.push(another);
        install(&client, &changed).await;
        stores.create("d").await;
        let parameters = kube::api::DeleteParams::default();
        stores.api.delete("a", &parameters).await.unwrap();
        stores.equal_a_list().await;
    })
    .await;
}

/// API-129: a plain watch from a list, with a bookmark, of the objects that a field selects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_shows_the_objects_that_a_field_selects_crd_198() {
    over_each_killed(async |daemon: &mut Daemon| {
        let client = client(daemon).await;
        let api = bakeries(&client).await;
        let list = api.list(&ListParams::default()).await.unwrap();
        let version = list.metadata.resource_version.unwrap();
        let parameters = WatchParams::default().fields("spec.flour=Wheat");
        let watch = api.watch(&parameters, &version).await.unwrap();
        let mut watch = Box::pin(watch);
        for (name, flour) in [("a", Flour::Rye), ("b", Flour::Wheat)] {
            let made = bakery(name, flour, 1);
            api.create(&PostParams::default(), &made).await.unwrap();
        }
        let parameters = kube::api::DeleteParams::default();
        for name in ["a", "b"] {
            api.delete(name, &parameters).await.unwrap();
        }
        let mut seen = Vec::new();
        while seen.len() < 2 {
            match watch.try_next().await.unwrap() {
                Some(WatchEvent::Added(object)) => seen.push(("added", object.name_any())),
                Some(WatchEvent::Deleted(object)) => seen.push(("deleted", object.name_any())),
                Some(WatchEvent::Bookmark(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(
            seen,
            [("added", "b".to_owned()), ("deleted", "b".to_owned())]
        );
    })
    .await;
}
