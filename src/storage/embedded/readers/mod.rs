//! The threads that read: a few, named, behind a bounded queue. Each read is one short
//! transaction.

mod history;
mod range;
mod state;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use actors::engine::EngineError;
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use super::error::Failure;
use super::shared::Shared;
use super::store::Store;
use super::verify::Verifier;

pub use history::{horizon, read_history};
pub use range::{Counts, read_range};
pub use state::read_key;

/// A read on its way to a thread.
type Job = Box<dyn FnOnce() + Send>;

/// Called when a read finds the database broken.
pub type Alarm = Arc<dyn Fn(&Arc<Store>, &Failure) + Send + Sync>;

/// The pool.
pub struct Readers {
    jobs: Mutex<Option<Sender<Job>>>,
    permits: Arc<Semaphore>,
    shared: Arc<Shared>,
    alarm: Alarm,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Reads, too, though nobody asks it to.
    verifier: Mutex<Option<Verifier>>,
}

impl Readers {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(shared: Arc<Shared>, alarm: Alarm) -> io::Result<Readers> {
        let queue_max = shared.options.reader_queue_max.max(1);
        let (sender, receiver) = bounded::<Job>(queue_max);
        let mut threads = Vec::new();
        for number in 0..shared.options.reader_threads.max(1) {
            let receiver: Receiver<Job> = receiver.clone();
            let thread = std::thread::Builder::new()
                .name(format!("storage-read-{number}"))
                .spawn(move || receiver.iter().for_each(|job| job()))?;
            threads.push(thread);
        }
        let verifier = Verifier::start(Arc::clone(&shared), Arc::clone(&alarm))?;
        Ok(Readers {
            verifier: Mutex::new(verifier),
            jobs: Mutex::new(Some(sender)),
            permits: Arc::new(Semaphore::new(queue_max)),
            shared,
            alarm,
            threads: Mutex::new(threads),
        })
    }

    /// Runs a read on one of the threads.
    ///
    /// # Errors
    /// Its own, and [`EngineError::Unavailable`] while the database is being reopened.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared, &Store) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| EngineError::Closed)?;
        let store = self.shared.store()?;
        let (answer, answered) = oneshot::channel();
        let (shared, alarm) = (Arc::clone(&self.shared), Arc::clone(&self.alarm));
        let job = Box::new(move || {
            // redb can panic on damaged pages; a thread that dies of it would answer nobody.
            let result = catch_unwind(AssertUnwindSafe(|| read(&shared, &store)));
            let result = result.unwrap_or_else(|panic| {
                Err(ReadError::Failure(Failure::Panic(panic_text(&*panic))))
            });
            let result = conclude(result, &store, &alarm);
            // Let go of the database before somebody acts on the answer.
            drop((store, permit));
            let _ = answer.send(result);
        });
        self.send(job)?;
        answered
            .await
            .unwrap_or_else(|_| Err(self.shared.unavailable()))
    }

    fn send(&self, job: Job) -> Result<(), EngineError> {
        let jobs = self.jobs.lock();
        let sender = jobs.as_ref().ok_or(EngineError::Closed)?;
        // A permit is held, so there is room.
        sender.try_send(job).map_err(|_| self.shared.unavailable())
    }

    /// Stops taking reads and waits for those under way; blocks.
    pub fn stop(&self) {
        self.permits.close();
        self.jobs.lock().take();
        drop(self.verifier.lock().take());
        for thread in self.threads.lock().drain(..) {
            // A reader's panics are caught; if one got through, there is nothing to mend here.
            let _ = thread.join();
        }
    }
}

/// What a read has come to, for whoever asked.
fn conclude<T>(
    result: Result<T, ReadError>,
    store: &Arc<Store>,
    alarm: &Alarm,
) -> Result<T, EngineError> {
    if store.fence().is_retired() {
        // Whatever was found, damage above all, may be of pages written over meanwhile.
        return Err(Failure::Closed.to_engine_error(&store.file()));
    }
    result.map_err(|error| match error {
        ReadError::Engine(error) => error,
        ReadError::Failure(failure) => {
            if breaks_the_database(&failure) {
                alarm(store, &failure);
            }
            failure.to_engine_error(&store.file())
        }
    })
}

/// Whether nothing works after this failure of a read. A panic is a page that redb can't make
/// sense of: opening anew would not mend it, and whoever reads it again would stop all writes
/// again. Only a lock that somebody panicked under is gone for good.
pub fn breaks_the_database(failure: &Failure) -> bool {
    match failure {
        Failure::Panic(what) => what.contains("PoisonError"),
        other => other.needs_reopening(),
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}

/// Why a read failed.
#[derive(Debug)]
pub enum ReadError {
    /// The question can't be answered.
    Engine(EngineError),
    /// The database failed.
    Failure(Failure),
}

impl From<EngineError> for ReadError {
    fn from(error: EngineError) -> ReadError {
        ReadError::Engine(error)
    }
}

impl<E: Into<Failure>> From<E> for ReadError {
    fn from(error: E) -> ReadError {
        ReadError::Failure(error.into())
    }
}
