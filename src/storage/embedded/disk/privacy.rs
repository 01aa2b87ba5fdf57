//! Keeps others out of the data directory, and refuses a directory that holds files of others.

use std::io;
use std::path::Path;

use crate::files::PrivateDirectory;
use crate::files::own;
use crate::storage::embedded::error::OpenError;

/// The files that a daemon creates in its directory.
const FILES: [&str; 10] = [
    "admin.kubeconfig",
    "admin.token",
    "ballast",
    "events.redb",
    "events.redb.rebuilt",
    "journal-0",
    "journal-1",
    "lock",
    "service-account.key",
    "store",
];
/// Directories that a daemon creates there, and what `mkfs` leaves in the root of a volume.
const FOLDERS: [&str; 2] = ["lost+found", "pki"];

/// Creates a directory that only its owner may enter. The owner must be the daemon's user. An
/// existing directory that others may enter is closed to them, unless it holds files that may be
/// theirs. Something else in the place of one of the daemon's files is refused now, not when that
/// file is needed.
pub(super) fn make_private(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Directory {
        path: path.to_owned(),
        source,
    };
    let directory = PrivateDirectory::open(path).map_err(failed)?;
    if directory.is_open_to_others()
        && let Some(entry) = foreign_entry(path).map_err(failed)?
    {
        return Err(OpenError::Shared {
            path: path.to_owned(),
            mode: directory.mode(),
            entry,
        });
    }
    directory.close().map_err(failed)?;
    for file in FILES.map(|name| path.join(name)) {
        for file in [own::unfinished(&file), file] {
            own::inspect(&file).map_err(|source| OpenError::Io {
                file: file.display().to_string(),
                source,
            })?;
        }
    }
    Ok(())
}

/// The name of an entry that no daemon created.
fn foreign_entry(path: &Path) -> io::Result<Option<String>> {
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let finished = name.strip_suffix(own::UNFINISHED).unwrap_or(&name);
        if !FILES.contains(&finished) && !FOLDERS.contains(&finished) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn open_to_all(path: &Path) {
        fs::set_permissions(path, Permissions::from_mode(0o1777)).unwrap();
    }

    #[test]
    fn a_new_an_empty_and_an_own_directory_are_closed_to_others() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        make_private(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        open_to_all(&path);
        make_private(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        for name in ["lock", "store.new", "lost+found"] {
            fs::write(path.join(name), "").unwrap();
        }
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        make_private(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
    }

    #[test]
    fn a_directory_that_others_can_have_filled_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("admin.token"), "mine").unwrap();
        open_to_all(folder.path());
        let refusal = make_private(folder.path()).unwrap_err().to_string();
        assert_eq!(mode(folder.path()), 0o1777);
        for word in ["admin.token", "mode 1777", "chmod 700"] {
            assert!(refusal.contains(word), "{word}: {refusal}");
        }
    }

    #[test]
    fn what_stands_in_the_place_of_a_file_is_refused_before_that_is_wanted() {
        for name in FILES {
            for name in [name.to_owned(), format!("{name}.new")] {
                let folder = tempfile::tempdir().unwrap();
                std::os::unix::fs::symlink("elsewhere", folder.path().join(&name)).unwrap();
                let refusal = make_private(folder.path()).unwrap_err().to_string();
                let place = format!("{name} can't be opened: it is a symbolic link");
                assert!(refusal.contains(&place), "{refusal}");
            }
        }
    }

    #[test]
    fn a_folder_with_things_of_others_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("letter"), "").unwrap();
        open_to_all(folder.path());
        let refusal = make_private(folder.path()).unwrap_err().to_string();
        assert_eq!(mode(folder.path()), 0o1777);
        let path = folder.path().display().to_string();
        for word in ["letter", "1777", "chmod 700", path.as_str()] {
            assert!(refusal.contains(word), "{word}: {refusal}");
        }
        assert!(!folder.path().join("lock").exists());
        // Others are kept out already: what else is in there is the owner's business.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        make_private(folder.path()).unwrap();
    }
}
