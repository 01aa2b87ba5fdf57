//! The state that the engine's threads share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use actors::engine::local::{Positions, Tail};
use actors::engine::{EngineError, EngineStats, Health, Revision};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::damage::Damage;
use super::disk::{DataFile, Disk};
use super::error::Failure;
use super::options::EmbeddedOptions;
use super::schema::{Edition, Meta, Totals};
use super::store::Store;
use super::store_id::StoreId;

/// The writer publishes this state. Everybody reads it.
pub struct EngineState {
    /// The settings.
    pub options: EmbeddedOptions,
    /// The directory.
    pub disk: Arc<dyn Disk>,
    /// The store's ID. No other store is opened in its place.
    pub name: StoreId,
    /// The newest revision of the store and of each prefix.
    pub positions: Positions,
    /// The feeds.
    pub tail: Arc<Tail>,
    /// The known damage.
    pub damage: Damage,
    store: RwLock<Option<Arc<Store>>>,
    /// Whether the engine serves, and whether it doesn't because the file system is full.
    health: Mutex<(Health, bool)>,
    totals: Mutex<Totals>,
    compacted: AtomicU64,
    /// The revision as of which all values are of today's edition; [`NO_EDITION`] if they are not.
    edition_as_of: AtomicU64,
    file_bytes: AtomicU64,
    closed: AtomicBool,
    finished: watch::Sender<bool>,
}

/// The values may be of any edition.
const NO_EDITION: u64 = u64::MAX;

/// Another edition than today's is forgotten when the store is opened.
fn as_of(edition: Option<Edition>) -> u64 {
    edition.map_or(NO_EDITION, |edition| edition.as_of.0)
}

impl EngineState {
    /// The state of a store that was just opened.
    pub fn new(
        options: EmbeddedOptions,
        disk: Arc<dyn Disk>,
        store: Arc<Store>,
        meta: &Meta,
    ) -> EngineState {
        let totals = meta.totals;
        let tail = Tail::new(totals.revision, options.tail_bytes_max);
        EngineState {
            options,
            disk,
            name: meta.store,
            positions: Positions::new(totals.revision),
            tail,
            damage: Damage::default(),
            store: RwLock::new(Some(store)),
            health: Mutex::new((Health::Serving, false)),
            totals: Mutex::new(totals),
            compacted: AtomicU64::new(meta.compacted.0),
            edition_as_of: AtomicU64::new(as_of(meta.edition)),
            file_bytes: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            finished: watch::Sender::new(false),
        }
    }

    /// Whether another edition of the program may have written the value of a revision. One that
    /// has written all that are alive has written those that were superseded later, too.
    pub fn may_be_of_other_edition(&self, revision: Revision) -> bool {
        match self.edition_as_of.load(Ordering::Acquire) {
            NO_EDITION => true,
            as_of => revision.0 <= as_of && self.compacted().0 < as_of,
        }
    }

    /// Whether all values that are alive are of today's edition.
    pub fn has_edition(&self) -> bool {
        self.edition_as_of.load(Ordering::Acquire) != NO_EDITION
    }

    /// Publishes the edition of all values, once it is durable.
    pub fn set_edition(&self, edition: Option<Edition>) {
        self.edition_as_of.store(as_of(edition), Ordering::Release);
    }

    /// The log's path, for messages.
    pub fn file(&self) -> String {
        self.disk.path(DataFile::Log)
    }

    /// The database, to read from.
    ///
    /// # Errors
    /// While the database is reopened, and after the engine was closed.
    pub fn store(&self) -> Result<Arc<Store>, EngineError> {
        if let Some(store) = self.store.read().as_ref() {
            return Ok(Arc::clone(store));
        }
        Err(self.unavailable())
    }

    /// Replaces the database. `None` while there is none. Returns the previous one.
    pub fn set_store(&self, store: Option<Arc<Store>>) -> Option<Arc<Store>> {
        std::mem::replace(&mut *self.store.write(), store)
    }

    /// The error of a request while the database is unavailable.
    pub fn unavailable(&self) -> EngineError {
        if self.is_closed() {
            return EngineError::Closed;
        }
        self.down()
            .unwrap_or_else(|| Failure::Closed.to_engine_error(&self.file()))
    }

    /// The error of all requests, if the engine serves none.
    pub fn down(&self) -> Option<EngineError> {
        match self.health.lock().clone() {
            (Health::Down(why), true) => Some(EngineError::OutOfSpace(why)),
            (Health::Down(why), false) => Some(EngineError::Unavailable(why)),
            _ => None,
        }
    }

    /// Whether the engine serves.
    pub fn health(&self) -> Health {
        self.health.lock().0.clone()
    }

    /// Sets whether the engine serves.
    pub fn set_health(&self, health: Health) {
        *self.health.lock() = (health, false);
    }

    /// Sets why the engine serves nothing.
    pub fn set_down(&self, failure: &Failure) {
        let is_full = matches!(failure, Failure::NoSpace(_));
        let why = format!("{}: {failure}; it is being opened again", self.file());
        *self.health.lock() = (Health::Down(why), is_full);
    }

    /// The totals as of the newest published commit.
    pub fn totals(&self) -> Totals {
        *self.totals.lock()
    }

    /// Publishes totals.
    pub fn set_totals(&self, totals: Totals) {
        *self.totals.lock() = totals;
    }

    /// The compacted revision.
    pub fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    /// Publishes the compacted revision, once it is durable.
    pub fn set_compacted(&self, compacted: Revision) {
        self.compacted.store(compacted.0, Ordering::Release);
    }

    /// Measures the bytes that the log takes on disk.
    pub fn measure_file(&self) -> u64 {
        if let Ok(bytes) = self.disk.allocated_bytes(DataFile::Log) {
            self.file_bytes.store(bytes, Ordering::Relaxed);
        }
        self.file_bytes.load(Ordering::Relaxed)
    }

    /// The sizes, without I/O.
    pub fn stats(&self) -> EngineStats {
        let totals = self.totals();
        EngineStats {
            revision: totals.revision,
            compacted: self.compacted(),
            live_keys: totals.live_keys,
            retained_bytes: totals.retained_bytes,
            file_bytes: self.file_bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether the engine was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Marks the engine as closed. Returns whether it was closed before.
    pub fn set_closed(&self) -> bool {
        self.closed.swap(true, Ordering::AcqRel)
    }

    /// Marks the writer's thread as ended.
    pub fn set_finished(&self) {
        self.finished.send_replace(true);
    }

    /// Waits until the writer's thread has ended.
    pub async fn finished(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self
            .finished
            .subscribe()
            .wait_for(|finished| *finished)
            .await;
    }
}
