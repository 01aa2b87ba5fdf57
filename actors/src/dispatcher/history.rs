//! A watch that the ring can't serve any more reads the store's history, a chunk at a time, as
//! the client takes it, until the ring reaches back to where it has got.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::replay::{Replay, Replayed, replay};
use super::shelf::{Chunk, Shelf, Taken};
use crate::engine::{DataEngine, EngineError, HistoryRequest, Prefix, Revision};
use crate::object::Decode;
use crate::watch::WatchInterest;

/// How many watches may read the store's history, over all threads. It keeps replays from crowding
/// out client requests in the engine; whoever finds it taken waits (docs/design.md 4).
#[derive(Clone)]
pub struct HistoryPool {
    reads: Arc<Semaphore>,
    replays: Arc<AtomicUsize>,
    replays_max: usize,
}

impl HistoryPool {
    /// A pool for so many reads at a time, that is full when so many watches are behind the ring.
    pub fn new(reads: usize, replays_max: usize) -> HistoryPool {
        HistoryPool {
            reads: Arc::new(Semaphore::new(reads)),
            replays: Arc::default(),
            replays_max,
        }
    }

    /// Whether a watch that would begin in history had better come again later. One that runs
    /// already and falls behind waits its turn whatever this says.
    pub fn is_full(&self) -> bool {
        self.replays.load(Ordering::Relaxed) >= self.replays_max
    }

    fn enter(&self) -> Place {
        self.replays.fetch_add(1, Ordering::Relaxed);
        Place(Arc::clone(&self.replays))
    }
}

/// A watch's place among those that are behind the ring.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where history is read from.
#[derive(Clone)]
pub(super) struct Archive {
    pub(super) engine: Arc<dyn DataEngine>,
    pub(super) decode: Arc<dyn Decode>,
    pub(super) pool: HistoryPool,
    pub(super) chunk_bytes: usize,
    pub(super) shelf: Rc<Shelf>,
}

/// Where a watcher stands in the store's history.
pub(super) struct History {
    archive: Archive,
    interest: WatchInterest,
    prefix: Prefix,
    /// It has been sent everything up to here.
    after: Revision,
    reading: Option<Reading>,
    chunk: Option<Rc<RefCell<Chunk>>>,
    _place: Place,
}

/// A read under way on a task of its own, so that it gives its permit back even if nobody polls
/// the watch meanwhile.
struct Reading {
    chunk: oneshot::Receiver<Result<Replay, ReadError>>,
    task: JoinHandle<()>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why history can't be read on.
enum ReadError {
    /// It is gone, or the store is: the stream ends silently and the client finds out (WA-37).
    Gone,
    /// An event can't be read (WA-32, WA-33).
    Unreadable(String),
}

/// What comes next of history.
pub(super) enum Step {
    /// A frame.
    Frame(Bytes),
    /// An ERROR frame, the last one.
    Failed(Bytes),
    /// Nothing now; the task will be woken.
    Waits,
    /// Everything up to here has been sent: see whether the ring reaches back so far.
    Reached(Revision),
    /// It is gone.
    Gone,
}

impl History {
    pub(super) fn new(
        archive: Archive,
        interest: WatchInterest,
        prefix: Prefix,
        after: Revision,
    ) -> History {
        History {
            _place: archive.pool.enter(),
            archive,
            interest,
            prefix,
            after,
            reading: None,
            chunk: None,
        }
    }

    /// What the watch wants.
    pub(super) fn interest(&self) -> &WatchInterest {
        &self.interest
    }

    /// Everything up to here has been sent, if the watch stands between two chunks.
    pub(super) fn reached(&self) -> Option<Revision> {
        self.chunk.is_none().then_some(self.after)
    }

    /// The next step. `until` is how far the ring has come; `first` whether nothing has been sent
    /// on the stream yet.
    pub(super) fn step(&mut self, until: Revision, first: bool, context: &mut Context<'_>) -> Step {
        let taken = self.chunk.as_ref().map(|chunk| chunk.borrow_mut().take());
        match taken {
            Some(Taken::Event(event)) => {
                self.after = event.revision;
                let Replayed { kind, object, .. } = &event;
                let projection = &self.interest.projection;
                return Step::Frame(projection.frame(*kind, object, event.revision, first));
            }
            Some(Taken::Finished { reached }) => {
                self.after = self.after.max(reached);
                self.chunk = None;
                return Step::Reached(self.after);
            }
            Some(Taken::Dropped) => self.chunk = None,
            None => {}
        }
        self.read(until, first, context)
    }

    /// Starts to read the next chunk, or looks whether it is there.
    fn read(&mut self, until: Revision, first: bool, context: &mut Context<'_>) -> Step {
        let archive = &self.archive;
        let reading = self.reading.get_or_insert_with(|| {
            let request = HistoryRequest {
                prefix: self.prefix.clone(),
                after: self.after,
                until,
                bytes_max: archive.chunk_bytes,
            };
            Reading::start(archive.clone(), self.interest.clone(), request)
        });
        let Poll::Ready(read) = reading.chunk.poll_unpin(context) else {
            return Step::Waits;
        };
        self.reading = None;
        match read {
            Ok(Ok(chunk)) => {
                self.chunk = Some(self.archive.shelf.put(chunk));
                self.step(until, first, context)
            }
            Ok(Err(ReadError::Unreadable(why))) => {
                Step::Failed(self.interest.projection.error(&why))
            }
            // A task that died can't say what it found.
            Ok(Err(ReadError::Gone)) | Err(_) => Step::Gone,
        }
    }
}

/// How long to wait before an engine that could not answer is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(250);

impl Reading {
    fn start(archive: Archive, interest: WatchInterest, request: HistoryRequest) -> Reading {
        let (found, chunk) = oneshot::channel();
        let task = tokio::task::spawn_local(async move {
            let read = read(&archive, &interest, request).await;
            // A watch that is gone wants nothing any more.
            let _ = found.send(read);
        });
        Reading { chunk, task }
    }
}

async fn read(
    archive: &Archive,
    interest: &WatchInterest,
    request: HistoryRequest,
) -> Result<Replay, ReadError> {
    let chunk = loop {
        let permit = archive.pool.reads.acquire().await;
        let read = archive.engine.history(request.clone()).await;
        drop(permit);
        match read {
            Ok(chunk) => break chunk,
            Err(EngineError::Compacted { .. } | EngineError::Closed) => {
                return Err(ReadError::Gone);
            }
            Err(EngineError::Corrupt(why)) => return Err(ReadError::Unreadable(why)),
            Err(_) => tokio::time::sleep(ASK_AGAIN_AFTER).await,
        }
    };
    replay(chunk, interest, &*archive.decode).map_err(ReadError::Unreadable)
}
