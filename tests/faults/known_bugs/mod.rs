//! Known bugs between the stores and etcd.
//!
//! An engine has known bugs, which the check of registers must find. The check must find nothing
//! without a bug. These tests know neither the daemon's process nor HTTP.

mod engine;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::engine::{Engine, Origin, Retention, Revision};
use actors::lessor::LeaseReuse;
use actors::supervisor::{ActorSystem, ActorSystemConfig, StoreSpec};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use taffrail::api::object::Object;
use taffrail::api::selector::Selection;
use taffrail::api::status::Status;
use taffrail::kinds::definitions::built_in;
use taffrail::storage::codec::object_of;
use taffrail::storage::etcd::{EtcdEngine, EtcdOptions};
use taffrail::storage::factory::{Engines, StorageFactory, StorageOptions};
use taffrail::storage::transformer::Identity;
use taffrail::storage::{
    Asked, Current, GetRequest, ListRequest, NewObject, Preconditions, Storage, StorageErrorKind,
    UpdateFunction, UpdateRequest, VersionUse, WriteDecision, WriteOutcome,
};

use self::engine::{Bug, BuggyEngine};
use crate::etcd_watch::EtcdWatch;
use crate::load::{Random, seed};
use crate::registers::check::{ActualHistory, Call, History, ListResult, Operation, check};
use crate::servers::etcd::Cluster;

const NAMESPACE: &str = "known-bugs";
const REGISTERS: u64 = 3;
/// Clients of each of the two stores.
const CLIENTS: u64 = 3;
const DURATION: Duration = Duration::from_secs(4);

/// Checks the answers to clients of two stores over one etcd.
fn check_with(bug: Bug) -> Result<(), String> {
    actix::System::new().block_on(async move {
        let seed = seed();
        println!("TAFFRAIL_SEED={seed}");
        let cluster = Cluster::single("3.5");
        let urls = cluster.urls();
        let etcd_watch = EtcdWatch::start(&urls, NAMESPACE).await;
        let mut random = Random::new(seed);
        let mut stores = Vec::new();
        for _ in 0..2 {
            stores.push(Store::start(urls.clone(), bug).await);
        }
        for number in 0..REGISTERS {
            let (name, key) = (name(number), key(&name(number)));
            let created =
                stores[0]
                    .storage
                    .create(&key, object(&name, "0").into(), Origin::default());
            created.await.unwrap();
        }
        let end = Instant::now() + DURATION;
        let clients = stores.iter().enumerate().flat_map(|(number, store)| {
            let client = move |client| (format!("s{number}c{client}"), store.storage.clone());
            (0..CLIENTS).map(client)
        });
        let clients: Vec<_> = clients
            .map(|(name, storage)| {
                let client = Client {
                    storage,
                    name,
                    random: Random::new(random.next()),
                    known: BTreeMap::new(),
                    written: 0,
                    history: History::default(),
                };
                actix_rt::spawn(client.run(end))
            })
            .collect();
        let mut answers = History::default();
        for client in clients {
            let history = client.await.unwrap();
            answers.calls.extend(history.calls);
            answers.lists.extend(history.lists);
        }
        let mut newest = 0;
        for number in 0..REGISTERS {
            let asked = GetRequest {
                key: key(&name(number)),
                asked: Asked::Unset,
            };
            let object = stores[0].storage.get(asked).await.unwrap().unwrap();
            newest = newest.max(object.revision.0);
        }
        let mut actual = ActualHistory::new();
        for seen in etcd_watch.events_until(newest).await {
            actual
                .entry(seen.name)
                .or_default()
                .insert(seen.version, seen.value);
        }
        assert!(answers.calls.len() > 100, "hardly anything was done");
        for store in &stores {
            store.actor_system.stop().await;
        }
        check(&answers, &actual)
    })
}

/// A store of ConfigMaps with its actors.
struct Store {
    storage: Arc<dyn Storage>,
    actor_system: Rc<ActorSystem>,
}

impl Store {
    async fn start(urls: Vec<String>, bug: Bug) -> Store {
        let etcd = EtcdEngine::open(EtcdOptions::new(urls)).unwrap();
        let engine: Arc<dyn Engine> = BuggyEngine::new(etcd, bug);
        let engines = Engines::of(engine.clone());
        let factory = StorageFactory::new(StorageOptions::default(), built_in()).unwrap();
        let plans = factory.plans(&engines, &Identity).unwrap();
        let plan = plans
            .iter()
            .find(|plan| plan.resource().name == "configmaps");
        let plan = plan.unwrap();
        let spec = StoreSpec {
            name: "base".to_owned(),
            engine,
            retention: Retention {
                age: Duration::from_secs(3600),
                bytes: 1 << 30,
            },
            leases: LeaseReuse::default(),
        };
        let actor_system =
            ActorSystem::start(ActorSystemConfig::new(vec![spec]), vec![plan.cacher_spec()])
                .unwrap();
        actor_system.all_ready().await;
        let storage = plan.build(&actor_system).storage;
        Store {
            storage,
            actor_system: Rc::new(actor_system),
        }
    }
}

fn name(number: u64) -> String {
    format!("r{number}")
}

fn key(name: &str) -> String {
    format!("/configmaps/{NAMESPACE}/{name}")
}

