use std::sync::Arc;
use std::time::Duration;

use actors::engine::{Engine, MemoryEngine, Retention};
use actors::object::CachedObject;
use actors::supervisor::{ActorSystem, ActorSystemConfig};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::extensions::ExtensionContent;
use super::namespaced_resources_deleter::{NamespacedResourcesDeleter, Progress};
use super::{
    Controllers, Milestone, Protections, Provisions, Setup, Sharing, Simulation,
    ensure_system_namespaces,
};
use crate::api::options::DeleteOptions;
use crate::api::resource::ResourceDefinition;
use crate::kinds::definitions::built_in;
use crate::kinds::strategies::SYSTEM_NAMESPACES;
use crate::registry::deletion::Collector;
use crate::registry::tests::fixture::{Fixture, ROOT, refusal};
use crate::registry::tests::hooked::Hooked;
use crate::registry::{NamespacedName, Registry};
use crate::storage::ResourceStorage;
use crate::storage::factory::{Engines, StorageFactory, StorageOptions, StoragePlan};
use crate::storage::transformer::Identity;

/// For each collection the least body and one with most fields.
const BODIES: &str = include_str!("../../tools/facts/sweep_bodies.json");

/// Awaited events need milliseconds. The limit is for busy machines.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn delete(fixture: &Fixture, resource: &str, namespace: Option<&str>, name: &str) {
    let options = DeleteOptions::default();
    fixture
        .delete(resource, namespace, name, &options)
        .await
        .expect("it may be deleted");
}

/// A namespace, as the controller finds it in its cache.
pub(super) async fn terminating(fixture: &Fixture, name: &str) -> Arc<CachedObject> {
    let namespaces = fixture.store("namespaces");
    let namespace = namespaces.get(NamespacedName::in_cluster(name), "").await;
    namespace.expect("it is there")
}

pub(super) async fn emptied(fixture: &Fixture, name: &str) -> Progress {
    let namespace = terminating(fixture, name).await;
    NamespacedResourcesDeleter::new(fixture.registry.clone(), None)
        .empty(&namespace, &mut ExtensionContent::default())
        .await
        .expect("no refusal")
}

/// API-262: the system namespaces are created once.
#[tokio::test]
async fn system_namespaces_are_created_when_they_are_missing() {
    let fixture = Fixture::new().await;
    assert_eq!(ensure_system_namespaces(&fixture.registry).await, Ok(4));
    assert_eq!(ensure_system_namespaces(&fixture.registry).await, Ok(0));
    delete(&fixture, "namespaces", None, "kube-node-lease").await;
    emptied(&fixture, "kube-node-lease").await;
    assert_eq!(ensure_system_namespaces(&fixture.registry).await, Ok(1));
    let mut expected = SYSTEM_NAMESPACES.to_vec();
    expected.push("d");
    expected.sort_unstable();
    assert_eq!(fixture.names("namespaces", None).await, expected);
}

/// The least valid object of a kind, with the name `a`.
fn least_body(row: &ResourceDefinition) -> String {
    let bodies: Value = serde_json::from_str(BODIES).expect("JSON");
    let mut bodies = bodies.as_object().expect("by path").iter();
    let is_own =
        |body: &Value| body["kind"] == *row.kind && body["apiVersion"] == *row.api_version();
    let (_, found) = bodies
        .find(|(_, found)| is_own(&found[0]))
        .expect("a body of each kind");
    let mut body = found[0].clone();
    body["metadata"]["name"] = json!("a");
    body.to_string()
}

