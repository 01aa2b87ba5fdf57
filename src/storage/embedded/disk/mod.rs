//! The engine's view of its directory: a few files and the room around them.
//!
//! [`Directory`] is the real one. The crash simulator puts another in its place, which is why
//! nothing else of the engine touches the file system.

mod directory;
mod file;
mod lock;
mod privacy;

use std::fmt;
use std::io;

pub use directory::Directory;
pub use file::LogFile;
pub use lock::Holder;
use redb::StorageBackend;

/// The files an engine keeps beside its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DataFile {
    /// The store itself.
    Log,
    /// A smaller copy of it that is being written to take its place.
    DefragCopy,
    /// Nothing but room, given up when the disk is full so that deletes go on.
    Ballast,
    /// The ID of the store that the directory holds.
    StoreId,
}

impl DataFile {
    /// The file's name in the directory.
    pub fn name(self) -> &'static str {
        match self {
            DataFile::Log => "events.redb",
            DataFile::DefragCopy => "events.redb.rebuilt",
            DataFile::Ballast => "ballast",
            DataFile::StoreId => "store",
        }
    }
}

/// Which file it is, whatever its name: its device and its inode.
pub type FileId = (u64, u64);

/// A directory held by one engine.
pub trait Disk: Send + Sync + fmt::Debug + 'static {
    /// Opens a file, creating it when absent. What is read through it from now on is durable:
    /// anything an earlier handle wrote has been synced, and pages that a failed sync left in
    /// memory only have been dropped. That the file is the one of this name is not; see
    /// [`Disk::sync_names`].
    ///
    /// # Errors
    /// Any failure of the file system.
    fn open(&self, file: DataFile) -> io::Result<Box<dyn StorageBackend>>;

    /// A file's length in bytes; `None` when it is absent.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn length(&self, file: DataFile) -> io::Result<Option<u64>>;

    /// Which file has this name; `None` when none has.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn which(&self, file: DataFile) -> io::Result<Option<FileId>>;

    /// Makes durable which file each name stands for, as no file's own sync does. Whoever opens
    /// a file to promise something on it does this first: an earlier change of names may have
    /// taken place and its sync failed.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn sync_names(&self) -> io::Result<()>;

    /// What [`DataFile::StoreId`] holds; `None` when it is absent.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn store_id(&self) -> io::Result<Option<Vec<u8>>>;

    /// Makes [`DataFile::StoreId`] hold this, durably and at once: it is never there in part.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn set_store_id(&self, bytes: &[u8]) -> io::Result<()>;

    /// Removes a file; none is no error.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn remove(&self, file: DataFile) -> io::Result<()>;

    /// Puts the defragmented copy in the log's place, durably and at once. After an error either of
    /// the two may stand there, and until [`Disk::sync_names`] succeeds a power cut may bring
    /// the other one back.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn promote(&self) -> io::Result<()>;

    /// Bytes that this process may still allocate.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Bytes of the blocks a file occupies, which a sparse file's length does not tell; 0 when
    /// it is absent.
    ///
    /// # Errors
    /// Any failure of the file system.
    fn allocated_bytes(&self, file: DataFile) -> io::Result<u64>;

    /// Makes the ballast file this large; 0 removes it.
    ///
    /// # Errors
    /// Any failure of the file system; the ballast is gone then.
    fn set_ballast(&self, bytes: u64) -> io::Result<()>;

    /// Lets go of the directory, for others to open it.
    fn release(&self);

    /// What to call a file in messages: its path.
    fn path(&self, file: DataFile) -> String;
}
