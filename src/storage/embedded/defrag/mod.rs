//! Defragmentation: gives space back to the file system. It copies the log, event by event, into a
//! new file without holes. The writer then puts that file in the log's place.
//!
//! Owns the file of the copy. From a log ([`Store`]) it makes a complete copy, which is another
//! `Store`. It must not know the writer or who requested the space. A database reuses the pages of
//! removed records, but its file shrinks only at its end. The copy runs in small steps while
//! writers go on. Writers wait only for the last few events and the rename. The state follows from
//! the log, so appending every event to the copy copies everything. The totals at the end prove
//! that nothing was lost.

mod catch_up;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::engine::{LeaseId, Revision};
use redb::{ReadTransaction, ReadableTable};

use super::disk::{DataFile, Disk};
use super::error::Failure;
use super::options::EmbeddedOptions;
use super::record::LeaseRecord;
use super::schema::{EVENTS, LIVE, Live, Meta, TIMELINE, Totals, decode_event};
use super::store::{LeaseRows, Store, open_leases};
use super::write_txn::{Entry, Tables, WriteTxn};
pub use catch_up::Progress;
use catch_up::{Amount, CatchUp};

/// How long one step copies.
const STEP: Duration = Duration::from_millis(5);
/// The bytes copied between two syncs. Longer syncs would delay those of the writer.
const SYNC_BYTES: u64 = 2 * 1024 * 1024;

/// A copy under way. Dropping it removes its file, unless it took the log's place.
pub struct Defrag {
    disk: Arc<dyn Disk>,
    store: Option<Store>,
    /// Events up to this revision are copied.
    copied: Revision,
    /// The bytes of the copied records.
    copied_bytes: u64,
    unsynced_bytes: u64,
    /// Leases that copied keys are attached to.
    leases: BTreeSet<LeaseId>,
    /// The most that one batch of the writer may add.
    batch: Amount,
    catch_up: CatchUp,
}

/// Whether a copy can take the log's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seal {
    /// It is complete and readable, and has these leases. Leases that ended while it was made may
    /// be among them.
    Whole(LeaseRows),
    /// Too much is missing to copy it while writers wait.
    Behind,
    /// It differs from the log, which was reopened or scrubbed meanwhile.
    Different,
}

impl Defrag {
    /// Creates the empty file of the copy.
    ///
    /// # Errors
    /// When the file can't be made.
    pub fn start(
        disk: Arc<dyn Disk>,
        options: &EmbeddedOptions,
        log: &Store,
    ) -> Result<Defrag, Failure> {
        disk.remove(DataFile::DefragCopy)?;
        let mut defrag = Defrag {
            disk,
            store: None,
            copied: Revision::ZERO,
            copied_bytes: 0,
            unsynced_bytes: 0,
            leases: BTreeSet::new(),
            batch: Amount {
                events: options.batch_count_max as u64,
                bytes: options.batch_bytes_max as u64,
            },
            catch_up: CatchUp::default(),
        };
        let cache_bytes = options.cache_bytes;
        let original = read_meta(&log.read()?)?;
        let store = Store::make(&*defrag.disk, DataFile::DefragCopy, cache_bytes, &original)?;
        defrag.store = Some(store);
        Ok(defrag)
    }

    fn store(&self) -> Result<&Store, Failure> {
        self.store.as_ref().ok_or(Failure::Closed)
    }

    /// Copies for a few milliseconds. Returns whether the copy has caught up with the writers.
    ///
    /// # Errors
    /// When either database fails.
    pub fn step(&mut self, log: &Store) -> Result<Progress, Failure> {
        let started = Instant::now();
        let source = log.read()?;
        let meta = read_meta(&source)?;
        self.copy(&source, &meta, |_| started.elapsed() < STEP)?;
        Ok(self.catch_up.step(self.left(&meta), self.batch))
    }

    fn left(&self, meta: &Meta) -> Amount {
        Amount {
            events: meta.totals.revision.0.saturating_sub(self.copied.0),
            bytes: meta.totals.retained_bytes.saturating_sub(self.copied_bytes),
        }
    }

    /// Copies the rest while writers wait and makes the copy durable.
    ///
    /// # Errors
    /// When either database fails.
    pub fn seal(&mut self, log: &Store) -> Result<Seal, Failure> {
        let source = log.read()?;
        let meta = read_meta(&source)?;
        if !self.catch_up.may_seal(self.left(&meta), self.batch) {
            return Ok(Seal::Behind);
        }
        self.copy(&source, &meta, |_| true)?;
        let store = self.store()?;
        let transaction = store.write()?;
        let mut txn = WriteTxn::open(&transaction)?;
        txn.adopt(&meta)?;
        self.copy_leases(&source, &mut txn)?;
        let (totals, _) = txn.finish()?;
        if totals != meta.totals {
            tracing::warn!(
                log = ?meta.totals,
                copy = ?totals,
                "defragmentation failed: the copy differs from the log, which stays"
            );
            transaction.abort()?;
            return Ok(Seal::Different);
        }
        store.commit(transaction)?;
        Ok(Seal::Whole(store.leases()?))
    }

