//! The embedded engine: an event log and its indexes in one file of this machine.
//!
//! Writes go through one thread ([`writer`]) that lets whoever waits share a sync; reads go
//! through a few ([`readers`]), each one short transaction. The tables are in [`schema`], the
//! records in [`record`], and `FORMAT.md` beside this file says both to the byte. Space comes
//! back by [`rebuild`]. [`disk`] is all that touches the file system, so that tests can put a
//! disk in its place that fails.

pub mod disk;
mod error;
mod fence;
mod identity;
mod lease_clock;
mod ledger;
mod metrics;
mod options;
mod readers;
mod rebuild;
pub mod record;
mod schema;
mod shared;
mod space;
mod store;
mod verify;
mod writer;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use actors::engine::local::{LogReader, check_after};
use actors::engine::{
    At, DataEngine, Engine, EngineError, EngineStats, Expiry, Feed, GetResponse, Health,
    HistoryChunk, HistoryRequest, Key, Lease, LeaseEngine, LeaseId, Maintenance, MaintenanceEngine,
    Mutation, Outcome, Position, Prefix, RangeRequest, RangeResponse, Retention, Revision,
};
use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;

pub use error::OpenError;
pub use options::{Clock, EmbeddedOptions, Uptime};

use disk::{DataFile, Directory, Disk};
use error::Failure;
use identity::StoreName;
use readers::{Counts, ReadError, Readers, horizon, read_history, read_key, read_range};
use rebuild::{Progress, Rebuild};
use shared::Shared;
use store::Store;
use writer::{LeaseOrder, Order, Promotion, Writer};

/// The engine; see the module's documentation.
pub struct EmbeddedEngine {
    shared: Arc<Shared>,
    writer: Writer,
    readers: Arc<Readers>,
    counts: Arc<Counts>,
    upkeep: Arc<tokio::sync::Mutex<Upkeep>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What maintenance remembers between its steps.
#[derive(Default)]
struct Upkeep {
    rebuild: Option<Box<Rebuild>>,
    /// What the log took after it was last rebuilt: not worth trying again soon.
    rebuilt_bytes: u64,
}

/// The right to do upkeep, held by one at a time.
type HeldUpkeep = tokio::sync::OwnedMutexGuard<Upkeep>;

impl EmbeddedEngine {
    /// Opens the store of a directory, making both when they are absent. Does I/O on the calling
    /// thread: for the start of a program.
    ///
    /// # Errors
    /// When another engine has the directory, or the store is damaged or unreadable.
    pub fn open(options: EmbeddedOptions) -> Result<Arc<EmbeddedEngine>, OpenError> {
        let directory = Directory::open(&options.directory)?;
        EmbeddedEngine::open_on(Arc::new(directory), options)
    }

    /// Whether a directory holds a store of this kind.
    pub fn is_in(directory: &std::path::Path) -> bool {
        directory.join(disk::DataFile::Log.name()).is_file()
    }

