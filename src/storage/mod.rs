//! Storage of objects: the trait that Kubernetes calls `storage.Interface`, over an engine.
//!
//! This folder owns how objects of one resource are read, written and watched under optimistic
//! concurrency. It turns requests for objects into mutations and reads of bytes by an engine.
//! Storage must not know HTTP or what a resource means. [`underlying`] implements the trait over an
//! engine, [`cached`] adds a watch cache to it, [`dry_run`] wraps either. [`factory`] decides how
//! each resource is stored. [`embedded`] and [`etcd`] are the engines. [`encryption`] encrypts
//! values, [`rewrite`] rewrites them under new keys. The storage suite in `tests/storage_suite`
//! specifies every implementation. Numbers such as ST-41 are those of `docs/behaviour`.

pub mod backup;
pub mod cached;
pub mod codec;
pub mod converted;
pub mod dry_run;
pub mod embedded;
pub mod encryption;
pub mod etcd;
pub mod factory;
pub mod history;
pub mod keys;
pub mod metrics;
pub mod object_count;
pub mod past;
mod preconditions;
pub mod rewrite;
pub mod run_to_completion;
pub mod storage_size;
mod stored_resource;
pub mod transformer;
pub mod underlying;

use std::sync::Arc;
use std::task::Poll;

use actors::dispatcher::{Caller, WatchFrame, Watcher};
use actors::engine::{Origin, Revision};
use actors::object::CachedObject;
use actors::snapshot::Snapshot;
use actors::watch::{Predicate, WatchInterest};
use futures_util::future::{BoxFuture, FutureExt, LocalBoxFuture};

use crate::api::object::Object;
use crate::api::status::Status;

pub use self::history::{ChangeKind, HistoryRequest, HistorySpan, ObjectChange, ObjectHistory};
pub use self::keys::Root;
pub use self::run_to_completion::{Hold, RunToCompletion};
pub use self::stored_resource::{ResourceStorage, StoredResource};
pub use crate::api::version::{Asked, Preconditions, VersionMatch};

/// A read of one object.
#[derive(Clone, Debug)]
pub struct GetRequest {
    /// Key relative to the store's prefix: `/configmaps/default/a` (ST-2).
    pub key: String,
    /// The state must not be older than this (ST-20).
    pub asked: Asked,
}

/// A read of many objects.
#[derive(Clone)]
pub struct ListRequest {
    /// Key relative to the store's prefix; a prefix when `recursive`, which gets a closing slash.
    pub key: String,
    /// Whether to read everything below the key, or the one object at it (RG-2).
    pub recursive: bool,
    /// The requested version.
    pub asked: Asked,
    /// How the version must match.
    pub version_match: Option<VersionMatch>,
    /// The most items of a page; 0 means no limit.
    pub limit: usize,
    /// The token of the previous page, still encoded.
    pub continue_token: Option<String>,
    /// The selectors; [`actors::watch::Everything`] for none.
    pub predicate: Arc<dyn Predicate>,
}

/// A page of objects, in order of their keys.
#[derive(Clone, Debug)]
pub struct ObjectList {
    /// The list's `resourceVersion`: the revision of the state, never of an item (PF-6).
    pub revision: Revision,
    /// The objects.
    pub items: Vec<Arc<CachedObject>>,
    /// Token of the next page, when keys remain (LI-40).
    pub continue_token: Option<String>,
    /// The number of items after this page, if it may be shown (LI-40).
    pub remaining_item_count: Option<u64>,
}

/// A request to start a watch (storage.md 3.2).
#[derive(Clone)]
pub struct WatchRequest {
    /// Key relative to the store's prefix.
    pub key: String,
    /// Whether to watch everything below the key, or the one object at it.
    pub recursive: bool,
    /// The version after which the watch starts.
    pub asked: Asked,
    /// `Some(true)` sends the state first, as ADDED events. `None` is `Some(true)` when the version
    /// is unset or 0, and otherwise `Some(false)`. The HTTP layer has defaulted it before (WA-5).
    pub send_initial_events: Option<bool>,
    /// Whether the watcher wants bookmarks.
    pub bookmarks: bool,
    /// Selectors and the form of frames. The storage sets the scope from `key`.
    pub interest: WatchInterest,
    /// The time when the stream ends by itself (WA-2).
    pub deadline: tokio::time::Instant,
    /// The Dispatcher of the calling thread. It serves cached watches.
    pub dispatcher: actors::dispatcher::LocalDispatcher,
}

/// The state that an update starts from.
#[derive(Clone, Debug)]
pub struct Current {
    /// The object as stored. `None` when the key is absent and `ignore_not_found` is set.
    pub object: Option<Arc<CachedObject>>,
}