/// API-225: contents of every kind are deleted, and then the namespace. Other objects stay.
#[tokio::test]
async fn a_deleted_namespace_is_emptied_and_goes() {
    let fixture = Fixture::new().await;
    fixture
        .create("namespaces", None, r#"{"metadata":{"name":"e"}}"#)
        .await
        .expect("created");
    // Other versions and groups of an object are the same object.
    let rows = built_in().into_iter();
    let rows = rows.filter(|row| row.is_namespaced() && !row.has_own_form());
    let rows: Vec<_> = rows.collect();
    for row in &rows {
        for namespace in ["d", "e"] {
            // Some name the namespace that they are about.
            let own = format!("\"namespace\":\"{namespace}\"");
            let body = least_body(row).replace("\"namespace\":\"default\"", &own);
            let created = fixture
                .create(&row.qualified(), Some(namespace), &body)
                .await;
            created.expect("created");
        }
    }
    delete(&fixture, "namespaces", None, "d").await;
    assert_eq!(emptied(&fixture, "d").await, Progress::Done);
    assert_eq!(refusal(fixture.get("namespaces", None, "d").await).0, 404);
    for row in &rows {
        assert!(
            fixture.names(&row.qualified(), Some("d")).await.is_empty(),
            "{}",
            row.plural
        );
        assert_eq!(
            fixture.names(&row.qualified(), Some("e")).await,
            ["a"],
            "{}",
            row.plural
        );
    }
}

/// API-224: the controller leaves finalizers in the metadata of a namespace alone.
#[tokio::test]
async fn a_namespace_with_finalizers_of_its_own_stays_when_it_is_empty() {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"name":"own","finalizers":["ex.com/a"]}}"#;
    fixture
        .create("namespaces", None, body)
        .await
        .expect("created");
    delete(&fixture, "namespaces", None, "own").await;
    assert_eq!(emptied(&fixture, "own").await, Progress::Done);
    let left = fixture
        .get("namespaces", None, "own")
        .await
        .expect("it is held");
    assert_eq!(left.at(&["spec"]), Some(&json!({})));
    assert_eq!(emptied(&fixture, "own").await, Progress::Done);
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    fixture
        .merge("namespaces", (None, "own", None), patch)
        .await
        .expect("let go");
    assert_eq!(refusal(fixture.get("namespaces", None, "own").await).0, 404);
}

