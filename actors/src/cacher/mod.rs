//! One Cacher for each cached resource: its current objects, its ring of recent events, and which
//! Dispatchers want which events.
//!
//! It owns the [`WatchCache`] of the resource, which holds the published snapshot, the ring and the
//! readiness. The Reflector sends it everything: the whole content once, then batch after batch of
//! decoded events. From each batch the Cacher makes a new [`Snapshot`](crate::snapshot::Snapshot)
//! and new events in the ring. Readers get snapshots through [`CacherHandle`]; Dispatchers get
//! events and signals. It must know nothing of how a store is read, of selectors and frames, or of
//! clients.
//!
//! Readers use the WatchCache directly. None of them waits for the Cacher's mailbox.
//!
//! When the actor ends, its WatchCache is abandoned: it is not ready, its watches end, and the next
//! incarnation begins empty.

mod backfill;
mod cache_content;
mod first_use;
mod follower;
mod handle;
mod handlers;
mod interests;
pub(crate) mod messages;
mod metrics;
mod readiness;
mod rewind;
#[cfg(test)]
mod tests;
mod topic_map;
mod watch_cache;

use std::sync::Arc;

use actix::{Actor, Context};

#[cfg(test)]
pub(crate) use cache_content::AppliedUpdate;
pub(crate) use cache_content::{CacheContent, NewValue, Update};
pub(crate) use first_use::FirstUse;
pub use follower::{CacheFollower, CacheNews};
pub use handle::{CacherHandle, NotFresh};
pub use interests::{EventSignal, SubscriberId};
pub(crate) use metrics::describe as describe_metrics;
pub(crate) use metrics::resource_and_group;
pub use readiness::{NotReady, Readiness};
pub(crate) use topic_map::TopicMap;
pub(crate) use watch_cache::{CLOSED_GENERATION, PendingEvents, RingRead, WatchCache};

use crate::exit::ExitGuard;
use crate::mailbox;
use metrics::CacherMetrics;

/// The actor that fills the watch cache of one resource.
pub(crate) struct Cacher {
    watch_cache: Arc<WatchCache>,
    content: CacheContent,
    /// The generation of the content; `None` until the cache has been filled.
    generation: Option<u64>,
    metrics: CacherMetrics,
    exit: ExitGuard,
}

impl Cacher {
    /// A Cacher without content, which publishes into this watch cache.
    pub(crate) fn new(watch_cache: Arc<WatchCache>, exit: ExitGuard) -> Cacher {
        Cacher {
            metrics: CacherMetrics::new(&watch_cache.resource),
            watch_cache,
            content: CacheContent::default(),
            generation: None,
            exit,
        }
    }
}

impl Actor for Cacher {
    type Context = Context<Cacher>;

    fn started(&mut self, context: &mut Context<Cacher>) {
        context.set_mailbox_capacity(mailbox::CACHER);
    }
}
