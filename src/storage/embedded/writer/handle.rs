//! The handle that sends requests to the writer's thread.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use actors::engine::{Change, EngineError, Mutation, Outcome, PendingOutcome, TicketIssuer};
use actors::threads;
use crossbeam_channel::{Sender, bounded};
use futures_util::future::FutureExt;
use tokio::sync::{Semaphore, oneshot};

use super::request::{CommitRequest, REQUEST_BYTES, Reply, WriterRequest, weight};
use super::thread::{NAME, WriterThread};
use crate::storage::embedded::engine_state::EngineState;
use crate::storage::embedded::readers::ReaderPool;
use crate::storage::embedded::store::{Alarm, Opened, Store};

/// How many requests other than commits may wait.
const CONTROL_MAX: usize = 64;
/// How many alarms of readers may wait. Each opening of the database raises one at most.
const ALARMS_MAX: usize = 8;

/// Where the answer to a commit comes.
type Answered = oneshot::Receiver<Result<Outcome, EngineError>>;

/// Waits for the outcome of a commit that was sent.
async fn outcome(sent: Result<Answered, EngineError>) -> Result<Outcome, EngineError> {
    // The thread answers every request that it takes. If it has ended, the outcome is unknown.
    sent?.await.unwrap_or_else(|_| {
        let why = "the storage thread ended".to_owned();
        Err(EngineError::OutcomeUnknown(why))
    })
}

/// Sends requests to the writer's thread.
pub struct Writer {
    requests: Sender<Box<WriterRequest>>,
    weight: Arc<Semaphore>,
    control: Arc<Semaphore>,
    state: Arc<EngineState>,
}

impl Writer {
    /// Starts the thread on an opened store.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(
        state: Arc<EngineState>,
        store: Arc<Store>,
        opened: Opened,
    ) -> io::Result<(Writer, JoinHandle<()>)> {
        let weight = state.options.queue_bytes_max.max(64 * REQUEST_BYTES);
        let slots = weight / REQUEST_BYTES + CONTROL_MAX + ALARMS_MAX;
        let (sender, receiver) = bounded(slots);
        let writer_thread = WriterThread::new(Arc::clone(&state), store, opened, receiver);
        let thread = threads::spawn(NAME, move || {
            let finished = Finished(Arc::clone(&writer_thread.state));
            writer_thread.run();
            drop(finished);
        })?;
        let writer = Writer {
            requests: sender,
            weight: Arc::new(Semaphore::new(weight)),
            control: Arc::new(Semaphore::new(CONTROL_MAX)),
            state,
        };
        Ok((writer, thread))
    }

    /// Commits a mutation.
    ///
    /// # Errors
    /// As [`actors::engine::DataEngine::commit`].
    pub async fn commit(&self, mutation: Mutation) -> Result<Outcome, EngineError> {
        outcome(self.send_commit(mutation, None).await).await
    }

    /// Queues a mutation after those that were queued before.
    pub async fn queue(&self, mutation: Mutation, issuer: TicketIssuer) -> PendingOutcome {
        outcome(self.send_commit(mutation, Some(issuer)).await).boxed()
    }

    async fn send_commit(
        &self,
        mutation: Mutation,
        issuer: Option<TicketIssuer>,
    ) -> Result<Answered, EngineError> {
        self.check_size(&mutation)?;
        if let Some(error) = self.state.down() {
            return Err(error);
        }
        let weight = u32::try_from(weight(&mutation)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.weight).acquire_many_owned(weight).await;
        let permit = permit.map_err(|_| EngineError::Closed)?;
        let (answer, answered) = oneshot::channel();
        self.send(WriterRequest::Commit(CommitRequest {
            mutation,
            issuer,
            answer,
            _permit: permit,
        }))?;
        Ok(answered)
    }

    fn check_size(&self, mutation: &Mutation) -> Result<(), EngineError> {
        let options = &self.state.options;
        let check = |what: &str, bytes: usize, bytes_max: usize| {
            if bytes <= bytes_max {
                return Ok(());
            }
            let text = format!("a {what} of {bytes} bytes, the limit is {bytes_max}");
            Err(EngineError::TooLarge(text))
        };
        if let Change::Put { value, .. } = &mutation.change {
            check("value", value.len(), options.value_bytes_max)?;
        }
        check("key", mutation.key.as_bytes().len(), options.key_bytes_max)
    }

    /// Sends a request other than a commit and waits for the answer.
    ///
    /// # Errors
    /// The errors of the request.
    pub async fn ask<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> WriterRequest,
    ) -> Result<T, EngineError> {
        let permit = Arc::clone(&self.control).acquire_owned().await;
        let permit = permit.map_err(|_| EngineError::Closed)?;
        let (answer, answered) = oneshot::channel();
        let reply = Reply {
            answer,
            _permit: permit,
        };
        self.send(request(reply))?;
        answered
            .await
            .unwrap_or_else(|_| Err(self.state.unavailable()))
    }

    /// Creates the callback that notifies the writer of a broken database. It is best effort: the
    /// writer would notice by itself.
    pub fn alarm(&self) -> Alarm {
        let requests = self.requests.clone();
        Arc::new(move |store, failure| {
            if !store.claim_alarm() {
                return;
            }
            let alarm = WriterRequest::Alarm(Arc::clone(store), failure.clone());
            let _ = requests.try_send(Box::new(alarm));
        })
    }

    /// Ends the thread. Blocks for a moment if the queue is full. [`EngineState::finished`] reports
    /// when the thread has ended.
    pub fn close(&self, readers: &Arc<ReaderPool>) {
        if self.state.set_closed() {
            return;
        }
        self.weight.close();
        self.control.close();
        // If the thread has ended already, there is nobody to notify.
        let _ = self
            .requests
            .send(Box::new(WriterRequest::Close(Arc::clone(readers))));
    }

    fn send(&self, request: WriterRequest) -> Result<(), EngineError> {
        // A permit is held, so there is room. An error means that the thread has ended.
        self.requests
            .try_send(Box::new(request))
            .map_err(|_| self.state.unavailable())
    }
}

/// Notes that the thread has ended, also when it panicked.
struct Finished(Arc<EngineState>);

impl Drop for Finished {
    fn drop(&mut self) {
        self.0.set_closed();
        self.0.tail.close();
        self.0.set_finished();
    }
}
