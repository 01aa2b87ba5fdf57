//! The store, and when it is open.
//!
//! It is opened when the first client speaks gRPC, because Taffrail as `kube-apiserver` opens the
//! directory itself. It stays open then until the program ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actors::engine::{
    DataEngine, Engine, EngineError, Event, Health, HistoryRequest, LeaseEngine, MaintenanceEngine,
    Prefix, Revision,
};
use actors::tasks;
use etcd_client::proto::PbResponseHeader;
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell};
use tonic::Status;

use super::command_line::Settings;
use super::status;
use super::turns::Turns;
use crate::storage::embedded::{EmbeddedEngine, EmbeddedOptions, OpenError};

/// An empty etcd is at this revision.
pub(super) const BEGINS_AT: Revision = Revision(1);

/// The term of a member that has always been alone.
pub(super) const TERM: u64 = 2;

/// Makes the number of the member differ from that of its cluster.
const MEMBER: u64 = 0x6d65_6d62_6572_0001;

/// The number of an edition that no daemon has: what the store's values are is not known here, so
/// a daemon that opens it later looks for itself.
const FOREIGN_EDITION: u32 = u32::MAX;

/// Clients may have keys and values that are as large as a request.
const KEY_BYTES_MAX: usize = 64 << 10;

/// The pause after leases could not be ended, or records not be removed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A number of things that exist, such as watches.
#[derive(Clone, Debug, Default)]
pub(super) struct Count(Arc<AtomicU64>);

/// One of the things that a [`Count`] counts, until it is dropped.
#[derive(Debug)]
pub(super) struct Counted(Arc<AtomicU64>);

impl Count {
    /// One more.
    pub(super) fn one(&self) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(&self.0))
    }

    /// How many there are.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The settings, and the store once it is open.
pub(super) struct SharedStore {
    settings: Settings,
    opened: OnceCell<Arc<Store>>,
    pub(super) streams: Count,
    pub(super) watches: Count,
}

/// An open store.
pub(super) struct Store {
    pub(super) engine: Arc<EmbeddedEngine>,
    pub(super) turns: Turns,
    cluster: u64,
    /// A lease was granted, so the next one may run out earlier.
    granted: Notify,
    /// Something was compacted.
    compacted: Notify,
    /// The event of the newest compacted revision, if it was compacted here.
    edge: Mutex<Option<Event>>,
}

impl SharedStore {
    /// A store that is not open.
    pub(super) fn new(settings: Settings) -> SharedStore {
        SharedStore {
            settings,
            opened: OnceCell::new(),
            streams: Count::default(),
            watches: Count::default(),
        }
    }

    /// The settings of the program.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether the store is open here.
    pub(super) fn is_open(&self) -> bool {
        self.opened.initialized()
    }

    /// Why the store can't be used, if it is open here.
    pub(super) fn fault(&self) -> Option<String> {
        match self.opened.get()?.engine.health() {
            Health::Serving => None,
            Health::ReadOnly(why) | Health::Down(why) => Some(why),
        }
    }

    /// The store, which is opened if it is not.
    ///
    /// # Errors
    /// UNAVAILABLE while another process has the directory, or if the store can't be used.
    pub(super) async fn get(self: &Arc<SharedStore>) -> Result<Arc<Store>, Status> {
        if let Some(store) = self.opened.get() {
            return Ok(Arc::clone(store));
        }
        let shared = Arc::clone(self);
        // The opening goes on if the client goes away, so no store is left half open.
        let opening = tasks::spawn(async move {
            let opened = shared.opened.get_or_try_init(|| shared.open()).await;
            opened.map(Arc::clone)
        });
        let opened = opening.await;
        opened.unwrap_or_else(|_| Err(Status::unavailable("etcdserver: server stopped")))
    }

