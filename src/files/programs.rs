//! Programs that are copied to other places.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Opens a program for reading.
///
/// # Errors
/// Those of the file system.
pub fn open_program(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Creates a file that the user has named for an archive, or empties it.
///
/// # Errors
/// Those of the file system.
pub fn create_archive(path: &Path) -> io::Result<File> {
    File::create(path)
}

/// Puts a program into a place, as a second name of the same file or as a copy.
///
/// # Errors
/// Another program is there and `replaces` is false, a folder is there, or those of the file
/// system.
pub fn place_program(program: &Path, place: &Path, replaces: bool) -> io::Result<()> {
    match fs::symlink_metadata(place) {
        Ok(there) if there.is_dir() => {
            return Err(io::Error::other(
                "a folder is there; remove it, or choose another folder for the programs",
            ));
        }
        // A link may lead nowhere.
        Ok(_) if place.exists() && is_same(program, place)? => return Ok(()),
        Ok(_) if !replaces => {
            return Err(io::Error::other(
                "another program is there; choose another folder, or replace it with --replace",
            ));
        }
        Ok(_) | Err(_) => {}
    }
    // Made under another name first, so that a program which runs from there is not disturbed.
    let mut unfinished = place.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let made = match fs::hard_link(program, &unfinished) {
        Ok(()) => Ok(()),
        // Another file system, or one without links.
        Err(_) => fs::copy(program, &unfinished).map(drop),
    };
    made.and_then(|()| fs::rename(&unfinished, place))
        .inspect_err(|_| {
            // Half a program is of no use to anybody.
            let _ = fs::remove_file(&unfinished);
        })
}

/// Whether two files have the same bytes.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let bytes = one.read(&mut left)?;
        let (left, right) = (left.get(..bytes), right.get_mut(..bytes));
        let (Some(left), Some(right)) = (left, right) else {
            return Ok(false);
        };
        if left.is_empty() {
            return Ok(true);
        }
        other.read_exact(right)?;
        if left != right {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn a_place_is_taken_once_and_other_programs_stay() {
        let folder = tempfile::tempdir().unwrap();
        let program = file(folder.path(), "taffrail", &[7; 100_000]);
        let place = folder.path().join("etcd");
        for _ in 0..2 {
            place_program(&program, &place, false).unwrap();
            assert!(is_same(&program, &place).unwrap());
        }
        let other = file(folder.path(), "kube-apiserver", &[8; 100_000]);
        let refused = place_program(&program, &other, false)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("--replace"), "{refused}");
        assert_eq!(fs::read(&other).unwrap(), [8; 100_000]);
        place_program(&program, &other, true).unwrap();
        assert!(is_same(&program, &other).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_folder_stays_and_a_link_that_leads_nowhere_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let program = file(folder.path(), "taffrail", &[7; 10]);
        let place = folder.path().join("etcd");
        fs::create_dir(&place).unwrap();
        for replaces in [false, true] {
            let refused = place_program(&program, &place, replaces).unwrap_err();
            let refused = refused.to_string();
            assert!(refused.starts_with("a folder is there"), "{refused}");
        }
        let link = folder.path().join("kube-apiserver");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let refused = place_program(&program, &link, false).unwrap_err();
        assert!(refused.to_string().contains("--replace"), "{refused}");
        place_program(&program, &link, true).unwrap();
        assert!(is_same(&program, &link).unwrap());
    }
}
