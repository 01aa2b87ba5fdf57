//! The port: what the actors need of a storage engine, in bytes and revisions.
//!
//! An engine keeps a log of [`Event`]s, the truth, and answers questions about the state that is
//! its fold. It knows nothing of objects, namespaces or HTTP. `storage/embedded`,
//! `storage/memory` and `storage/etcd` of the daemon implement [`Engine`]; the engine suite in
//! `tests/` says what each of them must do.
//!
//! Rules for every engine:
//! - An event is *durable before it is acknowledged* and *visible only when durable*: neither a
//!   read, nor a feed, nor [`Engine::known`] shows what a power cut could still take back.
//! - Revisions strictly increase over the whole store and are never used twice.
//! - No method blocks the calling thread: engines do their I/O on threads of their own, or as
//!   part of the task that asks, which must be free to run.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;

/// The number of an event in its store; what clients see as `resourceVersion`. 0 is "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// No revision: the version of a key that is absent, the position before the first event.
    pub const ZERO: Revision = Revision(0);
    /// Beyond every revision that a store can reach.
    pub const MAX: Revision = Revision(u64::MAX);

    /// The revision after this one (saturating).
    pub fn next(self) -> Revision {
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A physical key, such as `/registry/configmaps/default/a`; cheap to clone, ordered by bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// A key of these bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Key {
        Key(Arc::from(bytes.as_ref()))
    }

    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as text; Kubernetes' keys always are UTF-8, anything else is shown lossily.
    pub fn to_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl std::borrow::Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// All keys that start with these bytes; for a resource `/registry/configmaps/`, always ending in
/// a slash there, so that `/registry/pods/` never covers `/registry/podtemplates/a` (PF-18).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(Key);

impl Prefix {
    /// A prefix of these bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Prefix {
        Prefix(Key::new(bytes))
    }

    /// The prefix's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether the key lies under this prefix.
    pub fn covers(&self, key: &Key) -> bool {
        key.as_bytes().starts_with(self.as_bytes())
    }

    /// The first key after all that start with this prefix; `None` when there is none (only for
    /// prefixes of nothing but 0xff).
    pub fn end(&self) -> Option<Vec<u8>> {
        let mut end = self.as_bytes().to_vec();
        while let Some(last) = end.last_mut() {
            if *last < u8::MAX {
                *last += 1;
                return Some(end);
            }
            end.pop();
        }
        None
    }
}

impl std::borrow::Borrow<[u8]> for Prefix {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a lease; 0 is "no lease". An engine never gives a number to two leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// A lease: the keys attached to it are deleted when its time to live is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub id: LeaseId,
    /// The time to live as granted, which may be longer than what was asked for.
    pub ttl: Duration,
}

/// What one step of deleting what outlived its lease did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiry {
    /// Keys deleted in this step.
    pub expired: u64,
    /// Whether another step would find work.
    pub more: bool,
    /// Until the next lease runs out, where `more` is false; `None` when there is none that this
    /// engine must be reminded of.
    pub next: Option<Duration>,
}

/// Who caused an event: kept in the log for history and audit, shown to no ordinary client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The authenticated user's name, such as `admin` or `system:taffrail:namespaces`.
    pub user: String,
    /// The field manager of the request, if any.
    pub manager: String,
    /// The request's `Audit-ID`.
    pub audit_id: String,
}

/// One key's value at some revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The physical key.
    pub key: Key,
    /// The stored bytes.
    pub value: Bytes,
    /// The revision of the put that brought the key into being.
    pub create_revision: Revision,
    /// The revision of the put that wrote this value (etcd's `mod_revision`).
    pub revision: Revision,
    /// How many puts the key has seen since it came into being, from 1.
    pub version: u64,
    /// The lease the key is attached to.
    pub lease: LeaseId,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The key has a new value.
    Put,
    /// The key is gone.
    Delete,
}

