//! A new file whose path an operator chose.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::own;

/// The bytes after which written data is synced, in the background while the next bytes are
/// written. So the disk works meanwhile, the sync at the end is short, and small syncs on the same
/// disk, such as those of the journal, never wait for long.
const SYNC_INTERVAL_BYTES: usize = 4 << 20;

/// An unfinished file, accessible only to its owner. It appears under its name only when it is
/// complete. Until then it has another name, and is removed if this is dropped.
pub struct NewFile {
    file: File,
    unsynced: usize,
    syncing: Syncing,
    path: PathBuf,
    unfinished: PathBuf,
    is_complete: bool,
}

impl NewFile {
    /// Begins a file at an unused path.
    ///
    /// # Errors
    /// When the path exists, and those of the file system.
    pub fn begin(path: &Path) -> io::Result<NewFile> {
        if path.symlink_metadata().is_ok() {
            return Err(exists());
        }
        let unfinished = own::unfinished(path);
        // Left over from a crash.
        own::remove(&unfinished)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)?;
        let mut begun = NewFile {
            syncing: Syncing { thread: None },
            file,
            unsynced: 0,
            path: path.to_owned(),
            unfinished,
            is_complete: false,
        };
        begun.syncing = Syncing::start(&begun.file)?;
        Ok(begun)
    }

    /// Makes the written data durable and gives the file its name.
    ///
    /// # Errors
    /// When the path exists by now, and those of the file system.
    pub fn complete(mut self) -> io::Result<()> {
        self.syncing.finish()?;
        self.file.sync_all()?;
        match renameat_with(
            CWD,
            &self.unfinished,
            CWD,
            &self.path,
            RenameFlags::NOREPLACE,
        ) {
            // The file system does not support the flag.
            Err(rustix::io::Errno::INVAL) => std::fs::rename(&self.unfinished, &self.path)?,
            Err(rustix::io::Errno::EXIST) => return Err(exists()),
            renamed => renamed?,
        }
        self.is_complete = true;
        let folder = self.path.parent();
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// A thread that syncs a file on request.
struct Syncing {
    /// `None` before it is started, and once it is finished.
    thread: Option<(SyncSender<()>, JoinHandle<io::Result<()>>)>,
}

impl Syncing {
    fn start(file: &File) -> io::Result<Syncing> {
        let file = file.try_clone()?;
        let (sender, asked) = mpsc::sync_channel(0);
        let thread = thread::Builder::new().name("file-sync".to_owned());
        let thread = thread.spawn(move || asked.iter().try_for_each(|()| file.sync_data()))?;
        Ok(Syncing {
            thread: Some((sender, thread)),
        })
    }

    /// Has the thread sync the written data. Waits for the sync before, and returns its error.
    fn ask(&mut self) -> io::Result<()> {
        match &self.thread {
            Some((sender, _)) if sender.send(()).is_err() => self.finish(),
            _ => Ok(()),
        }
    }

    /// Waits for the thread. The system reports a disk error only once, possibly to the thread.
    fn finish(&mut self) -> io::Result<()> {
        let Some((sender, thread)) = self.thread.take() else {
            return Ok(());
        };
        drop(sender);
        let synced = thread.join();
        synced.unwrap_or_else(|_| Err(io::Error::other("the thread that syncs it has panicked")))
    }
}

fn exists() -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        "it exists already; choose another name, or move it away",
    )
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unsynced >= SYNC_INTERVAL_BYTES {
            self.unsynced = 0;
            self.syncing.ask()?;
        }
        let written = self.file.write(bytes)?;
        self.unsynced += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_complete {
            // If this fails, the next attempt removes it.
            let _ = std::fs::remove_file(&self.unfinished);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_new_file_is_private_and_there_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let mut file = NewFile::begin(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut file = NewFile::begin(&path).unwrap();
        file.write_all(b"whole").unwrap();
        file.complete().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_long_file_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let mut file = NewFile::begin(&path).unwrap();
        let piece = vec![7; 1 << 20];
        for _ in 0..70 {
            file.write_all(&piece).unwrap();
        }
        file.complete().unwrap();
        assert_eq!(path.metadata().unwrap().len(), 70 << 20);
    }

    #[test]
    fn what_is_there_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        std::fs::write(&path, b"mine").unwrap();
        let refused = NewFile::begin(&path).err().unwrap();
        assert!(refused.to_string().contains("exists already"), "{refused}");
        std::fs::remove_file(&path).unwrap();
        let file = NewFile::begin(&path).unwrap();
        std::fs::write(&path, b"later").unwrap();
        assert!(file.complete().is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"later");
    }
}
