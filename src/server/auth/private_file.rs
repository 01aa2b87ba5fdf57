//! Files that hold secrets: only their owner may read them, and they are there whole or not at
//! all.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Makes a folder for its owner alone; one that others may enter is closed to them.
///
/// # Errors
/// Those of the file system.
pub fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let mut permissions = std::fs::metadata(path)?.permissions();
    if permissions.mode() & 0o777 != 0o700 {
        permissions.set_mode(0o700);
        std::fs::set_permissions(path, permissions)?;
    }
    Ok(())
}

/// Writes a file for its owner alone, in place of one that may exist. After a crash there is the
/// old file or the new one.
///
/// # Errors
/// Those of the file system.
pub(in crate::server) fn write(path: &Path, contents: &str) -> io::Result<()> {
    let temporary = temporary(path);
    // Left over from a crash; its mode may be anything.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(contents.as_bytes())?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(&temporary, path)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The file's text, `None` when there is no such file.
///
/// # Errors
/// Those of the file system.
pub(in crate::server) fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_may_read_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        create_directory(&inner).unwrap();
        assert_eq!(mode(&inner), 0o700);
        std::fs::set_permissions(&inner, PermissionsExt::from_mode(0o755)).unwrap();
        create_directory(&inner).unwrap();
        assert_eq!(mode(&inner), 0o700);
        let path = inner.join("secret");
        // A stale temporary file that everybody may read must not become the secret.
        std::fs::write(temporary(&path), "old").unwrap();
        std::fs::set_permissions(temporary(&path), PermissionsExt::from_mode(0o644)).unwrap();
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(read(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_file_is_no_error() {
        assert_eq!(read(Path::new("/does/not/exist")).unwrap(), None);
    }
}
