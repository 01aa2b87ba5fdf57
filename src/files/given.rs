//! Files that an operator names by a flag. They may be links and have any owner; their size is
//! bounded.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::OFlags;
use std::os::unix::fs::MetadataExt;
use zeroize::Zeroizing;

use super::{OTHERS_WRITE, ROOT, irregular, mode_of, open, read_all, refused, this_user, to_text};

/// Enough for keys, certificate chains and CA bundles.
pub const PEM_BYTES_MAX: u64 = 4 << 20;

/// The read permissions of others than the owner.
const OTHERS_READ: u32 = 0o044;

/// The content of a file when it was read.
pub struct Given {
    /// Wiped from memory when dropped.
    pub bytes: Zeroizing<Vec<u8>>,
    owner: u32,
    /// The file's mode.
    pub mode: u32,
}

/// Opens a file that is too long to be read at once. Returns its length, too.
///
/// # Errors
/// When it is not a regular file, and those of the file system.
pub fn open_long(path: &Path) -> io::Result<(File, u64)> {
    // Checked by name first, because opening a device may have effects.
    if let Some(refusal) = irregular(std::fs::metadata(path)?.file_type()) {
        return Err(refusal);
    }
    let file = open(path, OFlags::RDONLY)?;
    let metadata = file.metadata()?;
    match irregular(metadata.file_type()) {
        Some(refusal) => Err(refusal),
        None => Ok((file, metadata.len())),
    }
}

/// Reads a file of at most this many bytes, without blocking on a pipe or device.
///
/// # Errors
/// As [`open_long`], and when it is longer.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Given> {
    let (file, _) = open_long(path)?;
    let metadata = file.metadata()?;
    Ok(Given {
        bytes: read_all(&file, bytes_max)?,
        owner: metadata.uid(),
        mode: mode_of(&metadata),
    })
}

impl Given {
    /// The content as text.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub fn text(&self) -> io::Result<&str> {
        to_text(&self.bytes)
    }

    /// How to restrict the file's permissions, if others than its owner may read it.
    pub fn close_to_readers(&self) -> Option<String> {
        self.close_to_readers_but(this_user())
    }

    fn close_to_readers_but(&self, user: u32) -> Option<String> {
        (self.mode & OTHERS_READ != 0).then(|| match user {
            // With mode 600, the daemon could not read it.
            user if user != ROOT && user != self.owner => format!(
                "chown it to user {user} and chmod 600 it, or chmod 640 it with a group that has \
                 no other member than user {user}"
            ),
            _ => "chmod 600 it".to_owned(),
        })
    }

    /// Checks that only the daemon's user and root can have written it.
    ///
    /// # Errors
    /// Names the owner and the mode.
    pub fn check_writers(&self) -> io::Result<()> {
        self.check_writers_but(this_user())
    }

    fn check_writers_but(&self, user: u32) -> io::Result<()> {
        let Given { owner, mode, .. } = self;
        if *owner != user && *owner != ROOT {
            return Err(refused(format!(
                "it belongs to user {owner} (mode {mode:o}), who can change it, and the daemon \
                 runs as user {user}; chown it to that user or to root"
            )));
        }
        if mode & OTHERS_WRITE != 0 {
            return Err(refused(format!(
                "others than its owner can write it (user {owner}, mode {mode:o}); see that it \
                 says what it should, then chmod go-w it"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn told(path: &Path, bytes_max: u64) -> String {
        read(path, bytes_max).err().unwrap().to_string()
    }

    #[test]
    fn a_regular_file_is_read_by_way_of_links_and_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        // As Kubernetes mounts a Secret.
        symlink(".", folder.path().join("..data")).unwrap();
        symlink("..data/file", folder.path().join("link")).unwrap();
        let given = read(&folder.path().join("link"), 5).unwrap();
        assert_eq!(given.text().unwrap(), "12345");
        assert_eq!(told(&path, 4), "it is longer than 4 bytes");
        std::fs::write(&path, [0xff]).unwrap();
        assert!(read(&path, 5).unwrap().text().is_err());
    }

    #[test]
    fn whatever_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        let link = folder.path().join("link");
        symlink(&pipe, &link).unwrap();
        for (path, what) in [
            (pipe.as_path(), "named pipe"),
            (&link, "named pipe"),
            (folder.path(), "directory"),
            (Path::new("/dev/zero"), "device"),
        ] {
            let told = told(path, 10);
            assert!(told.contains(what), "{path:?}: {told}");
        }
        let absent = read(&folder.path().join("absent"), 10).err().unwrap();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
    }

    fn given(owner: u32, mode: u32) -> Given {
        Given {
            bytes: Zeroizing::default(),
            owner,
            mode,
        }
    }

    #[test]
    fn a_file_is_closed_to_all_but_those_who_must_read_it() {
        for (owner, user) in [(7, 7), (ROOT, ROOT), (8, ROOT)] {
            let told = |mode| given(owner, mode).close_to_readers_but(user);
            assert_eq!(told(0o600), None);
            assert_eq!(told(0o640).as_deref(), Some("chmod 600 it"));
        }
        for mode in [0o640, 0o444] {
            let told = given(ROOT, mode).close_to_readers_but(7).unwrap();
            assert!(told.contains("chown it to user 7 and chmod 600"), "{told}");
            assert!(told.contains("or chmod 640 it with a group"), "{told}");
        }
    }

    #[test]
    fn what_makes_users_is_its_users_or_roots_and_nobody_elses_to_write() {
        for (owner, mode) in [(7, 0o600), (7, 0o644), (ROOT, 0o440)] {
            given(owner, mode).check_writers_but(7).unwrap();
        }
        for (owner, mode, words) in [
            (8, 0o600, ["user 8", "600", "runs as user 7", "chown"]),
            (7, 0o620, ["user 7", "620", "can write it", "chmod go-w"]),
            (ROOT, 0o602, ["user 0", "602", "can write it", "chmod go-w"]),
        ] {
            let told = given(owner, mode).check_writers_but(7).unwrap_err();
            let told = told.to_string();
            assert!(words.iter().all(|word| told.contains(word)), "{told}");
        }
    }
}