    /// Opens a store on a disk of the caller's.
    ///
    /// # Errors
    /// As [`EmbeddedEngine::open`].
    pub fn open_on(
        disk: Arc<dyn Disk>,
        options: EmbeddedOptions,
    ) -> Result<Arc<EmbeddedEngine>, OpenError> {
        metrics::describe();
        let file = disk.path(DataFile::Log);
        let expected = identity::read(&*disk)?;
        if options.must_exist && expected.is_none() {
            identity::check_existing(&*disk, &options.directory)?;
        }
        let opened = open_store(&*disk, &options, expected);
        let (store, opened) = opened.map_err(|failure| failure.into_open_error(file))?;
        let store = Arc::new(store);
        let meta = opened.meta;
        if expected.is_none() {
            // Before anything is served: from here on the log must be there.
            identity::write(&*disk, &meta.store)?;
        }
        let shared = Shared::new(options, disk, Arc::clone(&store), &meta);
        let shared = Arc::new(shared);
        let (writer, thread) =
            Writer::start(Arc::clone(&shared), store, opened).map_err(OpenError::Thread)?;
        let readers = Readers::start(Arc::clone(&shared), writer.alarm());
        let readers = Arc::new(readers.map_err(OpenError::Thread)?);
        shared.measure_file();
        Ok(Arc::new(EmbeddedEngine {
            shared,
            writer,
            readers,
            counts: Arc::new(Counts::default()),
            upkeep: Arc::default(),
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// How often the whole store has been verified since it was opened.
    pub fn verifications(&self) -> u64 {
        self.shared.damage.passes()
    }

    /// What of the store was found damaged while it serves, and what to do; `None` when nothing was
    /// found, or nothing is verified.
    pub fn damage(&self) -> Option<String> {
        self.shared.damage.summary(&self.shared.file())
    }

    /// One step of removing what is compacted and giving its space back; `all` of it, or as much
    /// as is worth it.
    async fn give_back(&self, all: bool) -> Result<Maintenance, EngineError> {
        let upkeep = Arc::clone(&self.upkeep).lock_owned().await;
        if upkeep.rebuild.is_none() {
            let removed = self.writer.ask(Order::Scrub).await?;
            if removed.more || removed.removed > 0 {
                return Ok(Maintenance {
                    more: true,
                    ..removed
                });
            }
        }
        self.rebuild_step(upkeep, all).await
    }

    /// One step of the copy that gives space back. The upkeep goes along with the work, so that
    /// nobody begins another step before this one has ended, even if the caller has gone.
    ///
    /// # Errors
    /// When the log or its copy fails; and what stands in the way, for who wants `all` given back.
    async fn rebuild_step(
        &self,
        mut upkeep: HeldUpkeep,
        all: bool,
    ) -> Result<Maintenance, EngineError> {
        let step = self.readers.read(move |shared, store| {
            let mut rebuild = match upkeep.rebuild.take() {
                Some(rebuild) => rebuild,
                None if all && !rebuild::has_room(shared) => return Err(no_room().into()),
                None if !all && !rebuild::is_worthwhile(shared, upkeep.rebuilt_bytes) => {
                    return Ok(None);
                }
                None => start_rebuild(shared, store)?,
            };
            let progress = rebuild.step(store).map_err(copy_error)?;
            Ok(Some((rebuild, progress, upkeep)))
        });
        let Some((rebuild, progress, mut upkeep)) = step.await? else {
            return Ok(Maintenance::default());
        };
        let more = Maintenance {
            more: true,
            ..Maintenance::default()
        };
        match progress {
            Progress::CaughtUp => {}
            Progress::Copying => {
                upkeep.rebuild = Some(rebuild);
                return Ok(more);
            }
            Progress::Hopeless if all => return Err(too_busy()),
            Progress::Hopeless => {
                tracing::info!("writers are too busy to give space back now: tried again later");
                return Ok(Maintenance::default());
            }
        }
        let before = self.shared.measure_file();
        let (outcome, mut upkeep) = self
            .writer
            .ask(|reply| Order::Promote(rebuild, upkeep, reply))
            .await?;
        match outcome {
            Promotion::Later(rebuild) => {
                upkeep.rebuild = Some(rebuild);
                Ok(more)
            }
            Promotion::Useless if all => Err(too_busy()),
            Promotion::Useless => Ok(Maintenance::default()),
            Promotion::Done(old) => {
                // Closing the old file takes its time, on a thread that may.
                let close = move |_: &Shared, _: &Store| {
                    drop(old);
                    Ok(())
                };
                self.readers.read(close).await?;
                let after = self.shared.measure_file();
                upkeep.rebuilt_bytes = after;
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

/// Opens the log and clears away what an interrupted rebuild left: in this order, as a copy may
/// be of use to somebody where the log has gone.
fn open_store(
    disk: &dyn Disk,
    options: &EmbeddedOptions,
    expected: Option<StoreName>,
) -> Result<(Store, store::Opened), Failure> {
    let open = || {
        // redb can panic on damaged pages.
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Store::open(disk, DataFile::Log, options.cache_bytes, expected)
        }))
        .unwrap_or_else(|panic| Err(Failure::Panic(readers::panic_text(&*panic))))
    };
    let opened = open();
    if let Err(failure) = &opened
        && !matches!(failure, Failure::NoSpace(_))
    {
        return opened;
    }
    disk.remove(DataFile::Rebuilt)?;
    if opened.is_ok() {
        return opened;
    }
    // What was removed may be the room that was wanting; and this is what the ballast is for.
    disk.set_ballast(0)?;
    tracing::warn!("disk full: gave up the ballast file so that the store opens");
    open()
}

fn start_rebuild(shared: &Shared, log: &Store) -> Result<Box<Rebuild>, ReadError> {
    let rebuild = Rebuild::start(Arc::clone(&shared.disk), &shared.options, log);
    rebuild.map(Box::new).map_err(copy_error)
}

/// A failed copy is given up; it says nothing about the log.
fn copy_error(failure: Failure) -> ReadError {
    let text = format!("the log can't be rebuilt to give space back: {failure}");
    ReadError::Engine(EngineError::Unavailable(text))
}

/// Feeds that lag read the log through the pool.
struct LogBacklog {
    readers: Arc<Readers>,
}

impl LogReader for LogBacklog {
    fn read(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        self.readers
            .read(move |_, store| read_history(store, &request, false))
            .boxed()
    }
}

impl DataEngine for EmbeddedEngine {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        self.readers
            .read(move |_, store| read_key(store, &key, at))
            .boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>> {
        let counts = Arc::clone(&self.counts);
        self.readers
            .read(move |shared, store| read_range(shared, store, &counts, &request))
            .boxed()
    }

    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        self.writer.commit(mutation).boxed()
    }

    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>> {
        async move {
            if self.shared.is_closed() {
                return Err(EngineError::Closed);
            }
            let backlog = Arc::new(LogBacklog {
                readers: Arc::clone(&self.readers),
            });
            let position = self.shared.positions.of(&prefix);
            let feed = self.shared.tail.open(prefix, after, position, backlog);
            // Looked at once the feed stands: a later compaction is met when it reads the log.
            check_after(after, self.shared.compacted())?;
            Ok(feed)
        }
        .boxed()
    }

    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        self.readers
            .read(move |_, store| read_history(store, &request, true))
            .boxed()
    }

    fn current(&self, prefix: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>> {
        // Also while the database is being opened again: nothing is acknowledged meanwhile. A
        // commit whose outcome is open counts from when it is published, and that is before
        // anybody is told of it and before anything after it is acknowledged.
        let position = match self.shared.is_closed() {
            true => Err(EngineError::Closed),
            false => Ok(self.shared.positions.of(prefix)),
        };
        async move { position }.boxed()
    }

    fn known(&self, prefix: &Prefix) -> Position {
        self.shared.positions.of(prefix)
    }

    fn compacted(&self) -> Revision {
        self.shared.compacted()
    }

    fn health(&self) -> Health {
        if self.shared.is_closed() {
            return Health::Down("the store is closed".to_owned());
        }
        self.shared.health()
    }
}

impl LeaseEngine for EmbeddedEngine {
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>> {
        self.writer
            .ask(move |reply| Order::Lease(LeaseOrder::Grant(ttl, reply)))
            .boxed()
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>> {
        async move {
            let begin = |reply| Order::Lease(LeaseOrder::Revoke(lease, reply));
            let mut more = self.writer.ask(begin).await?;
            while more {
                // Others write in between.
                more = self
                    .writer
                    .ask(|reply| Order::Lease(LeaseOrder::GoOnRevoking(lease, reply)))
                    .await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>> {
        self.writer
            .ask(|reply| Order::Lease(LeaseOrder::Expire(reply)))
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
            .read(move |_, store| horizon(store, retention, now))
            .boxed()
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        self.writer
            .ask(move |reply| Order::Compact(up_to, reply))
            .boxed()
    }

    fn maintain(&self, reclaim: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        async move {
            if reclaim {
                return self.give_back(false).await;
            }
            // Somebody works again; a copy would not see what is removed from now on.
            let mut upkeep = self.upkeep.lock().await;
            upkeep.rebuild = None;
            self.writer.ask(Order::Scrub).await
        }
        .boxed()
    }

    fn purge(&self) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        self.give_back(true).boxed()
    }

    fn stats(&self) -> EngineStats {
        self.shared.stats()
    }
}

impl Engine for EmbeddedEngine {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.writer.close(&self.readers);
        self.shared.finished().boxed()
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
