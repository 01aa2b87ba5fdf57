//! The Lessor, as the rest of the daemon sees it.

use std::sync::Arc;
use std::time::Instant as Moment;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::reuse::{LeaseReuse, Reuse};
use crate::engine::{Engine, EngineError, Lease, LeaseId};

/// Where to ask for leases of a store; cheap to clone.
#[derive(Clone)]
pub struct LessorHandle {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<dyn Engine>,
    reuse: Mutex<Reuse>,
    /// Held by who has a lease granted that others may share: they wait for that one.
    granting: tokio::sync::Mutex<()>,
    /// When the first of the leases granted since the actor last looked runs out.
    due: Mutex<Option<Moment>>,
    granted: Notify,
    begun: watch::Sender<bool>,
}

impl Shared {
    fn is_shared(&self, ttl: u64) -> bool {
        self.reuse.lock().shares(ttl)
    }
}

impl LessorHandle {
    /// The leases of a store. Nothing expires before an actor of the house looks after it.
    pub fn new(engine: Arc<dyn Engine>, reuse: LeaseReuse) -> LessorHandle {
        LessorHandle {
            shared: Arc::new(Shared {
                engine,
                reuse: Mutex::new(Reuse::new(reuse)),
                granting: tokio::sync::Mutex::new(()),
                due: Mutex::new(None),
                granted: Notify::new(),
                begun: watch::Sender::new(false),
            }),
        }
    }

    /// A lease for one object that is to live at least so many seconds. Mostly it is one that
    /// others have too, and there is nothing to wait for.
    ///
    /// # Errors
    /// Those of [`Engine::grant`].
    pub async fn lease(&self, ttl: u64) -> Result<LeaseId, EngineError> {
        if let Some(lease) = self.shared.reuse.lock().take(ttl, now()) {
            return Ok(lease);
        }
        let _turn = match self.shared.is_shared(ttl) {
            true => Some(self.shared.granting.lock().await),
            // Nobody else could use it.
            false => None,
        };
        let wanted = match self.shared.reuse.lock().take_or_want(ttl, now()) {
            Ok(lease) => return Ok(lease),
            Err(wanted) => wanted,
        };
        let Lease { id, ttl } = self.shared.engine.grant(wanted.ttl).await?;
        let objects = self.shared.reuse.lock().granted(id, wanted);
        metrics::histogram!(super::OBJECT_COUNTS).record(objects as f64);
        if let Some(due) = now().checked_add(ttl) {
            let mut first = self.shared.due.lock();
            *first = Some(first.map_or(due, |first| first.min(due)));
            drop(first);
            self.shared.granted.notify_one();
        }
        Ok(id)
    }

    /// A lease turned out to be gone: it is not given out again.
    pub fn forget(&self, lease: LeaseId) {
        self.shared.reuse.lock().forget(lease);
    }

    /// Lets what has outlived its lease be deleted from now on: for when the daemon is ready.
    pub fn begin(&self) {
        self.shared.begun.send_replace(true);
    }

    pub(super) async fn begun(&self) {
        // The sender lives as long as this does.
        let _ = self.shared.begun.subscribe().wait_for(|begun| *begun).await;
    }

    pub(super) fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.engine
    }

    /// Waits until a lease was granted, and tells when the first of those granted since runs out.
    pub(super) async fn granted(&self) -> Option<Moment> {
        self.shared.granted.notified().await;
        self.shared.due.lock().take()
    }
}

fn now() -> Moment {
    Instant::now().into_std()
}
