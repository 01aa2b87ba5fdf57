//! The parameters of a new watch.

use std::sync::Arc;

use tokio::time::Instant;

use crate::cacher::CacherHandle;
use crate::engine::{DataEngine, Revision};
use crate::object::Decode;
use crate::snapshot::Snapshot;
use crate::watch::WatchInterest;

/// The request for a new watch.
#[derive(Clone)]
pub struct WatchStart {
    /// The cache of the resource.
    pub cacher: CacherHandle,
    /// The engine with its history.
    pub engine: Arc<dyn DataEngine>,
    /// How to decode that history.
    pub decode: Arc<dyn Decode>,
    /// Which events, and in what form.
    pub interest: WatchInterest,
    /// The start of the watch.
    pub from: StartPoint,
    /// Whether bookmarks are wanted (WA-40).
    pub bookmarks: bool,
    /// When the stream ends (WA-2).
    pub deadline: Instant,
}

/// Where a watch starts.
#[derive(Clone)]
pub enum StartPoint {
    /// Events after this revision, which may be in the future (WA-10).
    After(Revision),
    /// The objects of this snapshot as ADDED, in key order (WA-11), then events after its revision.
    Initial {
        /// The snapshot.
        snapshot: Arc<Snapshot>,
        /// The revision of the bookmark after the initial events (WA-15), if one is wanted.
        end_bookmark: Option<Revision>,
    },
}
