//! What a store without a controller manager needs: namespaces that are deleted are emptied and
//! go, and those of the system are there (API-225, API-262).
//!
//! One task follows the namespaces' cache and works on what it sees there; it keeps nothing that
//! could not be seen again, so it may be stopped or may fail at any point.

use std::sync::Arc;
use std::time::Duration;

use actors::backoff::{Backoff, random_unit};
use actors::cacher::CacherHandle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::registry::Catalog;

mod emptier;
mod follower;
mod schedule;
mod system_namespaces;

pub use system_namespaces::ensure_system_namespaces;

/// The task, from outside.
pub struct Upkeep {
    stop: watch::Sender<bool>,
    supervisor: JoinHandle<()>,
}

impl Upkeep {
    /// Starts the task on the calling thread's runtime. `namespaces` is the cache of the
    /// namespaces in the catalog.
    pub fn start(catalog: Arc<Catalog>, namespaces: CacherHandle) -> Upkeep {
        let (stop, stopped) = watch::channel(false);
        let supervisor = tokio::spawn(supervise(catalog, namespaces, stopped));
        Upkeep { stop, supervisor }
    }

    /// Ends the task after the step it is at.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.supervisor.await {
            tracing::warn!(%error, "upkeep ended badly");
        }
    }
}

/// Starts the follower again when it fails, until it ends because it was told to.
async fn supervise(
    catalog: Arc<Catalog>,
    namespaces: CacherHandle,
    mut stopped: watch::Receiver<bool>,
) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
    loop {
        let follower =
            follower::Follower::new(catalog.clone(), namespaces.clone(), stopped.clone());
        let failure = match tokio::spawn(follower.run()).await {
            Ok(()) => return,
            Err(failure) => failure,
        };
        let wait = backoff.failed(random_unit());
        tracing::error!(%failure, ?wait, "upkeep failed and starts again");
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
