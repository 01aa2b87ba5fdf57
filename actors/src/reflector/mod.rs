//! One Reflector for each Cacher keeps it equal to a prefix of the store, by list and watch.
//!
//! It owns the position between list and watch, the open feed, and the values that could not be
//! decoded. It reads ranges and feeds of the engine, and sends messages to the Cacher: the whole
//! content once, then batches of decoded events. It must know nothing of watches, or of how the
//! Cacher publishes its content.
//!
//! It reads everything at one revision, sends it in one message, and then forwards the feed from
//! that revision on. `machine.rs` decides what to do next, `list_watch.rs` does it. Each message to
//! the Cacher is awaited, so a busy Cacher slows the feed down and no queue grows.
//!
//! A value that can't be decoded is sent as unreadable, and decoding it is retried now and then.
//!
//! When the Reflector ends, the Cacher serves what it has, and the next incarnation continues from
//! there. When the Cacher ends, the Reflector fills its next incarnation.

mod handlers;
mod list_watch;
pub(crate) mod machine;
pub(crate) mod messages;
mod metrics;
mod observation;
mod unreadable;
mod unreadable_retry;

use std::sync::Arc;

use actix::fut::wrap_future;
use actix::{Actor, AsyncContext, Context};

#[cfg(any(test, feature = "testing"))]
pub(crate) use list_watch::PAGE_ITEMS;
pub(crate) use list_watch::Source;
pub(crate) use metrics::describe as describe_metrics;
pub(crate) use observation::Observed;

use crate::exit::ExitGuard;
use crate::mailbox;

/// The actor that fills one Cacher.
pub(crate) struct Reflector {
    source: Arc<Source>,
    /// Moved into the list-and-watch task when the actor starts.
    exit: Option<ExitGuard>,
}

impl Reflector {
    /// A Reflector of this source, not yet started.
    pub(crate) fn new(source: Arc<Source>, exit: ExitGuard) -> Reflector {
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
            // A panic in the future ends this actor: its context polls the future.
            let pulse = exit.pulse().clone();
            let work = pulse.turning(list_watch::run(exit, Arc::clone(&self.source)));
            context.spawn(wrap_future(work));
        }
    }
}
