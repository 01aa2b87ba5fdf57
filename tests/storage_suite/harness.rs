//! A storage of each kind over each engine, with helpers to use it.

use std::any::Any;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use actors::dispatcher::{Caller, DispatcherConfig, LocalDispatcher};
use actors::engine::{Engine, FeedProgress, Key, MemoryEngine, Origin, Retention, Revision};
use actors::object::CachedObject;
use actors::supervisor::{ActorSystem, ActorSystemConfig, CacherSpec};
use actors::testing::FaultyEngine;
use actors::watch::{Everything, Predicate, Projection, Scope, WatchEventKind, WatchInterest};
use actors::writer::WriterHandle;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};
use taffrail::api::object::Object;
use taffrail::api::resource::ResourceDefinition;
use taffrail::api::selector::Selection;
use taffrail::api::status::Status;
use taffrail::kinds::definitions::built_in;
use taffrail::storage::cached::Cached;
use taffrail::storage::codec::{Codec, object_of};
use taffrail::storage::dry_run::DryRun;
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions};
use taffrail::storage::etcd::{EtcdEngine, EtcdOptions};
use taffrail::storage::keys::Keys;
use taffrail::storage::transformer::{TransformError, Transformer};
use taffrail::storage::underlying::{StoredDecoder, Underlying};
use taffrail::storage::{
    Asked, Current, DeleteRequest, GetRequest, ListRequest, NewObject, ObjectList, Preconditions,
    RunningWatch, Storage, StorageError, StorageErrorKind, UpdateFunction, UpdateRequest,
    ValidateDeletion, VersionMatch, VersionUse, WatchRequest, WriteDecision, WriteOutcome,
};

use crate::servers::etcd;

/// Namespaced pods with `spec.nodeName` to select by, as the suites of Kubernetes use them.
pub fn pods() -> Arc<ResourceDefinition> {
    let mut definitions = built_in().into_iter();
    let found = definitions.find(|definition| definition.is("", "pods"));
    found.expect("pods are served")
}

/// Nothing is removed unless a check compacts.
const RETENTION: Retention = Retention {
    age: Duration::from_secs(3600),
    bytes: 1 << 30,
};

/// The storage of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Underlying,
    Cached,
}

/// The engine below the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    Memory,
    Embedded,
    /// An etcd of this version.
    Etcd(&'static str),
}

/// Which storage over which engine a check runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    pub kind: Kind,
    pub engine: EngineKind,
}

impl Layer {
    pub fn is_cached(self) -> bool {
        self.kind == Kind::Cached
    }

    /// Whether there is such an engine here: the environment may say that there is none.
    fn is_there(self) -> bool {
        match self.engine {
            EngineKind::Memory | EngineKind::Embedded => true,
            EngineKind::Etcd(version) => etcd::find(version).is_some(),
        }
    }

    fn open_engine(self) -> (Arc<dyn Engine>, Box<dyn Any>) {
        match self.engine {
            EngineKind::Memory => (MemoryEngine::new(), Box::new(())),
            EngineKind::Embedded => {
                let directory = tempfile::tempdir().unwrap();
                let options = EmbeddedOptions::new(directory.path());
                (EmbeddedEngine::open(options).unwrap(), Box::new(directory))
            }
            EngineKind::Etcd(version) => {
                let cluster = etcd::Cluster::single(version);
                let options = EtcdOptions::new(cluster.urls());
                (EtcdEngine::open(options).unwrap(), Box::new(cluster))
            }
        }
    }
}

/// A transformer that can be told to fail or to call values stale.
#[derive(Default)]
pub struct Faulty {
    pub fails: Mutex<bool>,
    pub stale: Mutex<bool>,
    /// Values of keys that end like this can't be read.
    pub unreadable: Mutex<Option<&'static str>>,
}

impl Transformer for Faulty {
    fn transform_from_storage(
        &self,
        key: &Key,
        stored: &Bytes,
    ) -> Result<(Bytes, bool), TransformError> {
        let unreadable = *self.unreadable.lock().unwrap();
        let is_unreadable = unreadable.is_some_and(|end| key.to_string().ends_with(end));
        if *self.fails.lock().unwrap() || is_unreadable {
            return Err(TransformError {
                key: key.to_string(),
                reason: "told to fail".to_owned(),
            });
        }
        Ok((stored.clone(), *self.stale.lock().unwrap()))
    }