    async fn open(&self) -> Result<Arc<Store>, Status> {
        let settings = &self.settings;
        let options = EmbeddedOptions {
            syncs: settings.syncs,
            begins_at: BEGINS_AT,
            edition: Some(FOREIGN_EDITION),
            value_bytes_max: settings.request_bytes_max,
            key_bytes_max: KEY_BYTES_MAX,
            ..EmbeddedOptions::new(&settings.data_dir)
        };
        let opened = tasks::spawn_blocking(|| EmbeddedEngine::open(options)).await;
        let engine = match opened {
            Ok(Ok(engine)) => engine,
            Ok(Err(error)) => return Err(not_open(&error)),
            Err(_) => return Err(Status::unavailable("etcdserver: the store can't be opened")),
        };
        tracing::info!("a client speaks gRPC: the store is open and served here");
        let store = Arc::new(Store::new(engine));
        tasks::spawn(Arc::clone(&store).expire());
        tasks::spawn(Arc::clone(&store).maintain());
        Ok(store)
    }

    /// Closes the store, if it is open.
    pub(super) async fn close(&self) {
        if let Some(store) = self.opened.get() {
            store.engine.close().await;
        }
    }
}

fn not_open(error: &OpenError) -> Status {
    match error {
        OpenError::Held { holder, .. } => Status::unavailable(format!(
            "etcdserver: the store is lent to {holder}, which serves it as kube-apiserver"
        )),
        error => {
            tracing::error!(%error, "the store can't be opened");
            Status::unavailable(format!("etcdserver: {error}"))
        }
    }
}

impl Store {
    fn new(engine: Arc<EmbeddedEngine>) -> Store {
        let (high, low) = uuid::Uuid::from_bytes(engine.store_id()).as_u64_pair();
        Store {
            engine,
            turns: Turns::default(),
            cluster: high ^ low,
            granted: Notify::new(),
            compacted: Notify::new(),
            edge: Mutex::default(),
        }
    }

    /// The number of the one member.
    pub(super) fn member(&self) -> u64 {
        self.cluster ^ MEMBER
    }

    /// The header of an answer at a revision.
    pub(super) fn header(&self, revision: Revision) -> Option<PbResponseHeader> {
        Some(PbResponseHeader {
            cluster_id: self.cluster,
            member_id: self.member(),
            revision: number(revision),
            raft_term: TERM,
        })
    }

    /// The newest revision.
    ///
    /// # Errors
    /// If the store is closed.
    pub(super) async fn revision(&self) -> Result<Revision, Status> {
        let position = self.engine.current(&Prefix::new([])).await;
        position.map(|at| at.revision).map_err(status::of)
    }

    /// Has the leases looked at again.
    pub(super) fn granted(&self) {
        self.granted.notify_one();
    }

    /// Compacts history up to a revision. Its event is kept for watches that begin with it, as etcd
    /// keeps it. Records are removed later.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) async fn compact(&self, up_to: Revision) -> Result<(), EngineError> {
        let request = HistoryRequest {
            prefix: Prefix::new([]),
            after: Revision(up_to.0.saturating_sub(1)),
            until: up_to,
            bytes_max: 1,
        };
        let edge = self.engine.history(request).await?.events.pop();
        self.engine.compact(up_to).await?;
        *self.edge.lock() = edge;
        self.compacted.notify_one();
        Ok(())
    }

    /// The event of the newest compacted revision, if it is this one and was compacted here.
    pub(super) fn edge(&self, compacted: Revision) -> Option<Event> {
        let edge = self.edge.lock();
        edge.as_ref()
            .filter(|event| event.revision == compacted)
            .cloned()
    }

    /// Ends leases when they run out. It returns when the store is closed.
    async fn expire(self: Arc<Store>) {
        loop {
            let step = {
                let _turn = self.turns.of_all().await;
                self.engine.expire().await
            };
            let pause = match step {
                Ok(expiry) if expiry.more => continue,
                Ok(expiry) => expiry.next,
                Err(EngineError::Closed) => return,
                Err(_) => Some(RETRY_PAUSE),
            };
            let due = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = self.granted.notified() => {}
            }
        }
    }

    /// Removes compacted records. It returns when the store is closed.
    async fn maintain(self: Arc<Store>) {
        loop {
            match self.engine.maintain(true).await {
                Ok(step) if step.more => tokio::task::yield_now().await,
                Ok(_) => self.compacted.notified().await,
                Err(EngineError::Closed) => return,
                Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }
}

/// A revision as messages have it.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}
