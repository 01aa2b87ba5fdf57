//! What a store without a controller manager needs: namespaces that are deleted are emptied and
//! go, and those of the system are there (API-225, API-262).
//!
//! One task follows the namespaces' cache and works on what it sees there; it keeps nothing that
//! could not be seen again, so it may be stopped or may fail at any point. Of several daemons on
//! one store one works at a time ([`Sharing`]).

use std::time::Duration;

use actors::backoff::{Backoff, random_unit};
use actors::cacher::CacherHandle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::registry::Registry;

mod leader_election;
mod leader_elector;
mod namespace_controller;
mod namespaced_resources_deleter;
mod system_namespaces;
mod work_queue;

use leader_elector::LeaderElector;
pub use system_namespaces::ensure_system_namespaces;

/// Gives every metric of this module its unit and help text.
pub fn describe_metrics() {
    leader_elector::describe();
}

/// The task, from outside.
pub struct Controllers {
    stop: watch::Sender<bool>,
    supervisor: JoinHandle<()>,
}

/// Who else may be at work on the same store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody: the store is this daemon's alone.
    Alone,
    /// Other daemons: whoever holds a Lease in `kube-system` does the work.
    WithOthers {
        /// This daemon's name, like no other's.
        identity: String,
    },
}

/// With other daemons on the store, a namespace is emptied so long after it was deleted: by then
/// all of them have heard of it and create nothing in it any more.
const HEARD_BY_ALL_AFTER: Duration = Duration::from_secs(5);

impl Controllers {
    /// Starts the task on the calling thread's runtime. `namespaces` is the cache of the
    /// namespaces in the registry.
    pub fn start(registry: Registry, namespaces: CacherHandle, sharing: Sharing) -> Controllers {
        let (stop, stopped) = watch::channel(false);
        let supervisor = match sharing {
            Sharing::Alone => {
                tokio::spawn(supervise(registry, namespaces, Duration::ZERO, stopped))
            }
            Sharing::WithOthers { identity } => {
                let electing = registry.clone();
                let work = move |stopped| {
                    let (registry, namespaces) = (registry.clone(), namespaces.clone());
                    tokio::spawn(supervise(registry, namespaces, HEARD_BY_ALL_AFTER, stopped))
                };
                let elector = LeaderElector::new(electing, identity, Box::new(work));
                tokio::spawn(elector.run(stopped))
            }
        };
        Controllers { stop, supervisor }
    }

    /// Ends the task after the step it is at.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.supervisor.await {
            tracing::warn!(%error, "the controllers ended with an error");
        }
    }
}

/// Starts the controller again when it fails, until it ends because it was told to.
async fn supervise(
    registry: Registry,
    namespaces: CacherHandle,
    grace: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
    loop {
        let controller = namespace_controller::NamespaceController::new(
            registry.clone(),
            namespaces.clone(),
            grace,
            stopped.clone(),
        );
        let failure = match tokio::spawn(controller.run()).await {
            Ok(()) => return,
            Err(failure) => failure,
        };
        let wait = backoff.failed(random_unit());
        tracing::error!(%failure, ?wait, "the namespace controller failed and is started again");
        if tokio::time::timeout(wait, stopped.wait_for(|stopped| *stopped))
            .await
            .is_ok()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
