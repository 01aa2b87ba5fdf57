//! Where the address of an actor lives: the supervisor swaps it, handles read it anew each time.

use std::sync::Arc;
use std::time::Instant as Moment;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Context, Handler, Message};
use arc_swap::ArcSwapOption;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

/// The current address of one actor, if it lives; knows no role.
pub struct Slot<A: Actor> {
    name: &'static str,
    address: ArcSwapOption<Addr<A>>,
    permits: Semaphore,
    lives: watch::Sender<u64>,
}

/// No answer.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AskError {
    /// The actor is not there, or died before it answered.
    #[error("the actor is gone")]
    Gone,
    /// The deadline passed first.
    #[error("the actor did not answer in time")]
    Deadline,
}

impl<A: Actor<Context = Context<A>>> Slot<A> {
    /// An empty slot for an actor whose mailbox holds `bound` messages.
    pub fn new(name: &'static str, bound: usize) -> Arc<Slot<A>> {
        Arc::new(Slot {
            name,
            address: ArcSwapOption::empty(),
            permits: Semaphore::new(bound),
            lives: watch::Sender::new(0),
        })
    }

    /// The actor lives here from now on.
    pub fn fill(&self, address: Addr<A>) {
        self.address.store(Some(Arc::new(address)));
        self.lives.send_modify(|lives| *lives += 1);
    }

    /// The actor is gone.
    pub fn clear(&self) {
        self.address.store(None);
    }

    /// Changes with every new life of the actor.
    pub fn lives(&self) -> watch::Receiver<u64> {
        self.lives.subscribe()
    }

    /// Sends a message and waits for its answer, at most until the deadline.
    ///
    /// # Errors
    /// [`AskError`]; after [`AskError::Deadline`] the actor may still act on the message.
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

    /// Sends a message and waits for its answer for as long as the actor lives: for senders
    /// whose pace the actor is meant to set.
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
        let _permit = self.permit().await?;
        self.first_life().await;
        let address = self.address.load_full().ok_or(AskError::Gone)?;
        address.send(message).await.map_err(|_| AskError::Gone)
    }

    /// Waits for an actor that has never lived yet: the house is just being started. Once it has
    /// lived, an empty slot means that it is dead, and nobody waits for its next life.
    async fn first_life(&self) {
        if *self.lives.borrow() == 0 {
            let mut lives = self.lives.subscribe();
            // The sender is this slot's own and can't be gone.
            let _ = lives.wait_for(|lives| *lives > 0).await;
        }
    }

    async fn permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, AskError> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Ok(permit);
        }
        let full = Moment::now();
        let permit = self.permits.acquire().await.map_err(|_| AskError::Gone);
        metrics::histogram!("taffrail_mailbox_blocked_seconds", "actor" => self.name)
            .record(full.elapsed());
        permit
    }
}