/// An object to store.
#[derive(Clone, Debug)]
pub struct NewObject {
    /// The object to store.
    pub object: Object,
    /// Seconds to live; `None` and 0 detach it from any lease (ST-57).
    pub ttl: Option<u64>,
    /// A guard that is kept until the outcome of the write is known, even if the caller goes away.
    pub hold: Option<Hold>,
    /// Makes the object smaller if the engine refuses it for its size. It is called at most once,
    /// and returns whether it did.
    pub lighten: Option<fn(&mut Object) -> bool>,
}

impl NewObject {
    /// Makes the object smaller after the engine has refused it for its size. Returns false if it
    /// cannot be smaller.
    fn lighten(&mut self) -> bool {
        let lighten = self.lighten.take();
        lighten.is_some_and(|lighten| lighten(&mut self.object))
    }
}

/// Stores the object without a lifetime, as it is.
impl From<Object> for NewObject {
    fn from(object: Object) -> NewObject {
        NewObject {
            object,
            ttl: None,
            hold: None,
            lighten: None,
        }
    }
}

/// The decision of an update function, or of a deletion's check, on a state of the object.
#[derive(Clone, Debug)]
pub enum WriteDecision<T> {
    /// The write takes place.
    Write(T),
    /// The object stays as it is, and the caller continues in another way.
    Leave,
}

/// The outcome of a write that was not refused.
#[derive(Clone, Debug)]
pub enum WriteOutcome {
    /// It took place, or changed nothing. The object is as stored, or as it was when it was
    /// deleted.
    Done(Arc<CachedObject>),
    /// The last state was [`WriteDecision::Leave`], and it was current.
    Left,
}

/// The function of a GuaranteedUpdate. It is called once for each attempt, each time with another
/// state, so it must not keep anything that depends on an abandoned attempt (ST-64).
pub trait UpdateFunction: Send {
    /// Computes the new object from the current one.
    ///
    /// # Errors
    /// A Status ends the update. If the state was a suggestion, the current state is tried first.
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<NewObject>, Box<Status>>>;
}

/// The check of a deletion, called like an [`UpdateFunction`] (ST-45).
pub trait ValidateDeletion: Send {
    /// Checks whether this state of the object may be deleted.
    ///
    /// # Errors
    /// A Status refuses the deletion.
    fn call(
        &mut self,
        current: &Arc<CachedObject>,
    ) -> BoxFuture<'_, Result<WriteDecision<()>, Box<Status>>>;
}

/// A deletion without a check.
pub struct Unconditional;

impl ValidateDeletion for Unconditional {
    fn call(
        &mut self,
        _: &Arc<CachedObject>,
    ) -> BoxFuture<'_, Result<WriteDecision<()>, Box<Status>>> {
        std::future::ready(Ok(WriteDecision::Write(()))).boxed()
    }
}

/// A deletion.
#[derive(Clone, Debug)]
pub struct DeleteRequest {
    /// Key relative to the store's prefix.
    pub key: String,
    /// The preconditions on the stored object.
    pub preconditions: Preconditions,
    /// A state to start from instead of a read. It may be outdated (ST-41).
    pub suggestion: Option<Arc<CachedObject>>,
    /// The origin of the deletion.
    pub origin: Origin,
}

/// How an update depends on the version of the object that it starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionUse {
    /// It applies to one version only. Retries cannot help it, so it never waits for its turn.
    Names,
    /// It applies to any state of the object, but may read its version, which must be known then.
    Reads,
    /// As [`VersionUse::Reads`], but its function waits for other servers, so it takes no turn: the
    /// others would wait with it.
    Awaits,
    /// It applies to any state of the object, even one whose version is not known yet.
    Ignores,
}

/// An update.
#[derive(Clone, Debug)]
pub struct UpdateRequest {
    /// Key relative to the store's prefix.
    pub key: String,
    /// Whether to create the object if the key is absent, instead of failing.
    pub ignore_not_found: bool,
    /// The preconditions on the stored object.
    pub preconditions: Preconditions,
    /// A state to start from instead of a read. It may be outdated (ST-51).
    pub suggestion: Option<Arc<CachedObject>>,
    /// How the update depends on the object's version.
    pub version: VersionUse,
    /// The origin of the update.
    pub origin: Origin,
}

/// Sizes of a resource (ST-74).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of stored objects.
    pub object_count: u64,
    /// Their average size in bytes, or 0 if it is not estimated.
    pub average_object_bytes: u64,
}

