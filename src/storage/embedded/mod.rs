//! The embedded engine: an event log and its indexes in one redb file on this machine.
//!
//! Owns the data directory. It implements the engine traits of `actors`: mutations, reads, feeds,
//! leases and maintenance. It knows keys and bytes. It must not know objects, resources or
//! encryption.
//!
//! | module | purpose |
//! |---|---|
//! | [`writer`] | the one thread that writes; requests that wait share a commit and its sync |
//! | [`write_txn`] | one write transaction, which keeps all tables consistent |
//! | [`journal`] | the files in which changes are durable before redb is |
//! | [`applier`] | the thread that applies the journal's changes to redb |
//! | [`readers`] | a few threads that read; each read is one short transaction |
//! | [`pages`] | checks each page that redb reads from its file |
//! | [`verify`], [`damage`] | the thread that looks for damage, and the damage found |
//! | [`export`], [`restore`] | reads the whole log for a backup; makes a store from one |
//! | [`defrag`] | gives space back: copies the log into a smaller file |
//! | [`store`], [`fence`] | one opening of the database, and its access to the file |
//! | [`schema`], [`record`] | tables and records; `FORMAT.md` specifies both to the byte |
//! | [`disk`] | all access to the file system, so that tests can replace it by one that fails |
//! | [`engine_state`] | the state that the threads and the engine share |

mod applier;
mod apply_queue;
mod damage;
mod defrag;
pub mod disk;
mod disk_space;
mod engine_state;
mod error;
mod export;
mod fence;
mod holder;
mod journal;
mod lease_clock;
mod maintenance_state;
mod metrics;
mod options;
mod pages;
mod readers;
pub mod record;
pub mod restore;
mod schema;
mod store;
mod store_id;
mod verify;
mod write_txn;
mod writer;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use actors::engine::local::{LogReader, RemainingCounts, check_after};
use actors::engine::{
    At, DataEngine, Engine, EngineError, EngineStats, Expiry, Export, Feed, GetResponse, Health,
    HeldLease, HistoryChunk, HistoryRequest, Key, Lease, LeaseEngine, LeaseId, Maintenance,
    MaintenanceEngine, Mutation, Outcome, PendingOutcome, Position, Prefix, RangeRequest,
    RangeResponse, Retention, Revision, TicketIssuer,
};
use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;

pub use error::OpenError;
pub use options::{Clock, EmbeddedOptions, Uptime};

use defrag::{Defrag, Progress};
use disk::{DataFile, Directory, Disk};
use engine_state::EngineState;
use error::{Failure, ReadError};
use export::EmbeddedExport;
use maintenance_state::{HeldMaintenance, MaintenanceState};
use readers::{LargePrefixes, ReaderPool, horizon, read_history, read_key, read_range};
use store::Store;
use store_id::StoreId;
use writer::{LeaseRequest, Promotion, Writer, WriterRequest};

