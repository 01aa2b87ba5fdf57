//! One Reflector per Cacher: keeps it equal to a prefix of the store.
//!
//! It reads everything at one revision into a side buffer, hands it over in one message, then
//! forwards the store's feed from that revision on. What to do next is decided in `machine.rs`;
//! `drive.rs` does it. Every message to the Cacher is awaited, so a busy Cacher slows the feed
//! down and no queue grows.
//!
//! A value that can't be decoded is handed over as such, and tried again from time to time.
//!
//! When it dies, the Cacher goes on serving what it has and the next Reflector continues it; when
//! the Cacher dies, it fills the next one.

mod drive;
mod handlers;
pub(crate) mod machine;
pub(crate) mod messages;
mod metrics;
#[cfg(test)]
mod tests;
mod unread;
mod waiting;

use std::sync::Arc;

use actix::fut::wrap_future;
use actix::{Actor, AsyncContext, Context};
use parking_lot::Mutex;

#[cfg(any(test, feature = "testing"))]
pub(crate) use drive::PAGE_ITEMS;
pub(crate) use drive::Source;
pub(crate) use metrics::describe as describe_metrics;

use crate::exit::ExitGuard;
use crate::mailbox;
use machine::State;

/// See the module's documentation.
pub(crate) struct Reflector {
    source: Source,
    /// Given to the work that begins with the actor.
    exit: Option<ExitGuard>,
}

/// What a Reflector is doing, for state dumps.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    pub(crate) state: State,
    pub(crate) last_error: Option<String>,
}

/// Where a Reflector writes down what it is doing.
pub(crate) type Observed = Arc<Mutex<Observation>>;

impl Default for Observation {
    fn default() -> Observation {
        Observation {
            state: State::Empty,
            last_error: None,
        }
    }
}

impl Observation {
    /// One phrase for state dumps.
    pub(crate) fn describe(&self) -> String {
        let state = match &self.state {
            State::Empty => "waiting to read everything".to_owned(),
            State::Listing { at: None } => "reading everything".to_owned(),
            State::Listing { at: Some(at) } => format!("reading everything at revision {at}"),
            State::Watching { place } => format!("following from revision {}", place.revision),
        };
        match &self.last_error {
            None => state,
            Some(error) => format!("{state}, after an error: {error}"),
        }
    }
}

impl Reflector {
    /// A Reflector of this source, not yet started.
    pub(crate) fn new(source: Source, exit: ExitGuard) -> Reflector {
        Reflector {
            source,
            exit: Some(exit),
        }
    }
}

impl Actor for Reflector {
    type Context = Context<Reflector>;

    fn started(&mut self, context: &mut Context<Reflector>) {
        context.set_mailbox_capacity(mailbox::REFLECTOR);
        if let Some(exit) = self.exit.take() {
            // A panic in there is this actor's death: its context polls the future.
            context.spawn(wrap_future(drive::run(exit, self.source.clone())));
        }
    }
}
