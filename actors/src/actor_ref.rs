//! The current address of an actor.
//!
//! The Supervisor sets it at every start and clears it when the actor ends. Handles read it for
//! each message, so a restart is invisible to callers.

use std::sync::Arc;
use std::time::Instant as StdInstant;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Context, Handler, Message};
use arc_swap::ArcSwapOption;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

/// The address of one actor while it runs. It works for every kind of actor.
pub struct ActorRef<A: Actor> {
    name: &'static str,
    address: ArcSwapOption<Addr<A>>,
    permits: Semaphore,
    incarnations: watch::Sender<u64>,
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
            incarnations: watch::Sender::new(0),
        })
    }

    /// Sets the address of an incarnation that has just started.
    pub fn set(&self, address: Addr<A>) {
        self.address.store(Some(Arc::new(address)));
        self.incarnations.send_modify(|count| *count += 1);
    }

    /// Removes the address. The actor has ended.
    pub fn clear(&self) {
        self.address.store(None);
    }

    /// Counts the incarnations of the actor. It changes with every start.
    pub fn incarnations(&self) -> watch::Receiver<u64> {
        self.incarnations.subscribe()
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
        if *self.incarnations.borrow() == 0 {
            Box::pin(self.first_start()).await;
        }
        let address = self.address.load_full().ok_or(AskError::Gone)?;
        address.send(message).await.map_err(|_| AskError::Gone)
    }

    /// Waits for the first start of the actor. Once it has started, a missing address means that
    /// it has ended, and nobody waits for its restart.
    async fn first_start(&self) {
        let mut incarnations = self.incarnations.subscribe();
        // The sender belongs to this reference and outlives the wait.
        let _ = incarnations.wait_for(|count| *count > 0).await;
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
