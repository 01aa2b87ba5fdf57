//! The store of one resource without a cache: codec and transformer over an engine.
//!
//! This folder owns how objects become values of the engine, with optimistic concurrency, leases
//! and retries. It must not know caches or HTTP. Every read goes to the engine.
//! [`Cached`](super::cached) is built on top of it, and passes every write down with a suggestion
//! of the current state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actors::engine::{At, Change, DataEngine, Event, Expect, KeyValue, LeaseId, Mutation, Outcome};
use actors::engine::{
    EngineError, FeedProgress, GetResponse, Key, Origin, Position, Prefix, RangeRequest, Revision,
    Ticket,
};
use actors::lessor::LessorHandle;
use actors::object::CachedObject;
use actors::writer::WriterHandle;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, LocalBoxFuture};
use parking_lot::Mutex;

use self::outstanding::Outstanding;
use self::prepared::PreparedObject;
use super::keys::Keys;
use super::metrics::Metrics;
use super::{
    Asked, DeleteRequest, Expired, GetRequest, HistoryRequest, ListRequest, NewObject,
    ObjectHistory, ObjectList, RunningWatch, Stats, Storage, StorageError, StorageErrorKind,
    UpdateFunction, UpdateRequest, ValidateDeletion, WatchRequest, WriteOutcome,
};
use crate::api::abandoned::{self, Abandoned};
use crate::api::object::Object;
use crate::api::status::Status;

mod create;
mod decoder;
mod delete;
mod history;
mod list;
mod outstanding;
mod prepared;
mod rewrite;
mod turns;
mod update;
mod watch;

pub use decoder::StoredDecoder;
pub(super) use list::{plan, token_after};
pub use rewrite::{RewrittenPage, RewrittenValues};

/// The store of one resource over an engine.
#[derive(Clone)]
pub struct Underlying {
    pub(super) engine: Arc<dyn DataEngine>,
    pub(super) keys: Keys,
    pub(super) decoder: Arc<StoredDecoder>,
    pub(super) metrics: Metrics,
    lessor: LessorHandle,
    /// Grants turns to retries of hot keys. Without it callers race, as in tests of the store
    /// alone.
    writers: Option<WriterHandle>,
    /// The epoch of the engine to which the Writers' memory belongs.
    epoch: Arc<AtomicU64>,
    /// The last count, and its time.
    counted: Arc<Mutex<Option<(Instant, Stats)>>>,
}

/// How long a count stays valid (RG-14).
const COUNT_LASTS: Duration = Duration::from_secs(180);

/// The most leases that one put tries, each after the previous one turned out to be gone.
const LEASES_MAX: usize = 3;

/// A put for the engine.
struct PutRequest {
    /// The precondition on the key.
    expect: Expect,
    /// The value, before it is transformed.
    plain: Bytes,
    /// The object in the value.
    prepared: PreparedObject,
    /// Seconds to live. `None` and 0 mean no limit.
    ttl: Option<u64>,
}

/// The state of a key that a write starts from (ST-51).
struct ObjectState {
    /// The object, `None` when the key is absent.
    object: Option<Arc<CachedObject>>,
    /// Its plain stored bytes. `None` for the form in which the codec stores it.
    plain: Option<Bytes>,
    /// Whether the value is stale and should be rewritten (ST-56).
    stale: bool,
    /// Whether it was read from the engine, and neither suggested by a cache nor queued.
    current: bool,
    /// The ticket of the mutation that results in this state, if that is not durable yet.
    ticket: Option<Ticket>,
    /// The store's revision when the key was in this state. For an absent key, any earlier value is
    /// older than this.
    seen: Revision,
}

impl ObjectState {
    fn revision(&self) -> Revision {
        self.object
            .as_ref()
            .map_or(Revision::ZERO, |object| object.revision)
    }

    fn expectation(&self) -> Expect {
        match (&self.ticket, self.revision()) {
            (Some(ticket), _) => Expect::LeftBy(ticket.clone()),
            (None, Revision::ZERO) => Expect::Absent,
            (None, revision) => Expect::Unchanged(revision),
        }
    }
}

impl Underlying {
    /// A store of a resource's objects.
    pub fn new(
        engine: Arc<dyn DataEngine>,
        keys: Keys,
        decoder: Arc<StoredDecoder>,
        lessor: LessorHandle,
        writers: Option<WriterHandle>,
    ) -> Underlying {
        Underlying {
            engine,
            keys,
            metrics: decoder.metrics.clone(),
            decoder,
            lessor,
            writers,
            counted: Arc::default(),
            epoch: Arc::default(),
        }
    }

