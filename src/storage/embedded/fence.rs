//! Limits what a database may do with its file, once another database has replaced it.

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use redb::StorageBackend;

/// The access that a database still has to its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Access {
    /// Everything.
    #[default]
    Full,
    /// Another file has the log's name. This file stays unchanged for its readers.
    Read,
    /// Another database uses the same file and overwrites its pages.
    None,
}

/// Stands between a database and its file.
#[derive(Debug, Default)]
pub struct Fence {
    access: RwLock<Access>,
}

impl Fence {
    /// Keeps the database from its file, even for its own closing, because the file is reopened.
    /// Waits for I/O under way. Reads under way fail too: the new database does not know them and
    /// overwrites the pages they read.
    pub fn retire(&self) {
        *self.access.write() = Access::None;
    }

    /// Forbids writes, because another file takes this file's place. Reads under way continue.
    pub fn supersede(&self) {
        *self.access.write() = Access::Read;
    }

    /// Whether the file is the log and no other database uses it.
    pub fn is_current(&self) -> bool {
        *self.access.read() == Access::Full
    }

    /// Whether the file was reopened by another database.
    pub fn is_retired(&self) -> bool {
        *self.access.read() == Access::None
    }
}

/// A database's file, guarded by the fence.
#[derive(Clone, Debug)]
pub struct Fenced {
    inner: Arc<dyn StorageBackend>,
    fence: Arc<Fence>,
}

impl Fenced {
    /// Puts the fence before a file.
    pub fn new(inner: Arc<dyn StorageBackend>, fence: Arc<Fence>) -> Fenced {
        Fenced { inner, fence }
    }

    fn if_allowed<T>(
        &self,
        is_allowed: impl FnOnce(Access) -> bool,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let access = self.fence.access.read();
        if !is_allowed(*access) {
            return Err(io::Error::other("the database was opened again"));
        }
        work()
    }

    fn change<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.if_allowed(|access| access == Access::Full, work)
    }
}

impl StorageBackend for Fenced {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = || self.inner.read(offset, out);
        self.if_allowed(|access| access != Access::None, read)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|| self.inner.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(|| self.inner.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|| self.inner.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Zeros;

    impl StorageBackend for Zeros {
        fn len(&self) -> io::Result<u64> {
            Ok(8)
        }
        fn read(&self, _: u64, out: &mut [u8]) -> io::Result<()> {
            out.fill(0);
            Ok(())
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }
        fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_superseded_file_is_still_read_and_one_opened_anew_is_not() {
        let fence = Arc::new(Fence::default());
        let file = Fenced::new(Arc::new(Zeros), Arc::clone(&fence));
        let reads = || file.read(0, &mut [1; 8]).is_ok();
        let writes = || {
            let done = [file.write(0, &[1]), file.set_len(1), file.sync_data()];
            assert!(done.iter().all(|one| one.is_ok() == done[0].is_ok()));
            done[0].is_ok()
        };
        assert!(reads() && writes() && fence.is_current() && !fence.is_retired());
        fence.supersede();
        assert!(reads() && !writes() && !fence.is_current() && !fence.is_retired());
        fence.retire();
        assert!(!reads() && !writes() && fence.is_retired());
    }
}
