//! The journal, which makes changes durable before redb does.
//!
//! Owns two files that take turns. It takes the changes of a write transaction to the tables as
//! [`Changes`], which are durable when [`Journal::append`] returns. redb gets the same changes
//! without a sync. A checkpoint makes redb itself durable and names the epoch in the other file,
//! which forgets everything before it. Groups can go to the next epoch while the checkpoint that
//! will name it is being made ([`Journal::switch`]). After a crash [`recover`] finds the groups of
//! the epoch that redb names and those of the next one, and the caller applies them. Each file says
//! in its head whose groups it holds and which ones it continues, so that a file that was lost,
//! emptied or replaced is not mistaken for an empty one. The journal must not know tables, events
//! or leases. `FORMAT.md` specifies its files to the byte.

mod changes;
mod group;
mod scan;

use std::fmt;
use std::sync::Arc;

use redb::StorageBackend;

use super::disk::{DataFile, Disk};
use super::error::Failure;
use super::store_id::StoreId;
pub use changes::{Change, Changes, TableId};
use group::{BLOCK, GroupHeader, Head};
pub use scan::{Found, Group, Loss, recover};

/// The files of the journal, which take turns.
pub const FILES: [DataFile; 2] = [DataFile::Journal0, DataFile::Journal1];

/// How much a file grows at a time. Growing costs a longer sync, so it is rare.
const GROWTH_BYTES: u64 = 1024 * 1024;

/// The name of the groups in one use of a file. 0 names nothing.
pub type Epoch = u64;

/// The epoch that groups go to while the checkpoint that ends this one is being made.
pub fn next_epoch(epoch: Epoch) -> Epoch {
    // Any fixed odd factor gives different names for a very long time.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    epoch.wrapping_mul(FACTOR).wrapping_add(1).max(1)
}

/// The result of an attempt to append a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The changes are durable.
    Durably,
    /// There is no room for them. A checkpoint makes some.
    Full,
}

/// The journal of a store that is open for writing.
pub struct Journal {
    disk: Arc<dyn Disk>,
    store: StoreId,
    limits: JournalLimits,
    /// The open epoch; `None` before the first checkpoint of this opening.
    open: Option<OpenEpoch>,
    /// The files, once they are open.
    files: [Option<Arc<dyn StorageBackend>>; 2],
    /// Changes that redb has and that wait for the next group.
    carried: Changes,
}

/// How much the journal holds before a checkpoint must follow.
#[derive(Clone, Copy, Debug)]
pub struct JournalLimits {
    /// The largest size of a file.
    pub file_bytes: u64,
    /// Bytes of changes in an epoch after which a checkpoint is due.
    pub changed_bytes: u64,
}