    /// Returns a store for reads of the same keys over another engine, with values that this
    /// decoder reads.
    pub(super) fn reading(
        &self,
        engine: Arc<dyn DataEngine>,
        decoder: Arc<StoredDecoder>,
    ) -> Underlying {
        let lessor = self.lessor.clone();
        Underlying::new(engine, self.keys.clone(), decoder, lessor, None)
    }

    /// Clears the Writers' memory when the engine has begun a new epoch.
    async fn forget_other_epochs(&self) {
        let now = self.engine.epoch();
        if self.epoch.swap(now, Ordering::Relaxed) != now
            && let Some(writers) = &self.writers
        {
            writers.forget_all().await;
        }
    }

    /// Returns the current position of the store. A request to etcd for it counts as a read (ST-70,
    /// ME-70). An engine in this process knows it.
    pub(super) async fn position(&self, prefix: &Prefix) -> Result<Position, StorageError> {
        let started = Instant::now();
        let answer = self.engine.current(prefix).await;
        if self.engine.feed_progress() != FeedProgress::Immediate {
            self.metrics.request("get", started, answer.is_ok());
        }
        answer.map_err(|error| self.engine_fault(&prefix.to_string(), error))
    }

    pub(super) fn fault(&self, key: &str, kind: StorageErrorKind) -> StorageError {
        StorageError {
            key: key.to_owned(),
            kind,
        }
    }

    /// Maps an engine's error. `key` is the physical key or prefix of the request.
    pub(super) fn engine_fault(&self, key: &str, error: EngineError) -> StorageError {
        let kind = match error {
            EngineError::Compacted { .. } => StorageErrorKind::Expired {
                what: Expired::List,
            },
            EngineError::FutureRevision { requested, current } => StorageErrorKind::TooLarge {
                requested,
                current,
                retry_after: 0,
            },
            EngineError::OutcomeUnknown(text) => StorageErrorKind::OutcomeUnknown(text),
            EngineError::Unavailable(_) => StorageErrorKind::Unreachable(error.to_string()),
            EngineError::OutOfSpace(_) | EngineError::LeaseNotFound(_) => {
                StorageErrorKind::Unavailable(error.to_string(), 2)
            }
            EngineError::Closed => StorageErrorKind::Unavailable(error.to_string(), 1),
            EngineError::TooLarge(text) => StorageErrorKind::RequestTooLarge(text),
            EngineError::Corrupt(_) => StorageErrorKind::Internal(error.to_string()),
            EngineError::Refused(text) => {
                StorageErrorKind::Refused(Box::new(Status::unknown(text)))
            }
        };
        self.fault(key, kind)
    }

    /// Decodes an object. Only bytes that the codec does not recognise as an object are unreadable,
    /// and may be deleted by name.
    fn decode(
        &self,
        key: &Key,
        revision: Revision,
        plain: &Bytes,
    ) -> Result<Arc<CachedObject>, StorageError> {
        let decoded = self.decoder.decode_plain(key, revision, plain);
        decoded.map(Arc::new).map_err(|error| {
            let kind = StorageErrorKind::Unreadable(error.to_string());
            self.fault(&key.to_text(), kind)
        })
    }

    /// The state of a stored value, as it was when the store was at `seen`.
    fn state_of(&self, item: &KeyValue, seen: Revision) -> Result<ObjectState, StorageError> {
        let (plain, stale) = self.plain_of(item)?;
        let object = self.decode(&item.key, item.revision, &plain)?;
        Ok(ObjectState {
            object: Some(object),
            plain: Some(plain),
            stale,
            current: true,
            ticket: None,
            seen,
        })
    }

    pub(super) fn object_of(&self, item: &KeyValue) -> Result<Arc<CachedObject>, StorageError> {
        let plain = self.plain_of(item)?.0;
        self.decode(&item.key, item.revision, &plain)
    }

    /// The plain bytes of a stored value, and whether the value is stale.
    fn plain_of(&self, item: &KeyValue) -> Result<(Bytes, bool), StorageError> {
        let transformer = &self.decoder.transformer;
        let plain = transformer.transform_from_storage(&item.key, &item.value);
        plain.map_err(|error| {
            let kind = StorageErrorKind::Internal(error.to_string());
            self.fault(&error.key, kind)
        })
    }

    /// The state that a cache suggests, as if it were stored in the canonical form.
    fn suggested(&self, object: Arc<CachedObject>) -> ObjectState {
        ObjectState {
            seen: object.revision,
            object: Some(object),
            plain: None,
            stale: false,
            current: false,
            ticket: None,
        }
    }

    /// Reads a key from the engine (ME-1, ME-2).
    async fn fetch(&self, key: &Key, at: At) -> Result<GetResponse, StorageError> {
        let started = Instant::now();
        let answer = self.engine.get(key.clone(), at).await;
        self.metrics.request("get", started, answer.is_ok());
        answer.map_err(|error| self.engine_fault(&key.to_text(), error))
    }

