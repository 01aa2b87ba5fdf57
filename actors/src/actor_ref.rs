//! The current address of an actor.
//!
//! The Supervisor sets it at every start and clears it when the actor ends. Handles read it for
//! each message, so a restart is invisible to callers.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant as StdInstant;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Context, Handler, Message};
use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The address of one actor while it runs. It works for every kind of actor.
pub struct ActorRef<A: Actor> {
    name: &'static str,
    address: ArcSwapOption<Addr<A>>,
    permits: Semaphore,
    /// How often the actor has started. A channel would take several times the memory.
    incarnations: AtomicU64,
    started: Notify,
}

/// The incarnations of an actor, as one that waits for the next one has seen them.
pub struct SeenIncarnations<A: Actor> {
    actor_ref: Arc<ActorRef<A>>,
    seen: u64,
}

impl<A: Actor> SeenIncarnations<A> {
    /// Counts all incarnations so far as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.actor_ref.incarnations.load(Ordering::SeqCst);
    }

    /// Waits for an incarnation that was not seen yet.
    pub async fn changed(&mut self) {
        self.seen = self.actor_ref.started_after(self.seen).await;
    }
}

impl<A: Actor> ActorRef<A> {
    /// Waits until the actor has started more often than this. Returns how often it has.
    async fn started_after(&self, seen: u64) -> u64 {
        loop {
            let mut started = pin!(self.started.notified());
            // A start after the look at the number is not missed.
            started.as_mut().enable();
            let incarnations = self.incarnations.load(Ordering::SeqCst);
            if incarnations > seen {
                return incarnations;
            }
            started.await;
        }
    }
}

/// Why no answer came.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AskError {
    /// The actor is not running, or it ended before it answered.
    #[error("the actor is gone")]
    Gone,
    /// The deadline passed first.
    #[error("the actor did not answer in time")]
    Deadline,
}

impl<A: Actor<Context = Context<A>>> ActorRef<A> {
    /// A reference without an address, for an actor whose mailbox holds `bound` messages.
    pub fn new(name: &'static str, bound: usize) -> Arc<ActorRef<A>> {
        Arc::new(ActorRef {
            name,
            address: ArcSwapOption::empty(),
            permits: Semaphore::new(bound),
            incarnations: AtomicU64::new(0),
            started: Notify::new(),
        })
    }

    /// Sets the address of an incarnation that has just started.
    pub fn set(&self, address: Addr<A>) {
        self.address.store(Some(Arc::new(address)));
        self.incarnations.fetch_add(1, Ordering::SeqCst);
        self.started.notify_waiters();
    }

    /// Removes the address. The actor has ended.
    pub fn clear(&self) {
        self.address.store(None);
    }

    /// The incarnations of the actor so far.
    pub fn incarnations(self: &Arc<ActorRef<A>>) -> SeenIncarnations<A> {
        SeenIncarnations {
            actor_ref: Arc::clone(self),
            seen: self.incarnations.load(Ordering::SeqCst),
        }
    }

    /// Sends a message and waits for its answer, at most until the deadline.
    ///
    /// # Errors
    /// [`AskError`]. After [`AskError::Deadline`] the actor may still act on the message.
    pub async fn ask<M>(&self, message: M, deadline: Instant) -> Result<M::Result, AskError>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
    {
        let answered = timeout_at(deadline, self.ask_patiently(message)).await;
        answered.unwrap_or(Err(AskError::Deadline))
    }

    /// Sends a message and waits for its answer without a deadline. It is for senders that the
    /// actor is meant to slow down.
    ///
    /// # Errors
    /// [`AskError::Gone`]
    pub async fn ask_patiently<M>(&self, message: M) -> Result<M::Result, AskError>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
    {
        // Waits are rare. They are boxed, so that those who ask have no room for them.
        let _permit = match self.permits.try_acquire() {
            Ok(permit) => permit,
            Err(_) => Box::pin(self.permit()).await?,
        };
        // Once it has started, a missing address means that it has ended, and nobody waits for its
        // restart.
        if self.incarnations.load(Ordering::SeqCst) == 0 {
            Box::pin(self.started_after(0)).await;
        }
        let address = self.address.load_full().ok_or(AskError::Gone)?;
        address.send(message).await.map_err(|_| AskError::Gone)
    }

    /// Waits for a permit.
    async fn permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, AskError> {
        let blocked_since = StdInstant::now();
        let permit = self.permits.acquire().await.map_err(|_| AskError::Gone);
        metrics::histogram!("taffrail_mailbox_blocked_seconds", "actor" => self.name)
            .record(blocked_since.elapsed());
        permit
    }
}