/// A committed fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place in the store's order.
    pub revision: Revision,
    /// The key it is about.
    pub key: Key,
    /// Put or delete.
    pub kind: EventKind,
    /// The new value; empty for a delete.
    pub value: Bytes,
    /// The revision that brought the key into being (equal to `revision` for a create).
    pub create_revision: Revision,
    /// The revision of the key's value before this event; 0 when it was absent. An engine that
    /// has forgotten it names a revision at which that value was the newest.
    pub prev_revision: Revision,
    /// Puts since the key came into being; 0 for a delete.
    pub version: u64,
    /// The lease the new value is attached to. Of a delete the lease whose end it was, where the
    /// engine knows that.
    pub lease: LeaseId,
    /// Wall-clock time of the commit.
    pub time: SystemTime,
    /// Who caused it.
    pub origin: Origin,
    /// The value before this event, where the reader asked for it or the engine had it at hand;
    /// always present in [`Engine::history`] for an event with a `prev_revision`.
    pub previous: Option<Bytes>,
}

impl Event {
    /// What the event left at its key, of a put.
    pub fn key_value(&self) -> KeyValue {
        KeyValue {
            key: self.key.clone(),
            value: self.value.clone(),
            create_revision: self.create_revision,
            revision: self.revision,
            version: self.version,
            lease: self.lease,
        }
    }
}

/// What must hold of a key for a mutation to take place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key must be absent; a delete that expects this is always refused.
    Absent,
    /// The key's value must still be the one of this revision.
    Unchanged(Revision),
}

/// What a mutation does to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Store this value, attached to this lease.
    Put {
        /// The bytes to store.
        value: Bytes,
        /// The lease that the key is attached to from now on, and to no other; 0 detaches it from
        /// any it had (ST-57).
        lease: LeaseId,
    },
    /// Remove the key.
    Delete,
}

/// A wish with a precondition; the engine answers with an event or with a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// The key to change.
    pub key: Key,
    /// What must hold.
    pub expect: Expect,
    /// What to do.
    pub change: Change,
    /// Who wants it.
    pub origin: Origin,
}

/// The answer to a mutation. Both kinds are given only once the state they speak of is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took place.
    Committed(Event),
    /// The precondition did not hold.
    Refused {
        /// The key's value now, `None` when it is absent.
        current: Option<KeyValue>,
        /// The store's revision when it was looked at.
        revision: Revision,
    },
}

/// Where in time a read looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The newest durable state (linearizable).
    Latest,
    /// The state right after this revision.
    Revision(Revision),
}

/// A range read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRequest {
    /// Keys under this prefix.
    pub prefix: Prefix,
    /// Only keys at or after these bytes, when given.
    pub start: Option<Vec<u8>>,
    /// The state to look at.
    pub at: At,
    /// At most so many items; 0 is no limit. Engines may answer with fewer and `more` set when
    /// the items grow large, never with none while there are some.
    pub limit: usize,
    /// Count without returning items.
    pub count_only: bool,
}

/// The answer to a range read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeResponse {
    /// The store's current revision when the read was served (etcd's header revision).
    pub revision: Revision,
    /// The items in order of their keys.
    pub items: Vec<KeyValue>,
    /// Whether keys remain after the last item.
    pub more: bool,
    /// Keys from `start` to the prefix's end at that revision, not bounded by `limit`.
    pub count: u64,
}

/// The answer to a read of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetResponse {
    /// The store's current revision when the read was served.
    pub revision: Revision,
    /// The value, `None` when the key is absent.
    pub item: Option<KeyValue>,
}

/// A bounded read of past events, for watches that start where no ring reaches any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRequest {
    /// Events of keys under this prefix.
    pub prefix: Prefix,
    /// Events after this revision.
    pub after: Revision,
    /// Events up to this revision, inclusive.
    pub until: Revision,
    /// Stop once so many bytes of values were read (at least one event is read).
    pub bytes_max: usize,
}

/// A chunk of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryChunk {
    /// The events in order, each with its previous value.
    pub events: Vec<Event>,
    /// Every event up to here has been looked at: the next request's `after`. Once the history
    /// asked for is exhausted, it is `until`, or the store's revision if that is smaller.
    pub reached: Revision,
}

