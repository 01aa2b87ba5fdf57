//! Reads the store's current revision, once for all who ask at the same time (ST-70).
//!
//! A request joins only a read that was not sent yet. A read under way may have been answered
//! before the write that the request must see. Reads keep a distance, so a thousand consistent
//! lists a second cost etcd two hundred reads.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{EngineError, Revision};
use actors::tasks;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The minimum time between two reads.
const READ_INTERVAL: Duration = Duration::from_millis(5);

type Answer = Result<Revision, EngineError>;

/// Asks the store for its current revision, linearizably.
pub(super) type Read = Arc<dyn Fn() -> BoxFuture<'static, Answer> + Send + Sync>;

/// Reads the current revision for all who ask.
pub(super) struct CurrentRevision {
    queue: Arc<Mutex<Queue>>,
    read: Read,
    /// Drives the reads on behalf of everybody.
    runtime: Handle,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<oneshot::Sender<Answer>>,
    is_reading: bool,
    last_sent: Option<Instant>,
}

impl CurrentRevision {
    /// The revision that `read` reads.
    pub(super) fn new(read: Read, runtime: Handle) -> CurrentRevision {
        CurrentRevision {
            queue: Arc::default(),
            read,
            runtime,
        }
    }

    /// Returns the result of a read that is sent after this call.
    ///
    /// # Errors
    /// When no server answers.
    pub(super) async fn read(&self) -> Answer {
        let (sender, answer) = oneshot::channel();
        let starts = {
            let mut queue = self.queue.lock();
            queue.waiting.push(sender);
            !std::mem::replace(&mut queue.is_reading, true)
        };
        if starts {
            let reads = read_for_waiting(Arc::clone(&self.queue), Arc::clone(&self.read));
            tasks::spawn_on(&self.runtime, reads);
        }
        answer.await.unwrap_or(Err(EngineError::Closed))
    }
}

/// Reads while somebody waits.
async fn read_for_waiting(queue: Arc<Mutex<Queue>>, read: Read) {
    loop {
        let last_sent = queue.lock().last_sent;
        if let Some(at) = last_sent {
            tokio::time::sleep_until(at + READ_INTERVAL).await;
        }
        let waiting = {
            let mut queue = queue.lock();
            if queue.waiting.is_empty() {
                queue.is_reading = false;
                return;
            }
            queue.last_sent = Some(Instant::now());
            std::mem::take(&mut queue.waiting)
        };
        let answer = read().await;
        for sender in waiting {
            // A caller that has gone away needs no answer.
            let _ = sender.send(answer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::FutureExt;
    use tokio::sync::Semaphore;

    use super::*;

    /// A store whose revision and answers a test controls.
    struct Store {
        revision: AtomicU64,
        reads: AtomicU64,
        answers: Semaphore,
    }

    fn store() -> (Arc<Store>, Read) {
        let store = Arc::new(Store {
            revision: AtomicU64::new(1),
            reads: AtomicU64::new(0),
            answers: Semaphore::new(0),
        });
        let asked = Arc::clone(&store);
        let read: Read = Arc::new(move || {
            let store = Arc::clone(&asked);
            // Looks when it is sent, answers when it may.
            let seen = store.revision.load(Ordering::SeqCst);
            store.reads.fetch_add(1, Ordering::SeqCst);
            async move {
                store.answers.acquire().await.unwrap().forget();
                Ok(Revision(seen))
            }
            .boxed()
        });
        (store, read)
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_joins_a_read_that_is_under_way_st_70() {
        let (store, read) = store();
        let revision = CurrentRevision::new(read, Handle::current());
        let mut early = Box::pin(revision.read());
        assert!(early.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
        assert_eq!(store.reads.load(Ordering::SeqCst), 1);
        // A write is acknowledged, and its writer reads.
        store.revision.store(2, Ordering::SeqCst);
        let late = revision.read();
        store.answers.add_permits(2);
        assert_eq!(
            tokio::join!(early, late),
            (Ok(Revision(1)), Ok(Revision(2)))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_ask_in_between_share_the_next_read_and_reads_keep_their_distance() {
        let (store, read) = store();
        let revision = CurrentRevision::new(read, Handle::current());
        store.answers.add_permits(1000);
        let begin = Instant::now();
        for _ in 0..10 {
            let asking = (0..50).map(|_| revision.read());
            let answers = futures_util::future::join_all(asking).await;
            assert!(answers.iter().all(Result::is_ok));
        }
        let reads = store.reads.load(Ordering::SeqCst);
        assert_eq!(reads, 10);
        assert!(begin.elapsed() >= READ_INTERVAL * 9);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lone_read_is_sent_at_once() {
        let (store, read) = store();
        let revision = CurrentRevision::new(read, Handle::current());
        store.answers.add_permits(1);
        let begin = Instant::now();
        assert_eq!(revision.read().await, Ok(Revision(1)));
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }
}
