//! A watch that the ring can't serve reads the engine's history. It reads chunk by chunk, as its
//! client takes them, until the ring reaches back to its position.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::replay::{ReplayChunk, ReplayedEvent, replay};
use super::replay_buffer::{BufferedChunk, ReplayBuffer, Taken};
use crate::engine::{DataEngine, EngineError, HistoryRequest, Prefix, Revision};
use crate::object::Decode;
use crate::tasks;
use crate::watch::WatchInterest;

/// Limits how many watches read the engine's history at a time, over all threads, so that client
/// requests are not delayed. A watch that finds all reads taken waits for its turn, and each turn
/// reads one chunk. So none is refused, and none waits for another one's whole history.
#[derive(Clone)]
pub struct HistoryPool {
    reads: Arc<Semaphore>,
}

impl HistoryPool {
    /// Allows this many reads at a time.
    pub fn new(reads: usize) -> HistoryPool {
        HistoryPool {
            reads: Arc::new(Semaphore::new(reads)),
        }
    }
}

/// How the watches of one thread read history.
pub(super) struct HistoryAccess {
    /// Shared with the other threads.
    pub(super) pool: HistoryPool,
    /// Bytes of values in one read.
    pub(super) chunk_bytes: usize,
    /// The chunks that were read and not yet taken.
    pub(super) buffer: ReplayBuffer,
}

/// Where the history of one resource is read from.
#[derive(Clone)]
pub(super) struct HistorySource {
    pub(super) engine: Arc<dyn DataEngine>,
    pub(super) decode: Arc<dyn Decode>,
    pub(super) access: Rc<HistoryAccess>,
}

/// A watcher's replay of history.
pub(super) struct HistoryReplay {
    source: HistorySource,
    interest: WatchInterest,
    prefix: Prefix,
    /// The watcher was sent everything up to here.
    after: Revision,
    reading: Option<Reading>,
    chunk: Option<Rc<RefCell<BufferedChunk>>>,
}

/// A read in progress. It has a task of its own, so it returns its permit even if nobody polls the
/// watch.
struct Reading {
    chunk: oneshot::Receiver<Result<Rc<RefCell<BufferedChunk>>, ReadError>>,
    task: JoinHandle<()>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why history can't be read.
enum ReadError {
    /// It is compacted, or the store is closed. The stream ends without an error, and the client
    /// gets one when it resumes (WA-37).
    Gone,
    /// An event can't be decoded (WA-32, WA-33).
    Unreadable(String),
}

/// The next step of a replay of history.
pub(super) enum HistoryStep {
    /// A frame.
    Frame(Bytes),
    /// An ERROR frame. It is the last frame.
    Failed(Bytes),
    /// Nothing yet. The task will be woken.
    Wait,
    /// Everything up to here was sent. The ring may reach back so far now.
    Reached(Revision),
    /// History is compacted or the store is closed.
    Gone,
}

impl HistoryReplay {
    pub(super) fn new(
        source: HistorySource,
        interest: WatchInterest,
        prefix: Prefix,
        after: Revision,
    ) -> HistoryReplay {
        HistoryReplay {
            source,
            interest,
            prefix,
            after,
            reading: None,
            chunk: None,
        }
    }

    /// The interest of the watch.
    pub(super) fn interest(&self) -> &WatchInterest {
        &self.interest
    }

    /// Everything up to here was sent. `None` in the middle of a chunk.
    pub(super) fn reached(&self) -> Option<Revision> {
        self.chunk.is_none().then_some(self.after)
    }

    /// The next step. `until` is the newest revision of the ring. `first` says whether nothing was
    /// sent on the stream yet.
    pub(super) fn step(
        &mut self,
        until: Revision,
        first: bool,
        context: &mut Context<'_>,
    ) -> HistoryStep {
        let taken = self.chunk.as_ref().map(|chunk| chunk.borrow_mut().take());
        match taken {
            Some(Taken::Event(event)) => {
                self.after = event.revision;
                let ReplayedEvent { kind, object, .. } = &event;
                let projection = &self.interest.projection;
                return HistoryStep::Frame(projection.frame(*kind, object, event.revision, first));
            }
            Some(Taken::Finished { reached }) => {
                self.after = self.after.max(reached);
                self.chunk = None;
                return HistoryStep::Reached(self.after);
            }
            Some(Taken::Dropped) => self.chunk = None,
            None => {}
        }
        self.read(until, first, context)
    }

    /// Starts to read the next chunk, or checks whether it has been read.
    fn read(&mut self, until: Revision, first: bool, context: &mut Context<'_>) -> HistoryStep {
        let source = &self.source;
        let reading = self.reading.get_or_insert_with(|| {
            let request = HistoryRequest {
                prefix: self.prefix.clone(),
                after: self.after,
                until,
                bytes_max: source.access.chunk_bytes,
            };
            Reading::start(source.clone(), self.interest.clone(), request)
        });
        let Poll::Ready(read) = reading.chunk.poll_unpin(context) else {
            return HistoryStep::Wait;
        };
        self.reading = None;
        match read {
            Ok(Ok(chunk)) => {
                self.chunk = Some(chunk);
                self.step(until, first, context)
            }
            Ok(Err(ReadError::Unreadable(why))) => {
                HistoryStep::Failed(self.interest.projection.error(&why))
            }
            // The task ended without an answer: it panicked.
            Ok(Err(ReadError::Gone)) | Err(_) => HistoryStep::Gone,
        }
    }
}

/// The pause before a failed read is repeated.
const RETRY_AFTER: Duration = Duration::from_millis(250);

impl Reading {
    fn start(source: HistorySource, interest: WatchInterest, request: HistoryRequest) -> Reading {
        let (found, chunk) = oneshot::channel();
        let task = tasks::spawn_local(async move {
            let read = read(&source, &interest, request).await;
            // The chunk counts from now on, though its client may not take it for long.
            let read = read.map(|chunk| source.access.buffer.add(chunk));
            // The watch may have gone away.
            let _ = found.send(read);
        });
        Reading { chunk, task }
    }
}

async fn read(
    source: &HistorySource,
    interest: &WatchInterest,
    request: HistoryRequest,
) -> Result<ReplayChunk, ReadError> {
    let chunk = loop {
        let permit = source.access.pool.reads.acquire().await;
        let read = source.engine.history(request.clone()).await;
        drop(permit);
        match read {
            Ok(chunk) => break chunk,
            Err(EngineError::Compacted { .. } | EngineError::Closed) => {
                return Err(ReadError::Gone);
            }
            Err(EngineError::Corrupt(why)) => return Err(ReadError::Unreadable(why)),
            Err(_) => tokio::time::sleep(RETRY_AFTER).await,
        }
    };
    replay(chunk, interest, &*source.decode).map_err(ReadError::Unreadable)
}