/// The number of objects is larger than PAGE.
#[tokio::test]
async fn a_large_namespace_is_emptied_in_pages() {
    let fixture = Fixture::new().await;
    for number in 0..1200 {
        let body = format!(r#"{{"metadata":{{"name":"c{number}"}}}}"#);
        fixture
            .create("configmaps", Some("d"), &body)
            .await
            .expect("created");
    }
    delete(&fixture, "namespaces", None, "d").await;
    assert_eq!(emptied(&fixture, "d").await, Progress::Done);
    assert!(fixture.names("configmaps", Some("d")).await.is_empty());
}

/// A namespace that needs much time is put back after the limit.
#[tokio::test]
async fn a_namespace_is_not_worked_on_for_ever() {
    let fixture = Fixture::new().await;
    delete(&fixture, "namespaces", None, "d").await;
    let under_way = fixture.store("configmaps").pending_creates().begin();
    tokio::time::pause();
    assert_eq!(emptied(&fixture, "d").await, Progress::Unfinished);
    drop(under_way);
    assert_eq!(emptied(&fixture, "d").await, Progress::Done);
}

/// A fixture with watch caches, as in the daemon.
pub(super) fn cached_fixture() -> (Fixture, ActorSystem) {
    hooked_fixture(|storage| storage)
}

fn hooked_fixture(hook: impl Fn(ResourceStorage) -> ResourceStorage) -> (Fixture, ActorSystem) {
    let engine: Arc<dyn Engine> = MemoryEngine::new();
    let options = StorageOptions {
        root: ROOT.into(),
        ..StorageOptions::default()
    };
    let factory = StorageFactory::new(options, built_in()).expect("a factory");
    let engines = Engines::of(engine.clone());
    let plans = factory.plans(&engines, &Identity).expect("plans");
    let specs = plans.iter().map(StoragePlan::cacher_spec).collect();
    let retention = Retention {
        age: Duration::from_secs(3600),
        bytes: 1 << 30,
    };
    let actor_system = ActorSystem::start(ActorSystemConfig::of(engine.clone(), retention), specs);
    let actor_system = actor_system.expect("threads can be started");
    let mut fixture = Fixture::over(|storages| storages);
    let plans = plans.iter();
    let versions = plans.flat_map(|plan| plan.build_versions(&actor_system));
    let storages = versions.map(|(row, storages)| (row, hook(storages)));
    fixture.registry = Registry::new(ROOT, Duration::ZERO, Collector::Running, storages.collect());
    (fixture, actor_system)
}

/// All controllers over these caches.
pub(super) fn started(
    fixture: &Fixture,
    actor_system: &ActorSystem,
    sharing: Sharing,
) -> Controllers {
    let namespaces = actor_system.cacher("namespaces").expect("it is cached");
    let caches = actor_system.clone();
    let setup = Setup {
        registry: fixture.registry.clone(),
        namespaces,
        caches: Arc::new(move |resource| caches.cacher(resource)),
        empties_namespaces: true,
        extensions: None,
        namespace_grace: Duration::ZERO,
        collects_garbage: true,
        aggregates_roles: false,
        checks_policies: false,
        provisions: Provisions::default(),
        protections: Protections::default(),
        simulation: Simulation::default(),
        further: Vec::new(),
        stands_by: Milestone::default(),
    };
    Controllers::start(setup, sharing)
}

/// Waits until a read of the namespace answers with this code.
async fn until_namespace_answers(fixture: &Fixture, name: &str, code: u16) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = fixture.get("namespaces", None, name).await;
        if found.map_or_else(|status| status.code, |_| 200) == code {
            return;
        }
        assert!(Instant::now() < deadline, "{name} never answered {code}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// API-225, API-262: the controller follows the cache and ends when it is stopped.
#[test]
fn the_namespace_controller_follows_the_namespaces() {
    actix_rt::System::new().block_on(async {
        let (fixture, actor_system) = cached_fixture();
        actor_system.all_ready().await;
        let controllers = started(&fixture, &actor_system, Sharing::Alone);
        for name in SYSTEM_NAMESPACES {
            until_namespace_answers(&fixture, name, 200).await;
        }
        let body = r#"{"metadata":{"name":"n"}}"#;
        fixture
            .create("namespaces", None, body)
            .await
            .expect("created");
        let held = r#"{"metadata":{"name":"a","finalizers":["ex.com/a"]}}"#;
        fixture
            .create("configmaps", Some("n"), held)
            .await
            .expect("created");
        delete(&fixture, "namespaces", None, "n").await;
        // API-261: at once, even if the cache lags.
        assert_eq!(
            refusal(fixture.create("configmaps", Some("n"), body).await).0,
            403
        );
        let patch = r#"{"metadata":{"finalizers":null}}"#;
        fixture
            .merge("configmaps", (Some("n"), "a", None), patch)
            .await
            .expect("let go");
        until_namespace_answers(&fixture, "n", 404).await;
        let before = fixture
            .get("namespaces", None, "kube-node-lease")
            .await
            .expect("there");
        delete(&fixture, "namespaces", None, "kube-node-lease").await;
        let deadline = Instant::now() + PATIENCE;
        while fixture
            .get("namespaces", None, "kube-node-lease")
            .await
            .map_or(true, |now| now.uid() == before.uid())
        {
            assert!(Instant::now() < deadline, "it was never created again");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        controllers.stop().await;
        actor_system.stop().await;
    });
}

const LEASE: NamespacedName<'static> =
    NamespacedName::in_namespace("kube-system", "taffrail-upkeep");

async fn holder(fixture: &Fixture) -> Option<String> {
    let lease = fixture
        .store("leases.coordination.k8s.io")
        .get(LEASE, "")
        .await
        .ok()?;
    let lease = crate::storage::codec::object_of(&lease).expect("a Lease");
    let holder = lease.0["spec"]["holderIdentity"].as_str();
    Some(holder.unwrap_or_default().to_owned())
}

async fn until_held_by(fixture: &Fixture, names: &[&str]) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = holder(fixture).await;
        if let Some(name) = now.filter(|name| names.contains(&name.as_str())) {
            return name;
        }
        assert!(
            Instant::now() < deadline,
            "nobody of {names:?} runs the controllers"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Only one of several daemons on a store works. Another one takes over when it stops.
#[test]
fn of_several_daemons_one_runs_the_controllers_at_a_time() {
    actix_rt::System::new().block_on(async {
        let (fixture, actor_system) = cached_fixture();
        actor_system.all_ready().await;
        let start = |name: &str| {
            let identity = name.to_owned();
            let sharing = Sharing::WithOthers { identity };
            started(&fixture, &actor_system, sharing)
        };
        // The store is empty, so the namespace of the lease is created first.
        let (a, b) = (start("a"), start("b"));
        let first = until_held_by(&fixture, &["a", "b"]).await;
        for name in SYSTEM_NAMESPACES {
            until_namespace_answers(&fixture, name, 200).await;
        }
        let (leading, waiting) = if first == "a" { (a, b) } else { (b, a) };
        let other = if first == "a" { "b" } else { "a" };
        leading.stop().await;
        until_held_by(&fixture, &[other]).await;
        let body = r#"{"metadata":{"name":"n"}}"#;
        let created = fixture.create("namespaces", None, body).await;
        created.expect("created");
        delete(&fixture, "namespaces", None, "n").await;
        let gone = Instant::now();
        until_namespace_answers(&fixture, "n", 404).await;
        // All daemons know of the deletion by then.
        assert!(gone.elapsed() >= super::NAMESPACE_DELETION_GRACE);
        waiting.stop().await;
        assert_eq!(holder(&fixture).await.as_deref(), Some(""));
        actor_system.stop().await;
    });
}

/// Two namespaces that can't be listed delay neither each other nor a third.
#[test]
fn a_namespace_that_takes_long_holds_up_no_other() {
    let hang = |storages: ResourceStorage| {
        let mut storage = Hooked::new(storages.storage);
        storage.before_list = Box::new(|key| match key.contains("/slow") {
            true => std::future::pending().boxed(),
            false => std::future::ready(()).boxed(),
        });
        ResourceStorage {
            storage: Arc::new(storage),
            ..storages
        }
    };
    actix_rt::System::new().block_on(async {
        let (fixture, actor_system) = hooked_fixture(hang);
        actor_system.all_ready().await;
        let controllers = started(&fixture, &actor_system, Sharing::Alone);
        for name in ["slow", "slower", "late"] {
            let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
            let created = fixture.create("namespaces", None, &body).await;
            created.expect("created");
            delete(&fixture, "namespaces", None, name).await;
            // Waits until the controller has seen it.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        until_namespace_answers(&fixture, "late", 404).await;
        until_namespace_answers(&fixture, "slow", 200).await;
        controllers.stop().await;
        actor_system.stop().await;
    });
}

/// API-261, API-225: an object that is created while its namespace is deleted is refused or
/// deleted.
#[test]
fn nothing_is_left_of_what_is_created_during_a_deletion() {
    actix_rt::System::new().block_on(async {
        let (fixture, actor_system) = cached_fixture();
        actor_system.all_ready().await;
        let controllers = started(&fixture, &actor_system, Sharing::Alone);
        for round in 0..20 {
            let namespace = format!("n{round}");
            let body = format!(r#"{{"metadata":{{"name":"{namespace}"}}}}"#);
            fixture
                .create("namespaces", None, &body)
                .await
                .expect("created");
            let creating = async {
                for number in 0..10_000 {
                    // A store in memory answers at once, so other tasks would never run without
                    // this.
                    tokio::task::yield_now().await;
                    let body = format!(r#"{{"metadata":{{"name":"c{number}"}}}}"#);
                    let made = fixture.create("configmaps", Some(&namespace), &body).await;
                    if let Err(status) = made {
                        assert!(matches!(status.code, 403 | 404), "{status}");
                        return;
                    }
                }
                panic!("nothing was ever refused");
            };
            let deleting = async {
                tokio::time::sleep(Duration::from_millis(2)).await;
                delete(&fixture, "namespaces", None, &namespace).await;
            };
            tokio::join!(creating, deleting);
            until_namespace_answers(&fixture, &namespace, 404).await;
            let left = fixture.names("configmaps", Some(&namespace)).await;
            assert!(left.is_empty(), "{left:?}");
        }
        controllers.stop().await;
        actor_system.stop().await;
    });
}