    /// Copies the leases. A lease that ended after a key was copied with it becomes a revoked lease
    /// in the copy, and is ended once more.
    fn copy_leases(
        &self,
        source: &ReadTransaction,
        txn: &mut WriteTxn<Tables<'_>>,
    ) -> Result<(), Failure> {
        let mut ended = self.leases.clone();
        if let Some(table) = open_leases(source)? {
            for row in table.iter()? {
                let (lease, record) = row?;
                let lease = LeaseId(lease.value());
                txn.put_lease_bytes(lease, record.value())?;
                ended.remove(&lease);
            }
        }
        let revoked = LeaseRecord {
            revoked: true,
            ttl: Duration::ZERO,
            deadline: Duration::ZERO,
        };
        for lease in ended {
            txn.put_lease(lease, &revoked)?;
        }
        Ok(())
    }

    /// Turns the copy into a store under its new path.
    pub fn into_store(mut self, file: String) -> Option<Store> {
        let store = self.store.take()?;
        store.rename(file);
        Some(store)
    }

    fn copy(
        &mut self,
        source: &ReadTransaction,
        meta: &Meta,
        mut may_continue: impl FnMut(u64) -> bool,
    ) -> Result<(), Failure> {
        let from = self.copied;
        let store = self.store()?;
        let transaction = store.write()?;
        let mut txn = WriteTxn::open(&transaction)?;
        let (mut bytes_copied, mut copied) = (0, from);
        let (leases, live) = (open_leases(source)?, source.open_table(LIVE)?);
        let mut held = BTreeSet::new();
        for row in source.open_table(EVENTS)?.range(from.0 + 1..)? {
            let (revision, bytes) = row?;
            if !may_continue(bytes_copied) {
                break;
            }
            let (revision, bytes) = (Revision(revision.value()), bytes.value());
            let record = decode_event(revision, bytes)?;
            txn.append(&Entry {
                revision,
                key: record.key(),
                kind: record.kind(),
                create_revision: record.create_revision(),
                version: record.version(),
                record: bytes,
            })?;
            if let (Some(leases), 1..) = (&leases, record.lease().0)
                && leases.get(record.lease().0)?.is_some()
                && is_present(&live.get(record.key())?, revision)
            {
                txn.attach(record.lease(), revision)?;
                held.insert(record.lease());
            }
            bytes_copied += bytes.len() as u64;
            copied = revision;
        }
        for row in source.open_table(TIMELINE)?.range(from.0 + 1..=copied.0)? {
            let (revision, row) = row?;
            txn.append_mark(revision.value(), row.value())?;
        }
        // If only removed deletes are left, there is nothing more to copy.
        let last = source
            .open_table(EVENTS)?
            .range(copied.0 + 1..)?
            .next()
            .is_none();
        let copied = if last { meta.totals.revision } else { copied };
        let (totals, _) = txn.finish()?;
        let unsynced_bytes = self.unsynced_bytes + bytes_copied;
        if unsynced_bytes >= SYNC_BYTES {
            store.commit(transaction)?;
            self.unsynced_bytes = 0;
        } else {
            store.commit_lazily(transaction)?;
            self.unsynced_bytes = unsynced_bytes;
        }
        self.leases.extend(held);
        self.copied = copied;
        self.copied_bytes = totals.retained_bytes;
        Ok(())
    }
}

impl Drop for Defrag {
    fn drop(&mut self) {
        if let Some(store) = self.store.take() {
            store.fence().retire();
            drop(store);
        }
        // Has no effect after the promotion. If the removal fails, the next opening of the store
        // removes the file.
        let _ = self.disk.remove(DataFile::DefragCopy);
    }
}

/// Whether a key has the value that was put at this revision.
fn is_present(
    row: &Option<redb::AccessGuard<'_, (u64, u64, u64, u32)>>,
    revision: Revision,
) -> bool {
    row.as_ref()
        .is_some_and(|row| Live::from(row.value()).revision == revision)
}

fn read_meta(source: &ReadTransaction) -> Result<Meta, Failure> {
    Meta::read(source)?.ok_or_else(|| Failure::Corrupt("table meta: it is missing".to_owned()))
}

/// Bytes that the log would need without holes, at most. Pages are three quarters full when
/// records come in order.
fn bytes_needed(totals: Totals) -> u64 {
    let index_bytes = totals.live_keys.saturating_mul(256);
    totals.retained_bytes / 3 * 4 + index_bytes + (1 << 20)
}

/// Whether a copy would give enough space back. `log_bytes` is the log's size now,
/// `defragged_bytes` its size after the last defragmentation.
pub fn is_worthwhile(totals: Totals, log_bytes: u64, defragged_bytes: u64) -> bool {
    let threshold = bytes_needed(totals) / 4 * 5 + (2 << 20);
    log_bytes > threshold.max(defragged_bytes / 4 * 5)
}

/// Whether the disk has room for a copy in addition to the log.
pub fn has_room(totals: Totals, disk: &dyn Disk, reserve_bytes: u64) -> bool {
    let room = disk.free_bytes().unwrap_or(0);
    // A part of the reserve may be used, because this is how space is given back.
    let kept = reserve_bytes / 4;
    room > bytes_needed(totals).saturating_add(kept)
}
