//! Folders for one run of a program, which are removed at its end.
//!
//! A folder has a marker file, and is locked while its program lives. So a later run recognises
//! those that a killed one has left, and removes them. It never removes a folder without the
//! marker, which may be of somebody who chose a similar name.

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
/// The file in each folder that allows a later run to remove it.
const MARKER: &str = ".taffrail-throwaway";
/// The content of that file, for people who find it.
const MARKER_TEXT: &str = "taffrail removes this folder once the process that made it has ended\n";
/// The length of the random part of a name, which consists of hexadecimal digits.
const RANDOM_DIGITS: usize = 32;

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
    /// system has a writable place for that, else in the folder of temporary files.
    ///
    /// # Errors
    /// Those of the file system, with the folder.
    pub fn make(prefix: &str) -> io::Result<ThrowawayFolder> {
        ThrowawayFolder::make_in_first(&parents(), prefix)
    }

    /// Makes a folder in the first of these where that works.
    fn make_in_first(parents: &[PathBuf], prefix: &str) -> io::Result<ThrowawayFolder> {
        let mut fault = io::Error::from(io::ErrorKind::NotFound);
        for parent in parents {
            match ThrowawayFolder::make_in(parent, prefix) {
                Ok(folder) => return Ok(folder),
                Err(error) => {
                    let parent = parent.display();
                    let text = format!("{parent}: {error}; set TMPDIR to a writable folder");
                    fault = io::Error::new(error.kind(), text);
                }
            }
        }
        Err(fault)
    }

    fn make_in(parent: &Path, prefix: &str) -> io::Result<ThrowawayFolder> {
        let path = parent.join(format!("{prefix}{}", Uuid::new_v4().simple()));
        DirBuilder::new().mode(0o700).create(&path)?;
        // Nobody takes this folder for a leftover before it has its marker.
        let lock = locked(&path)
            .and_then(|lock| lock.ok_or_else(|| io::Error::other("another process locked it")));
        let lock = lock.inspect_err(|_| {
            // Without its marker no later run would remove it.
            let _ = std::fs::remove_dir(&path);
        })?;
        let folder = ThrowawayFolder {
            path,
            _lock: lock,
            is_removed: false,
        };
        std::fs::write(folder.path.join(MARKER), MARKER_TEXT)?;
        Ok(folder)
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
        remove(&self.path)
    }
}

impl Drop for ThrowawayFolder {
    fn drop(&mut self) {
        if !self.is_removed {
            // If this fails, the next run removes it.
            let _ = remove(&self.path);
        }
    }
}

/// Removes the folders of this user that killed programs with this prefix have left, on a thread of
/// its own: the search may take a while in a full folder. Those that can't be removed stay.
pub fn remove_leftovers(prefix: &'static str) {
    let sweep = std::thread::Builder::new().name("leftovers".to_owned());
    // Without the thread the next run removes them.
    drop(sweep.spawn(move || {
        for parent in parents() {
            remove_leftovers_in(&parent, prefix);
        }
    }));
}

fn remove_leftovers_in(parent: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let has_name = name.to_str().is_some_and(|name| is_name(name, prefix));
        // It is looked at before the lock, so that a folder which is just made is not locked here.
        if has_name
            && has_marker(&path)
            && let Ok(Some(_lock)) = locked(&path)
            && has_marker(&path)
        {
            // Somebody else may be as quick.
            let _ = remove(&path);
        }
    }
}

/// Whether a folder of this prefix is called so.
fn is_name(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|random| {
        random.len() == RANDOM_DIGITS
            && random
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn has_marker(path: &Path) -> bool {
    std::fs::symlink_metadata(path.join(MARKER)).is_ok_and(|marker| marker.is_file())
}

/// Removes a folder, and its marker last: if this is interrupted, a later run goes on.
fn remove(path: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == MARKER {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    std::fs::remove_dir_all(path)
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

/// Where folders are made, the best place first.
fn parents() -> Vec<PathBuf> {
    match std::env::var_os("TMPDIR") {
        None => vec![PathBuf::from(IN_MEMORY), std::env::temp_dir()],
        Some(_) => vec![std::env::temp_dir()],
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
    fn the_first_place_that_works_is_taken() {
        let parent = tempfile::tempdir().unwrap();
        let places = [parent.path().join("none"), parent.path().to_owned()];
        let made = ThrowawayFolder::make_in_first(&places, "t-").unwrap();
        assert_eq!(made.path().parent(), Some(parent.path()));
        let fault = ThrowawayFolder::make_in_first(&places[..1], "t-").unwrap_err();
        let text = fault.to_string();
        assert!(text.contains("/none") && text.contains("TMPDIR"), "{text}");
    }

    /// A folder of this name with a file, and a marker if it should have one.
    fn folder(parent: &Path, name: &str, is_marked: bool) -> PathBuf {
        let path = parent.join(name);
        std::fs::create_dir_all(path.join("data")).unwrap();
        std::fs::write(path.join("data/file"), "x").unwrap();
        if is_marked {
            std::fs::write(path.join(MARKER), MARKER_TEXT).unwrap();
        }
        path
    }

    #[test]
    fn leftovers_are_removed_and_folders_in_use_stay() {
        let parent = tempfile::tempdir().unwrap();
        let used = ThrowawayFolder::make_in(parent.path(), "t-").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join(MARKER), MARKER_TEXT).unwrap();
        let digits = "0123456789abcdef0123456789abcdef";
        let left = folder(parent.path(), &format!("t-{digits}"), true);
        let link = parent.path().join(format!("t-a{}", &digits[1..]));
        symlink(elsewhere.path(), &link).unwrap();
        remove_leftovers_in(parent.path(), "t-");
        assert!(used.path().is_dir() && elsewhere.path().is_dir());
        assert!(link.is_symlink());
        assert!(!left.exists());
    }

    #[test]
    fn folders_of_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let digits = "0123456789abcdef0123456789abcdef";
        let stays = [
            folder(parent.path(), "t-results", false),
            folder(parent.path(), "t-data", true),
            folder(parent.path(), &format!("t-{digits}"), false),
            folder(parent.path(), &format!("t-{digits}0"), true),
            folder(parent.path(), &format!("t-{}", digits.to_uppercase()), true),
            folder(parent.path(), &format!("other-{digits}"), true),
        ];
        remove_leftovers_in(parent.path(), "t-");
        for path in stays {
            assert!(path.join("data/file").is_file(), "{}", path.display());
        }
    }
}