fn object(name: &str, value: &str) -> Object {
    let object = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": { "name": name, "namespace": NAMESPACE }, "data": { "k": value },
    });
    Object::of(object.as_object().unwrap().clone())
}

fn list() -> ListRequest {
    ListRequest {
        key: format!("/configmaps/{NAMESPACE}"),
        recursive: true,
        asked: Asked::Unset,
        version_match: None,
        limit: 0,
        continue_token: None,
        predicate: Arc::new(Selection::default()),
    }
}

fn value(object: &actors::object::CachedObject) -> String {
    let object = object_of(object).unwrap();
    object.0["data"]["k"].as_str().unwrap().to_owned()
}

/// Sets a value. The precondition names the version that it replaces.
struct Set(Object);

impl UpdateFunction for Set {
    fn call(&mut self, _: Current) -> BoxFuture<'_, Result<WriteDecision<NewObject>, Box<Status>>> {
        let updated = NewObject::from(self.0.clone());
        std::future::ready(Ok(WriteDecision::Write(updated))).boxed()
    }
}

struct Client {
    storage: Arc<dyn Storage>,
    name: String,
    random: Random,
    known: BTreeMap<String, u64>,
    written: u64,
    history: History,
}

impl Client {
    async fn run(mut self, end: Instant) -> History {
        while Instant::now() < end {
            let register = name(self.random.below(REGISTERS));
            match self.random.below(6) {
                0 => self.get(register).await,
                1 | 2 => self.list().await,
                _ => self.set(register).await,
            }
            tokio::time::sleep(Duration::from_millis(self.random.below(4))).await;
        }
        self.history
    }

    fn note(&mut self, register: &str, begun: Instant, operation: Operation) {
        match &operation {
            Operation::Read { version, .. } | Operation::Set { version, .. } => {
                self.known.insert(register.to_owned(), *version);
            }
            _ => _ = self.known.remove(register),
        }
        self.history.calls.push(Call {
            key: register.to_owned(),
            begun,
            ended: Instant::now(),
            operation,
        });
    }

    async fn get(&mut self, register: String) {
        let begun = Instant::now();
        let got = self.storage.get(GetRequest {
            key: key(&register),
            asked: Asked::Unset,
        });
        let object = got.await.unwrap().expect("a register is there");
        let operation = Operation::Read {
            version: object.revision.0,
            value: value(&object),
        };
        self.note(&register, begun, operation);
    }

    async fn list(&mut self) {
        let begun = Instant::now();
        let list = self.storage.get_list(list()).await.unwrap();
        let item = |object: &Arc<actors::object::CachedObject>| {
            let name = object.attributes().name().to_owned();
            (name, (object.revision.0, value(object)))
        };
        let Revision(version) = list.revision;
        self.history.lists.push(ListResult {
            begun,
            ended: Instant::now(),
            version,
            items: list.items.iter().map(item).collect(),
        });
    }

    async fn set(&mut self, register: String) {
        let Some(over) = self.known.get(&register).copied() else {
            return self.get(register).await;
        };
        self.written += 1;
        let new = format!("{}.{}", self.name, self.written);
        let request = UpdateRequest {
            key: key(&register),
            ignore_not_found: false,
            preconditions: Preconditions {
                resource_version: Some(over.to_string()),
                ..Preconditions::default()
            },
            suggestion: None,
            version: VersionUse::Names,
            origin: Origin::default(),
        };
        let mut update = Set(object(&register, &new));
        let begun = Instant::now();
        let operation = match self.storage.guaranteed_update(request, &mut update).await {
            Ok(WriteOutcome::Done(object)) => Operation::Set {
                over: Some(over),
                value: new,
                version: object.revision.0,
            },
            Ok(WriteOutcome::Left) => panic!("an update was skipped"),
            Err(error) => match error.kind {
                StorageErrorKind::InvalidObject(_) => Operation::Conflict { over, value: new },
                StorageErrorKind::OutcomeUnknown(_) => Operation::Unknown {
                    over: Some(over),
                    value: new,
                },
                other => panic!("{other}"),
            },
        };
        self.note(&register, begun, operation);
    }
}

#[test]
fn without_a_bug_nothing_is_found() {
    assert_eq!(check_with(Bug::None), Ok(()));
}

#[test]
fn a_consistent_read_that_joins_a_read_under_way_is_found() {
    let found = check_with(Bug::SharesReadsInFlight).unwrap_err();
    assert!(found.contains("stale"), "{found}");
}

#[test]
fn a_write_of_unknown_outcome_that_is_tried_again_is_found() {
    let found = check_with(Bug::RetriesUnknownWrites).unwrap_err();
    assert!(found.contains("it was done"), "{found}");
}

#[test]
fn a_read_of_a_moment_ago_is_found() {
    let found = check_with(Bug::CachesReads).unwrap_err();
    // An update from an old state also fails with a conflict that no write explains.
    let is_it = found.contains("stale") || found.contains("conflict");
    assert!(is_it, "{found}");
}

#[test]
fn a_write_over_whatever_is_there_is_found() {
    let found = check_with(Bug::IgnoresPreconditions).unwrap_err();
    assert!(found.contains("lost"), "{found}");
}

#[test]
fn progress_that_is_told_before_its_events_is_found() {
    let found = check_with(Bug::ReportsProgressEarly).unwrap_err();
    assert!(found.contains("a list at"), "{found}");
}
