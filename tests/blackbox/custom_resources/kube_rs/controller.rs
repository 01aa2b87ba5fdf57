//! A controller of kube-rs' runtime for a kind of its own: it installs the definition, holds
//! Bakeries by a finalizer, applies a ConfigMap for each, writes the status and posts events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event as Posted;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event as Report, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

use super::super::over_each_killed;
use super::{
    Bakery, BakeryCondition, BakeryStatus, Flour, MANAGER, NAME, PATIENCE, bakeries, bakery, until,
};
use crate::harness::Daemon;
use crate::kube_rs::client;

const FINALIZER: &str = "example.com/ovens";

/// The state that reconciliations share.
struct Context {
    client: Client,
    recorder: Recorder,
    /// The names of those that were cleaned up. A cleanup is repeated if its object has changed
    /// meanwhile.
    cleaned: Mutex<BTreeSet<String>>,
}

type Failure = finalizer::Error<kube::Error>;

async fn reconcile(bakery: Arc<Bakery>, context: Arc<Context>) -> Result<Action, Failure> {
    let api: Api<Bakery> = Api::namespaced(context.client.clone(), "default");
    finalizer(&api, FINALIZER, bakery, async |event| match event {
        Event::Apply(bakery) => bakes(&bakery, &api, &context).await,
        Event::Cleanup(bakery) => {
            context.cleaned.lock().insert(bakery.name_any());
            Ok(Action::await_change())
        }
    })
    .await
}

/// Applies the ConfigMap of a Bakery and then its status.
async fn bakes(
    bakery: &Bakery,
    api: &Api<Bakery>,
    context: &Context,
) -> Result<Action, kube::Error> {
    let name = bakery.name_any();
    let loaves = bakery.spec.loaves;
    let child = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: Some(bakery.controller_owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("loaves".to_owned(), loaves.to_string())])),
        ..ConfigMap::default()
    };
    let children: Api<ConfigMap> = Api::namespaced(context.client.clone(), "default");
    let parameters = PatchParams::apply(MANAGER).force();
    children
        .patch(&name, &parameters, &Patch::Apply(&child))
        .await?;
    let status = BakeryStatus {
        loaves,
        selector: Some(format!("bakery={name}")),
        observed_generation: bakery.meta().generation,
        conditions: vec![BakeryCondition {
            kind: "Baked".to_owned(),
            status: "True".to_owned(),
        }],
    };
    let status = json!({
        "apiVersion": Bakery::api_version(&()), "kind": Bakery::kind(&()), "status": status,
    });
    api.patch_status(&name, &parameters, &Patch::Apply(&status))
        .await?;
    let report = Report {
        type_: EventType::Normal,
        reason: "Baked".to_owned(),
        note: Some(format!("{loaves} loaves")),
        action: "Baking".to_owned(),
        secondary: None,
    };
    let reference = bakery.object_ref(&());
    context.recorder.publish(&report, &reference).await?;
    Ok(Action::await_change())
}

/// Starts the controller. It ends when the task is aborted.
fn start(client: &Client, context: Arc<Context>) -> tokio::task::JoinHandle<()> {
    let bakeries: Api<Bakery> = Api::namespaced(client.clone(), "default");
    let children: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let controller = Controller::new(bakeries, watcher::Config::default())
        .owns(children, watcher::Config::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(200)),
            context,
        );
    tokio::spawn(controller.for_each(async |_| {}))
}

/// The clients of a test.
struct Shop {
    bakeries: Api<Bakery>,
    children: Api<ConfigMap>,
}

impl Shop {
    /// Waits until the controller has baked this many loaves.
    async fn baked(&self, name: &str, loaves: i32) -> Bakery {
        until("its status", async || {
            // The daemon may be restarting.
            let Ok(bakery) = self.bakeries.get(name).await else {
                return false;
            };
            let generation = bakery.meta().generation;
            bakery.status.is_some_and(|status| {
                status.loaves == loaves && status.observed_generation == generation
            })
        })
        .await;
        let child = self.children.get(name).await.unwrap();
        assert_eq!(child.data.unwrap()["loaves"], loaves.to_string());
        self.bakeries.get(name).await.unwrap()
    }

    async fn apply(&self, bakery: &Bakery) {
        let parameters = PatchParams::apply("owner-of-the-test");
        self.bakeries
            .patch(&bakery.name_any(), &parameters, &Patch::Apply(bakery))
            .await
            .unwrap();
    }
}

/// Checks the entries of `metadata.managedFields`: each writer has its own.
fn assert_managers(bakery: &Bakery) {
    let entries = bakery.managed_fields().iter().map(|entry| {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        [
            text(&entry.manager),
            text(&entry.operation),
            text(&entry.subresource),
        ]
    });
    let mut entries: Vec<[String; 3]> = entries.collect();
    entries.retain(|[manager, _, _]| manager != "unknown");
    entries.sort();
    let expected = [
        [MANAGER, "Apply", "status"],
        ["owner-of-the-test", "Apply", ""],
    ];
    assert_eq!(entries, expected, "{:?}", bakery.managed_fields());
}