    /// The current state of a key, which may be absent.
    async fn read(&self, key: &Key) -> Result<ObjectState, StorageError> {
        let answer = self.fetch(key, At::Latest).await?;
        match answer.item {
            Some(item) => self.state_of(&item, answer.revision),
            None => Ok(absent(answer.revision)),
        }
    }

    /// Commits. If the engine refuses, returns the current state of the key.
    async fn commit(
        &self,
        operation: &'static str,
        mutation: Mutation,
    ) -> Result<Result<Event, ObjectState>, StorageError> {
        let outcome = self.outcome(operation, mutation).await?;
        self.in_the_way(outcome)
    }

    async fn outcome(
        &self,
        operation: &'static str,
        mutation: Mutation,
    ) -> Result<Outcome, StorageError> {
        let key = mutation.key.clone();
        self.begin_write(&key)?;
        let answer = self.submit(operation, mutation).await;
        answer.map_err(|error| self.engine_fault(&key.to_text(), error))
    }

    /// Makes the request run to its end. An abandoned request begins no write.
    fn begin_write(&self, key: &Key) -> Result<(), StorageError> {
        let refused =
            |error: Abandoned| self.fault(&key.to_text(), StorageErrorKind::Refused(error.into()));
        abandoned::begin_write().map_err(refused)
    }

    async fn submit(
        &self,
        operation: &'static str,
        mutation: Mutation,
    ) -> Result<Outcome, EngineError> {
        let started = Instant::now();
        let answer = self.engine.commit(mutation).await;
        self.answered(operation, started, &answer).await;
        answer
    }

    /// Counts the result of a commit (ME-1, ME-2).
    async fn answered(
        &self,
        operation: &'static str,
        started: Instant,
        answer: &Result<Outcome, EngineError>,
    ) {
        self.metrics.request(operation, started, answer.is_ok());
        if let (Err(EngineError::OutcomeUnknown(_)), Some(writers)) = (answer, &self.writers) {
            // The Writers' memory of hot keys may be outdated. The next attempts read.
            writers.forget_all().await;
        }
    }

    fn in_the_way(&self, outcome: Outcome) -> Result<Result<Event, ObjectState>, StorageError> {
        match outcome {
            Outcome::Committed(event) => Ok(Ok(event)),
            Outcome::Refused {
                current: Some(item),
                revision,
            } => Ok(Err(self.state_of(&item, revision)?)),
            Outcome::Refused {
                current: None,
                revision,
            } => Ok(Err(absent(revision))),
        }
    }

    /// The stored bytes of a plain value.
    fn stored(&self, key: &Key, plain: Vec<u8>) -> Result<Bytes, StorageError> {
        let transformer = &self.decoder.transformer;
        transformer
            .transform_to_storage(key, plain)
            .map_err(|error| {
                let kind = StorageErrorKind::Internal(error.to_string());
                self.fault(&error.key, kind)
            })
    }

    async fn put(
        &self,
        operation: &'static str,
        key: &Key,
        put: PutRequest,
        origin: &Origin,
    ) -> Result<Outcome, StorageError> {
        let PutRequest {
            expect,
            plain,
            prepared,
            ttl,
        } = put;
        let hold = self.decoder.transformer.hold();
        let value = self.stored(key, plain.to_vec())?;
        let mut leases_left = LEASES_MAX;
        loop {
            let lease = self.lease(key, ttl).await?;
            let change = Change::Put {
                value: value.clone(),
                lease,
            };
            let mutation = Mutation {
                key: key.clone(),
                expect: expect.clone(),
                change,
                origin: origin.clone(),
                prepared: prepared.prepared(),
            };
            self.begin_write(key)?;
            let outstanding = Outstanding::new(hold.clone());
            let answer = self.submit(operation, mutation).await;
            outstanding.answered(&answer);
            match answer {
                // The lease expired meanwhile, or a failure removed it.
                Err(EngineError::LeaseNotFound(_)) if leases_left > 1 => {
                    leases_left -= 1;
                    self.lessor.forget(lease);
                }
                answer => {
                    return answer.map_err(|error| self.engine_fault(&key.to_text(), error));
                }
            }
        }
    }

    /// Returns the lease of an object that lives for this many seconds (ST-57). `None` and 0 mean
    /// no limit.
    async fn lease(&self, key: &Key, ttl: Option<u64>) -> Result<LeaseId, StorageError> {
        let Some(ttl) = ttl.filter(|seconds| *seconds > 0) else {
            return Ok(LeaseId::default());
        };
        let lease = self.lessor.lease(ttl).await;
        lease.map_err(|error| self.engine_fault(&key.to_text(), error))
    }

