//! One Cacher per resource: its current objects, its ring, and who wants which topic.
//!
//! The actor is told everything by its Reflector: the whole content once, then batch after batch
//! of events. Of each batch it makes a new [`crate::snapshot::Snapshot`] and new events in the
//! ring, wakes who waits for freshness, and rings the bell of Dispatchers that want one of the
//! topics touched. Everything that others read lies in the part that is shared ([`CacherHandle`]),
//! so nobody waits for this mailbox.
//!
//! When it dies, what it held is abandoned: not ready, watches end, and a new life begins empty.

mod backfill;
mod handle;
mod handlers;
mod interests;
pub(crate) mod messages;
mod metrics;
mod readiness;
mod rewind;
mod shared;
mod store;
#[cfg(test)]
mod tests;
mod topics;

use std::sync::Arc;

use actix::{Actor, Context};

pub use handle::{CacherHandle, NotFresh};
pub use interests::{Bell, DeskId};
pub(crate) use metrics::describe as describe_metrics;
pub(crate) use metrics::resource_and_group;
pub use readiness::{NotReady, Readiness};
pub(crate) use shared::{CLOSED, Horizon, Read, Shared};
pub(crate) use store::{Content, Update};

use crate::exit::ExitGuard;
use crate::mailbox;
use metrics::CacherMetrics;
pub(crate) use store::Store;
pub(crate) use topics::{Left, TopicMap};

/// See the module's documentation.
pub(crate) struct Cacher {
    shared: Arc<Shared>,
    store: Store,
    /// The generation of the store's content; `None` until it has been filled.
    generation: Option<u64>,
    metrics: CacherMetrics,
    _exit: ExitGuard,
}

impl Cacher {
    /// An empty cache, publishing into the shared part.
    pub(crate) fn new(shared: Arc<Shared>, exit: ExitGuard) -> Cacher {
        Cacher {
            metrics: CacherMetrics::new(&shared.resource),
            shared,
            store: Store::default(),
            generation: None,
            _exit: exit,
        }
    }
}

impl Actor for Cacher {
    type Context = Context<Cacher>;

    fn started(&mut self, context: &mut Context<Cacher>) {
        context.set_mailbox_capacity(mailbox::CACHER);
    }
}