/// The epoch that groups are appended to.
struct OpenEpoch {
    epoch: Epoch,
    /// The index of its file.
    number: usize,
    file: Arc<dyn StorageBackend>,
    /// Where the next group begins.
    end: u64,
    /// The size of the file.
    file_bytes: u64,
    /// Bytes of the changes so far.
    changed_bytes: u64,
    /// The number of the last group. Numbers continue from one epoch to the next.
    groups: u64,
    /// Whether a group that found no room may follow the last one, in part or whole.
    has_remains: bool,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl Journal {
    /// A journal without an open epoch. Nothing can be appended before a checkpoint.
    pub fn new(disk: Arc<dyn Disk>, store: StoreId, limits: JournalLimits) -> Journal {
        Journal {
            disk,
            store,
            limits,
            open: None,
            files: [None, None],
            carried: Changes::default(),
        }
    }

    /// Bytes of groups since the last checkpoint.
    pub fn bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.end - BLOCK as u64)
    }

    /// Whether a checkpoint is due, so that opening the store takes no longer than it should.
    pub fn is_checkpoint_due(&self) -> bool {
        let changed_bytes = self.open.as_ref().map(|open| open.changed_bytes);
        changed_bytes.is_some_and(|bytes| bytes > self.limits.changed_bytes)
    }

    /// Lets groups go to the next epoch, in the other file. A checkpoint of everything before must
    /// name it. No other checkpoint may be under way, because it would still need that file.
    /// Returns the epoch, or `None` if no other one can follow the open one, or none is open.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn switch(&mut self) -> Result<Option<Epoch>, Failure> {
        // The next epoch continues the numbers of this one. So there must be groups in this one,
        // and nothing after them that recovery may take for the next.
        let is_possible =
            self.bytes() > 0 && self.open.as_ref().is_some_and(|open| !open.has_remains);
        let Some(open) = self.open.as_ref().filter(|_| is_possible) else {
            return Ok(None);
        };
        let (last, end, file) = (open.epoch, open.end, Arc::clone(&open.file));
        let (epoch, groups) = (next_epoch(last), open.groups);
        let PreparedEpoch(next) = self.prepare_epoch(epoch, last, groups)?;
        // From here on the other file is needed, too. Its head is durable already.
        match file.write(end, &group::encode_end(&self.store, last)) {
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(None),
            written => written?,
        }
        file.sync_data()?;
        self.open = Some(next);
        Ok(Some(epoch))
    }

    /// Whether groups can be appended.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether changes wait for the next group.
    pub fn has_carried(&self) -> bool {
        !self.carried.bytes().is_empty()
    }

    /// Keeps changes that redb has for the next group. A crash before that takes them back in redb,
    /// too. Returns how many bytes wait.
    pub fn carry(&mut self, changes: &Changes) -> usize {
        self.carried.extend(changes);
        self.carried.bytes().len()
    }

    /// Makes changes durable, after those that were carried. Returns when they are.
    ///
    /// # Errors
    /// When the file system fails. The journal can't be used any more, and the changes may be
    /// durable or not: a failed sync is never tried again on the same file.
    pub fn append(&mut self, changes: &Changes) -> Result<Appended, Failure> {
        let Some(open) = &mut self.open else {
            return Ok(Appended::Full);
        };
        let revisions = changes.revisions();
        let header = GroupHeader {
            epoch: open.epoch,
            number: open.groups + 1,
            first: revisions.0,
            last: revisions.1,
        };
        let body = [self.carried.bytes(), changes.bytes()];
        let body_bytes: usize = body.iter().map(|part| part.len()).sum();
        let changed_bytes = open.changed_bytes + body_bytes as u64;
        let mut bytes = group::encode(&self.store, header, &body)?;
        let end = open.end + bytes.len() as u64;
        if end > self.limits.file_bytes {
            return Ok(Appended::Full);
        }
        let grows = end > open.file_bytes;
        if grows {
            // The new part of the file is written once, so that later groups change no metadata of
            // the file system.
            let grown = end
                .next_multiple_of(GROWTH_BYTES)
                .min(self.limits.file_bytes);
            bytes.resize((grown - open.end) as usize, 0);
        }
        match open.file.write(open.end, &bytes) {
            // The checkpoint that follows makes the same changes durable in redb. If it does not
            // come to that, what was written of the group is read as after a power loss.
            Err(error) if grows && error.kind() == std::io::ErrorKind::StorageFull => {
                open.has_remains = true;
                return Ok(Appended::Full);
            }
            written => written?,
        }
        open.file.sync_data()?;
        open.file_bytes = open.file_bytes.max(open.end + bytes.len() as u64);
        open.end = end;
        open.changed_bytes = changed_bytes;
        open.groups += 1;
        self.carried.clear();
        Ok(Appended::Durably)
    }

    /// Prepares the epoch after a checkpoint. Its file says so durably when this returns. redb must
    /// store its name durably, in the transaction that makes the checkpoint, before
    /// [`Journal::begin`].
    ///
    /// # Errors
    /// When the file system fails.
    pub fn prepare(&mut self) -> Result<PreparedEpoch, Failure> {
        self.prepare_epoch(random_epoch(), 0, 0)
    }

    /// Prepares an epoch in the file that the open one does not use. It follows from another epoch,
    /// after this many groups, or from none.
    fn prepare_epoch(
        &mut self,
        epoch: Epoch,
        predecessor: Epoch,
        groups: u64,
    ) -> Result<PreparedEpoch, Failure> {
        let [first, second] = match self.files.clone() {
            [Some(first), Some(second)] => [first, second],
            _ => self.open_files()?,
        };
        let (number, file) = match &self.open {
            Some(open) if open.number == 0 => (1, second),
            _ => (0, first),
        };
        let head = Head {
            store: self.store,
            epoch,
            predecessor,
            after: groups,
        };
        file.write(0, &head.encode())?;
        file.sync_data()?;
        let file_bytes = file.len()?.min(self.limits.file_bytes);
        Ok(PreparedEpoch(OpenEpoch {
            epoch,
            number,
            file,
            end: BLOCK as u64,
            changed_bytes: 0,
            file_bytes: file_bytes / BLOCK as u64 * BLOCK as u64,
            groups,
            has_remains: false,
        }))
    }

    /// Opens both files. Their names are durable before redb names an epoch.
    fn open_files(&mut self) -> Result<[Arc<dyn StorageBackend>; 2], Failure> {
        let open = |file| self.disk.open(file).map(Arc::<dyn StorageBackend>::from);
        let files = [open(DataFile::Journal0)?, open(DataFile::Journal1)?];
        self.disk.sync_names()?;
        self.files = files.clone().map(Some);
        Ok(files)
    }

    /// Begins an epoch, after redb has stored its name durably. Everything before is forgotten.
    pub fn begin(&mut self, prepared: PreparedEpoch) {
        self.open = Some(prepared.0);
        self.carried.clear();
    }

    /// Ends the use of the journal, after redb has stored durably that it is not used.
    pub fn end(&mut self) {
        self.open = None;
        self.carried.clear();
    }

    /// Removes the files, so that nothing of their content is left. The journal must have ended.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn remove(&mut self) -> Result<(), Failure> {
        self.files = [None, None];
        for file in FILES {
            self.disk.remove(file)?;
        }
        Ok(())
    }
}

/// An epoch that redb does not name yet.
pub struct PreparedEpoch(OpenEpoch);

impl PreparedEpoch {
    /// Its name.
    pub fn epoch(&self) -> Epoch {
        self.0.epoch
    }
}

/// A random name, which no group on the disk has.
fn random_epoch() -> Epoch {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    (high ^ low).max(1)
}