/// The embedded engine.
pub struct EmbeddedEngine {
    state: Arc<EngineState>,
    writer: Writer,
    readers: Arc<ReaderPool>,
    counts: Arc<RemainingCounts>,
    large_prefixes: Arc<LargePrefixes>,
    maintenance: Arc<tokio::sync::Mutex<MaintenanceState>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl EmbeddedEngine {
    /// Opens the store of a directory. Makes both when they are absent. Does I/O on the calling
    /// thread, so call it while the program starts.
    ///
    /// # Errors
    /// When another engine has the directory, or the store is damaged or unreadable.
    pub fn open(options: EmbeddedOptions) -> Result<Arc<EmbeddedEngine>, OpenError> {
        let directory = Directory::open(&options.directory)?;
        let directory = match options.syncs {
            true => directory,
            false => directory.without_syncs(),
        };
        EmbeddedEngine::open_on(Arc::new(directory), options)
    }

    /// Whether a directory holds a store of this kind.
    pub fn is_in(directory: &std::path::Path) -> bool {
        directory.join(disk::DataFile::Log.name()).is_file()
    }

    /// Opens a store on the disk that the caller provides.
    ///
    /// # Errors
    /// As [`EmbeddedEngine::open`].
    pub fn open_on(
        disk: Arc<dyn Disk>,
        options: EmbeddedOptions,
    ) -> Result<Arc<EmbeddedEngine>, OpenError> {
        metrics::describe();
        let file = disk.path(DataFile::Log);
        let expected = store_id::read(&*disk)?;
        if options.must_exist && expected.is_none() {
            store_id::check_existing(&*disk, &options.directory)?;
        }
        let opened = open_store(&*disk, &options, expected);
        let (store, opened) = opened.map_err(|failure| failure.into_open_error(file))?;
        let store = Arc::new(store);
        let meta = opened.meta;
        if expected.is_none() {
            // Written before anything is served. From here on the log must exist.
            store_id::write(&*disk, &meta.store)?;
        }
        let state = EngineState::new(options, disk, Arc::clone(&store), &meta);
        let state = Arc::new(state);
        let (writer, thread) =
            Writer::start(Arc::clone(&state), store, opened).map_err(OpenError::Thread)?;
        let readers = ReaderPool::start(Arc::clone(&state), writer.alarm());
        let readers = Arc::new(readers.map_err(OpenError::Thread)?);
        state.measure_file();
        Ok(Arc::new(EmbeddedEngine {
            state,
            writer,
            readers,
            counts: Arc::new(RemainingCounts::default()),
            large_prefixes: Arc::default(),
            maintenance: Arc::default(),
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// The random name of the store, which its copies have, too.
    pub fn store_id(&self) -> [u8; 16] {
        self.state.name
    }

    /// How often the whole store has been verified since it was opened.
    pub fn verifications(&self) -> u64 {
        self.state.damage.passes()
    }

    /// The damage that verification has found, with advice. `None` when it found none, or when
    /// verification is off.
    pub fn damage(&self) -> Option<String> {
        self.state.damage.summary(&self.state.file())
    }

    /// One step of removing compacted records and giving their space back. With `all` every byte
    /// counts; otherwise only a copy that is worth its cost is made.
    async fn give_back(&self, all: bool) -> Result<Maintenance, EngineError> {
        let maintenance = Arc::clone(&self.maintenance).lock_owned().await;
        if maintenance.defrag.is_none() {
            let removed = self.writer.ask(WriterRequest::Scrub).await?;
            if removed.more || removed.removed > 0 {
                return Ok(Maintenance {
                    more: true,
                    ..removed
                });
            }
        }
        self.defrag_step(maintenance, all).await
    }

    /// One step of the copy that gives space back. The lock on the maintenance state travels with
    /// the work, so no other step begins before this one has ended, even if the caller has gone.
    ///
    /// # Errors
    /// When the log or its copy fails. With `all` also when there is no room or writers are too
    /// busy.
    async fn defrag_step(
        &self,
        mut maintenance: HeldMaintenance,
        all: bool,
    ) -> Result<Maintenance, EngineError> {
        let state = Arc::clone(&self.state);
        let step = self.readers.read(move |store| {
            let mut defrag = match maintenance.defrag.take() {
                Some(defrag) => defrag,
                None => match start_defrag(&state, store, maintenance.defragged_bytes, all)? {
                    Some(defrag) => defrag,
                    None => return Ok(None),
                },
            };
            let progress = defrag.step(store).map_err(copy_error)?;
            Ok(Some((defrag, progress, maintenance)))
        });
        let Some((defrag, progress, mut maintenance)) = step.await? else {
            return Ok(Maintenance::default());
        };
        let more = Maintenance {
            more: true,
            ..Maintenance::default()
        };
        match progress {
            Progress::CaughtUp => {}
            Progress::Copying => {
                maintenance.defrag = Some(defrag);
                return Ok(more);
            }
            Progress::Hopeless if all => return Err(too_busy()),
            Progress::Hopeless => {
                tracing::info!(
                    "defragmentation gave up because writers are too busy; it is tried again later"
                );
                return Ok(Maintenance::default());
            }
        }
        let before = self.state.measure_file();
        let (outcome, mut maintenance) = self
            .writer
            .ask(|reply| WriterRequest::Promote(defrag, maintenance, reply))
            .await?;
        match outcome {
            Promotion::Later(defrag) => {
                maintenance.defrag = Some(defrag);
                Ok(more)
            }
            Promotion::Useless if all => Err(too_busy()),
            Promotion::Useless => Ok(Maintenance::default()),
            Promotion::Done(old) => {
                // Closing the old file takes time, so a reader thread does it.
                let close = move |_: &Store| {
                    drop(old);
                    Ok(())
                };
                self.readers.read(close).await?;
                let after = self.state.measure_file();
                maintenance.defragged_bytes = after;
                Ok(Maintenance {
                    reclaimed_bytes: before.saturating_sub(after),
                    ..Maintenance::default()
                })
            }
        }
    }
}

fn no_room() -> EngineError {
    let text = "the log can't be copied without what was removed; make room for a second one";
    EngineError::OutOfSpace(text.to_owned())
}

fn too_busy() -> EngineError {
    let text = "too much is being written to copy the log without what was removed; try again";
    EngineError::Unavailable(text.to_owned())
}

/// Opens the log, then removes the copy that an interrupted defragmentation left. In this order,
/// because an operator whose log is gone may need the copy.
fn open_store(
    disk: &dyn Disk,
    options: &EmbeddedOptions,
    expected: Option<StoreId>,
) -> Result<(Store, store::Opened), Failure> {
    let open = || {
        // redb can panic on damaged pages.
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Store::open(disk, DataFile::Log, options, expected, options.accept_loss)
        }))
        .unwrap_or_else(|panic| Err(Failure::from_panic(&*panic)))
    };
    let opened = open();
    if let Err(failure) = &opened
        && !matches!(failure, Failure::NoSpace(_))
    {
        return opened;
    }
    disk.remove(DataFile::DefragCopy)?;
    if opened.is_ok() {
        return opened;
    }
    // Removing the copy may have made room already. If not, the ballast does.
    disk.set_ballast(0)?;
    tracing::warn!("disk full: removed the ballast file so that the store opens");
    open()
}

/// Begins a copy of the log; `None` when it would not give enough space back. With `all` every
/// byte counts.
///
/// # Errors
/// When the copy cannot be made, and with `all` when there is no room for it.
fn start_defrag(
    state: &EngineState,
    log: &Store,
    defragged_bytes: u64,
    all: bool,
) -> Result<Option<Box<Defrag>>, ReadError> {
    let totals = state.totals();
    if !all && !defrag::is_worthwhile(totals, state.measure_file(), defragged_bytes) {
        return Ok(None);
    }
    if !defrag::has_room(totals, &*state.disk, state.options.reserve_bytes) {
        return if all { Err(no_room().into()) } else { Ok(None) };
    }
    let defrag = Defrag::start(Arc::clone(&state.disk), &state.options, log);
    defrag
        .map(|defrag| Some(Box::new(defrag)))
        .map_err(copy_error)
}

/// A failed copy is given up. The log may still be whole.
fn copy_error(failure: Failure) -> ReadError {
    let text = format!("the log can't be rebuilt to give space back: {failure}");
    ReadError::Engine(EngineError::Unavailable(text))
}

/// Lets feeds that lag read the log through the reader pool.
struct LogBacklog {
    readers: Arc<ReaderPool>,
}

impl LogReader for LogBacklog {
    fn read(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        self.readers
            .read(move |store| read_history(store, &request, None))
            .boxed()
    }
}

impl DataEngine for EmbeddedEngine {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        self.readers
            .read(move |store| read_key(store, &key, at))
            .boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>> {
        let counts = Arc::clone(&self.counts);
        let bytes_max = self.state.options.range_bytes_max;
        self.readers
            .read(move |store| read_range(store, &counts, &request, bytes_max))
            .boxed()
    }

    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        self.writer.commit(mutation).boxed()
    }

    fn queue(&self, mutation: Mutation, issuer: TicketIssuer) -> BoxFuture<'_, PendingOutcome> {
        self.writer.queue(mutation, issuer).boxed()
    }

    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>> {
        async move {
            if self.state.is_closed() {
                return Err(EngineError::Closed);
            }
            let backlog = Arc::new(LogBacklog {
                readers: Arc::clone(&self.readers),
            });
            let position = self.state.positions.of(&prefix);
            let feed = self.state.tail.open(prefix, after, position, backlog);
            // Checked once the feed is open. If a compaction comes later, the feed meets it when it
            // reads the log.
            check_after(after, self.state.compacted())?;
            Ok(feed)
        }
        .boxed()
    }

    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        let large_prefixes = Arc::clone(&self.large_prefixes);
        self.readers
            .read(move |store| read_history(store, &request, Some(&large_prefixes)))
            .boxed()
    }

    fn current(&self, prefix: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>> {
        // Answered also while the database is reopened, because nothing is acknowledged meanwhile.
        // A commit whose outcome is unknown counts from its publication, which comes before its
        // answer and before any later acknowledgement.
        let position = match self.state.is_closed() {
            true => Err(EngineError::Closed),
            false => Ok(self.state.positions.of(prefix)),
        };
        async move { position }.boxed()
    }

    fn known(&self, prefix: &Prefix) -> Position {
        self.state.positions.of(prefix)
    }

    fn compacted(&self) -> Revision {
        self.state.compacted()
    }

    fn health(&self) -> Health {
        if self.state.is_closed() {
            return Health::Down("the store is closed".to_owned());
        }
        self.state.health()
    }
}

