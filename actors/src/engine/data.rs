//! The part of the port that reads, commits and follows: etcd's services KV and Watch.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, ready};

use super::error::EngineError;
use super::event::{Event, KeyValue, Mutation, Outcome};
use super::key::{Key, Prefix, Revision};
use super::ticket::TicketIssuer;

/// The state that a read returns.
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
    /// The state to read.
    pub at: At,
    /// The most items to return; 0 means no limit. An engine may return fewer, with `more` set, if
    /// the items are large. It always returns at least one if there are any.
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
    /// The value; `None` if the key is absent.
    pub item: Option<KeyValue>,
}

/// A bounded read of past events, for watches that start before the beginning of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRequest {
    /// Events of keys under this prefix.
    pub prefix: Prefix,
    /// Events after this revision.
    pub after: Revision,
    /// Events up to this revision, inclusive.
    pub until: Revision,
    /// Stop after this many bytes of values. At least one event is read.
    pub bytes_max: usize,
}

/// A chunk of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryChunk {
    /// The events in order, each with its previous value.
    pub events: Vec<Event>,
    /// Every event up to here was read: it is the `after` of the next request. At the end of the
    /// requested history it is `until`, or the store's revision if that is smaller.
    pub reached: Revision,
}

/// The newest revisions of a store and of one of its prefixes (docs/design.md 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The newest durable revision of the store.
    pub revision: Revision,
    /// The prefix has no event after this revision and up to `revision`. The embedded engine gives
    /// the prefix's last event. An engine that does not know it gives `revision`.
    pub prefix_revision: Revision,
}

/// An item that a feed delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedItem {
    /// Events in order. All events of a revision are in one batch.
    Events(Arc<[Event]>),
    /// The prefix has no event after the last one delivered and up to this revision.
    Progress(Revision),
    /// The whole store was reset to an earlier content ([`MemoryEngine::reset`]). Every feed gets
    /// this, whatever its prefix.
    ///
    /// [`MemoryEngine::reset`]: super::MemoryEngine::reset
    Reset {
        /// The events of the prefix by which it was reset, in order.
        events: Arc<[Event]>,
        /// The revision of the content. Everything before it is compacted.
        revision: Revision,
    },
}

/// The events of one prefix after a revision, each exactly once and in order. Dropping it ends it.
pub trait Feed: Send {
    /// Waits for the next batch. An error ends the feed. Open another one after the last revision
    /// delivered, or read the range again if that revision is compacted.
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>>;
}

/// When a feed reports that its prefix has no further event up to some revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedProgress {
    /// At once, without a request. A reader of [`DataEngine::current`] only has to wait for it.
    Immediate,
    /// Soon after [`DataEngine::request_progress`] (ST-71).
    OnRequest,
    /// Now and then, and not on request (ST-72). A reader that needs the newest state reads the
    /// store (LI-32).
    Seldom,
}

/// The outcome of a mutation that was queued. Dropping it does not cancel the mutation.
pub type PendingOutcome = BoxFuture<'static, Result<Outcome, EngineError>>;

/// Whether an engine can be used, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Reads and writes work.
    Serving,
    /// Reads work. Writes are refused for this reason, such as a full disk.
    ReadOnly(String),
    /// Nothing works now, for this reason. The engine tries to recover by itself.
    Down(String),
}

/// Reads, commits and feeds of a store. The rules in the documentation of [`super`] hold for each.
pub trait DataEngine: Send + Sync + 'static {
    /// One key.
    ///
    /// # Errors
    /// [`EngineError::Compacted`] and [`EngineError::FutureRevision`] for a read at a revision.
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>>;

    /// The keys of a prefix, in order.
    ///
    /// # Errors
    /// As [`DataEngine::get`].
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>>;

    /// Commits if the precondition holds. Dropping the future does not cancel the mutation.
    ///
    /// # Errors
    /// [`EngineError::OutcomeUnknown`] if it may or may not have been committed. Any other error
    /// means that it was not committed. [`EngineError::LeaseNotFound`] for a put whose precondition
    /// holds and whose lease is gone.
    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>>;

    /// Queues a mutation, and settles its ticket when its outcome is known. From then on a mutation
    /// that expects [`Expect::LeftBy`](super::Expect::LeftBy) may be queued after it. An engine
    /// that has only one mutation of a key under way at a time queues nothing and commits at once.
    fn queue(&self, mutation: Mutation, issuer: TicketIssuer) -> BoxFuture<'_, PendingOutcome> {
        let committed = self.commit(mutation).map(move |outcome| {
            if let Ok(Outcome::Committed(event)) = &outcome {
                issuer.settle(event.revision);
            }
            ready(outcome).boxed()
        });
        committed.boxed()
    }

    /// Opens a feed of the events of a prefix after a revision.
    ///
    /// # Errors
    /// [`EngineError::Compacted`] if events after the revision are compacted.
    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>>;

    /// Reads a bounded piece of history, with previous values.
    ///
    /// # Errors
    /// [`EngineError::Compacted`] if events after `after` are compacted.
    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>>;

    /// The newest position, linearizable: every commit acknowledged before the call is covered.
    ///
    /// # Errors
    /// If the engine can't be reached.
    fn current(&self, prefix: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>>;

    /// The newest position known without any I/O; it may lag behind [`DataEngine::current`].
    fn known(&self, prefix: &Prefix) -> Position;

    /// How feeds of this engine report progress. It may change while the engine runs.
    fn feed_progress(&self) -> FeedProgress {
        FeedProgress::Immediate
    }

    /// Asks the feeds of exactly this prefix to report when they have delivered everything up to
    /// this revision. A request is kept for a few seconds, so one that comes too early is answered
    /// too. It does nothing without [`FeedProgress::OnRequest`].
    fn request_progress(&self, _prefix: &Prefix, _up_to: Revision) {}

    /// The epoch of the store. It changes if the store has lost revisions that it had shown, or was
    /// replaced by another store. Everything remembered of the old epoch is invalid then, and its
    /// feeds end with [`EngineError::Compacted`]. Compare the epoch after opening a feed, because
    /// the revision that it continues from may be of the old epoch.
    fn epoch(&self) -> u64 {
        0
    }

    /// Whether events of the past have the time and the origin with which they were committed.
    fn knows_origins(&self) -> bool {
        true
    }

    /// The newest compacted revision; 0 if there is none. Reads at older revisions are refused.
    fn compacted(&self) -> Revision;

    /// Whether the engine serves.
    fn health(&self) -> Health;
}
