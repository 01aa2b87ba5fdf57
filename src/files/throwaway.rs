//! Folders for one run of a program, which are removed at its end.
//!
//! A folder is locked while its program lives. So a later run recognises those that a killed one
//! has left, and removes them.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use uuid::Uuid;

use super::{open, this_user};

/// The parent of folders where the environment names none: it is in memory, so syncs of its files
/// cost nothing.
const IN_MEMORY: &str = "/dev/shm";
/// Folders that are made before a folder can't be had.
const ATTEMPTS: u32 = 10;

/// A locked folder of mode 0700. It is removed when this is dropped.
#[derive(Debug)]
pub struct ThrowawayFolder {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
    is_removed: bool,
}

impl ThrowawayFolder {
    /// Makes a folder whose name begins so: in `$TMPDIR` if that is set, else in memory where the
    /// system has a place for that, else in the folder of temporary files.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn make(prefix: &str) -> io::Result<ThrowawayFolder> {
        ThrowawayFolder::make_in(&parent(), prefix)
    }

    fn make_in(parent: &Path, prefix: &str) -> io::Result<ThrowawayFolder> {
        for _ in 0..ATTEMPTS {
            let path = parent.join(format!("{prefix}{}", Uuid::new_v4().simple()));
            DirBuilder::new().mode(0o700).create(&path)?;
            // Another process may have taken the new folder for a leftover and removed it.
            if let Some(lock) = locked(&path)? {
                return Ok(ThrowawayFolder {
                    path,
                    _lock: lock,
                    is_removed: false,
                });
            }
        }
        Err(io::Error::other(format!(
            "other processes remove each new folder in {}",
            parent.display()
        )))
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove(mut self) -> io::Result<()> {
        self.is_removed = true;
        std::fs::remove_dir_all(&self.path)
    }
}

impl Drop for ThrowawayFolder {
    fn drop(&mut self) {
        if !self.is_removed {
            // If this fails, the next run removes it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes the folders of this user that killed programs with this prefix have left, on a thread of
/// its own: the search may take a while in a full folder. Those that can't be removed stay.
pub fn remove_leftovers(prefix: &'static str) {
    let sweep = std::thread::Builder::new().name("leftovers".to_owned());
    // Without the thread the next run removes them.
    drop(sweep.spawn(move || remove_leftovers_in(&parent(), prefix)));
}

fn remove_leftovers_in(parent: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(prefix));
        if is_ours && let Ok(Some(_lock)) = locked(&entry.path()) {
            // Somebody else may be as quick.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Locks a folder of this user. `None` if somebody else holds the lock, or the folder is gone or
/// another one.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let file = match open(path, flags) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if file.metadata()?.uid() != this_user() {
        return Ok(None);
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        taken => taken?,
    }
    let (locked, named) = (file.metadata()?, std::fs::symlink_metadata(path));
    let is_same =
        named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino()));
    Ok(is_same.then_some(file))
}

fn parent() -> PathBuf {
    let in_memory = PathBuf::from(IN_MEMORY);
    match std::env::var_os("TMPDIR") {
        None if in_memory.is_dir() => in_memory,
        _ => std::env::temp_dir(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(parent: &Path) -> usize {
        std::fs::read_dir(parent).unwrap().count()
    }

    #[test]
    fn a_folder_is_private_and_goes_with_its_owner() {
        let parent = tempfile::tempdir().unwrap();
        let make = || ThrowawayFolder::make_in(parent.path(), "t-").unwrap();
        let (one, two) = (make(), make());
        assert_ne!(one.path(), two.path());
        let mode = one.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::write(one.path().join("file"), "x").unwrap();
        one.remove().unwrap();
        drop(two);
        assert_eq!(names(parent.path()), 0);
    }

    #[test]
    fn leftovers_are_removed_and_folders_in_use_stay() {
        let parent = tempfile::tempdir().unwrap();
        let used = ThrowawayFolder::make_in(parent.path(), "t-").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::create_dir(parent.path().join("t-left")).unwrap();
        std::fs::write(parent.path().join("t-left/file"), "x").unwrap();
        std::fs::create_dir(parent.path().join("other")).unwrap();
        symlink(elsewhere.path(), parent.path().join("t-link")).unwrap();
        remove_leftovers_in(parent.path(), "t-");
        assert!(used.path().is_dir() && elsewhere.path().is_dir());
        assert!(!parent.path().join("t-left").exists());
        assert!(parent.path().join("other").is_dir());
    }
}
