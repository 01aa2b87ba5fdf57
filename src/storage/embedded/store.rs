//! The database of one opening of the file, and how it is opened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actors::engine::{LeaseId, Revision};
use parking_lot::RwLock;
use redb::{
    Database, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, StorageBackend, WriteTransaction,
};

use super::applier::{ApplyQueue, Work};
use super::disk::{DataFile, Disk, FileId};
use super::error::Failure;
use super::fence::{Fence, Fenced};
use super::journal::{self, Epoch, Group};
use super::record::LeaseRecord;
use super::schema::{
    self, ATTACHED, EVENTS, LEASES, LIVE, LastMark, Meta, SUPERSEDED, TIMELINE, decode_event,
    has_leases, missing_event,
};
use super::store_id::{self, StoreId};
use super::write_txn::WriteTxn;

/// How many records at the end of the log are checked while opening.
const TAIL_RECORDS: u64 = 256;

/// One opening of a file. After a failure it is retired, and another opening replaces it.
pub struct Store {
    database: Database,
    /// The database's file, for reading past its cache.
    pages: Fenced,
    fence: Arc<Fence>,
    /// The file's identity. A rename does not change it.
    id: Option<FileId>,
    /// Whether the writer was told that this database is broken.
    alarmed: AtomicBool,
    /// What the journal has and the database lacks.
    unapplied: Arc<ApplyQueue>,
    /// The file's path, for messages.
    file: RwLock<String>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("file", &self.file())
            .finish_non_exhaustive()
    }
}

/// Called when a read finds the database broken.
pub type Alarm = Arc<dyn Fn(&Arc<Store>, &Failure) + Send + Sync>;

/// The rows of leases, by number.
pub type LeaseRows = BTreeMap<LeaseId, LeaseRecord>;

/// What opening a store has found.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Table `meta`.
    pub meta: Meta,
    /// The last row of the timeline.
    pub last_mark: LastMark,
    /// The leases there are.
    pub leases: LeaseRows,
}

impl Store {
    /// Opens a file. An expected store must exist. Without an expectation a missing store is
    /// created.
    ///
    /// # Errors
    /// When the file cannot be used or its content is damaged.
    pub fn open(
        disk: &dyn Disk,
        file: DataFile,
        cache_bytes: usize,
        expected: Option<StoreId>,
    ) -> Result<(Store, Opened), Failure> {
        if let Some(name) = &expected {
            store_id::check_log(disk, file, name)?;
        }
        let store = Store::connect(disk, file, cache_bytes, expected.is_none())?;
        let meta = match (Meta::read(&store.read()?)?, expected) {
            (Some(meta), Some(name)) if meta.store != name => {
                let what = format!("it is store {}", store_id::to_hex(&meta.store));
                return Err(store_id::gone(&what, &name));
            }
            // Who removes the store's ID and the journal wants the database as it is.
            (Some(meta), None) if meta.journal != 0 && journal::is_absent(disk)? => {
                tracing::warn!(
                    file = %store.file(),
                    revision = %meta.totals.revision,
                    "the journal is missing: the newest changes are lost"
                );
                store.replay(&meta, &[])?
            }
            (Some(meta), _) if meta.journal != 0 => {
                let groups = journal::recover(disk, &meta.store, meta.journal)?;
                store.replay(&meta, &groups)?
            }
            (Some(meta), _) => meta,
            (None, Some(name)) => return Err(store_id::gone("it has no tables", &name)),
            (None, None) => store.create(Meta::new(uuid::Uuid::new_v4().into_bytes()))?,
        };
        let last_mark = store.verify(&meta)?;
        let opened = Opened {
            meta,
            last_mark,
            leases: store.leases()?,
        };
        Ok((store, opened))
    }

