//! The thread that writes: it alone changes the database, one request after another.

mod batch;
mod leases;
mod recovery;
mod scrub;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use actors::engine::{
    Change, EngineError, Event, Health, Maintenance, Mutation, Outcome, Revision,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::defrag::Defrag;
use super::disk_space::DiskSpace;
use super::engine_state::EngineState;
use super::error::Failure;
use super::maintenance_state::HeldMaintenance;
use super::metrics;
use super::readers::ReaderPool;
use super::schema::LastMark;
use super::schema::Totals;
use super::store::{Alarm, Opened, Store};
pub(super) use leases::LeaseRequest;
use leases::WriterLeases;

/// What a mutation weighs in the queue beside its value.
const REQUEST_BYTES: usize = 1024;
/// Requests other than commits that may wait.
const CONTROL_MAX: usize = 64;
/// Room for alarms of readers: one per opening of the database, and the openings whose alarm has
/// come too late are few.
const ALARMS_MAX: usize = 8;
/// When nothing happens: how soon removals that nobody waits for are made durable.
const SETTLE: Duration = Duration::from_millis(100);
/// When nothing happens: how often the room on the disk is looked at.
const IDLE: Duration = Duration::from_secs(1);

/// What the writer may be asked to do.
pub(super) enum WriterRequest {
    /// Decide and store a mutation.
    Commit(CommitRequest),
    /// Forget the past up to a revision.
    Compact(Revision, Reply<()>),
    /// Remove some of what was compacted.
    Scrub(Reply<Maintenance>),
    /// Do something about leases.
    Lease(LeaseRequest),
    /// Put a rebuilt file in the log's place; it comes back if it can't be done yet.
    Promote(
        Box<Defrag>,
        HeldMaintenance,
        Reply<(Promotion, HeldMaintenance)>,
    ),
    /// A reader found this database broken.
    Alarm(Arc<Store>, Failure),
    /// Finish; the readers are stopped first.
    Close(Arc<ReaderPool>),
}

/// A mutation and who waits for it.
pub(super) struct CommitRequest {
    mutation: Mutation,
    answer: oneshot::Sender<Result<Outcome, EngineError>>,
    _permit: OwnedSemaphorePermit,
}

impl CommitRequest {
    fn answer(self, outcome: Result<Outcome, EngineError>) {
        // Nobody may be waiting any more; the mutation counts all the same.
        let _ = self.answer.send(outcome);
    }
}

/// An answer to whoever waits, and the place in the queue that ends with it.
pub(super) struct Reply<T> {
    answer: oneshot::Sender<Result<T, EngineError>>,
    _permit: OwnedSemaphorePermit,
}

impl<T> Reply<T> {
    fn send(self, result: Result<T, EngineError>) {
        // Nobody may be waiting any more.
        let _ = self.answer.send(result);
    }
}

/// What became of a promotion.
pub enum Promotion {
    /// The rebuilt file is the log now; the old database is to be dropped where that may take
    /// its time.
    Done(Option<Arc<Store>>),
    /// Writers were faster: copy on and ask again.
    Later(Box<Defrag>),
    /// The copy does not match and is of no use.
    Useless,
}

/// Hands requests to the writer.
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
        let thread = std::thread::Builder::new()
            .name("storage-write".to_owned())
            .spawn(move || {
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
        self.check_size(&mutation)?;
        if let Health::Down(why) = self.state.health() {
            return Err(EngineError::Unavailable(why));
        }
        let weight = u32::try_from(weight(&mutation)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.weight).acquire_many_owned(weight).await;
        let permit = permit.map_err(|_| EngineError::Closed)?;
        let (answer, answered) = oneshot::channel();
        self.send(WriterRequest::Commit(CommitRequest {
            mutation,
            answer,
            _permit: permit,
        }))?;
        // The thread answers everything it took; if it died all the same, nobody knows.
        answered.await.unwrap_or_else(|_| {
            Err(EngineError::OutcomeUnknown(
                "the storage thread ended".to_owned(),
            ))
        })
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

    /// Asks for something else and waits for the answer.
    ///
    /// # Errors
    /// Those of the request.
    pub(super) async fn ask<T>(
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

    /// Tells the writer that a database is broken. Best effort: the writer will find out itself.
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

    /// Ends the thread, once; blocks for a moment if the queue is full. [`EngineState::finished`]
    /// tells when it has ended.
    pub(super) fn close(&self, readers: &Arc<ReaderPool>) {
        if self.state.set_closed() {
            return;
        }
        self.weight.close();
        self.control.close();
        // If the thread is gone already, there is nobody to tell.
        let _ = self
            .requests
            .send(Box::new(WriterRequest::Close(Arc::clone(readers))));
    }

    fn send(&self, request: WriterRequest) -> Result<(), EngineError> {
        // A permit is held, so there is room; otherwise the thread is gone.
        self.requests
            .try_send(Box::new(request))
            .map_err(|_| self.state.unavailable())
    }
}

fn weight(mutation: &Mutation) -> usize {
    let value = match &mutation.change {
        Change::Put { value, .. } => value.len(),
        Change::Delete => 0,
    };
    REQUEST_BYTES + value
}

/// Says that the thread has ended, however it did.
struct Finished(Arc<EngineState>);

impl Drop for Finished {
    fn drop(&mut self) {
        self.0.set_closed();
        self.0.tail.close();
        self.0.set_finished();
    }
}

/// The thread's own state.
struct WriterThread {
    state: Arc<EngineState>,
    /// Boxed, as the channel has the room of all its places from the beginning.
    requests: Receiver<Box<WriterRequest>>,
    /// An request taken from the queue that did not fit the batch before it.
    carried: Option<WriterRequest>,
    store: Option<Arc<Store>>,
    last_mark: LastMark,
    /// How far removals are.
    scrubbed: Revision,
    /// Whether there are removals that no sync has made durable yet.
    unsettled: bool,
    disk_space: DiskSpace,
    leases: WriterLeases,
    /// What must be recovered from before the next request.
    failed: Option<Failure>,
    closing: Option<Arc<ReaderPool>>,
}

impl WriterThread {
    fn new(
        state: Arc<EngineState>,
        store: Arc<Store>,
        opened: Opened,
        requests: Receiver<Box<WriterRequest>>,
    ) -> WriterThread {
        let options = &state.options;
        let disk_space = DiskSpace::new(
            Arc::clone(&state.disk),
            options.reserve_bytes,
            options.ballast_bytes,
        );
        WriterThread {
            requests,
            carried: None,
            store: Some(store),
            last_mark: opened.last_mark,
            scrubbed: opened.meta.scrubbed,
            unsettled: false,
            disk_space,
            leases: WriterLeases::new(&state.options, &opened),
            failed: None,
            closing: None,
            state,
        }
    }

    fn run(mut self) {
        self.safely(WriterThread::idle);
        while self.closing.is_none() {
            match self.next_request() {
                Ok(request) => self.safely(|writer| writer.carry_out(request)),
                Err(RecvTimeoutError::Timeout) => self.safely(WriterThread::idle),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if let Some(failure) = self.failed.take() {
                self.recover(&failure, None);
            }
        }
        self.finish();
    }

    fn next_request(&mut self) -> Result<WriterRequest, RecvTimeoutError> {
        if let Some(request) = self.carried.take() {
            return Ok(request);
        }
        self.requests
            .recv_timeout(if self.unsettled { SETTLE } else { IDLE })
            .map(|request| *request)
    }

    /// A panic ends neither the thread nor the wait of others: who waits for this request learns
    /// that its outcome is unknown, and the database is opened anew.
    fn safely(&mut self, work: impl FnOnce(&mut WriterThread)) {
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        if let Err(panic) = done {
            self.failed = Some(Failure::from_panic(&*panic));
        }
    }

    fn carry_out(&mut self, request: WriterRequest) {
        match request {
            WriterRequest::Commit(first) => self.commit(first),
            WriterRequest::Compact(up_to, reply) => {
                let result = self.compact(up_to);
                reply.send(result);
            }
            WriterRequest::Scrub(reply) => {
                let result = self.scrub();
                reply.send(result);
            }
            WriterRequest::Lease(request) => self.carry_out_lease(request),
            WriterRequest::Promote(defrag, maintenance, reply) => {
                let result = self.promote(defrag);
                reply.send(result.map(|promotion| (promotion, maintenance)));
            }
            WriterRequest::Alarm(store, failure) => {
                let current = self
                    .store
                    .as_ref()
                    .is_some_and(|own| Arc::ptr_eq(own, &store));
                drop(store);
                if current {
                    self.recover(&failure, None);
                }
            }
            WriterRequest::Close(readers) => self.closing = Some(readers),
        }
    }

    /// Nothing to do: settles removals, sees to the ballast, and says how things are.
    fn idle(&mut self) {
        if self.unsettled {
            self.settle();
        }
        let now = Instant::now();
        self.disk_space.keep_ballast(now);
        self.watch_disk_space(now);
        self.watch_clock();
        metrics::sizes(
            self.state.totals(),
            self.state.compacted(),
            self.state.measure_file(),
        );
        metrics::leases(self.leases.len());
    }

    /// Says whether there is room, for health and for the batch at hand.
    fn watch_disk_space(&mut self, now: Instant) -> Option<String> {
        let shortage = self.disk_space.shortage(now);
        let health = match &shortage {
            Some(why) => Health::ReadOnly(why.clone()),
            None => Health::Serving,
        };
        if self.state.health() != health && self.store.is_some() {
            match &health {
                Health::ReadOnly(why) => {
                    tracing::warn!(%why, "storage refuses creates and updates")
                }
                _ => tracing::info!("storage takes writes again"),
            }
            self.state.set_health(health);
        }
        shortage
    }

    /// The database; an error while there is none.
    fn store(&self) -> Result<Arc<Store>, Failure> {
        self.store.clone().ok_or(Failure::Closed)
    }

    /// Shows durable events to everybody, first positions, then feeds, before anybody is
    /// answered.
    fn publish(&mut self, events: &Arc<[Event]>, totals: Totals) {
        self.state.positions.publish(events);
        self.state.set_totals(totals);
        self.state.tail.publish(events);
    }

    /// Lets go of everything.
    fn finish(mut self) {
        self.state.set_closed();
        self.state.tail.close();
        if let Some(readers) = self.closing.take() {
            readers.stop();
        }
        for request in self.requests.try_iter() {
            refuse(*request, &EngineError::Closed);
        }
        self.note_lease_time();
        self.settle();
        self.state.set_store(None);
        // The database closes its file here, unless a reader outlives its thread.
        drop(self.store.take());
        self.state.disk.release();
    }
}

/// Answers an request that can't be carried out.
fn refuse(request: WriterRequest, error: &EngineError) {
    match request {
        WriterRequest::Commit(request) => request.answer(Err(error.clone())),
        WriterRequest::Compact(_, reply) => reply.send(Err(error.clone())),
        WriterRequest::Scrub(reply) => reply.send(Err(error.clone())),
        WriterRequest::Lease(request) => request.refuse(error),
        WriterRequest::Promote(defrag, _, reply) => {
            drop(defrag);
            reply.send(Err(error.clone()));
        }
        WriterRequest::Alarm(..) | WriterRequest::Close(_) => {}
    }
}
