//! All access of the engine to the file system: the files of its directory, and the space around
//! them.
//!
//! Owns the lock of the directory and the names of its files. It must not know the content of the
//! files. [`Directory`] is the real implementation. The crash simulator in `tests/crash` is another
//! one, which is why nothing else of the engine touches the file system.

mod directory;
mod file;
mod lock;
mod privacy;

use std::fmt;
use std::io;

pub use directory::Directory;
pub use file::LogFile;
pub use lock::holder_of;
use redb::StorageBackend;

/// The files that an engine keeps next to its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DataFile {
    /// The log: the redb database with all tables.
    Log,
    /// The first file of the journal, which is durable before the log is.
    Journal0,
    /// The second file of the journal.
    Journal1,
    /// A smaller copy of the log, which is written to take its place.
    DefragCopy,
    /// Only takes up space. It is removed when the disk is full, so that deletes work.
    Ballast,
    /// The ID of the store that the directory holds.
    StoreId,
}

impl DataFile {
    /// The file's name in the directory.
    pub fn name(self) -> &'static str {
        match self {
            DataFile::Log => "events.redb",
            DataFile::Journal0 => "journal-0",
            DataFile::Journal1 => "journal-1",
            DataFile::DefragCopy => "events.redb.rebuilt",
            DataFile::Ballast => "ballast",
            DataFile::StoreId => "store",
        }
    }
}

/// The identity of a file, whatever its name: device and inode.
pub type FileId = (u64, u64);

/// A directory held by one engine.
pub trait Disk: Send + Sync + fmt::Debug + 'static {
    /// Opens a file, and creates it if it is absent. Everything read through it is durable: what an
    /// earlier handle wrote was synced, and pages that a failed sync left in memory were dropped.
    /// That the name stands for this file may not be durable; see [`Disk::sync_names`].
    ///
    /// # Errors
    /// Any failure of the file system.
    fn open(&self, file: DataFile) -> io::Result<Box<dyn StorageBackend>>;

    /// Begins to read a file that is open, because all of its live objects are read soon. It
    /// returns at once. A disk that needs no such advice ignores it.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn read_ahead(&self, _file: DataFile) -> io::Result<()> {
        Ok(())
    }

    /// A file's length in bytes; `None` when it is absent.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn length(&self, file: DataFile) -> io::Result<Option<u64>>;

    /// The file of this name; `None` when it is absent.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn which(&self, file: DataFile) -> io::Result<Option<FileId>>;

    /// Makes durable which file each name stands for. A sync of a file does not do this. Call it
    /// before anything in a file is acknowledged, because an earlier rename may have taken effect
    /// while its sync failed.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn sync_names(&self) -> io::Result<()>;

    /// The content of [`DataFile::StoreId`]; `None` when it is absent.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn store_id(&self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces the content of [`DataFile::StoreId`], durably and atomically.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn set_store_id(&self, bytes: &[u8]) -> io::Result<()>;

    /// Removes a file. Succeeds if the file is absent.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn remove(&self, file: DataFile) -> io::Result<()>;

    /// Renames the defragmented copy to the log, durably and atomically. After an error the name
    /// may stand for either file. Until [`Disk::sync_names`] succeeds, a power loss may bring the
    /// other one back.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn promote(&self) -> io::Result<()>;

    /// Bytes that this process may still allocate.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn free_bytes(&self) -> io::Result<u64>;

    /// The bytes of the blocks that a file occupies, which a sparse file's length does not show; 0
    /// when it is absent.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn allocated_bytes(&self, file: DataFile) -> io::Result<u64>;

    /// Sets the size of the ballast file; 0 removes it.
    ///
    /// # Errors
    /// Any failure of the file system. The ballast is gone then.
    fn set_ballast(&self, bytes: u64) -> io::Result<()>;

    /// Releases the lock of the directory.
    fn release(&self);

    /// The path of a file, for messages.
    fn path(&self, file: DataFile) -> String;
}