    fn transform_to_storage(&self, key: &Key, plain: Vec<u8>) -> Result<Bytes, TransformError> {
        if *self.fails.lock().unwrap() {
            return Err(TransformError {
                key: key.to_string(),
                reason: "told to fail".to_owned(),
            });
        }
        Ok(Bytes::from(plain))
    }
}

/// A storage under test and its environment.
pub struct Harness {
    pub layer: Layer,
    pub storage: Arc<dyn Storage>,
    pub dry: Arc<dyn Storage>,
    pub engine: Arc<dyn Engine>,
    pub faults: Arc<FaultyEngine>,
    pub faulty: Arc<Faulty>,
    pub codec: Codec,
    pub writers: WriterHandle,
    dispatcher: LocalDispatcher,
    actor_system: ActorSystem,
    _keep: Box<dyn Any>,
}

/// Runs a check on a fresh storage, inside an actor system like the daemon's.
pub fn run<F>(layer: Layer, check: fn(Rc<Harness>) -> F)
where
    F: Future<Output = ()> + 'static,
{
    if !layer.is_there() {
        return;
    }
    actix::System::new().block_on(async move {
        let harness = Rc::new(Harness::start(layer).await);
        tokio::time::timeout(Duration::from_secs(60), check(harness.clone()))
            .await
            .expect("the check should end within a minute");
        harness.actor_system.stop().await;
        harness.engine.close().await;
    });
}