impl LeaseEngine for EmbeddedEngine {
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>> {
        self.writer
            .ask(move |reply| WriterRequest::Lease(LeaseRequest::Grant(ttl, reply)))
            .boxed()
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>> {
        async move {
            let begin = |reply| WriterRequest::Lease(LeaseRequest::Revoke(lease, reply));
            let mut more = self.writer.ask(begin).await?;
            while more {
                // Other requests are written between two steps.
                more = self
                    .writer
                    .ask(|reply| WriterRequest::Lease(LeaseRequest::ContinueRevoking(lease, reply)))
                    .await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>> {
        self.writer
            .ask(|reply| WriterRequest::Lease(LeaseRequest::Expire(reply)))
            .boxed()
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Lease, EngineError>> {
        self.writer
            .ask(move |reply| WriterRequest::Lease(LeaseRequest::Renew(lease, reply)))
            .boxed()
    }

    fn leases(&self) -> BoxFuture<'_, Result<Vec<HeldLease>, EngineError>> {
        self.writer
            .ask(|reply| WriterRequest::Lease(LeaseRequest::List(reply)))
            .boxed()
    }
}

impl MaintenanceEngine for EmbeddedEngine {
    fn horizon(
        &self,
        retention: Retention,
        now: SystemTime,
    ) -> BoxFuture<'_, Result<Revision, EngineError>> {
        self.readers
            .read(move |store| horizon(store, retention, now))
            .boxed()
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        self.writer
            .ask(move |reply| WriterRequest::Compact(up_to, reply))
            .boxed()
    }

    fn maintain(&self, reclaim: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        async move {
            if reclaim {
                return self.give_back(false).await;
            }
            // The store is busy again. A copy would not see what is removed from now on.
            let mut maintenance = self.maintenance.lock().await;
            maintenance.defrag = None;
            self.writer.ask(WriterRequest::Scrub).await
        }
        .boxed()
    }

    fn purge(&self) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        self.give_back(true).boxed()
    }

    fn export(&self) -> Box<dyn Export> {
        Box::new(EmbeddedExport::new(Arc::clone(&self.readers)))
    }

    fn stats(&self) -> EngineStats {
        self.state.stats()
    }
}

impl Engine for EmbeddedEngine {
    fn may_be_of_other_edition(&self, revision: Revision) -> bool {
        self.state.may_be_of_other_edition(revision)
    }

    fn note_edition(&self, as_of: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        self.writer
            .ask(move |reply| WriterRequest::NoteEdition(as_of, reply))
            .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.writer.close(&self.readers);
        self.state.finished().boxed()
    }
}

impl Drop for EmbeddedEngine {
    fn drop(&mut self) {
        self.writer.close(&self.readers);
        if let Some(thread) = self.thread.lock().take() {
            // A panic of that thread has been logged by the runtime.
            let _ = thread.join();
        }
    }
}
