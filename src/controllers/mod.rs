//! Controllers for a store without a controller manager (API-225, API-262).
//!
//! This folder owns the emptying of deleted namespaces, the creation of the system namespaces and
//! the election of the daemon that does both. Snapshots of the namespaces' cache enter, requests to
//! the registry leave. The task keeps no state that the cache can't show again, so it may stop or
//! fail at any point. Only one of several daemons on a store works at a time ([`Sharing`]). This
//! folder must not know HTTP or storage engines.

use std::time::Duration;

use actors::backoff::{Backoff, random_unit};
use actors::cacher::CacherHandle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::registry::Registry;

mod leader_election;
mod leader_elector;
mod metrics;
mod namespace_controller;
mod namespaced_resources_deleter;
mod system_namespaces;
mod work_queue;

use leader_elector::LeaderElector;
pub use system_namespaces::ensure_system_namespaces;

/// Gives every metric of this module its unit and help text.
pub fn describe_metrics() {
    leader_elector::describe();
    metrics::describe();
}

/// A handle of the running task.
pub struct Controllers {
    stop: watch::Sender<bool>,
    supervisor: JoinHandle<()>,
}

/// Whether other daemons work on the same store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only this daemon uses the store.
    Alone,
    /// Other daemons use the store too. The holder of a Lease in `kube-system` does the work.
    WithOthers {
        /// This daemon's unique name.
        identity: String,
    },
}

/// With other daemons on the store, a namespace is emptied this long after its deletion. By then
/// all daemons know of the deletion and create nothing in the namespace.
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

    /// Stops the task after its current step.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.supervisor.await {
            tracing::warn!(%error, "the controllers ended with an error");
        }
    }
}

/// Restarts the controller when it fails, until it is stopped.
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