impl Harness {
    async fn start(layer: Layer) -> Harness {
        let (engine, keep) = layer.open_engine();
        if let EngineKind::Etcd(_) = layer.engine {
            // What it can do is known once it has told its version.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let faults = FaultyEngine::over(engine);
        let harness = Harness::over(layer, faults, keep, Codec::new(pods()));
        harness.filled().await
    }

    /// Another storage over the same store, as a daemon that is configured to store as this
    /// codec does would have it.
    pub async fn stored_by(&self, codec: Codec) -> Harness {
        let harness = Harness::over(self.layer, self.faults.clone(), Box::new(()), codec);
        harness.filled().await
    }

    /// Another storage over the same store, whose cache is still being filled.
    pub fn filling(&self) -> Harness {
        let (faults, codec) = (self.faults.clone(), self.codec.clone());
        Harness::over(self.layer, faults, Box::new(()), codec)
    }

    async fn filled(self) -> Harness {
        self.actor_system.all_ready().await;
        self
    }

    fn over(layer: Layer, faults: Arc<FaultyEngine>, keep: Box<dyn Any>, codec: Codec) -> Harness {
        let engine: Arc<dyn Engine> = faults.clone();
        let faulty = Arc::new(Faulty::default());
        let keys = Keys::new("/registry", &pods().key_prefix).unwrap();
        let decoder = Arc::new(StoredDecoder::new(codec.clone(), faulty.clone()));
        let spec = CacherSpec {
            resource: pods().qualified(),
            engine: engine.clone(),
            prefix: keys.resource_prefix().clone(),
            decode: decoder.clone(),
            indexed_fields: pods().indexed_fields(),
        };
        let actor_system =
            ActorSystem::start(ActorSystemConfig::of(engine.clone(), RETENTION), vec![spec])
                .unwrap();
        actor_system.begin_expiry();
        let writers = actor_system.writers("base");
        let lessor = actor_system.lessor("base").unwrap();
        let store = Underlying::new(
            engine.clone(),
            keys.clone(),
            decoder,
            lessor,
            Some(writers.clone()),
        );
        let storage: Arc<dyn Storage> = match layer.is_cached() {
            true => Arc::new(Cached::new(store, actor_system.cacher("pods").unwrap())),
            false => Arc::new(store),
        };
        let dry = Arc::new(DryRun::new(storage.clone(), codec.clone(), keys));
        let dispatcher = LocalDispatcher::start(DispatcherConfig::default(), 0);
        Harness {
            layer,
            storage,
            dry,
            engine,
            faults,
            faulty,
            codec,
            writers,
            dispatcher,
            actor_system,
            _keep: keep,
        }
    }

    /// Whether there is a cache that can be made to show the newest state (LI-32).
    pub fn catches_up(&self) -> bool {
        self.layer.is_cached() && self.engine.feed_progress() != FeedProgress::Seldom
    }

    /// Waits until the cache shows an event of this revision, if there is one.
    pub async fn settled(&self, revision: Revision) {
        if self.layer.is_cached() {
            let cacher = self.actor_system.cacher("pods").unwrap();
            let shown = cacher.fresh(0, revision, Duration::from_secs(10)).await;
            shown.expect("the cache follows the store");
        }
    }

    /// Ends its actors, and leaves the store to others.
    pub async fn end(self) {
        self.actor_system.stop().await;
    }

    pub async fn create(&self, object: &Object) -> Arc<CachedObject> {
        let key = key_of(object);
        self.storage
            .create(&key, object.clone().into(), origin())
            .await
            .unwrap()
    }

    pub async fn get(
        &self,
        key: &str,
        asked: Asked,
    ) -> Result<Option<Arc<CachedObject>>, StorageError> {
        self.storage
            .get(GetRequest {
                key: key.to_owned(),
                asked,
            })
            .await
    }

    pub async fn delete(&self, key: &str) -> Result<Arc<CachedObject>, StorageError> {
        self.delete_if(key, Preconditions::default(), None, |_| Ok(()))
            .await
    }

    pub async fn delete_if(
        &self,
        key: &str,
        preconditions: Preconditions,
        suggestion: Option<Arc<CachedObject>>,
        validate: impl FnMut(&Arc<CachedObject>) -> Result<(), Box<Status>> + Send,
    ) -> Result<Arc<CachedObject>, StorageError> {
        let request = DeleteRequest {
            key: key.to_owned(),
            preconditions,
            suggestion,
            origin: origin(),
        };
        let outcome = self.storage.delete(request, &mut Validate(validate)).await;
        outcome.map(done)
    }

    /// Updates with a function of the current tree (`None` when absent).
    pub async fn update(
        &self,
        key: &str,
        update: impl FnMut(Option<Object>) -> Result<Object, Box<Status>> + Send,
    ) -> Result<Arc<CachedObject>, StorageError> {
        self.update_with(update_of(key), update).await
    }

    pub async fn update_with(
        &self,
        request: UpdateRequest,
        update: impl FnMut(Option<Object>) -> Result<Object, Box<Status>> + Send,
    ) -> Result<Arc<CachedObject>, StorageError> {
        self.storage
            .guaranteed_update(request, &mut Update(update))
            .await
            .map(done)
    }

    /// Sets `spec.nodeName`.
    pub async fn set_node(&self, key: &str, node: &str) -> Arc<CachedObject> {
        self.update(key, |current| Ok(with_node(current.unwrap(), node)))
            .await
            .unwrap()
    }

    pub async fn list(&self, list: List) -> Result<ObjectList, StorageError> {
        self.storage.get_list(list.0).await
    }

    pub async fn watch(&self, watch: Watch) -> Result<Stream, StorageError> {
        let stream = self
            .storage
            .watch(WatchRequest {
                key: watch.key,
                recursive: watch.recursive,
                asked: watch.asked,
                send_initial_events: watch.initial,
                bookmarks: watch.bookmarks,
                interest: WatchInterest {
                    scope: Scope::All,
                    predicate: watch.predicate,
                    projection: Arc::new(Lines),
                },
                deadline: tokio::time::Instant::now() + watch.lasts,
                dispatcher: self.dispatcher.clone(),
            })
            .await?;
        Ok(Stream(stream))
    }

    /// The store-wide revision now.
    pub async fn revision(&self) -> Revision {
        self.storage.current_revision().await.unwrap()
    }
}

struct Validate<F>(F);

impl<F: FnMut(&Arc<CachedObject>) -> Result<(), Box<Status>> + Send> ValidateDeletion
    for Validate<F>
{
    fn call(
        &mut self,
        current: &Arc<CachedObject>,
    ) -> BoxFuture<'_, Result<WriteDecision<()>, Box<Status>>> {
        std::future::ready((self.0)(current).map(WriteDecision::Write)).boxed()
    }
}

pub struct Update<F>(pub F);

