//! Decides when an unknown path is certainly unknown (CRD-85).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use actors::cacher::CacherHandle;
use actors::engine::Revision;
use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::registry::{Completeness, RegistryStore};

/// How long a request waits for definitions that other servers have written.
const PATIENCE: Duration = Duration::from_secs(2);

/// The seconds after which a client may ask again for a path that may come.
const RETRY_AFTER: u32 = 5;

/// The definitions that the controller has taken into account.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// Whether the definitions of the start were read.
    pub has_begun: bool,
    /// Whether all definitions of the start are served.
    pub is_ready: bool,
    /// All definitions up to this revision are known.
    pub revision: Revision,
    /// The groups with definitions whose resources are about to change.
    pub changing: Arc<HashSet<String>>,
}

/// Holds requests to unknown paths until the definitions are known that were written before.
pub struct Gate {
    store: Arc<RegistryStore>,
    definitions: CacherHandle,
    seen: watch::Sender<Seen>,
    /// Counts the reads that have begun.
    begun: Mutex<u64>,
    /// The last read that has ended, by its number, with the revision that it found.
    read: tokio::sync::Mutex<(u64, Revision)>,
}

impl Gate {
    pub(super) fn new(store: Arc<RegistryStore>, definitions: CacherHandle) -> Gate {
        Gate {
            store,
            definitions,
            seen: watch::Sender::default(),
            begun: Mutex::default(),
            read: tokio::sync::Mutex::default(),
        }
    }

    /// Notes what the controller has taken into account.
    pub(super) fn report(&self, change: impl FnOnce(&mut Seen)) {
        self.seen.send_modify(change);
    }

    /// Waits until the definitions of the start were read, and their resources are being served.
    pub async fn begun(&self) {
        // An error means that the loops have ended.
        let _ = self.seen.subscribe().wait_for(|seen| seen.has_begun).await;
    }

    /// Waits until all definitions of the start are served.
    pub async fn opened(&self) {
        // An error means that the loops have ended.
        let _ = self.seen.subscribe().wait_for(|seen| seen.is_ready).await;
    }

    async fn wait(&self, group: Option<&str>) -> Result<(), Box<Status>> {
        if !self.seen.borrow().is_ready {
            return Err(too_early());
        }
        let wanted = self.newest().await?;
        let mut seen = self.seen.subscribe();
        let settled = seen.wait_for(|seen| {
            let is_changing = match group {
                Some(group) => seen.changing.contains(group),
                None => !seen.changing.is_empty(),
            };
            seen.is_ready && seen.revision >= wanted && !is_changing
        });
        match tokio::time::timeout(PATIENCE, settled).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(too_early()),
        }
    }

    /// Returns the revision of the newest definition. One read of the store serves all who came
    /// before it began.
    async fn newest(&self) -> Result<Revision, Box<Status>> {
        let arrived = *self.begun.lock();
        let mut read = self.read.lock().await;
        if read.0 > arrived {
            return Ok(read.1);
        }
        let number = {
            let mut begun = self.begun.lock();
            *begun += 1;
            *begun
        };
        let one = ListOptions {
            limit: 1,
            ..ListOptions::default()
        };
        // The cache has then everything that the store had.
        self.store
            .list(None, &one, Arc::new(Selection::default()))
            .await
            .map_err(|_| too_early())?;
        let snapshot = self.definitions.snapshot().ok_or_else(too_early)?;
        *read = (number, snapshot.last_event());
        Ok(read.1)
    }
}

impl Completeness for Gate {
    fn settled<'a>(&'a self, group: Option<&'a str>) -> BoxFuture<'a, Result<(), Box<Status>>> {
        self.wait(group).boxed()
    }
}

fn too_early() -> Box<Status> {
    let why = "the request has been made before all known HTTP paths have been installed, please \
               try again";
    Box::new(Status::unavailable(why, RETRY_AFTER))
}
