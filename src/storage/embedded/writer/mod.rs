//! The thread that writes: it alone changes the database, one order after another.

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

use super::HeldUpkeep;
use super::error::Failure;
use super::ledger::LastMark;
use super::metrics;
use super::readers::{Readers, panic_text};
use super::rebuild::Rebuild;
use super::schema::Totals;
use super::shared::Shared;
use super::space::Space;
use super::store::{Opened, Store};
use leases::LeaseDesk;
pub(super) use leases::LeaseOrder;

/// What a mutation weighs in the queue beside its value.
const ORDER_BYTES: usize = 1024;
/// Orders other than commits that may wait.
const CONTROL_MAX: usize = 64;
/// Room for alarms of readers: one per opening of the database, and the openings whose alarm has
/// come too late are few.
const ALARMS_MAX: usize = 8;
/// When nothing happens: how soon removals that nobody waits for are made durable.
const SETTLE: Duration = Duration::from_millis(100);
/// When nothing happens: how often the room on the disk is looked at.
const IDLE: Duration = Duration::from_secs(1);

/// What the writer may be asked to do.
pub(super) enum Order {
    /// Decide and store a mutation.
    Commit(CommitOrder),
    /// Forget the past up to a revision.
    Compact(Revision, Reply<()>),
    /// Remove some of what was compacted.
    Scrub(Reply<Maintenance>),
    /// Do something about leases.
    Lease(LeaseOrder),
    /// Put a rebuilt file in the log's place; it comes back if it can't be done yet.
    Promote(Box<Rebuild>, HeldUpkeep, Reply<(Promotion, HeldUpkeep)>),
    /// A reader found this database broken.
    Alarm(Arc<Store>, Failure),
    /// Finish; the readers are stopped first.
    Close(Arc<Readers>),
}

/// A mutation and who waits for it.
pub(super) struct CommitOrder {
    mutation: Mutation,
    answer: oneshot::Sender<Result<Outcome, EngineError>>,
    _permit: OwnedSemaphorePermit,
}

impl CommitOrder {
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
    Later(Box<Rebuild>),
    /// The copy does not match and is of no use.
    Useless,
}

/// Hands orders to the writer.
pub struct Writer {
    orders: Sender<Box<Order>>,
    weight: Arc<Semaphore>,
    control: Arc<Semaphore>,
    shared: Arc<Shared>,
}