/// Scales a Bakery by a patch and by a replacement of its Scale.
async fn scaled(shop: &Shop, name: &str) {
    let scale = shop.bakeries.get_scale(name).await.unwrap();
    let status = scale.status.clone().unwrap();
    assert_eq!(status.replicas, 2);
    assert_eq!(status.selector.unwrap(), format!("bakery={name}"));
    let patch = Patch::Merge(json!({"spec": {"replicas": 5}}));
    let patched = shop
        .bakeries
        .patch_scale(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.spec.unwrap().replicas, Some(5));
    shop.baked(name, 5).await;
    let mut scale = shop.bakeries.get_scale(name).await.unwrap();
    scale.spec.as_mut().unwrap().replicas = Some(4);
    shop.bakeries
        .replace_scale(name, &kube::api::PostParams::default(), &scale)
        .await
        .unwrap();
    shop.baked(name, 4).await;
}

/// The controller restores a child that is deleted or changed.
async fn restores(shop: &Shop, name: &str) {
    let lost = shop.children.get(name).await.unwrap().uid();
    let parameters = DeleteParams::default();
    shop.children.delete(name, &parameters).await.unwrap();
    until("another child", async || {
        let found = shop.children.get_opt(name).await.unwrap();
        found.is_some_and(|found| found.uid() != lost)
    })
    .await;
    let patch = Patch::Merge(json!({"data": {"loaves": "none"}}));
    shop.children
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
    until("the restored value", async || {
        let found = shop.children.get(name).await.unwrap();
        found.data.unwrap()["loaves"] != "none"
    })
    .await;
}

/// The names of a set.
fn cleaned(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The end of one Bakery, and then of the definition with what is left of it.
async fn ends(shop: &Shop, client: &Client, context: &Context) {
    let parameters = DeleteParams::foreground();
    shop.bakeries.delete("a", &parameters).await.unwrap();
    until("the end of both", async || {
        shop.bakeries.get_opt("a").await.unwrap().is_none()
            && shop.children.get_opt("a").await.unwrap().is_none()
    })
    .await;
    assert_eq!(*context.cleaned.lock(), cleaned(&["a"]));
    // The definition waits for the finalizer of the other, which the controller takes away.
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let uid = definitions.get(NAME).await.unwrap().uid().unwrap();
    let parameters = DeleteParams::default();
    definitions.delete(NAME, &parameters).await.unwrap();
    let deleted = await_condition(definitions, NAME, conditions::is_deleted(&uid));
    let deleted = tokio::time::timeout(PATIENCE, deleted).await;
    deleted.expect("its definition goes").unwrap();
    assert_eq!(*context.cleaned.lock(), cleaned(&["a", "b"]));
    until("the end of the other's child", async || {
        shop.children.get_opt("b").await.unwrap().is_none()
    })
    .await;
    // Over etcd a client may see the end of a definition before the daemon does.
    until("the end of its paths", async || {
        let list = shop.bakeries.list(&ListParams::default()).await;
        matches!(list, Err(kube::Error::Api(status)) if status.code == 404)
    })
    .await;
}

/// CRD-68 to CRD-70, CRD-185, CRD-188, CRD-220, API-113, API-172, API-209.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_works_on_a_kind_of_its_own_crd_185_crd_188_crd_220() {
    over_each_killed(async |daemon: &mut Daemon| {
        let client = client(daemon).await;
        let shop = Shop {
            bakeries: bakeries(&client).await,
            children: Api::namespaced(client.clone(), "default"),
        };
        let reporter = Reporter {
            controller: MANAGER.to_owned(),
            instance: None,
        };
        let context = Arc::new(Context {
            client: client.clone(),
            recorder: Recorder::new(client.clone(), reporter),
            cleaned: Mutex::default(),
        });
        let running = start(&client, Arc::clone(&context));
        shop.apply(&bakery("a", Flour::Rye, 2)).await;
        shop.apply(&bakery("b", Flour::Wheat, 3)).await;
        let a = shop.baked("a", 2).await;
        assert_eq!(a.finalizers(), [FINALIZER]);
        assert_managers(&a);
        let events: Api<Posted> = Api::namespaced(client.clone(), "default");
        until("an event", async || {
            let fields = ListParams::default().fields("regarding.kind=Bakery,regarding.name=a");
            let events = events.list(&fields).await.unwrap();
            let mut notes = events
                .items
                .iter()
                .filter_map(|event| event.note.as_deref());
            notes.any(|note| note == "2 loaves")
        })
        .await;
        scaled(&shop, "a").await;
        restores(&shop, "a").await;
        // The controller goes on after the end of its server.
        daemon.kill().await;
        daemon.restart().await;
        let patch = Patch::Merge(json!({"spec": {"loaves": 6}}));
        shop.bakeries
            .patch("b", &PatchParams::default(), &patch)
            .await
            .unwrap();
        shop.baked("b", 6).await;
        ends(&shop, &client, &context).await;
        running.abort();
    })
    .await;
}
