//! The handle to a Lessor that the rest of the daemon uses. It hands out leases by itself.

use std::sync::Arc;
use std::time::Instant as Moment;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use super::lease_manager::{LeaseManager, LeaseReuse};
use super::metrics::OBJECT_COUNTS;
use crate::clock;
use crate::engine::{EngineError, Lease, LeaseEngine, LeaseId};

/// Hands out the leases of a store. Cheap to clone.
#[derive(Clone)]
pub struct LessorHandle {
    granter: Arc<LeaseGranter>,
}

/// The state that the handles and the actor of one store share.
struct LeaseGranter {
    engine: Arc<dyn LeaseEngine>,
    manager: Mutex<LeaseManager>,
    /// Held while a lease is granted that others can share. They wait for that lease.
    granting: tokio::sync::Mutex<()>,
    failures: Mutex<Failures>,
    /// When the first lease runs out of those granted since the actor last checked.
    due: Mutex<Option<Moment>>,
    granted: Notify,
    /// Those who wait until everything is deleted whose lease has expired by now.
    asked: Mutex<Vec<oneshot::Sender<()>>>,
    begun: watch::Sender<bool>,
}

/// Failed grants that others waited for.
#[derive(Default)]
struct Failures {
    count: u64,
    last: Option<EngineError>,
}

impl Failures {
    /// The error of the last grant, if one has failed since the count was `count`.
    fn since(&self, count: u64) -> Option<EngineError> {
        self.last.clone().filter(|_| self.count > count)
    }

    fn add(&mut self, error: &EngineError) {
        self.count += 1;
        self.last = Some(error.clone());
    }
}

impl LeaseGranter {
    fn is_shared(&self, ttl: u64) -> bool {
        self.manager.lock().shares(ttl)
    }
}

impl LessorHandle {
    /// A handle for the leases of a store. Nothing expires before a Lessor runs.
    pub fn new(engine: Arc<dyn LeaseEngine>, manager: LeaseReuse) -> LessorHandle {
        LessorHandle {
            granter: Arc::new(LeaseGranter {
                engine,
                manager: Mutex::new(LeaseManager::new(manager)),
                granting: tokio::sync::Mutex::new(()),
                failures: Mutex::default(),
                due: Mutex::new(None),
                granted: Notify::new(),
                asked: Mutex::default(),
                begun: watch::Sender::new(false),
            }),
        }
    }

    /// A lease for one object that is to live at least `ttl` seconds. Usually it is shared with
    /// other objects, and this returns at once. A caller that waits for a shared grant gets its
    /// result, even if the grant fails.
    ///
    /// # Errors
    /// Those of [`LeaseEngine::grant`].
    pub async fn lease(&self, ttl: u64) -> Result<LeaseId, EngineError> {
        if let Some(lease) = self.granter.manager.lock().take(ttl, now()) {
            return Ok(lease);
        }
        if !self.granter.is_shared(ttl) {
            return self.granted_lease(ttl).await;
        }
        let failures = self.granter.failures.lock().count;
        let _turn = self.granter.granting.lock().await;
        // Return the same error. With an engine that hangs, each caller would otherwise wait for
        // all callers before it.
        if let Some(error) = self.granter.failures.lock().since(failures) {
            return Err(error);
        }
        let granted = self.granted_lease(ttl).await;
        if let Err(error) = &granted {
            self.granter.failures.lock().add(error);
        }
        granted
    }

    /// The remembered lease if it fits by now, else a new one.
    async fn granted_lease(&self, ttl: u64) -> Result<LeaseId, EngineError> {
        let wanted = match self.granter.manager.lock().take_or_want(ttl, now()) {
            Ok(lease) => return Ok(lease),
            Err(wanted) => wanted,
        };
        // Before the grant, so that a jump of the clock meanwhile does not make it due later.
        let asked = now();
        let Lease { id, ttl } = self.granter.engine.grant(wanted.ttl).await?;
        let objects = self.granter.manager.lock().granted(id, wanted);
        metrics::histogram!(OBJECT_COUNTS).record(objects as f64);
        if let Some(due) = asked.checked_add(ttl) {
            let mut first = self.granter.due.lock();
            *first = Some(first.map_or(due, |first| first.min(due)));
            drop(first);
            self.granter.granted.notify_one();
        }
        Ok(id)
    }

    /// Forgets a lease that turned out to be gone.
    pub fn forget(&self, lease: LeaseId) {
        self.granter.manager.lock().forget(lease);
    }

    /// Starts the deletion of keys whose lease has expired. Call it when the daemon is ready.
    pub fn begin(&self) {
        self.granter.begun.send_replace(true);
    }

    pub(super) async fn begun(&self) {
        // The sender lives as long as this handle.
        let _ = self
            .granter
            .begun
            .subscribe()
            .wait_for(|begun| *begun)
            .await;
    }

    pub(super) fn engine(&self) -> &Arc<dyn LeaseEngine> {
        &self.granter.engine
    }

    /// Waits until the keys are deleted whose lease has expired by now. A test calls it when it has
    /// moved the clock. Before the daemon is ready, and while the engine fails, nothing is deleted.
    pub async fn expired(&self) {
        let (done, waits) = oneshot::channel();
        self.granter.asked.lock().push(done);
        self.granter.granted.notify_one();
        // A Lessor that is restarted forgets who has asked.
        let _ = waits.await;
    }

    /// Whether somebody waits for a step of expiry.
    pub(super) fn is_asked(&self) -> bool {
        !self.granter.asked.lock().is_empty()
    }

    /// Takes those who wait for a step of expiry.
    pub(super) fn asked(&self) -> Vec<oneshot::Sender<()>> {
        std::mem::take(&mut self.granter.asked.lock())
    }

    /// Waits until a lease was granted. Returns when the first of the new leases runs out.
    pub(super) async fn granted(&self) -> Option<Moment> {
        self.granter.granted.notified().await;
        self.granter.due.lock().take()
    }
}

fn now() -> Moment {
    clock::moment().into_std()
}