    /// Creates an empty store in a new file, for a copy of the store with this `original` metadata
    /// and in its format.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn make(
        disk: &dyn Disk,
        file: DataFile,
        cache_bytes: usize,
        original: &Meta,
    ) -> Result<Store, Failure> {
        let store = Store::connect(disk, file, cache_bytes, true)?;
        store.create(Meta {
            format: original.format,
            ..Meta::new(original.store)
        })?;
        Ok(store)
    }

    fn connect(
        disk: &dyn Disk,
        file: DataFile,
        cache_bytes: usize,
        may_be_new: bool,
    ) -> Result<Store, Failure> {
        let fence = Arc::new(Fence::default());
        let inner = disk.open(file)?;
        let id = disk.which(file)?;
        // Needed even for an existing file: an earlier rename may have taken effect while its sync
        // failed. A power loss must not undo the rename after writes to this file were
        // acknowledged.
        disk.sync_names()?;
        if may_be_new && store_id::is_unfinished(&*inner)? {
            tracing::info!(
                file = %disk.path(file),
                "creating the store was interrupted: it is created again"
            );
            inner.set_len(0)?;
        }
        let pages = Fenced::new(Arc::from(inner), Arc::clone(&fence));
        let database = Database::builder()
            .set_cache_size(cache_bytes)
            .create_with_backend(pages.clone())?;
        Ok(Store {
            database,
            pages,
            fence,
            id,
            alarmed: AtomicBool::new(false),
            unapplied: Arc::default(),
            file: RwLock::new(disk.path(file)),
        })
    }

    /// The existing leases. They are few, because many objects share one.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn leases(&self) -> Result<LeaseRows, Failure> {
        let mut leases = LeaseRows::new();
        let transaction = self.read()?;
        let Some(table) = open_leases(&transaction)? else {
            return Ok(leases);
        };
        for row in table.iter()? {
            let (lease, bytes) = row?;
            let lease = LeaseId(lease.value());
            let record = LeaseRecord::decode(lease, bytes.value()).map_err(|error| {
                Failure::Corrupt(format!("table leases, lease {}: {error}", lease.0))
            })?;
            leases.insert(lease, record);
        }
        Ok(leases)
    }

    /// Makes the changes again that the journal has and the database lacks. The database is whole
    /// without the journal then.
    fn replay(&self, meta: &Meta, groups: &[Group]) -> Result<Meta, Failure> {
        let transaction = self.write()?;
        let mut txn = WriteTxn::open(&transaction)?;
        groups.iter().try_for_each(|group| txn.replay(group))?;
        let (totals, _) = txn.finish()?;
        self.checkpoint(transaction, 0)?;
        if !groups.is_empty() {
            tracing::info!(
                file = %self.file(),
                groups = groups.len(),
                from = %meta.totals.revision,
                to = %totals.revision,
                "the journal was replayed"
            );
        }
        Meta::read(&self.read()?)?.ok_or(Failure::Closed)
    }

    fn create(&self, meta: Meta) -> Result<Meta, Failure> {
        let transaction = self.write()?;
        meta.create(&transaction)?;
        self.commit(transaction)?;
        Ok(meta)
    }

    /// The file's path, for messages.
    pub fn file(&self) -> String {
        self.file.read().clone()
    }

    /// Sets the file's path after a rename.
    pub fn rename(&self, file: String) {
        *self.file.write() = file;
    }

    /// The file's identity.
    pub fn id(&self) -> Option<FileId> {
        self.id
    }

    /// The file, for reading only.
    pub fn pages(&self) -> &dyn StorageBackend {
        &self.pages
    }

    /// A read transaction. It shows everything that was durable when this was called, and waits
    /// until it can. Hold it briefly, because it pins pages.
    ///
    /// # Errors
    /// When the database fails.
    pub fn read(&self) -> Result<ReadTransaction, Failure> {
        self.unapplied.wait(false)?;
        self.read_applied()
    }

    /// A read transaction that shows what the database has already.
    ///
    /// # Errors
    /// When the database fails.
    pub fn read_applied(&self) -> Result<ReadTransaction, Failure> {
        Ok(self.database.begin_read()?)
    }

    /// A write transaction on top of everything durable. It waits until the database has that, and
    /// until no checkpoint is under way. Only the writer's thread asks for it.
    ///
    /// # Errors
    /// When the database fails.
    pub fn write(&self) -> Result<WriteTransaction, Failure> {
        self.unapplied.wait(true)?;
        Ok(self.database.begin_write()?)
    }

    /// What the journal has and the database lacks.
    pub fn unapplied(&self) -> &Arc<ApplyQueue> {
        &self.unapplied
    }

    /// Gives the database groups of the journal, durably if they end with a checkpoint. Only the
    /// applier's thread asks for it.
    ///
    /// # Errors
    /// When the database fails.
    pub fn apply(&self, work: &Work) -> Result<(), Failure> {
        let transaction = self.database.begin_write()?;
        let mut txn = WriteTxn::open(&transaction)?;
        for changes in &work.groups {
            txn.make(changes.iter())?;
        }
        drop(txn);
        match work.checkpoint {
            Some(epoch) => self.checkpoint(transaction, epoch),
            None => self.commit_lazily(transaction),
        }
    }

    /// Makes a transaction durable.
    ///
    /// # Errors
    /// When the database fails. Reopening shows whether the transaction took effect.
    pub fn commit(&self, mut transaction: WriteTransaction) -> Result<(), Failure> {
        transaction.set_durability(Durability::Immediate)?;
        // Stores the allocator's state with every commit, so that opening after a crash scans
        // nothing.
        transaction.set_quick_repair(true);
        Ok(transaction.commit()?)
    }

    /// Makes a transaction durable. It says that the journal holds this epoch from now on, or
    /// nothing for 0.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn checkpoint(&self, transaction: WriteTransaction, epoch: Epoch) -> Result<(), Failure> {
        schema::set_journal(&transaction, epoch)?;
        self.commit(transaction)
    }

    /// Commits without a sync. The next durable commit makes it durable.
    ///
    /// # Errors
    /// When the database fails.
    pub fn commit_lazily(&self, mut transaction: WriteTransaction) -> Result<(), Failure> {
        transaction.set_durability(Durability::None)?;
        Ok(transaction.commit()?)
    }

    /// What this opening may still do with its file.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Claims the alarm of this broken database. Answers `false` if it was raised already.
    pub fn claim_alarm(&self) -> bool {
        !self.alarmed.swap(true, Ordering::AcqRel)
    }

    /// Checks that the tables fit together, at a cost that grows neither with history nor with the
    /// number of keys.
    fn verify(&self, meta: &Meta) -> Result<LastMark, Failure> {
        let transaction = self.read()?;
        let revision = meta.totals.revision;
        if meta.compacted > revision || meta.scrubbed > meta.compacted {
            return Err(Failure::Corrupt(format!(
                "table meta: revision {revision}, compacted {}, scrubbed {} are out of order",
                meta.compacted, meta.scrubbed
            )));
        }
        verify_tail(&transaction, meta)?;
        verify_live(&transaction, meta)?;
        transaction.open_table(SUPERSEDED)?;
        if has_leases(meta.format) {
            transaction.open_table(LEASES)?;
            transaction.open_table(ATTACHED)?;
        }
        let timeline = transaction.open_table(TIMELINE)?;
        let last = timeline.last()?;
        Ok(LastMark {
            time_nanos: last.map_or(0, |(_, row)| row.value().0),
            written_bytes: 0,
        })
    }
}

