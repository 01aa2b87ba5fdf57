//! The Lessor, as the rest of the daemon sees it.

use std::sync::Arc;
use std::time::Instant as Moment;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::reuse::{LeaseReuse, Reuse};
use crate::engine::{EngineError, Lease, LeaseEngine, LeaseId};

/// Where to ask for leases of a store; cheap to clone.
#[derive(Clone)]
pub struct LessorHandle {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<dyn LeaseEngine>,
    reuse: Mutex<Reuse>,
    /// Held by who has a lease granted that others may share: they wait for that one.
    granting: tokio::sync::Mutex<()>,
    failures: Mutex<Failures>,
    /// When the first of the leases granted since the actor last looked runs out.
    due: Mutex<Option<Moment>>,
    granted: Notify,
    begun: watch::Sender<bool>,
}

/// Grants that others waited for and that failed.
#[derive(Default)]
struct Failures {
    count: u64,
    last: Option<EngineError>,
}

impl Failures {
    /// Why the grant failed that was waited for since there were so many.
    fn since(&self, count: u64) -> Option<EngineError> {
        self.last.clone().filter(|_| self.count > count)
    }

    fn add(&mut self, error: &EngineError) {
        self.count += 1;
        self.last = Some(error.clone());
    }
}

impl Shared {
    fn is_shared(&self, ttl: u64) -> bool {
        self.reuse.lock().shares(ttl)
    }
}

impl LessorHandle {
    /// The leases of a store. Nothing expires before an actor of the actor_system looks after it.
    pub fn new(engine: Arc<dyn LeaseEngine>, reuse: LeaseReuse) -> LessorHandle {
        LessorHandle {
            shared: Arc::new(Shared {
                engine,
                reuse: Mutex::new(Reuse::new(reuse)),
                granting: tokio::sync::Mutex::new(()),
                failures: Mutex::default(),
                due: Mutex::new(None),
                granted: Notify::new(),
                begun: watch::Sender::new(false),
            }),
        }
    }

    /// A lease for one object that is to live at least so many seconds. Mostly it is one that
    /// others have too, and there is nothing to wait for. Who waits while one is granted that all
    /// of them could share waits no longer than that takes, also if it fails.
    ///
    /// # Errors
    /// Those of [`LeaseEngine::grant`].
    pub async fn lease(&self, ttl: u64) -> Result<LeaseId, EngineError> {
        if let Some(lease) = self.shared.reuse.lock().take(ttl, now()) {
            return Ok(lease);
        }
        if !self.shared.is_shared(ttl) {
            return self.granted_lease(ttl).await;
        }
        let failures = self.shared.failures.lock().count;
        let _turn = self.shared.granting.lock().await;
        // An engine that hangs would keep each who waits as long as all before it together.
        if let Some(error) = self.shared.failures.lock().since(failures) {
            return Err(error);
        }
        let granted = self.granted_lease(ttl).await;
        if let Err(error) = &granted {
            self.shared.failures.lock().add(error);
        }
        granted
    }

    /// The remembered lease if it will do by now, else one that is granted.
    async fn granted_lease(&self, ttl: u64) -> Result<LeaseId, EngineError> {
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

    pub(super) fn engine(&self) -> &Arc<dyn LeaseEngine> {
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
