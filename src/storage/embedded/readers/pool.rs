//! The threads that read. They take reads from one bounded queue.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use actors::engine::EngineError;
use actors::threads;
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use crate::storage::embedded::engine_state::EngineState;
use crate::storage::embedded::error::{Failure, ReadError};
use crate::storage::embedded::store::{Alarm, Store};
use crate::storage::embedded::verify::Verifier;

/// A read in the queue.
type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads and their queue. Each read is one short transaction.
pub struct ReaderPool {
    jobs: Mutex<Option<Sender<Job>>>,
    permits: Arc<Semaphore>,
    state: Arc<EngineState>,
    alarm: Alarm,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Stopped together with the threads, because it reads the database too.
    verifier: Mutex<Option<Verifier>>,
}

impl ReaderPool {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(state: Arc<EngineState>, alarm: Alarm) -> io::Result<ReaderPool> {
        let queue_max = state.options.reader_queue_max.max(1);
        let (sender, receiver) = bounded::<Job>(queue_max);
        let mut threads = Vec::new();
        for number in 0..state.options.reader_threads.max(1) {
            let receiver: Receiver<Job> = receiver.clone();
            let name = format!("storage-read-{number}");
            let pulse = state.options.watchdog.pulse(&*name);
            let work = move || {
                for job in receiver {
                    // The job catches panics of the read itself. A panic outside of it must not end
                    // the thread either; it drops the job, and the caller gets an error.
                    let _ = catch_unwind(AssertUnwindSafe(|| {
                        let _turn = pulse.turn();
                        job();
                    }));
                }
            };
            let thread = threads::spawn(name, work)?;
            threads.push(thread);
        }
        let verifier = Verifier::start(Arc::clone(&state), Arc::clone(&alarm))?;
        Ok(ReaderPool {
            verifier: Mutex::new(verifier),
            jobs: Mutex::new(Some(sender)),
            permits: Arc::new(Semaphore::new(queue_max)),
            state,
            alarm,
            threads: Mutex::new(threads),
        })
    }

    /// Runs a read on one of the threads.
    ///
    /// # Errors
    /// Those of the read, and [`EngineError::Unavailable`] while the database is reopened.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| EngineError::Closed)?;
        let store = self.state.store()?;
        let (answer, answered) = oneshot::channel();
        let alarm = Arc::clone(&self.alarm);
        let state = Arc::clone(&self.state);
        let job = Box::new(move || {
            // redb can panic on damaged pages. An uncaught panic would end the thread without an
            // answer.
            let result = catch_unwind(AssertUnwindSafe(|| read(&store)));
            let result = result
                .unwrap_or_else(|panic| Err(ReadError::Failure(Failure::from_panic(&*panic))));
            let result = conclude(result, &store, &alarm);
            if result.is_err()
                && let Some(damage) = store.damage()
            {
                state.damage.note(&store.file(), damage);
            }
            // Drop the database before the caller acts on the answer.
            drop((store, permit));
            let _ = answer.send(result);
        });
        self.send(job)?;
        answered
            .await
            .unwrap_or_else(|_| Err(self.state.unavailable()))
    }

    fn send(&self, job: Job) -> Result<(), EngineError> {
        let jobs = self.jobs.lock();
        let sender = jobs.as_ref().ok_or(EngineError::Closed)?;
        // A permit is held, so there is room.
        sender.try_send(job).map_err(|_| self.state.unavailable())
    }

    /// Stops taking reads and waits for those under way. Blocks.
    pub fn stop(&self) {
        self.permits.close();
        self.jobs.lock().take();
        drop(self.verifier.lock().take());
        for thread in self.threads.lock().drain(..) {
            // Panics of reads are caught. If one was not, nothing can be done here.
            let _ = thread.join();
        }
    }
}

/// Turns the result of a read into the answer. Raises the alarm if the database is broken.
fn conclude<T>(
    result: Result<T, ReadError>,
    store: &Arc<Store>,
    alarm: &Alarm,
) -> Result<T, EngineError> {
    if store.fence().is_retired() {
        // The result may come from pages that were overwritten meanwhile, above all if it says
        // damage.
        return Err(Failure::Closed.to_engine_error(&store.file()));
    }
    result.map_err(|error| match error {
        ReadError::Engine(error) => error,
        ReadError::Failure(failure) => {
            let failure = store.explain(failure);
            if failure.breaks_database() {
                alarm(store, &failure);
            }
            failure.to_engine_error(&store.file())
        }
    })
}
