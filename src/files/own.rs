//! Files of the data directory: regular ones with one link, which belong to the directory's owner
//! or root. Files that the daemon creates are accessible only to their owner, and exist completely
//! or not at all.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use super::{OTHERS_WRITE, ROOT, irregular, mode_of, open as open_at_once, read_all, refused};

/// The suffix of an unfinished file's name.
pub const UNFINISHED: &str = ".new";

/// Checks the file at a path; `None` if it does not exist.
///
/// # Errors
/// When it is a file that the daemon must not use, and those of the file system.
pub fn inspect(path: &Path) -> io::Result<Option<Metadata>> {
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    check(path, &metadata)?;
    Ok(Some(metadata))
}

fn check(path: &Path, metadata: &Metadata) -> io::Result<()> {
    if let Some(refusal) = irregular(metadata.file_type()) {
        return Err(refusal);
    }
    // The directory's owner was checked when it was opened.
    let directory = std::fs::metadata(folder_of(path))?.uid();
    let (owner, mode) = (metadata.uid(), mode_of(metadata));
    match problem_of(owner, mode, metadata.nlink(), directory) {
        Some(problem) => Err(refused(problem)),
        None => Ok(()),
    }
}

fn problem_of(owner: u32, mode: u32, names: u64, directory: u32) -> Option<String> {
    if owner != directory && owner != ROOT {
        return Some(format!(
            "it belongs to user {owner} (mode {mode:o}) and its directory to user {directory}; see \
             that it is yours, then chown it to that user"
        ));
    }
    (names > 1).then(|| {
        format!(
            "it has {names} names (hard links), and what is written by one of them is written by \
             all; put a copy in its place"
        )
    })
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    // Checked by name first, because opening a device may have effects. Then the opened file is
    // checked.
    inspect(path)?;
    let file = open_at_once(path, flags | OFlags::NOFOLLOW)?;
    check(path, &file.metadata()?)?;
    Ok(file)
}

/// Opens a file for reading and writing; it is created when absent.
///
/// # Errors
/// As [`inspect`].
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::RDWR | OFlags::CREATE)
}

/// The content of a file of at most this many bytes; `None` if the file does not exist.
///
/// # Errors
/// As [`inspect`]; and when it is longer.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    match open_with(path, OFlags::RDONLY) {
        Ok(file) => read_all(&file, bytes_max).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The text of a file that grants trust, such as tokens.
///
/// # Errors
/// As [`read`]; and when others than its owner may have written it, or it is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<Option<String>> {
    let Some(metadata) = inspect(path)? else {
        return Ok(None);
    };
    let (owner, mode) = (metadata.uid(), mode_of(&metadata));
    if mode & OTHERS_WRITE != 0 {
        return Err(refused(format!(
            "others than its owner can write it (user {owner}, mode {mode:o}); see that it holds \
             what it should, then chmod 600 it"
        )));
    }
    let bytes = read(path, bytes_max)?;
    let text = bytes.map(|bytes| super::to_text(&bytes).map(str::to_owned));
    text.transpose()
}

/// Writes a file, replacing an existing one. After a crash either the old file or the new one
/// exists.
///
/// # Errors
/// As [`inspect`], for the file and for the leftover of an earlier attempt.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace(path, contents, true)
}

/// As [`write()`], but a power cut may lose both files.
///
/// # Errors
/// As [`write()`].
pub fn write_unsynced(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace(path, contents, false)
}