impl<F: FnMut(Option<Object>) -> Result<Object, Box<Status>> + Send> UpdateFunction for Update<F> {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<NewObject>, Box<Status>>> {
        let current = current.object.map(|object| object_of(&object).unwrap());
        let updated = (self.0)(current).map(|object| WriteDecision::Write(NewObject::from(object)));
        std::future::ready(updated).boxed()
    }
}

/// The object of a write that took place.
pub fn done(outcome: WriteOutcome) -> Arc<CachedObject> {
    match outcome {
        WriteOutcome::Done(object) => object,
        WriteOutcome::Left => panic!("the object was left as it is"),
    }
}

pub fn origin() -> Origin {
    Origin {
        user: "suite".into(),
        ..Origin::default()
    }
}

/// An update of a key with defaults.
pub fn update_of(key: &str) -> UpdateRequest {
    UpdateRequest {
        key: key.to_owned(),
        ignore_not_found: false,
        preconditions: Preconditions::default(),
        suggestion: None,
        version: VersionUse::Ignores,
        origin: origin(),
    }
}

/// A pod with a uid made of its name.
pub fn pod(namespace: &str, name: &str) -> Object {
    object(json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}")},
    }))
}

pub fn labelled(namespace: &str, name: &str, key: &str, value: &str) -> Object {
    let mut pod = pod(namespace, name);
    pod.metadata_mut()
        .insert("labels".to_owned(), json!({ key: value }));
    pod
}

pub fn with_node(mut pod: Object, node: &str) -> Object {
    pod.0.insert("spec".to_owned(), json!({ "nodeName": node }));
    pod
}

pub fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => Object::of(members),
        other => panic!("{other} is not an object"),
    }
}

pub fn key_of(object: &Object) -> String {
    format!("/pods/{}/{}", object.namespace(), object.name())
}

pub fn names(list: &ObjectList) -> Vec<String> {
    let name =
        |o: &Arc<CachedObject>| format!("{}/{}", o.attributes().namespace(), o.attributes().name());
    list.items.iter().map(name).collect()
}

pub fn selection(labels: &str, fields: &str) -> Arc<dyn Predicate> {
    Arc::new(Selection::parse(labels, fields, &pods()).unwrap())
}

pub fn uid(uid: &str) -> Preconditions {
    Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    }
}

/// A list request, built up.
#[derive(Clone)]
pub struct List(pub ListRequest);

impl List {
    pub fn below(key: &str) -> List {
        List(ListRequest {
            key: key.to_owned(),
            recursive: true,
            asked: Asked::Unset,
            version_match: None,
            limit: 0,
            continue_token: None,
            predicate: Arc::new(Everything),
        })
    }

    pub fn of(key: &str) -> List {
        let mut list = List::below(key);
        list.0.recursive = false;
        list
    }

    pub fn at(mut self, revision: Revision) -> List {
        self.0.asked = Asked::At(revision);
        self
    }

    pub fn any(mut self) -> List {
        self.0.asked = Asked::Any;
        self
    }

    pub fn exact(mut self, revision: Revision) -> List {
        self.0.version_match = Some(VersionMatch::Exact);
        self.at(revision)
    }

    pub fn not_older(mut self, revision: Revision) -> List {
        self.0.version_match = Some(VersionMatch::NotOlderThan);
        self.at(revision)
    }

    pub fn limit(mut self, limit: usize) -> List {
        self.0.limit = limit;
        self
    }

    pub fn token(mut self, token: impl Into<String>) -> List {
        self.0.continue_token = Some(token.into());
        self
    }

    pub fn select(mut self, labels: &str, fields: &str) -> List {
        self.0.predicate = selection(labels, fields);
        self
    }
}

/// A watch request, built up.
pub struct Watch {
    key: String,
    recursive: bool,
    asked: Asked,
    initial: Option<bool>,
    bookmarks: bool,
    predicate: Arc<dyn Predicate>,
    lasts: Duration,
}

impl Watch {
    pub fn below(key: &str) -> Watch {
        Watch {
            key: key.to_owned(),
            recursive: true,
            asked: Asked::Unset,
            initial: None,
            bookmarks: false,
            predicate: Arc::new(Everything),
            lasts: Duration::from_secs(50),
        }
    }

    pub fn of(key: &str) -> Watch {
        Watch {
            recursive: false,
            ..Watch::below(key)
        }
    }

