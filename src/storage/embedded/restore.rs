//! Makes a new store of the records of a backup.
//!
//! The store is built under the name of a defragmented copy, which the next opening removes, and
//! takes the log's place when it is complete and durable. So an interrupted restore leaves no
//! store.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use actors::engine::{ExportedLease, LeaseId, Revision};
use bytes::Bytes;

use super::disk::{DataFile, Directory, Disk};
use super::error::{Failure, OpenError};
use super::record::LeaseRecord;
use super::schema::{LastMark, Meta, decode_event};
use super::store::{LeaseRows, Store};
use super::store_id;
use super::write_txn::WriteTxn;

/// The bytes of records that are put in by one transaction.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// The bytes of records between two durable transactions. redb keeps what it has freed until one.
const DURABLE_BYTES: usize = 16 * BATCH_BYTES;
/// redb's cache while it takes the records in.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Which state of a backup becomes a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestorePlan {
    /// Records up to this revision.
    pub until: Revision,
    /// Events after this revision become history.
    pub compacted: Revision,
    /// The revision that the store begins with. If it is above `until`, all history is forgotten.
    pub revision: Revision,
}

/// An unfinished store.
pub struct Restore {
    disk: Arc<dyn Disk>,
    store: Store,
    plan: RestorePlan,
    batch: Vec<(Revision, Bytes)>,
    batch_bytes: usize,
    /// Bytes since the last durable transaction.
    unsynced_bytes: usize,
    last_mark: LastMark,
    /// Dropped after the store, which has the file open.
    _unfinished: Unfinished,
}

/// The file of an unfinished store. It is removed when this is dropped, unless it has taken the
/// log's place.
struct Unfinished(Arc<dyn Disk>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // If this fails, the next opening removes it.
        let _ = self.0.remove(DataFile::DefragCopy);
        self.0.release();
    }
}

/// Why a backup did not become a store.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The directory can't be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The directory holds a store.
    #[error("data directory {0} holds a store already: choose a new or empty directory")]
    Occupied(String),
    /// A record can't be a part of a store, or the database fails.
    #[error("the store can't be written: {0}")]
    Failed(#[from] Failure),
}

impl From<std::io::Error> for RestoreError {
    fn from(error: std::io::Error) -> RestoreError {
        RestoreError::Failed(error.into())
    }
}

impl Restore {
    /// Begins a store in a directory that holds none. The directory is made if it is absent.
    ///
    /// # Errors
    /// [`RestoreError`]
    pub fn begin(directory: &Path, plan: RestorePlan) -> Result<Restore, RestoreError> {
        let disk: Arc<dyn Disk> = Arc::new(Directory::open(directory)?);
        let files = [
            DataFile::Log,
            DataFile::StoreId,
            DataFile::Journal0,
            DataFile::Journal1,
        ];
        for file in files {
            if disk.length(file)?.is_some() {
                return Err(RestoreError::Occupied(directory.display().to_string()));
            }
        }
        disk.remove(DataFile::DefragCopy)?;
        let unfinished = Unfinished(Arc::clone(&disk));
        let meta = Meta::new(uuid::Uuid::new_v4().into_bytes());
        let store = Store::make(&*disk, DataFile::DefragCopy, CACHE_BYTES, &meta)?;
        Ok(Restore {
            disk,
            store,
            plan,
            batch: Vec::new(),
            batch_bytes: 0,
            unsynced_bytes: 0,
            last_mark: LastMark::default(),
            _unfinished: unfinished,
        })
    }

    /// Adds a record. Those of a key must come with rising revisions.
    ///
    /// # Errors
    /// [`RestoreError::Failed`]
    pub fn push(&mut self, revision: Revision, record: Bytes) -> Result<(), RestoreError> {
        if revision > self.plan.until {
            return Ok(());
        }
        self.batch_bytes += record.len();
        self.batch.push((revision, record));
        match self.batch_bytes < BATCH_BYTES {
            true => Ok(()),
            false => self.write_batch(),
        }
    }

    fn write_batch(&mut self) -> Result<(), RestoreError> {
        let transaction = self.store.write()?;
        let mut txn = WriteTxn::open(&transaction)?;
        let compacted = match self.plan.revision > self.plan.until {
            true => self.plan.until,
            false => self.plan.compacted,
        };
        for (revision, bytes) in self.batch.drain(..) {
            let record = decode_event(revision, &bytes)?;
            txn.restore(&record, &bytes, compacted, &mut self.last_mark)?;
        }
        txn.finish()?;
        self.unsynced_bytes += std::mem::take(&mut self.batch_bytes);
        match self.unsynced_bytes < DURABLE_BYTES {
            true => self.store.commit_lazily(transaction)?,
            false => {
                self.unsynced_bytes = 0;
                self.store.commit(transaction)?;
            }
        }
        Ok(())
    }

    /// Makes the store durable and puts it in its place. Returns how many keys it has.
    ///
    /// # Errors
    /// [`RestoreError::Failed`]
    pub fn finish(mut self, leases: &[ExportedLease]) -> Result<u64, RestoreError> {
        self.write_batch()?;
        let transaction = self.store.write()?;
        let mut txn = WriteTxn::open(&transaction)?;
        let original = Meta::read(&self.store.read()?)?.ok_or(Failure::Closed)?;
        let compacted = match self.plan.revision > self.plan.until {
            true => self.plan.revision,
            false => self.plan.compacted,
        };
        let mut meta = Meta {
            compacted,
            scrubbed: compacted,
            ..original
        };
        meta.totals.revision = self.plan.revision;
        txn.restore_end(&meta, &rows(leases))?;
        let (totals, _) = txn.finish()?;
        self.store.commit(transaction)?;
        drop(self.store);
        self.disk.promote()?;
        self.disk.sync_names()?;
        store_id::write(&*self.disk, &meta.store)?;
        Ok(totals.live_keys)
    }
}

fn rows(leases: &[ExportedLease]) -> LeaseRows {
    let row = |exported: &ExportedLease| {
        let since = exported.deadline.duration_since(SystemTime::UNIX_EPOCH);
        let record = LeaseRecord {
            revoked: false,
            ttl: exported.lease.ttl,
            deadline: since.unwrap_or_default(),
        };
        (exported.lease.id, record)
    };
    let none = LeaseId::default();
    let rows = leases.iter().map(row);
    rows.filter(|(lease, _)| *lease != none).collect()
}
