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

use super::apply_queue::{ApplyQueue, Work};
use super::disk::{DataFile, Disk, FileId};
use super::error::Failure;
use super::fence::{Fence, Fenced};
use super::journal::{self, Epoch, Found, Loss};
use super::options::EmbeddedOptions;
use super::pages::{self, CheckedPages, Header};
use super::record::LeaseRecord;
use super::schema::{
    self, ATTACHED, EVENTS, Edition, LEASES, LIVE, LastMark, Meta, SUPERSEDED, TIMELINE,
    decode_event, has_heads, has_leases, missing_event,
};
use super::store_id::{self, StoreId};
use super::write_txn::{Scrub, WriteTxn};

/// How many records at the end of the log are checked while opening.
const TAIL_RECORDS: u64 = 256;
/// The least that an event takes in the journal.
const EVENT_BYTES_MIN: u64 = 64;
/// How many revisions one transaction compacts when a store goes on after a loss.
const SCRUB_STEP: u64 = 10_000;

/// One opening of a file. After a failure it is retired, and another opening replaces it.
pub struct Store {
    database: Database,
    /// The database's file, for reading past its cache.
    pages: Fenced,
    /// The same as the database reads it.
    checked: CheckedPages,
    fence: Arc<Fence>,
    /// The file's identity. A rename does not change it.
    id: Option<FileId>,
    /// Whether the writer was notified that this database is broken.
    alarmed: AtomicBool,
    /// The changes that the journal has and the database lacks.
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

/// The findings of opening a store.
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
    /// created. Acknowledged revisions may be missing only from `accepted` on.
    ///
    /// # Errors
    /// When the file cannot be used, its content is damaged, or revisions are missing.
    pub fn open(
        disk: &dyn Disk,
        file: DataFile,
        options: &EmbeddedOptions,
        expected: Option<StoreId>,
        accepted: Option<Revision>,
    ) -> Result<(Store, Opened), Failure> {
        if let Some(name) = &expected {
            store_id::check_log(disk, file, name)?;
        }
        let store = Store::connect(disk, file, options.cache_bytes, expected.is_none())?;
        let opened = store.recover(disk, options, expected, accepted);
        let opened = opened.map_err(|failure| store.explain(failure))?;
        Ok((store, opened))
    }

    /// Makes the database whole with the journal, and checks it.
    fn recover(
        &self,
        disk: &dyn Disk,
        options: &EmbeddedOptions,
        expected: Option<StoreId>,
        accepted: Option<Revision>,
    ) -> Result<Opened, Failure> {
        let meta = match (Meta::read(&self.read()?)?, expected) {
            (Some(meta), Some(name)) if meta.store != name => {
                let what = format!("it is store {}", store_id::to_hex(&meta.store));
                return Err(store_id::gone(&what, &name));
            }
            (Some(meta), _) => {
                let meta = self.complete(meta, disk, options, accepted)?;
                self.forget_edition(meta, options)?
            }
            (None, Some(name)) => return Err(store_id::gone("it has no tables", &name)),
            (None, None) => self.create(Meta {
                edition: options.edition.map(|number| Edition {
                    number,
                    as_of: Revision::ZERO,
                }),
                ..Meta::new(uuid::Uuid::new_v4().into_bytes())
            })?,
        };
        let meta = match meta.totals.revision == Revision::ZERO {
            true => self.begin_at(meta, options.begins_at)?,
            false => meta,
        };
        let last_mark = self.verify(&meta)?;
        Ok(Opened {
            meta,
            last_mark,
            leases: self.leases()?,
        })
    }

    /// Makes the changes again that the journal has and the database lacks. Afterwards everything
    /// must be there that was acknowledged.
    fn complete(
        &self,
        mut meta: Meta,
        disk: &dyn Disk,
        options: &EmbeddedOptions,
        accepted: Option<Revision>,
    ) -> Result<Meta, Failure> {
        let acknowledged = pages::acknowledged::read(&self.pages, &meta.store)?;
        let mut loss = None;
        if meta.journal != 0 {
            let has_heads = has_heads(meta.format);
            let found = journal::recover(disk, &meta.store, meta.journal, has_heads)?;
            let readable = found.groups.iter().map(|group| group.last).max();
            let newest = readable.unwrap_or_default().max(meta.totals.revision);
            loss = found.loss.clone().or_else(|| missing(newest, acknowledged));
            if let Some(loss) = &loss {
                check_accepted(newest, loss, acknowledged, accepted)?;
                // The replay ends the use of the journal. If the process dies before the store
                // continues after the loss, this mark still records the loss.
                let lost = loss.up_to.max(acknowledged).max(newest.next());
                self.acknowledge(&meta.store, lost)?;
            }
            meta = self.replay(&meta, &found)?;
        } else if let Some(missing) = missing(meta.totals.revision, acknowledged) {
            check_accepted(meta.totals.revision, &missing, acknowledged, accepted)?;
            loss = Some(missing);
        }
        match loss {
            Some(loss) => self.forget_lost(&meta, loss.up_to.max(acknowledged), options),
            None => Ok(meta),
        }
    }

    /// Gives a store without events its first revision, as if those before were compacted.
    fn begin_at(&self, meta: Meta, revision: Revision) -> Result<Meta, Failure> {
        if revision == Revision::ZERO {
            return Ok(meta);
        }
        let transaction = self.write()?;
        let mut txn = WriteTxn::open(&transaction)?;
        txn.skip_to(revision)?;
        txn.finish()?;
        self.checkpoint(transaction, 0)?;
        Meta::of(&self.read()?)
    }

