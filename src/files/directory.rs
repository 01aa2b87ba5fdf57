//! A directory for its owner alone, who must be the daemon's user.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::{OTHERS_WRITE, mode_of, open, refused, this_user};

/// The permissions of others than the owner.
const OTHERS: u32 = 0o077;
/// The directory that `mkfs` creates in the root of a volume.
const OF_MKFS: &str = "lost+found";

/// A directory of the daemon's user.
#[derive(Debug)]
pub struct PrivateDirectory {
    path: PathBuf,
    file: File,
    mode: u32,
}

impl PrivateDirectory {
    /// Opens a directory, or makes it when absent. The path may be a link, because an operator has
    /// chosen it.
    ///
    /// # Errors
    /// When it belongs to somebody else, naming the owner and the mode.
    pub fn open(path: &Path) -> io::Result<PrivateDirectory> {
        PrivateDirectory::at(path, OFlags::empty())
    }

    /// Opens a directory within the data directory, or makes it when absent, and closes it to
    /// others.
    ///
    /// # Errors
    /// When it is a link, belongs to somebody else or can't be closed.
    pub fn within(path: &Path) -> io::Result<PrivateDirectory> {
        let directory = PrivateDirectory::at(path, OFlags::NOFOLLOW)?;
        directory.close()?;
        Ok(directory)
    }

    fn at(path: &Path, flags: OFlags) -> io::Result<PrivateDirectory> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        if let Err(error) = made
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(clearer(error, "a directory above it is a file"));
        }
        let what = match flags.contains(OFlags::NOFOLLOW) {
            true => "it is not a directory, but a file or a link",
            false => "it is not a directory",
        };
        let opened = open(path, flags | OFlags::DIRECTORY);
        let file = opened.map_err(|error| clearer(error, what))?;
        let metadata = file.metadata()?;
        let mode = mode_of(&metadata);
        match foreign_owner(metadata.uid(), mode, this_user()) {
            Some(problem) => Err(refused(problem)),
            None => Ok(PrivateDirectory {
                path: path.to_owned(),
                file,
                mode,
            }),
        }
    }

    /// The directory's mode when it was opened.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Whether others than its owner had any access to it when it was opened.
    pub fn is_open_to_others(&self) -> bool {
        self.mode & OTHERS != 0
    }

    /// Removes the permissions of others.
    ///
    /// # Errors
    /// When others may have written files in it.
    pub fn close(&self) -> io::Result<()> {
        if !self.is_open_to_others() {
            return Ok(());
        }
        self.check_planted()?;
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(0o700))?;
        // Somebody may have been quicker.
        self.check_planted()?;
        tracing::warn!(
            path = %self.path.display(),
            mode = format_args!("{:o}", self.mode),
            "this directory was open to others, and is closed to them now (mode 700)"
        );
        Ok(())
    }

    fn check_planted(&self) -> io::Result<()> {
        if self.mode & OTHERS_WRITE == 0 {
            return Ok(());
        }
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            if name != OF_MKFS {
                let (user, mode) = (this_user(), self.mode);
                return Err(refused(format!(
                    "others than its owner can write to it (user {user}, mode {mode:o}) and may \
                     have put {name:?} there; look through it and close it with `chmod 700`, or \
                     choose a new directory"
                )));
            }
        }
        Ok(())
    }
}

/// Adds advice to the error if the path is not a directory.
fn clearer(error: io::Error, what: &str) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotADirectory => {
            let problem = format!("{what}; choose another path, or move what is there away");
            io::Error::new(io::ErrorKind::NotADirectory, problem)
        }
        _ => error,
    }
}

fn foreign_owner(owner: u32, mode: u32, user: u32) -> Option<String> {
    (owner != user).then(|| {
        format!(
            "it belongs to user {owner} (mode {mode:o}), and this process runs as user {user}; run \
             it as the owner, as `setpriv --reuid={owner} --clear-groups` does, or `chown -R` the \
             directory if it was meant for user {user}"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        mode_of(&std::fs::metadata(path).unwrap())
    }

    #[test]
    fn a_directory_is_made_and_closed_unless_others_can_have_written_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        PrivateDirectory::within(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        std::fs::create_dir(path.join(OF_MKFS)).unwrap();
        let closed = |before: u32| {
            set_permissions(&path, Permissions::from_mode(before)).unwrap();
            let told = PrivateDirectory::within(&path).map_err(|error| error.to_string());
            (told.err(), mode(&path))
        };
        assert_eq!(closed(0o755), (None, 0o700));
        assert_eq!(closed(0o1777), (None, 0o700));
        std::fs::write(path.join("admin.token"), "").unwrap();
        assert_eq!(closed(0o755), (None, 0o700));
        for before in [0o770, 0o1777] {
            let (told, after) = closed(before);
            let told = told.unwrap();
            assert_eq!(after, before);
            let user = format!("user {}", this_user());
            let mode = format!("{before:o}");
            for word in ["admin.token", user.as_str(), mode.as_str(), "chmod 700"] {
                assert!(told.contains(word), "{word}: {told}");
            }
        }
    }

    #[test]
    fn a_link_is_a_directory_only_where_an_operator_has_chosen_it() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink(folder.path(), &link).unwrap();
        PrivateDirectory::open(&link).unwrap();
        let told = PrivateDirectory::within(&link).unwrap_err().to_string();
        assert!(told.contains("a file or a link"), "{told}");
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let told = PrivateDirectory::open(&file).unwrap_err().to_string();
        assert!(told.contains("it is not a directory;"), "{told}");
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused_with_its_owner_and_mode() {
        assert_eq!(foreign_owner(7, 0o700, 7), None);
        for (owner, user) in [(8, 0), (0, 8)] {
            let told = foreign_owner(owner, 0o755, user).unwrap();
            let belongs = format!("belongs to user {owner} (mode 755)");
            let words = [
                belongs,
                format!("as user {user}"),
                format!("--reuid={owner} "),
                format!("if it was meant for user {user}"),
            ];
            for word in &words {
                assert!(told.contains(word), "{word}: {told}");
            }
        }
    }
}