    /// Decodes an object before it is stored, so that it need not be read back (ST-30).
    fn prepare(
        &self,
        key: &Key,
        object: &Object,
        plain: &Bytes,
    ) -> Result<PreparedObject, StorageError> {
        let codec = &self.decoder.codec;
        let decoded = codec.cached_form(object, key, PreparedObject::VERSION, plain);
        let object = decoded.map(Arc::new).map_err(|error| {
            let kind = StorageErrorKind::Internal(error.to_string());
            self.fault(&key.to_text(), kind)
        })?;
        Ok(PreparedObject::new(codec.definition(), object))
    }

    async fn get_object(
        &self,
        request: GetRequest,
    ) -> Result<Option<Arc<CachedObject>>, StorageError> {
        let key = self.keys.object(&request.key)?;
        let answer = self.fetch(&key, At::Latest).await?;
        if let Asked::At(wanted) = request.asked {
            self.check_reached(&key.to_text(), wanted, answer.revision, 0)?;
        }
        answer.item.map(|item| self.object_of(&item)).transpose()
    }

    /// Refuses a version that the store has not reached yet (ST-13).
    pub(super) fn check_reached(
        &self,
        key: &str,
        requested: Revision,
        current: Revision,
        retry_after: u32,
    ) -> Result<(), StorageError> {
        if requested <= current {
            return Ok(());
        }
        Err(self.fault(
            key,
            StorageErrorKind::TooLarge {
                requested,
                current,
                retry_after,
            },
        ))
    }

    async fn count(&self) -> Result<Stats, StorageError> {
        let prefix = self.keys.resource_prefix();
        let started = Instant::now();
        let answer = self
            .engine
            .range(RangeRequest {
                prefix: prefix.clone(),
                start: None,
                at: At::Latest,
                limit: 0,
                count_only: true,
            })
            .await;
        self.metrics
            .request("listWithCount", started, answer.is_ok());
        let answer = answer.map_err(|error| self.engine_fault(&prefix.to_string(), error))?;
        let stats = Stats {
            object_count: answer.count,
            average_object_bytes: 0,
        };
        *self.counted.lock() = Some((started, stats));
        Ok(stats)
    }
}

/// The state of a key that was absent when the store was at `seen`.
fn absent(seen: Revision) -> ObjectState {
    ObjectState {
        object: None,
        plain: None,
        stale: false,
        current: true,
        ticket: None,
        seen,
    }
}

impl Storage for Underlying {
    fn create<'s>(
        &'s self,
        key: &'s str,
        new: NewObject,
        origin: Origin,
    ) -> BoxFuture<'s, Result<Arc<CachedObject>, StorageError>> {
        self.create_object(key, new, origin).boxed()
    }

    fn delete<'s>(
        &'s self,
        request: DeleteRequest,
        validate: &'s mut dyn ValidateDeletion,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>> {
        self.delete_object(request, validate).boxed()
    }

    fn delete_unreadable<'s>(
        &'s self,
        key: &'s str,
        origin: Origin,
    ) -> BoxFuture<'s, Result<bool, StorageError>> {
        self.delete_unread(key, origin).boxed()
    }

    fn get(
        &self,
        request: GetRequest,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>> {
        self.get_object(request).boxed()
    }

    fn get_at(
        &self,
        key: String,
        revision: Revision,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>> {
        self.object_at(key, revision).boxed()
    }

    fn history(
        &self,
        request: HistoryRequest,
    ) -> BoxFuture<'_, Result<ObjectHistory, StorageError>> {
        self.object_history(request).boxed()
    }

    fn get_list(&self, request: ListRequest) -> BoxFuture<'_, Result<ObjectList, StorageError>> {
        self.list(request).boxed()
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> LocalBoxFuture<'_, Result<RunningWatch, StorageError>> {
        self.open_watch(request).boxed_local()
    }

    fn guaranteed_update<'s>(
        &'s self,
        request: UpdateRequest,
        update: &'s mut dyn UpdateFunction,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>> {
        self.update_object(request, update).boxed()
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, StorageError>> {
        self.count().boxed()
    }

    fn known_stats(&self, prefix: &str) -> Option<Stats> {
        // The objects of a single namespace are not counted.
        if self.keys.below(prefix).ok()? != *self.keys.resource_prefix() {
            return None;
        }
        let (at, stats) = (*self.counted.lock())?;
        (at.elapsed() < COUNT_LASTS).then_some(stats)
    }

    fn is_always_fresh(&self) -> bool {
        true
    }

    fn readiness_check(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        async move {
            let prefix = self.keys.resource_prefix();
            let started = Instant::now();
            let answer = self.engine.current(prefix).await;
            self.metrics.request("get", started, answer.is_ok());
            let position = answer.map_err(|error| self.engine_fault(&prefix.to_string(), error))?;
            Ok(position.revision)
        }
        .boxed()
    }
}