/// A running watch: frames ready to be written to the client. It belongs to the thread that
/// opened it.
pub enum RunningWatch {
    /// The thread's Dispatcher serves it. The watch is stored in the state of its stream, without a
    /// pointer of its own. With thousands of watches each pointer costs a miss of the processor's
    /// cache.
    Dispatched(Watcher),
    /// Any other watch.
    Other(Box<dyn WatchStream>),
}

impl RunningWatch {
    /// Polls for the next frame, as [`WatchStream::poll_next`] does.
    pub fn poll_next(&mut self, caller: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        match self {
            RunningWatch::Dispatched(watcher) => watcher.poll_next(caller),
            RunningWatch::Other(stream) => stream.poll_next(caller),
        }
    }

    /// Wraps a watch that no Dispatcher serves.
    pub fn other(stream: impl WatchStream + 'static) -> RunningWatch {
        RunningWatch::Other(Box::new(stream))
    }
}

/// A watch that no Dispatcher serves.
pub trait WatchStream {
    /// Polls for the next frame. `None` is the end. If no frame explains the end, the client
    /// resumes (WA-37).
    fn poll_next(&mut self, caller: &Caller<'_>) -> Poll<Option<WatchFrame>>;
}

/// Objects of one resource under optimistic concurrency (ST-1).
///
/// Reads answer with objects in wire form. Every method may be cancelled by dropping its future. A
/// commit under way may or may not take effect then.
pub trait Storage: Send + Sync + 'static {
    /// Stores an object under an absent key (ST-30).
    ///
    /// # Errors
    /// [`StorageErrorKind::KeyExists`], or a version set on the object.
    fn create<'s>(
        &'s self,
        key: &'s str,
        new: NewObject,
        origin: Origin,
    ) -> BoxFuture<'s, Result<Arc<CachedObject>, StorageError>>;

    /// Deletes an object and returns its last content, at the revision of the deletion (ST-41,
    /// ST-42).
    ///
    /// # Errors
    /// [`StorageErrorKind::KeyNotFound`], failed preconditions, and the refusal of `validate`.
    fn delete<'s>(
        &'s self,
        request: DeleteRequest,
        validate: &'s mut dyn ValidateDeletion,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>>;

    /// Deletes a value that cannot be decoded, without checking its content (ST-46). Returns
    /// `false` and does nothing if the value can be decoded or is absent; [`Storage::delete`] then
    /// returns the reason.
    ///
    /// # Errors
    /// A value that cannot be transformed, because another key may be able to read it.
    fn delete_unreadable<'s>(
        &'s self,
        key: &'s str,
        origin: Origin,
    ) -> BoxFuture<'s, Result<bool, StorageError>>;

    /// Returns one object, or `None` if the key is absent.
    ///
    /// # Errors
    /// A version that the store has not reached.
    fn get(
        &self,
        request: GetRequest,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>>;

    /// Returns one object as it was at a revision, or `None` if the key was absent then.
    ///
    /// # Errors
    /// A compacted or future revision.
    fn get_at(
        &self,
        key: String,
        revision: Revision,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>>;

    /// Returns a part of the history of one object.
    ///
    /// # Errors
    /// A compacted revision, if history was compacted while it was read.
    fn history(
        &self,
        request: HistoryRequest,
    ) -> BoxFuture<'_, Result<ObjectHistory, StorageError>>;

    /// Returns a page of objects.
    ///
    /// # Errors
    /// A compacted or future version, an invalid token, or a cache that is being filled.
    fn get_list(&self, request: ListRequest) -> BoxFuture<'_, Result<ObjectList, StorageError>>;

    /// Opens a watch on the calling thread.
    ///
    /// # Errors
    /// Failures before the stream starts. The HTTP layer chooses between an HTTP error and an ERROR
    /// event (WA-6).
    fn watch(
        &self,
        request: WatchRequest,
    ) -> LocalBoxFuture<'_, Result<RunningWatch, StorageError>>;

    /// Reads the object, calls `update` and stores the result. Retries until no other write comes
    /// between (storage.md 1.6).
    ///
    /// # Errors
    /// [`StorageErrorKind::KeyNotFound`], failed preconditions, and the refusal of `update`.
    fn guaranteed_update<'s>(
        &'s self,
        request: UpdateRequest,
        update: &'s mut dyn UpdateFunction,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>>;

    /// Returns the count and sizes of objects.
    ///
    /// # Errors
    /// An engine that cannot be read.
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StorageError>>;

    /// Checks whether the store can serve from its cache (ST-73).
    ///
    /// # Errors
    /// [`StorageErrorKind::NotReady`] while the cache fills.
    fn readiness_check(&self) -> Result<(), StorageError>;

    /// Returns the newest revision of the whole store (ST-70).
    ///
    /// # Errors
    /// An engine that cannot be reached.
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>>;

    /// Returns whether a read of the newest state costs no more than a read of any state.
    fn is_always_fresh(&self) -> bool {
        false
    }

    /// Returns the count and sizes of the objects under a prefix, if they are known without
    /// waiting. They determine the seats that a list takes (RG-14).
    fn known_stats(&self, _prefix: &str) -> Option<Stats> {
        None
    }

    /// Returns whether the newest state certainly has nothing under a prefix. `false` if that
    /// cannot be known without waiting.
    fn is_known_empty(&self, _prefix: &str) -> bool {
        false
    }

    /// Returns the state that reads of any version see, if it is in memory. As long as it is the
    /// same, all such reads have the same results.
    fn state_in_memory(&self) -> Option<Arc<Snapshot>> {
        None
    }

    /// Returns the revision of the object that a read would find, if it is known without waiting.
    fn known_revision(&self, _key: &str) -> Option<Revision> {
        None
    }

    /// Returns the size of the object's JSON, or 0 if it cannot be known without waiting. It only
    /// decides on which thread the work is done.
    fn held_bytes(&self, _key: &str) -> usize {
        0
    }
}

/// The reason why storage refused a request. `registry/errors.rs` maps it to a Status (storage.md
/// 1.2).
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind}")]
pub struct StorageError {
    /// The physical key, or empty.
    pub key: String,
    /// The reason.
    pub kind: StorageErrorKind,
}

