//! Writers give out turns to update contended keys. There are a few of them, by hash of the key.
//!
//! They own the queues of contended keys and the newest states that holders of turns have left.
//! Callers request a [`Turn`] through [`WriterHandle`]. Writers must know nothing of engines or of
//! the content of an update. Objects pass through unopened.
//!
//! Most writes never come here: they commit optimistically in their own task. Only a request whose
//! commit was refused asks for the key's turn. It holds the [`Turn`] while it computes, until its
//! mutation is queued, and leaves the object and its ticket for the next holder. So many updates of
//! a key share a commit. An engine that queues nothing lets the turn last until the mutation is
//! committed. `turns.rs` decides who is next. Preconditions protect the data in any case: if a
//! Writer ends or a turn expires, requests are repeated, and no write is wrong.

mod handle;
mod handlers;
mod last_outcomes;
pub(crate) mod messages;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use actix::fut::wrap_future;
use actix::{Actor, ActorFutureExt, AsyncContext, Context, SpawnHandle};
use tokio::sync::oneshot;

pub use handle::{QueuedTurn, Turn, TurnError, WriterHandle};
pub use last_outcomes::{LastOutcome, QueuedObject};
pub use turns::WAITING_MAX;

use crate::engine::Key;
use crate::exit::ExitGuard;
use crate::mailbox;
use messages::Granted;
use turns::{Effect, TurnId, Turns};

/// The actor for one shard of the keys.
pub(crate) struct Writer {
    turns: Turns,
    /// Where to send the turns that are waited for.
    awaited: HashMap<TurnId, oneshot::Sender<Granted>>,
    /// The flags of the turns that are held, which are set when a turn expires.
    held: HashMap<TurnId, Arc<AtomicBool>>,
    last_id: u64,
    timer: Option<(Instant, SpawnHandle)>,
    exit: ExitGuard,
}

impl Writer {
    /// A shard without turns.
    pub(crate) fn new(exit: ExitGuard) -> Writer {
        Writer {
            turns: Turns::default(),
            awaited: HashMap::new(),
            held: HashMap::new(),
            last_id: 0,
            timer: None,
            exit,
        }
    }

    fn queue(&mut self, grant: oneshot::Sender<Granted>) -> TurnId {
        self.last_id += 1;
        let id = TurnId(self.last_id);
        self.awaited.insert(id, grant);
        id
    }

    fn perform(&mut self, effects: Vec<Effect>, context: &mut Context<Writer>) {
        for effect in effects {
            match effect {
                Effect::Grant {
                    id,
                    key,
                    last_outcome,
                    waiting,
                } => {
                    let (give_back, given_back) = oneshot::channel();
                    let granted = Granted {
                        is_lost: Arc::default(),
                        last_outcome,
                        waiting,
                        give_back,
                    };
                    self.grant(id, granted);
                    self.await_return(id, key, given_back, context);
                }
                Effect::Expire(id) => {
                    if let Some(is_lost) = self.held.remove(&id) {
                        is_lost.store(true, Ordering::Relaxed);
                        metrics::counter!("taffrail_write_turns_expired_total").increment(1);
                    }
                }
            }
        }
        self.arm(context);
    }

    fn grant(&mut self, id: TurnId, granted: Granted) {
        self.held.insert(id, Arc::clone(&granted.is_lost));
        if let Some(caller) = self.awaited.remove(&id) {
            // If the caller has gone away, the turn is dropped here, which gives it back.
            let _ = caller.send(granted);
        }
    }

    fn await_return(
        &mut self,
        id: TurnId,
        key: Key,
        given_back: oneshot::Receiver<LastOutcome>,
        context: &mut Context<Writer>,
    ) {
        let given_back = wrap_future::<_, Writer>(given_back);
        context.spawn(given_back.map(move |outcome, writer, context| {
            writer.held.remove(&id);
            let effects = writer.turns.give_back(now(), &key, id, outcome.ok());
            writer.perform(effects, context);
        }));
    }

    /// Sets the timer to the next turn that expires. A timer that is set for earlier stays: turns
    /// change hands far more often than they expire, and what is early expires nothing.
    fn arm(&mut self, context: &mut Context<Writer>) {
        let Some(at) = self.turns.next_expiry() else {
            return;
        };
        if self.timer.is_none_or(|(set, _)| at < set) {
            if let Some((_, timer)) = self.timer.take() {
                context.cancel_future(timer);
            }
            let wait = at.saturating_duration_since(now());
            let timer = context.run_later(wait, |writer, context| {
                writer.timer = None;
                let effects = writer.turns.tick(now());
                writer.perform(effects, context);
            });
            self.timer = Some((at, timer));
        }
    }
}

impl Actor for Writer {
    type Context = Context<Writer>;

    fn started(&mut self, context: &mut Context<Writer>) {
        context.set_mailbox_capacity(mailbox::WRITER);
    }
}

/// The clock of the timers.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