    /// Forgets the edition of the values if another one is about to write.
    fn forget_edition(&self, mut meta: Meta, options: &EmbeddedOptions) -> Result<Meta, Failure> {
        let is_other = |edition: Edition| options.edition.is_some_and(|own| own != edition.number);
        if meta.edition.is_some_and(is_other) {
            let transaction = self.write()?;
            schema::remove_edition(&transaction)?;
            self.checkpoint(transaction, 0)?;
            meta = Meta::of(&self.read()?)?;
        }
        Ok(meta)
    }

    /// Begins again after revisions that are lost and were acknowledged. No revision is given out
    /// twice, and nobody resumes a watch at a state that is gone: all history is compacted.
    fn forget_lost(
        &self,
        meta: &Meta,
        lost: Revision,
        options: &EmbeddedOptions,
    ) -> Result<Meta, Failure> {
        let remaining = meta.totals.revision;
        // How many revisions are lost is not known for sure. More did not fit into the journal.
        let more = 2 * options.journal_bytes / EVENT_BYTES_MIN;
        let revision = Revision(lost.max(remaining).0 + more);
        let mut scrubbed = meta.scrubbed;
        while scrubbed < remaining {
            let transaction = self.read()?;
            let mut step = Scrub::new(&transaction, Meta::of(&transaction)?.totals)?;
            let end = Revision(remaining.0.min(scrubbed.0 + SCRUB_STEP));
            while scrubbed < end {
                scrubbed = scrubbed.next();
                step.remove(scrubbed)?;
            }
            step.forget_marks(Revision::ZERO, scrubbed, usize::MAX)?;
            let (_, changes) = step.finish(scrubbed);
            let transaction = self.write()?;
            let mut txn = WriteTxn::open(&transaction)?;
            txn.make(changes.iter())?;
            drop(txn);
            self.checkpoint(transaction, 0)?;
        }
        let transaction = self.write()?;
        let mut txn = WriteTxn::open(&transaction)?;
        txn.skip_to(revision)?;
        txn.finish()?;
        self.checkpoint(transaction, 0)?;
        tracing::warn!(
            file = %self.file(),
            %remaining,
            lost_up_to = %lost.max(remaining.next()),
            %revision,
            "revisions are lost, as --accept-loss allows: the store goes on after them"
        );
        Meta::of(&self.read()?)
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
        // The header is checked before redb has the file, because redb changes it.
        let header = match inner.len()? {
            0 => None,
            _ => Some(Header::read(&*inner).map_err(Failure::Corrupt)?),
        };
        let pages = Fenced::new(Arc::from(inner), Arc::clone(&fence));
        let checked = CheckedPages::new(pages.clone(), header.as_ref());
        let database = Database::builder()
            .set_cache_size(cache_bytes)
            .create_with_backend(checked.clone());
        let database = database.map_err(|error| match checked.damage() {
            Some(damage) => Failure::Corrupt(damage),
            None => Failure::from(error),
        })?;
        // redb has synced the file twice by now. A sync waits for all reads that were begun before.
        disk.read_ahead(file)?;
        Ok(Store {
            database,
            pages,
            checked,
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

    /// Makes changes of the journal. The database is whole without the journal then.
    fn replay(&self, meta: &Meta, found: &Found) -> Result<Meta, Failure> {
        let transaction = self.write()?;
        let mut txn = WriteTxn::open(&transaction)?;
        let mut groups = found.groups.iter();
        groups.try_for_each(|group| txn.replay(group))?;
        let (totals, _) = txn.finish()?;
        self.checkpoint(transaction, 0)?;
        if !found.groups.is_empty() {
            tracing::info!(
                file = %self.file(),
                groups = found.groups.len(),
                from = %meta.totals.revision,
                to = %totals.revision,
                "the journal was replayed"
            );
        }
        Meta::of(&self.read()?)
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

    /// The failure with the damage that it comes from, if it comes from a damaged page.
    pub fn explain(&self, failure: Failure) -> Failure {
        match (&failure, self.checked.damage()) {
            (Failure::Corrupt(_) | Failure::Panic(_), Some(damage)) => Failure::Corrupt(damage),
            _ => failure,
        }
    }

    /// The fault in the first page that was not what it should be.
    pub fn damage(&self) -> Option<String> {
        self.checked.damage()
    }

    /// Remembers that everything up to this revision is durable and may be shown. Only the writer's
    /// thread calls this.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn acknowledge(&self, store: &StoreId, revision: Revision) -> Result<(), Failure> {
        Ok(pages::acknowledged::write(&self.pages, store, revision)?)
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

    /// The changes that the journal has and the database lacks.
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

    /// Limits what this opening may still do with its file.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Claims the alarm of this broken database. Returns `false` if it was raised already.
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

/// The loss of a store that ends at a revision, if it was acknowledged further.
fn missing(newest: Revision, acknowledged: Revision) -> Option<Loss> {
    (newest < acknowledged).then(|| Loss {
        what: format!(
            "its journal ends at revision {newest}, and revisions up to {acknowledged} were \
             acknowledged: the journal or the database is an older one"
        ),
        up_to: acknowledged,
    })
}

/// Checks that the operator accepted a loss that begins after this revision.
fn check_accepted(
    remaining: Revision,
    loss: &Loss,
    acknowledged: Revision,
    accepted: Option<Revision>,
) -> Result<(), Failure> {
    let from = remaining.next();
    let up_to = loss.up_to.max(acknowledged);
    if accepted == Some(from) {
        return Ok(());
    }
    Err(Failure::Lost {
        what: loss.what.clone(),
        from,
        up_to: (up_to >= from).then_some(up_to),
    })
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