impl StorageError {
    /// Returns whether the engine refused the object for its size (API-93).
    pub fn is_too_large(&self) -> bool {
        matches!(self.kind, StorageErrorKind::RequestTooLarge(_))
    }
}

/// The kinds of [`StorageError`].
#[derive(Clone, Debug, thiserror::Error)]
pub enum StorageErrorKind {
    /// The key is absent.
    #[error("key not found")]
    KeyNotFound,
    /// The key exists.
    #[error("key exists")]
    KeyExists,
    /// A precondition does not hold. The text says which (ST-12, API-100).
    #[error("{0}")]
    InvalidObject(String),
    /// An object to be created has a version (ST-30).
    #[error("resourceVersion should not be set on objects to be created")]
    VersionOnCreate,
    /// The requested version is compacted. For a continue token that is too old, it has a token
    /// that continues at the newest state (LI-50, LI-51).
    #[error("the state asked for is gone")]
    Expired {
        /// The version that was too old.
        what: Expired,
    },
    /// The requested version is in the future (ST-13).
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLarge {
        /// The requested version.
        requested: Revision,
        /// The newest version.
        current: Revision,
        /// The seconds after which to retry, or 0.
        retry_after: u32,
    },
    /// The cache is being filled (ST-16).
    #[error("storage is (re)initializing{}", .last_error.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
    NotReady {
        /// The seconds after which to retry (WC-41).
        retry_after: u32,
        /// The reason why the last fill failed.
        last_error: Option<String>,
    },
    /// A bad request that only storage can detect: an invalid token or version (400).
    #[error("{0}")]
    BadRequest(String),
    /// An object that the engine refuses for its size (API-93). Nothing was done.
    #[error("{0}")]
    RequestTooLarge(String),
    /// A key that breaks the rules of ST-2.
    #[error("{0}")]
    InvalidKey(String),
    /// The Status of an update function, a deletion check or an admission plugin.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// The write may or may not have taken effect (504, never a false failure).
    #[error("the outcome of the write is unknown: {0}")]
    OutcomeUnknown(String),
    /// The engine cannot be reached or cannot answer. Nothing was done (ST-11).
    #[error("{0}")]
    Unreachable(String),
    /// Nothing was done, and a retry may succeed soon. Text, and seconds to wait.
    #[error("{0}")]
    Unavailable(String, u32),
    /// A stored value cannot be decoded (500).
    #[error("{0}")]
    Unreadable(String),
    /// A stored value cannot be transformed, or the engine failed (500).
    #[error("{0}")]
    Internal(String),
}

/// The kind of version that was too old, for the text of a 410.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expired {
    /// An exact version of a list (LI-50).
    List,
    /// A continue token. The fresh token continues at the newest state (LI-51).
    Continue {
        /// The token that continues inconsistently.
        fresh_token: Option<String>,
    },
    /// The start of a watch (WA-30).
    Watch {
        /// The requested version.
        requested: Revision,
        /// The oldest usable version.
        oldest: Revision,
    },
}