    pub fn after(self, revision: Revision) -> Watch {
        Watch {
            asked: Asked::At(revision),
            ..self
        }
    }

    pub fn any(self) -> Watch {
        Watch {
            asked: Asked::Any,
            ..self
        }
    }

    pub fn initial(self, initial: bool) -> Watch {
        Watch {
            initial: Some(initial),
            ..self
        }
    }

    pub fn bookmarks(self) -> Watch {
        Watch {
            bookmarks: true,
            ..self
        }
    }

    pub fn select(self, labels: &str, fields: &str) -> Watch {
        Watch {
            predicate: selection(labels, fields),
            ..self
        }
    }

    pub fn lasts(self, lasts: Duration) -> Watch {
        Watch { lasts, ..self }
    }
}

/// Frames for tests: one JSON line each.
struct Lines;

impl Projection for Lines {
    fn identity(&self) -> &str {
        "lines"
    }

    fn frame(
        &self,
        kind: WatchEventKind,
        object: &CachedObject,
        revision: Revision,
        _first: bool,
    ) -> Bytes {
        let object: Value = serde_json::from_slice(&object.wire_at(revision)).unwrap();
        Bytes::from(json!({ "type": format!("{kind:?}"), "object": object }).to_string())
    }

    fn bookmark(&self, revision: Revision, initial_events_end: bool, _first: bool) -> Bytes {
        let object = json!({ "metadata": { "resourceVersion": revision.to_string() } });
        let kind = if initial_events_end {
            "End"
        } else {
            "Bookmark"
        };
        Bytes::from(json!({ "type": kind, "object": object }).to_string())
    }

    fn error(&self, message: &str) -> Bytes {
        Bytes::from(json!({ "type": "Error", "message": message }).to_string())
    }

    fn expired(&self, reached: Revision, oldest: Revision) -> Bytes {
        let (reached, oldest) = (reached.0, oldest.0);
        Bytes::from(json!({ "type": "Expired", "reached": reached, "oldest": oldest }).to_string())
    }
}

/// A running watch.
pub struct Stream(RunningWatch);

/// An event as a test sees it: kind, `namespace/name`, version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub kind: String,
    pub name: String,
    pub revision: Revision,
    pub object: Value,
}

impl Stream {
    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Seen> {
        let frame = std::future::poll_fn(|context| self.0.poll_next(&Caller::task(context)));
        let frame = tokio::time::timeout(Duration::from_secs(20), frame)
            .await
            .expect("an event should come within 20 s")?
            .bytes;
        let event: Value = serde_json::from_slice(&frame).unwrap();
        let metadata = &event["object"]["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Some(Seen {
            kind: text(&event["type"]),
            name: format!(
                "{}/{}",
                text(&metadata["namespace"]),
                text(&metadata["name"])
            ),
            revision: Revision(text(&metadata["resourceVersion"]).parse().unwrap_or(0)),
            object: event["object"].clone(),
        })
    }

    /// The next event must be this one.
    pub async fn expect(&mut self, kind: &str, name: &str, revision: Revision) -> Seen {
        let seen = self.next().await.expect("the stream should go on");
        assert_eq!(
            (seen.kind.as_str(), seen.name.as_str(), seen.revision),
            (kind, name, revision),
            "{seen:?}"
        );
        seen
    }

    /// The next event must be of this kind and object, at whatever version.
    pub async fn expect_any(&mut self, kind: &str, name: &str) -> Seen {
        let seen = self.next().await.expect("the stream should go on");
        assert_eq!((seen.kind.as_str(), seen.name.as_str()), (kind, name));
        seen
    }

    /// The stream must be over.
    pub async fn expect_end(&mut self) {
        assert_eq!(self.next().await, None, "the stream should end silently");
    }

    /// Nothing is there to read, now that everything written before was acknowledged and a
    /// marker written after it has come through another watch of the same storage.
    pub fn is_quiet(&mut self) -> bool {
        let waker = std::task::Waker::noop();
        let context = std::task::Context::from_waker(waker);
        matches!(self.0.poll_next(&Caller::task(&context)), Poll::Pending)
    }
}

/// The kind of a failed answer, for matching.
pub fn kind<T: std::fmt::Debug>(answer: Result<T, StorageError>) -> StorageErrorKind {
    answer.expect_err("it should be refused").kind
}