fn replace(path: &Path, contents: &[u8], syncs: bool) -> io::Result<()> {
    // Checked before anything is written, because the content may be a key.
    inspect(path)?;
    let temporary = unfinished(path);
    // A leftover of a crash, whose mode is unknown.
    remove(&temporary).map_err(|error| naming(&temporary, &error))?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    let written = file.write_all(contents).and_then(|()| match syncs {
        true => file.sync_all(),
        false => Ok(()),
    });
    drop(file);
    let written = written.and_then(|()| match syncs {
        true => rename(&temporary, path),
        false => rename_unsynced(&temporary, path),
    });
    if written.is_err() {
        // If this fails, the next attempt removes it.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Renames a file over another one, durably.
///
/// # Errors
/// As [`inspect`], for both.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    rename_unsynced(from, to)?;
    File::open(folder_of(to))?.sync_all()
}

/// As [`rename`], but a power cut may take it back.
///
/// # Errors
/// As [`rename`].
pub fn rename_unsynced(from: &Path, to: &Path) -> io::Result<()> {
    inspect(from).map_err(|error| naming(from, &error))?;
    inspect(to)?;
    std::fs::rename(from, to)
}

/// Removes a file, if it exists.
///
/// # Errors
/// As [`inspect`].
pub fn remove(path: &Path) -> io::Result<()> {
    match inspect(path)? {
        Some(_) => std::fs::remove_file(path),
        None => Ok(()),
    }
}

/// Adds the path of a file that the caller did not name.
fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The path of an unfinished file.
pub fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(UNFINISHED);
    path.with_file_name(name)
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent();
    folder
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_the_owner_may_read_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        // A stale temporary file that everybody may read must not become the secret.
        std::fs::write(unfinished(&path), "old").unwrap();
        set_mode(&unfinished(&path), 0o644);
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read_text(&path, 3).unwrap().as_deref(), Some("two"));
        assert!(read(&path, 2).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_file_is_no_error() {
        let path = Path::new("/does/not/exist");
        assert!(read(path, 1).unwrap().is_none());
        assert!(inspect(path).unwrap().is_none());
        remove(path).unwrap();
    }

    /// Every way to use a file, each with whether it was refused and left as it was.
    fn refusals(path: &Path) -> Vec<String> {
        let other = path.with_file_name("other");
        write(&other, b"other").unwrap();
        let told = [
            open(path).map(|_| ()),
            read(path, 10).map(|_| ()),
            write(path, b"x"),
            rename(&other, path),
            rename(path, &other),
            write(&other.with_file_name("planted"), b"x"),
            remove(path),
        ];
        told.map(|told| told.unwrap_err().to_string()).to_vec()
    }

    #[test]
    fn whatever_is_no_regular_file_is_refused_at_once_and_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let path = folder.path().join("planted.new");
        let pipe = || rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        let plants: [(&str, &dyn Fn()); 4] = [
            ("named pipe", &pipe),
            ("directory", &|| std::fs::create_dir(&path).unwrap()),
            ("symbolic link", &|| symlink(&target, &path).unwrap()),
            ("2 names", &|| std::fs::hard_link(&target, &path).unwrap()),
        ];
        for (what, plant) in plants {
            std::fs::write(&target, "kept").unwrap();
            plant();
            for told in refusals(&path) {
                assert!(told.contains(what), "{what}: {told}");
            }
            assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
            match what {
                "directory" => std::fs::remove_dir(&path).unwrap(),
                _ => std::fs::remove_file(&path).unwrap(),
            }
        }
        let device = read(Path::new("/dev/zero"), 10).unwrap_err().to_string();
        assert!(device.contains("a device"), "{device}");
    }

    #[test]
    fn a_file_that_others_can_have_written_is_refused_with_its_owner_and_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "x").unwrap();
        for mode in [0o620, 0o602] {
            set_mode(&path, mode);
            let told = read_text(&path, 10).unwrap_err().to_string();
            let owner = format!("user {}", crate::files::this_user());
            for word in [owner.as_str(), &format!("{mode:o}"), "chmod 600"] {
                assert!(told.contains(word), "{word}: {told}");
            }
        }
        set_mode(&path, 0o644);
        read_text(&path, 10).unwrap();
        let told = problem_of(8, 0o600, 1, 7).unwrap();
        for word in ["user 8", "600", "to user 7", "chown"] {
            assert!(told.contains(word), "{word}: {told}");
        }
        assert_eq!(problem_of(ROOT, 0o600, 1, 7), None);
    }
}
