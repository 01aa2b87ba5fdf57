//! What a watch starts with.

use std::sync::Arc;

use tokio::time::Instant;

use crate::cacher::CacherHandle;
use crate::engine::{DataEngine, Revision};
use crate::object::Decode;
use crate::snapshot::Snapshot;
use crate::watch::WatchInterest;

/// A wish to watch.
#[derive(Clone)]
pub struct WatchStart {
    /// The resource.
    pub cacher: CacherHandle,
    /// Where its history is.
    pub engine: Arc<dyn DataEngine>,
    /// How to read that history.
    pub decode: Arc<dyn Decode>,
    /// What is wanted of it.
    pub interest: WatchInterest,
    /// Where in time to start.
    pub from: StartPoint,
    /// Whether bookmarks are wanted (WA-40).
    pub bookmarks: bool,
    /// When the stream ends by itself (WA-2).
    pub deadline: Instant,
}

/// Where in time a watch starts.
#[derive(Clone)]
pub enum StartPoint {
    /// Only events after this revision, even if that is yet to come (WA-10).
    After(Revision),
    /// First the objects of this picture as ADDED, in order of their keys (WA-11), then events
    /// after its revision.
    Initial {
        /// The picture.
        snapshot: Arc<Snapshot>,
        /// Close the initial events with a bookmark of this revision (WA-15); it is at least the
        /// snapshot's.
        end_bookmark: Option<Revision>,
    },
}