/// How far a store and one prefix of it have come (docs/design.md 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The newest durable revision of the store.
    pub revision: Revision,
    /// A revision such that whoever has seen the prefix's events up to it has seen all of the
    /// prefix's events up to `revision`. The embedded engine gives the prefix's last event, an
    /// engine that can't know gives `revision`.
    pub prefix_revision: Revision,
}

/// What a feed delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedItem {
    /// Events in order, never splitting a revision.
    Events(Arc<[Event]>),
    /// No event of the prefix lies between the last one delivered and this revision.
    Progress(Revision),
}

/// Events of one prefix from a revision on, each exactly once and in order. Dropping it ends it.
pub trait Feed: Send {
    /// The next batch; waits until there is one. An error ends the feed: open another one from
    /// the last revision delivered, or read the range anew if that is compacted.
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>>;
}

/// How a feed comes to tell that nothing more of its prefix happened up to some revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedProgress {
    /// By itself and at once: a reader of [`Engine::current`] only has to wait for it.
    Immediate,
    /// Soon after [`Engine::request_progress`] (ST-71).
    OnRequest,
    /// Now and then, and nobody can make it (ST-72): a reader who needs the newest state reads
    /// the store (LI-32).
    Seldom,
}

/// How much history to keep: whichever of the two keeps less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Events younger than this are kept.
    pub age: Duration,
    /// At most so many bytes of superseded records are kept.
    pub bytes: u64,
}

/// What one step of maintenance found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// Records removed in this step.
    pub removed: u64,
    /// Bytes given back to the file system in this step.
    pub reclaimed_bytes: u64,
    /// Whether another step would find work.
    pub more: bool,
}

/// Whether an engine can be used, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Reads and writes work.
    Serving,
    /// Reads work, writes are refused for this reason (a full disk, say).
    ReadOnly(String),
    /// Nothing works for the moment for this reason; the engine tries to recover by itself.
    Down(String),
}

/// Sizes of a store, for metrics and `/readyz?verbose`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Keys that exist now.
    pub live_keys: u64,
    /// Bytes of the events retained, live values included.
    pub retained_bytes: u64,
    /// Bytes of the blocks that the store takes on disk; its file may be longer and have holes.
    pub file_bytes: u64,
}

