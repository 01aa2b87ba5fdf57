//! The part of the port that reads, commits and follows: etcd's services KV and Watch.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::error::EngineError;
use super::event::{Event, KeyValue, Mutation, Outcome};
use super::key::{Key, Prefix, Revision};

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
    /// By itself and at once: a reader of [`DataEngine::current`] only has to wait for it.
    Immediate,
    /// Soon after [`DataEngine::request_progress`] (ST-71).
    OnRequest,
    /// Now and then, and nobody can make it (ST-72): a reader who needs the newest state reads
    /// the store (LI-32).
    Seldom,
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

    /// Commits if the precondition holds. Dropping the future does not take the mutation back.
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

    /// The newest position known without any I/O; it may lag behind [`DataEngine::current`].
    fn known(&self, prefix: &Prefix) -> Position;

    /// How feeds of this engine tell of progress. It may become known, or change, while running.
    fn feed_progress(&self) -> FeedProgress {
        FeedProgress::Immediate
    }

    /// Requests that the feeds of this very prefix tell that they have delivered everything up to
    /// this revision. A request is kept for a few seconds, so that one made a moment too early is
    /// answered as well. Without [`FeedProgress::OnRequest`] nothing happens.
    fn request_progress(&self, _prefix: &Prefix, _up_to: Revision) {}

    /// The epoch of the store. It changes when the store turns out to have lost revisions that it
    /// had shown, or to be another one: whatever was remembered of it is void then. Its feeds end
    /// with [`EngineError::Compacted`]. Whoever opens a feed compares the epoch afterwards, as the
    /// revision to go on from may be of the epoch before.
    fn epoch(&self) -> u64 {
        0
    }

    /// The newest revision compacted; 0 when nothing was. Reads at older revisions are refused.
    fn compacted(&self) -> Revision;

    /// Whether the engine serves.
    fn health(&self) -> Health;
}
