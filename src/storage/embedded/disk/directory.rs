//! The data directory on the real file system.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::Builder;

use parking_lot::Mutex;
use redb::StorageBackend;
use rustix::fs::{Advice, FallocateFlags};

use super::file::LogFile;
use super::lock::{LOCK_NAME, LockError, Locks};
use super::privacy::make_private;
use super::{DataFile, Disk, FileId};
use crate::files::own;
use crate::storage::embedded::error::OpenError;

/// Longer than a store's ID, and short enough to read at once.
const IDENTITY_BYTES_MAX: u64 = 4096;

/// The unit of `st_blocks`, whatever the block size of the file system is.
const STAT_BLOCK: u64 = 512;

/// A directory and its locks. At most one exists for each directory and for each database.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    locks: Mutex<Option<Locks>>,
    syncs: bool,
}

impl Directory {
    /// Creates the directory if it is absent, closes it to others (0700), checks that no file's
    /// place is taken by something else, and takes the locks.
    ///
    /// # Errors
    /// [`OpenError::Held`] when another engine has it or its database. [`OpenError::NoLocks`] when
    /// nothing would keep another engine out. [`OpenError::Shared`] when it is open to
    /// others and holds their files. [`OpenError::Directory`] when it cannot be created or locked,
    /// or belongs to another user. [`OpenError::Io`] when something else is in a file's place.
    pub fn open(path: &Path) -> Result<Directory, OpenError> {
        let failed = |source| OpenError::Directory {
            path: path.to_owned(),
            source,
        };
        make_private(path)?;
        let database = path.join(DataFile::Log.name());
        let locks = Locks::take(path, &path.join(LOCK_NAME), &database);
        let locks = locks.map_err(|error| match error {
            LockError::Held(holder) => OpenError::Held {
                path: path.to_owned(),
                holder,
            },
            LockError::Unsupported(source) => OpenError::NoLocks {
                path: path.to_owned(),
                source,
            },
            LockError::Io(source) => failed(source),
        })?;
        Ok(Directory {
            path: path.to_owned(),
            locks: Mutex::new(Some(locks)),
            syncs: true,
        })
    }

    /// The same directory, whose files are never synced. The death of the process loses nothing
    /// then, and a power cut may lose or damage everything.
    pub fn without_syncs(mut self) -> Directory {
        self.syncs = false;
        self
    }

    fn at(&self, file: DataFile) -> PathBuf {
        self.path.join(file.name())
    }
}

/// Opening a store reads all live objects in key order, which is not the order of the file. Page by
/// page from a disk that takes several times as long as reading ahead.
const READ_AHEAD_BYTES_MAX: u64 = 256 << 20;
/// The bytes of one request to the kernel.
const READ_AHEAD_PIECE: u64 = 4 << 20;

/// Asks the kernel to read the file ahead, from its beginning, while its objects are read. The
/// bound keeps it from reading a long history for nothing.
fn read_ahead(file: File) -> io::Result<()> {
    let end = file.metadata()?.len().min(READ_AHEAD_BYTES_MAX);
    if end == 0 {
        return Ok(());
    }
    let ask = move || {
        for from in (0..end).step_by(READ_AHEAD_PIECE as usize) {
            // It is only advice. Without it reads are slower and otherwise the same.
            let length = NonZeroU64::new(READ_AHEAD_PIECE);
            if rustix::fs::fadvise(&file, from, length, Advice::WillNeed).is_err() {
                break;
            }
        }
    };
    let thread = Builder::new().name("storage-ahead".to_owned()).spawn(ask)?;
    // The thread ends by itself.
    drop(thread);
    Ok(())
}