impl Writer {
    /// Starts the thread on an opened store.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(
        shared: Arc<Shared>,
        store: Arc<Store>,
        opened: Opened,
    ) -> io::Result<(Writer, JoinHandle<()>)> {
        let weight = shared.options.queue_bytes_max.max(64 * ORDER_BYTES);
        let slots = weight / ORDER_BYTES + CONTROL_MAX + ALARMS_MAX;
        let (sender, receiver) = bounded(slots);
        let desk = Desk::new(Arc::clone(&shared), store, opened, receiver);
        let thread = std::thread::Builder::new()
            .name("storage-write".to_owned())
            .spawn(move || {
                let finished = Finished(Arc::clone(&desk.shared));
                desk.run();
                drop(finished);
            })?;
        let writer = Writer {
            orders: sender,
            weight: Arc::new(Semaphore::new(weight)),
            control: Arc::new(Semaphore::new(CONTROL_MAX)),
            shared,
        };
        Ok((writer, thread))
    }

    /// Commits a mutation.
    ///
    /// # Errors
    /// As [`actors::engine::DataEngine::commit`].
    pub async fn commit(&self, mutation: Mutation) -> Result<Outcome, EngineError> {
        self.check_size(&mutation)?;
        if let Health::Down(why) = self.shared.health() {
            return Err(EngineError::Unavailable(why));
        }
        let weight = u32::try_from(weight(&mutation)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.weight).acquire_many_owned(weight).await;
        let permit = permit.map_err(|_| EngineError::Closed)?;
        let (answer, answered) = oneshot::channel();
        self.send(Order::Commit(CommitOrder {
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
        let options = &self.shared.options;
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
    /// Those of the order.
    pub(super) async fn ask<T>(
        &self,
        order: impl FnOnce(Reply<T>) -> Order,
    ) -> Result<T, EngineError> {
        let permit = Arc::clone(&self.control).acquire_owned().await;
        let permit = permit.map_err(|_| EngineError::Closed)?;
        let (answer, answered) = oneshot::channel();
        let reply = Reply {
            answer,
            _permit: permit,
        };
        self.send(order(reply))?;
        answered
            .await
            .unwrap_or_else(|_| Err(self.shared.unavailable()))
    }

    /// Tells the writer that a database is broken. Best effort: the writer will find out itself.
    pub fn alarm(&self) -> super::readers::Alarm {
        let orders = self.orders.clone();
        Arc::new(move |store, failure| {
            if !store.claim_alarm() {
                return;
            }
            let alarm = Order::Alarm(Arc::clone(store), failure.clone());
            let _ = orders.try_send(Box::new(alarm));
        })
    }

    /// Ends the thread, once; blocks for a moment if the queue is full. [`Shared::finished`]
    /// tells when it has ended.
    pub(super) fn close(&self, readers: &Arc<Readers>) {
        if self.shared.set_closed() {
            return;
        }
        self.weight.close();
        self.control.close();
        // If the thread is gone already, there is nobody to tell.
        let _ = self
            .orders
            .send(Box::new(Order::Close(Arc::clone(readers))));
    }

    fn send(&self, order: Order) -> Result<(), EngineError> {
        // A permit is held, so there is room; otherwise the thread is gone.
        self.orders
            .try_send(Box::new(order))
            .map_err(|_| self.shared.unavailable())
    }
}

fn weight(mutation: &Mutation) -> usize {
    let value = match &mutation.change {
        Change::Put { value, .. } => value.len(),
        Change::Delete => 0,
    };
    ORDER_BYTES + value
}

/// Says that the thread has ended, however it did.
struct Finished(Arc<Shared>);

impl Drop for Finished {
    fn drop(&mut self) {
        self.0.set_closed();
        self.0.tail.close();
        self.0.set_finished();
    }
}

/// The thread's own state.
struct Desk {
    shared: Arc<Shared>,
    /// Boxed, as the channel has the room of all its places from the beginning.
    orders: Receiver<Box<Order>>,
    /// An order taken from the queue that did not fit the batch before it.
    carried: Option<Order>,
    store: Option<Arc<Store>>,
    last_mark: LastMark,
    /// How far removals are.
    scrubbed: Revision,
    /// Whether there are removals that no sync has made durable yet.
    unsettled: bool,
    space: Space,
    leases: LeaseDesk,
    /// What must be recovered from before the next order.
    failed: Option<Failure>,
    closing: Option<Arc<Readers>>,
}

impl Desk {
    fn new(
        shared: Arc<Shared>,
        store: Arc<Store>,
        opened: Opened,
        orders: Receiver<Box<Order>>,
    ) -> Desk {
        let options = &shared.options;
        let space = Space::new(
            Arc::clone(&shared.disk),
            options.reserve_bytes,
            options.ballast_bytes,
        );
        Desk {
            orders,
            carried: None,
            store: Some(store),
            last_mark: opened.last_mark,
            scrubbed: opened.meta.scrubbed,
            unsettled: false,
            space,
            leases: LeaseDesk::new(&shared, &opened),
            failed: None,
            closing: None,
            shared,
        }
    }

    fn run(mut self) {
        self.safely(Desk::idle);
        while self.closing.is_none() {
            match self.next_order() {
                Ok(order) => self.safely(|desk| desk.carry_out(order)),
                Err(RecvTimeoutError::Timeout) => self.safely(Desk::idle),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if let Some(failure) = self.failed.take() {
                self.recover(&failure, None);
            }
        }
        self.finish();
    }

    fn next_order(&mut self) -> Result<Order, RecvTimeoutError> {
        if let Some(order) = self.carried.take() {
            return Ok(order);
        }
        self.orders
            .recv_timeout(if self.unsettled { SETTLE } else { IDLE })
            .map(|order| *order)
    }

    /// A panic ends neither the thread nor the wait of others: who waits for this order learns
    /// that its outcome is unknown, and the database is opened anew.
    fn safely(&mut self, work: impl FnOnce(&mut Desk)) {
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        if let Err(panic) = done {
            self.failed = Some(Failure::Panic(panic_text(&*panic)));
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Commit(first) => self.commit(first),
            Order::Compact(up_to, reply) => {
                let result = self.compact(up_to);
                reply.send(result);
            }
            Order::Scrub(reply) => {
                let result = self.scrub();
                reply.send(result);
            }
            Order::Lease(order) => self.see_to_lease(order),
            Order::Promote(rebuild, upkeep, reply) => {
                let result = self.promote(rebuild);
                reply.send(result.map(|promotion| (promotion, upkeep)));
            }
            Order::Alarm(store, failure) => {
                let current = self
                    .store
                    .as_ref()
                    .is_some_and(|own| Arc::ptr_eq(own, &store));
                drop(store);
                if current {
                    self.recover(&failure, None);
                }
            }
            Order::Close(readers) => self.closing = Some(readers),
        }
    }

    /// Nothing to do: settles removals, sees to the ballast, and says how things are.
    fn idle(&mut self) {
        if self.unsettled {
            self.settle();
        }
        let now = Instant::now();
        self.space.keep_ballast(now);
        self.watch_space(now);
        self.watch_clock();
        metrics::sizes(&self.shared);
        metrics::leases(self.leases.len());
    }

    /// Says whether there is room, for health and for the batch at hand.
    fn watch_space(&mut self, now: Instant) -> Option<String> {
        let shortage = self.space.shortage(now);
        let health = match &shortage {
            Some(why) => Health::ReadOnly(why.clone()),
            None => Health::Serving,
        };
        if self.shared.health() != health && self.store.is_some() {
            match &health {
                Health::ReadOnly(why) => {
                    tracing::warn!(%why, "storage refuses creates and updates")
                }
                _ => tracing::info!("storage takes writes again"),
            }
            self.shared.set_health(health);
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
        self.shared.positions.publish(events);
        self.shared.set_totals(totals);
        self.shared.tail.publish(events);
    }

    /// Lets go of everything.
    fn finish(mut self) {
        self.shared.set_closed();
        self.shared.tail.close();
        if let Some(readers) = self.closing.take() {
            readers.stop();
        }
        for order in self.orders.try_iter() {
            refuse(*order, &EngineError::Closed);
        }
        self.note_lease_time();
        self.settle();
        self.shared.set_store(None);
        // The database closes its file here, unless a reader outlives its thread.
        drop(self.store.take());
        self.shared.disk.release();
    }
}

/// Answers an order that can't be carried out.
fn refuse(order: Order, error: &EngineError) {
    match order {
        Order::Commit(order) => order.answer(Err(error.clone())),
        Order::Compact(_, reply) => reply.send(Err(error.clone())),
        Order::Scrub(reply) => reply.send(Err(error.clone())),
        Order::Lease(order) => order.refuse(error),
        Order::Promote(rebuild, _, reply) => {
            drop(rebuild);
            reply.send(Err(error.clone()));
        }
        Order::Alarm(..) | Order::Close(_) => {}
    }
}