/// The table of leases; a store of format 1 has none.
///
/// # Errors
/// When the database fails.
pub fn open_leases(
    transaction: &ReadTransaction,
) -> Result<Option<ReadOnlyTable<u64, &'static [u8]>>, Failure> {
    match transaction.open_table(LEASES) {
        Ok(table) => Ok(Some(table)),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the newest records exist and are whole, and that nothing lies beyond them.
fn verify_tail(transaction: &ReadTransaction, meta: &Meta) -> Result<(), Failure> {
    let events = transaction.open_table(EVENTS)?;
    let newest = meta.totals.revision;
    if let Some((last, _)) = events.last()?
        && last.value() > newest.0
    {
        return Err(Failure::Corrupt(format!(
            "table events, record {}: it lies beyond the store's revision {newest}",
            last.value()
        )));
    }
    let oldest = meta.scrubbed.0.max(newest.0.saturating_sub(TAIL_RECORDS));
    let mut expected = oldest;
    for row in events.range(oldest + 1..=newest.0)? {
        let (revision, bytes) = row?;
        expected += 1;
        if revision.value() != expected {
            return Err(missing_event(Revision(expected)));
        }
        decode_event(Revision(expected), bytes.value())?;
    }
    if expected < newest.0 {
        return Err(missing_event(Revision(expected + 1)));
    }
    Ok(())
}

/// Checks the number of live keys. Rows are checked against their records when they are read, and
/// by the thread that verifies the file.
fn verify_live(transaction: &ReadTransaction, meta: &Meta) -> Result<(), Failure> {
    let found = transaction.open_table(LIVE)?.len()?;
    let counted = meta.totals.live_keys;
    if found != counted {
        return Err(Failure::Corrupt(format!(
            "table live: it has {found} keys and should have {counted}"
        )));
    }
    Ok(())
}