impl Disk for Directory {
    fn open(&self, file: DataFile) -> io::Result<Box<dyn StorageBackend>> {
        let path = self.at(file);
        let opened = own::open(&path)?;
        if let DataFile::Log | DataFile::DefragCopy = file
            && let Some(locks) = &mut *self.locks.lock()
        {
            locks.add_database(&path)?;
        }
        // After a failed sync the kernel may keep pages as clean that never reached the disk. So
        // sync what is dirty and drop the rest. Reads then return what is on the disk.
        if !self.syncs {
            return Ok(Box::new(LogFile::without_syncs(opened)));
        }
        opened.sync_all()?;
        rustix::fs::fadvise(&opened, 0, None, Advice::DontNeed)?;
        Ok(Box::new(LogFile::new(opened)))
    }

    fn read_ahead(&self, file: DataFile) -> io::Result<()> {
        read_ahead(own::open(&self.at(file))?)
    }

    fn length(&self, file: DataFile) -> io::Result<Option<u64>> {
        Ok(own::inspect(&self.at(file))?.map(|metadata| metadata.len()))
    }

    fn which(&self, file: DataFile) -> io::Result<Option<FileId>> {
        match self.at(file).symlink_metadata() {
            Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn sync_names(&self) -> io::Result<()> {
        match self.syncs {
            true => File::open(&self.path)?.sync_all(),
            false => Ok(()),
        }
    }

    fn store_id(&self) -> io::Result<Option<Vec<u8>>> {
        let bytes = own::read(&self.at(DataFile::StoreId), IDENTITY_BYTES_MAX)?;
        Ok(bytes.map(|bytes| bytes.to_vec()))
    }

    fn set_store_id(&self, bytes: &[u8]) -> io::Result<()> {
        let path = self.at(DataFile::StoreId);
        match self.syncs {
            true => own::write(&path, bytes),
            false => own::write_unsynced(&path, bytes),
        }
    }

    fn remove(&self, file: DataFile) -> io::Result<()> {
        own::remove(&self.at(file))
    }

    fn promote(&self) -> io::Result<()> {
        let (copy, log) = (self.at(DataFile::DefragCopy), self.at(DataFile::Log));
        match self.syncs {
            true => own::rename(&copy, &log)?,
            false => own::rename_unsynced(&copy, &log)?,
        }
        if let Some(id) = self.which(DataFile::Log)?
            && let Some(locks) = &mut *self.locks.lock()
        {
            locks.keep_database(id);
        }
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn allocated_bytes(&self, file: DataFile) -> io::Result<u64> {
        let metadata = own::inspect(&self.at(file))?;
        Ok(metadata.map_or(0, |metadata| metadata.blocks() * STAT_BLOCK))
    }

    fn set_ballast(&self, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return self.remove(DataFile::Ballast);
        }
        let file = own::open(&self.at(DataFile::Ballast))?;
        let made = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)
            .map_err(io::Error::from)
            .and_then(|()| file.set_len(bytes));
        if made.is_err() {
            self.remove(DataFile::Ballast)?;
        }
        made
    }

    fn release(&self) {
        self.locks.lock().take();
    }

    fn path(&self, file: DataFile) -> String {
        self.at(file).display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn directory_and_files_are_closed_to_others_and_a_second_engine_is_told_who_is_inside() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let directory = Directory::open(&path).unwrap();
        directory.open(DataFile::Log).unwrap();
        directory.set_ballast(1 << 20).unwrap();
        directory.set_store_id(b"mine").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        for name in ["lock", "events.redb", "ballast", "store"] {
            assert_eq!(mode(&path.join(name)), 0o600, "{name}");
        }
        let refusal = Directory::open(&path).unwrap_err().to_string();
        let pid = std::process::id().to_string();
        assert!(
            refusal.contains(&pid) && refusal.contains("data"),
            "{refusal}"
        );
    }

    #[test]
    fn ballast_takes_blocks_and_gives_them_back() {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::open(parent.path()).unwrap();
        directory.set_ballast(1 << 20).unwrap();
        assert!(directory.allocated_bytes(DataFile::Ballast).unwrap() >= 1 << 20);
        directory.set_ballast(0).unwrap();
        directory.set_ballast(0).unwrap();
        assert_eq!(directory.allocated_bytes(DataFile::Ballast).unwrap(), 0);
        assert!(directory.free_bytes().unwrap() > 0);
    }
}
