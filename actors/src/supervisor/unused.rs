//! The actors of a resource that nobody has used yet.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::Supervisor;
use super::child::Child;
use super::child_statuses::ChildStatuses;
use super::messages::AddChildren;
use crate::actor_ref::ActorRef;
use crate::cacher::WatchCache;

/// A Cacher and a Reflector that start at the first use of their resource.
pub(super) struct Unused {
    /// Locked while they start, so that a removal comes either before or after that.
    children: Mutex<Option<[Child; 2]>>,
    watch_cache: Arc<WatchCache>,
    statuses: ChildStatuses,
    supervisor: Arc<ActorRef<Supervisor>>,
}

impl Unused {
    pub(super) fn new(
        children: [Child; 2],
        watch_cache: Arc<WatchCache>,
        statuses: ChildStatuses,
        supervisor: Arc<ActorRef<Supervisor>>,
    ) -> Unused {
        Unused {
            children: Mutex::new(Some(children)),
            watch_cache,
            statuses,
            supervisor,
        }
    }

    /// Starts the actors, unless they were started or given up.
    pub(super) async fn start(&self) {
        let mut locked = self.children.lock().await;
        let Some(children) = locked.take() else {
            return;
        };
        let ids = children.each_ref().map(|child| child.id);
        children.iter().for_each(|child| self.statuses.add(child));
        self.watch_cache.begin_filling();
        let message = AddChildren(children.into());
        if !matches!(self.supervisor.ask_patiently(message).await, Ok(Ok(()))) {
            // The actors stop.
            ids.into_iter().for_each(|id| self.statuses.remove(id));
            self.watch_cache.close();
        }
    }

    /// Gives the actors up. Returns false if they were started.
    pub(super) async fn give_up(&self) -> bool {
        self.children.lock().await.take().is_some()
    }
}
