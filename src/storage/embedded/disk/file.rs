//! Implements redb's storage interface for a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use redb::StorageBackend;

/// A plain file. The locks of the directory keep other daemons away.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    syncs: bool,
}

impl LogFile {
    /// Wraps an open file.
    pub fn new(file: File) -> LogFile {
        LogFile { file, syncs: true }
    }

    /// Wraps an open file that is never synced.
    pub fn without_syncs(file: File) -> LogFile {
        LogFile { file, syncs: false }
    }
}

impl StorageBackend for LogFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.syncs {
            true => self.file.sync_data(),
            false => Ok(()),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }
}
