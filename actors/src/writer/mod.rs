//! Writers: a few shards by key hash that give out turns, so that retries of one key's updates
//! come one after the other.
//!
//! Most writes never come here: they commit optimistically in their own task. Only who was
//! refused asks for the key's turn; it holds a [`Turn`] while it computes and commits, and gives
//! it back by dropping it. `turns.rs` decides who is next. Preconditions protect the data in any
//! case: a Writer that dies, or a turn that expires, costs retries and never a wrong write.

mod handle;
mod handlers;
pub(crate) mod messages;
mod outcomes;
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

pub use handle::{Turn, TurnError, WriterHandle};
pub use turns::WAITING_MAX;

use crate::engine::{Key, KeyValue};
use crate::exit::ExitGuard;
use crate::mailbox;
use messages::Granted;
use turns::{Effect, TurnId, Turns};

/// One shard. See the module's documentation.
pub(crate) struct Writer {
    turns: Turns,
    /// Where the turns that are awaited are to be given.
    awaited: HashMap<TurnId, oneshot::Sender<Granted>>,
    /// The flags of the turns that are held.
    held: HashMap<TurnId, Arc<AtomicBool>>,
    last_id: u64,
    timer: Option<(Instant, SpawnHandle)>,
    _exit: ExitGuard,
}

impl Writer {
    /// A shard whose keys nobody holds.
    pub(crate) fn new(exit: ExitGuard) -> Writer {
        Writer {
            turns: Turns::default(),
            awaited: HashMap::new(),
            held: HashMap::new(),
            last_id: 0,
            timer: None,
            _exit: exit,
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
                } => self.grant(id, key, last_outcome, context),
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

    fn grant(
        &mut self,
        id: TurnId,
        key: Key,
        last_outcome: Option<KeyValue>,
        context: &mut Context<Writer>,
    ) {
        let (give_back, given_back) = oneshot::channel();
        let is_lost = Arc::new(AtomicBool::new(false));
        self.held.insert(id, Arc::clone(&is_lost));
        let granted = Granted {
            is_lost,
            last_outcome,
            give_back,
        };
        if let Some(caller) = self.awaited.remove(&id) {
            // A caller that has gone away drops the turn, which gives it back.
            let _ = caller.send(granted);
        }
        let given_back = wrap_future::<_, Writer>(given_back);
        context.spawn(given_back.map(move |outcome, writer, context| {
            writer.held.remove(&id);
            let effects = writer.turns.give_back(now(), &key, id, outcome.ok());
            writer.perform(effects, context);
        }));
    }

    /// Sets the one timer to the next turn that expires.
    fn arm(&mut self, context: &mut Context<Writer>) {
        let next = self.turns.next_expiry();
        if self.timer.map(|(at, _)| at) == next {
            return;
        }
        if let Some((_, timer)) = self.timer.take() {
            context.cancel_future(timer);
        }
        if let Some(at) = next {
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

/// The clock that timers follow.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