/// A store of events. See the module's documentation for the rules all of them keep.
pub trait Engine: Send + Sync + 'static {
    /// One key.
    ///
    /// # Errors
    /// [`EngineError::Compacted`] and [`EngineError::FutureRevision`] for a read at a revision.
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>>;

    /// The keys of a prefix, in order.
    ///
    /// # Errors
    /// As [`Engine::get`].
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>>;

    /// Commits if the precondition holds. Dropping the future does not take the wish back.
    ///
    /// # Errors
    /// [`EngineError::OutcomeUnknown`] when it may or may not have taken place, any other error
    /// when it certainly did not; [`EngineError::LeaseNotFound`] for a put whose precondition
    /// holds and whose lease is gone.
    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>>;

    /// The events of a prefix after a revision, for as long as somebody listens.
    ///
    /// # Errors
    /// [`EngineError::Compacted`] when events after the revision are gone.
    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>>;

    /// A bounded piece of the past, with previous values.
    ///
    /// # Errors
    /// [`EngineError::Compacted`] when events after `after` are gone.
    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>>;

    /// The newest position, linearizable: every commit acknowledged before the call is covered.
    ///
    /// # Errors
    /// When the engine can't be reached.
    fn current(&self, prefix: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>>;

    /// The newest position known without any I/O; it may lag behind [`Engine::current`].
    fn known(&self, prefix: &Prefix) -> Position;

    /// How feeds of this engine tell of progress. It may become known, or change, while running.
    fn feed_progress(&self) -> FeedProgress {
        FeedProgress::Immediate
    }

    /// Somebody waits for the feeds of this very prefix to have told of everything up to this
    /// revision. Wishes are kept for a few seconds, so that one asked for a moment too early is
    /// fulfilled as well; without [`FeedProgress::OnRequest`] nothing happens.
    fn request_progress(&self, _prefix: &Prefix, _up_to: Revision) {}

    /// A number that changes when the store turns out to have lost revisions that it had shown, or
    /// to be another one altogether: whatever was remembered of it is void then. Its feeds end
    /// with [`EngineError::Compacted`]; who opens one looks at the lineage afterwards, for
    /// the revision to go on from may be of the one before.
    fn lineage(&self) -> u64 {
        0
    }

    /// The newest revision that retention would forget at this time.
    ///
    /// # Errors
    /// When the engine can't be read.
    fn horizon(
        &self,
        retention: Retention,
        now: SystemTime,
    ) -> BoxFuture<'_, Result<Revision, EngineError>>;

    /// Forgets superseded events up to and including the revision: from the answer on, reads at
    /// and feeds after an older revision are refused (a read *at* the revision still works). The
    /// space comes back by [`Engine::maintain`].
    ///
    /// # Errors
    /// [`EngineError::FutureRevision`] beyond the current revision; a compacted one is no error.
    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>>;

    /// The newest revision compacted; 0 when nothing was.
    fn compacted(&self) -> Revision;

    /// One small step of upkeep, short enough that client writes don't feel it: removing what
    /// was compacted and, with `reclaim`, giving space back to the file system.
    ///
    /// # Errors
    /// When the engine can't be written.
    fn maintain(&self, reclaim: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>>;

    /// One small step of giving all space back, however little it is. Once there is no more to do,
    /// the store's files hold nothing of what was compacted before the first step.
    ///
    /// # Errors
    /// When the engine can't be written, has no room for it, or too much is being written.
    fn purge(&self) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        self.maintain(true)
    }

    /// Grants a lease of at least so long. It lives on without keys, and it may be lost with the
    /// process as long as nothing has been attached to it: then puts that name it are refused.
    ///
    /// # Errors
    /// When the engine can't be written.
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>>;

    /// Ends a lease now. Its keys are deleted before the answer, each by an event; when the answer
    /// is an error they may be deleted later, all the same.
    ///
    /// # Errors
    /// [`EngineError::LeaseNotFound`] when it is gone already.
    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>>;

    /// One small step of deleting the keys that outlived their lease, short enough that client
    /// writes don't feel it. A key is deleted only if it is attached to that lease at that
    /// moment, by an event with a revision of its own. An engine whose server does that by itself
    /// has nothing to do.
    ///
    /// # Errors
    /// When the engine can't be written.
    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>>;

    /// Whether the engine serves.
    fn health(&self) -> Health;

    /// What of the store was found damaged while it serves, and what to do; none for an engine that
    /// does not look.
    fn damage(&self) -> Option<String> {
        None
    }

    /// Sizes, cheap to ask.
    fn stats(&self) -> EngineStats;

    /// Stops accepting work, makes everything acknowledged durable and lets go of files.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Why an engine can't answer.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum EngineError {
    /// The past that was asked for is gone.
    #[error("revision {requested} is compacted, the oldest readable one is {compacted}")]
    Compacted {
        /// The revision asked for.
        requested: Revision,
        /// The newest compacted revision.
        compacted: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision {requested} is in the future, the store is at {current}")]
    FutureRevision {
        /// The revision asked for.
        requested: Revision,
        /// The store's current revision.
        current: Revision,
    },
    /// Nothing was done; the same call may work in a moment.
    #[error("storage is unavailable: {0}")]
    Unavailable(String),
    /// Nothing was done: there is no room. Deletes and compaction still work.
    #[error("no space left for writing: {0}")]
    OutOfSpace(String),
    /// The mutation may or may not have taken place; never retried as if it had failed.
    #[error("the outcome of the write is unknown: {0}")]
    OutcomeUnknown(String),
    /// Stored data is damaged; the text names the place.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// The request is too large for the engine.
    #[error("request is too large: {0}")]
    TooLarge(String),
    /// Nothing was done: the lease has run out, was revoked, or was never granted.
    #[error("lease {} is gone", .0.0)]
    LeaseNotFound(LeaseId),
    /// The engine has been closed.
    #[error("the store is closed")]
    Closed,
}

impl EngineError {
    /// Whether the same call may succeed in a moment without anybody mending anything.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            EngineError::Unavailable(_) | EngineError::OutOfSpace(_)
        )
    }
}
