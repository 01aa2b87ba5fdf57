//! The locks that give a store one owner.
//!
//! An engine locks the directory itself, the file `lock`, whose text says who holds it, and the
//! database. So a second one is kept out whichever file was removed or copied. The operating system
//! releases locks when the process dies.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::FileId;
use crate::files::own;
use crate::storage::embedded::holder::Holder;

/// The file whose text says who holds the directory.
pub(super) const LOCK_NAME: &str = "lock";

/// Longer than the text of any holder.
const TEXT_BYTES_MAX: u64 = 4096;

/// The process that holds the store of a directory, where the kernel shows that. It takes no lock,
/// because an engine that opens the directory in that moment would be refused.
pub fn holder_of(directory: &Path) -> Option<Holder> {
    let path = directory.join(LOCK_NAME);
    let inode = path.symlink_metadata().ok()?.ino();
    let text = own::read(&path, TEXT_BYTES_MAX).ok()??;
    let holder = Holder::parse(&String::from_utf8_lossy(&text));
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // linear: the kernel has no other list of locks.
    let is_held = locks
        .lines()
        .any(|line| is_lock_of(line, holder.pid, inode));
    is_held.then_some(holder)
}

/// Whether a line of `/proc/locks` is about an exclusive lock of this process on this file:
/// `1: FLOCK  ADVISORY  WRITE 706 00:2a:4711 0 EOF`.
fn is_lock_of(line: &str, pid: u32, inode: u64) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, "WRITE", process, file, ..] = fields.as_slice() else {
        return false;
    };
    let number = file.rsplit(':').next().map(str::parse);
    process.parse() == Ok(pid) && number == Some(Ok(inode))
}

/// Why a lock could not be taken.
#[derive(Debug)]
pub(super) enum LockError {
    /// Another process, or another part of this one, has it.
    Held(Holder),
    /// The file system has no locks.
    Unsupported(io::Error),
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> LockError {
        LockError::Io(error)
    }
}

/// The locks of one engine.
#[derive(Debug)]
pub(super) struct Locks {
    _directory: File,
    _text: File,
    /// The database and the copy of it that is to take its place, by their identity.
    databases: Vec<(FileId, File)>,
}

impl Locks {
    /// Locks a directory and its content: the text about the holder, and the database if there is
    /// one.
    pub(super) fn take(directory: &Path, text: &Path, database: &Path) -> Result<Locks, LockError> {
        let holder = || -> Holder {
            let read = own::read(text, TEXT_BYTES_MAX);
            // That there is a holder matters more than who it is.
            let text = read.ok().flatten().unwrap_or_default();
            Holder::parse(&String::from_utf8_lossy(&text))
        };
        let directory = File::open(directory)?;
        lock(&directory, holder)?;
        let mut file = own::open(text)?;
        lock(&file, holder)?;
        let mut locks = Locks {
            _directory: directory,
            _text: file.try_clone()?,
            databases: Vec::new(),
        };
        if own::inspect(database)?.is_some() {
            locks.add(database, holder)?;
        }
        write_holder(&mut file)?;
        Ok(locks)
    }

    /// Locks a database that was made, or that has taken another one's place.
    pub(super) fn add_database(&mut self, path: &Path) -> io::Result<()> {
        self.add(path, Holder::default)
            .map_err(|error| match error {
                LockError::Held(_) => io::Error::other("another process has locked it"),
                LockError::Unsupported(error) | LockError::Io(error) => error,
            })
    }

    fn add(&mut self, path: &Path, holder: impl FnOnce() -> Holder) -> Result<(), LockError> {
        let file = own::open(path)?;
        let metadata = file.metadata()?;
        let id = (metadata.dev(), metadata.ino());
        if self.databases.iter().any(|(known, _)| *known == id) {
            return Ok(());
        }
        lock(&file, holder)?;
        self.databases.push((id, file));
        Ok(())
    }

    /// Gives up the locks of databases other than this one.
    pub(super) fn keep_database(&mut self, id: FileId) {
        self.databases.retain(|(known, _)| *known == id);
    }
}

fn lock(file: &File, holder: impl FnOnce() -> Holder) -> Result<(), LockError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(LockError::Held(holder())),
        Err(TryLockError::Error(error)) => Err(LockError::Unsupported(error)),
    }
}

fn write_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    match file.write_all(Holder::this_process().to_text().as_bytes()) {
        // Only the lock counts, not its text. A full disk must not keep a store from opening.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_file_is_removed_a_second_engine_is_kept_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let take = || Locks::take(directory.path(), &path("lock"), &path("database"));
        std::fs::write(path("database"), b"pages").unwrap();
        let first = take().unwrap();
        let Err(LockError::Held(holder)) = take() else {
            panic!("two locks at once")
        };
        assert_eq!(holder.pid, std::process::id());
        assert!(!holder.since.is_empty());
        assert_eq!(holder_of(directory.path()), Some(holder));
        for name in ["lock", "database"] {
            std::fs::remove_file(path(name)).unwrap();
            assert!(matches!(take(), Err(LockError::Held(_))), "without {name}");
        }
        drop(first);
        assert_eq!(holder_of(directory.path()), None);
        assert!(take().is_ok());
    }

    #[test]
    fn a_database_is_locked_once_and_given_up_when_another_takes_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut locks = Locks::take(directory.path(), &path("lock"), &path("database")).unwrap();
        for name in ["database", "copy", "copy"] {
            std::fs::write(path(name), name).unwrap();
            locks.add_database(&path(name)).unwrap();
        }
        assert_eq!(locks.databases.len(), 2);
        let copy = std::fs::metadata(path("copy")).unwrap();
        locks.keep_database((copy.dev(), copy.ino()));
        assert_eq!(locks.databases.len(), 1);
        assert!(File::open(path("database")).unwrap().try_lock().is_ok());
        assert!(File::open(path("copy")).unwrap().try_lock().is_err());
    }
}
