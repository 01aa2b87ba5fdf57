//! Keeping others out of the data directory, and leaving a folder alone that is theirs too.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use crate::storage::embedded::error::OpenError;

/// What a daemon makes in its directory, and what `mkfs` leaves in the root of a volume.
const OWN: [&str; 9] = [
    "admin.kubeconfig",
    "admin.token",
    "ballast",
    "events.redb",
    "events.redb.rebuilt",
    "lock",
    "lost+found",
    "pki",
    "store",
];
/// What the name of a file in the making ends in.
const UNFINISHED: &str = ".new";
/// What anybody but the owner may do.
const OTHERS: u32 = 0o077;

/// Makes a directory for its owner alone. One that others may enter is closed to them if it holds
/// nothing that may be theirs.
pub(super) fn make_private(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Directory {
        path: path.to_owned(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed)?;
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    if let Some(entry) = foreign_entry(path).map_err(failed)? {
        return Err(OpenError::Shared {
            path: path.to_owned(),
            mode: mode & 0o7777,
            entry,
        });
    }
    fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed)
}

/// The name of something that no daemon made.
fn foreign_entry(path: &Path) -> io::Result<Option<String>> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let finished = name.strip_suffix(UNFINISHED).unwrap_or(&name);
        if !OWN.contains(&finished) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
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
        open_to_all(&path);
        make_private(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
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
