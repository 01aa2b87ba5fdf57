//! Places watches on streams that they share.
//!
//! A gRPC stream takes 25 KiB in this process, so each is shared by up to [`WATCHES_MAX`] watches.
//! A watch with much to catch up has a stream of its own ([`super::etcd_watch`]), and so has one
//! whose reader is slow, until they have caught up.

use std::sync::Arc;

use actors::engine::{EngineError, Prefix, Revision};
use actors::tasks;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::cluster_state::ClusterState;
use super::etcd_watch::{CREATE_TIMEOUT, silent};
use super::progress_requests::ProgressRequests;
use super::servers::Servers;
#[cfg(doc)]
use super::shared_stream::WATCHES_MAX;
use super::shared_stream::{CreateWatch, SharedStream, StreamTask};
use super::version::learn_version;
use super::watch_queue::WatchQueue;

/// A watch that begins further back than this is not shared: it would hold up the progress of the
/// others while it catches up. etcd sends a watch a thousand of its revisions in each round of
/// 100 ms, so the others wait for a second at most. Idle feeds stay within this for as long as
/// there are a thousand writes a second, because their progress is as old as
/// [`IDLE_INTERVAL`](super::progress_pace) when a stream breaks. Bytes do not count: they take as
/// long as they are under way, and a reader that is slower has its watch cancelled by its queue.
const REVISIONS_BACK_MAX: u64 = 10_000;

/// The streams of one engine.
pub(super) struct SharedStreams {
    servers: Arc<Servers>,
    state: Arc<ClusterState>,
    requests: Arc<ProgressRequests>,
    closed: watch::Receiver<bool>,
    runtime: Handle,
    streams: Mutex<Vec<Arc<SharedStream>>>,
}

/// A watch on a shared stream. It ends when this is dropped.
pub(super) struct SharedWatch {
    pub(super) queue: Arc<WatchQueue>,
    stream: Arc<SharedStream>,
}

impl SharedWatch {
    /// The epoch that its messages belong to.
    pub(super) fn epoch(&self) -> u64 {
        self.stream.epoch
    }
}

impl Drop for SharedWatch {
    fn drop(&mut self) {
        self.queue.leave();
        self.stream.wake.notify_one();
    }
}

impl SharedStreams {
    /// No streams yet. Those that come run on the runtime until the engine is closed.
    pub(super) fn new(
        servers: Arc<Servers>,
        state: Arc<ClusterState>,
        requests: Arc<ProgressRequests>,
        closed: watch::Receiver<bool>,
        runtime: Handle,
    ) -> SharedStreams {
        SharedStreams {
            servers,
            state,
            requests,
            closed,
            runtime,
            streams: Mutex::default(),
        }
    }

    /// Whether a watch after this revision may share a stream.
    pub(super) fn takes(&self, after: Revision) -> bool {
        let known = self.state.revision();
        // A watch that begins in the future would hold up the progress of the others for long.
        after <= known && known.0 - after.0 <= REVISIONS_BACK_MAX
    }

    /// Opens a watch of the prefix after a revision on the current member, and waits until etcd has
    /// created it. Returns with the store's revision too, which is below `after` where the member
    /// lags behind.
    ///
    /// # Errors
    /// When the member does not open it in time. The first message says whether the revision is
    /// compacted.
    pub(super) async fn open(
        &self,
        prefix: &Prefix,
        after: Revision,
    ) -> Result<(SharedWatch, Revision), EngineError> {
        let Some((member, current)) = self.servers.current() else {
            return Err(EngineError::Closed);
        };
        if current.progress_support.is_outdated() {
            learn_version(current).await;
        }
        let stream = self.stream(member);
        let queue = Arc::<WatchQueue>::default();
        let (created, creation) = oneshot::channel();
        stream.add(CreateWatch {
            prefix: prefix.clone(),
            after,
            queue: Arc::clone(&queue),
            requested: self.requests.subscribe(prefix, &stream.wake),
            created,
        });
        // Ends the watch even if the caller goes away meanwhile.
        let watch = SharedWatch { queue, stream };
        match tokio::time::timeout(CREATE_TIMEOUT, creation).await {
            Ok(revision) => Ok((watch, revision.unwrap_or(Err(EngineError::Closed))?)),
            Err(_) => {
                self.servers.switch_from(member);
                Err(silent().into_read_error())
            }
        }
    }

    /// A stream with a reserved place: one that has room, or a new one.
    fn stream(&self, member: usize) -> Arc<SharedStream> {
        let known = self.state.known();
        let mut streams = self.streams.lock();
        streams.retain(|stream| !stream.is_closed());
        let mut fitting = streams
            .iter()
            .filter(|stream| stream.member == member && stream.epoch == known.epoch());
        if let Some(stream) = fitting.find(|stream| stream.reserve()) {
            return Arc::clone(stream);
        }
        let stream = Arc::new(SharedStream::new(member, known.epoch()));
        streams.push(Arc::clone(&stream));
        let task = StreamTask::new(
            Arc::clone(&stream),
            Arc::clone(&self.servers),
            Arc::clone(&self.state),
            known,
            self.closed.clone(),
        );
        tasks::spawn_on(&self.runtime, task.run());
        stream
    }
}
