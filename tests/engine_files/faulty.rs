//! The real directory, with a disk that fails on demand.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redb::StorageBackend;
use taffrail::storage::embedded::disk::{DataFile, Directory, Disk, FileId};

/// The faults that are switched on.
#[derive(Debug, Default)]
pub struct Faults {
    /// Writes and syncs of the log fail with EIO.
    pub writes: AtomicBool,
    /// Writes and syncs of the log wait.
    pub hold: AtomicBool,
    /// Reads of the log by readers and the verifier fail with EIO.
    pub reads: AtomicBool,
    /// Reads of the log by readers and the verifier panic.
    pub read_panics: AtomicBool,
    /// How often the log was opened.
    pub opened: AtomicUsize,
    /// The next write of the log panics.
    pub panic: AtomicBool,
    /// The next query of the free space panics.
    pub panic_about_room: AtomicBool,
    /// The error of writing the store's ID.
    pub identity: Mutex<Option<io::ErrorKind>>,
}

/// A directory and its faults.
#[derive(Debug)]
pub struct FaultyDisk {
    inner: Directory,
    faults: Arc<Faults>,
}

impl FaultyDisk {
    pub fn open(path: &Path) -> (Arc<FaultyDisk>, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        let disk = FaultyDisk {
            inner: Directory::open(path).unwrap(),
            faults: Arc::clone(&faults),
        };
        (Arc::new(disk), faults)
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Box<dyn StorageBackend>,
    faults: Arc<Faults>,
}

impl FaultyFile {
    fn check(&self) -> io::Result<()> {
        while self.faults.hold.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.faults.panic.swap(false, Ordering::SeqCst) {
            panic!("a fault of the test's");
        }
        if self.faults.writes.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }
}

impl StorageBackend for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let thread = std::thread::current();
        if thread
            .name()
            .is_some_and(|name| name.starts_with("storage-read") || name == "storage-verify")
        {
            if self.faults.read_panics.load(Ordering::SeqCst) {
                panic!("a fault of the test's");
            }
            if self.faults.reads.load(Ordering::SeqCst) {
                return Err(io::Error::from_raw_os_error(5));
            }
        }
        self.inner.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.inner.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.inner.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.inner.write(offset, data)
    }
}

impl Disk for FaultyDisk {
    fn open(&self, file: DataFile) -> io::Result<Box<dyn StorageBackend>> {
        if file == DataFile::Log {
            self.faults.opened.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Box::new(FaultyFile {
            inner: self.inner.open(file)?,
            faults: Arc::clone(&self.faults),
        }))
    }
    fn length(&self, file: DataFile) -> io::Result<Option<u64>> {
        self.inner.length(file)
    }
    fn which(&self, file: DataFile) -> io::Result<Option<FileId>> {
        self.inner.which(file)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.inner.sync_names()
    }
    fn store_id(&self) -> io::Result<Option<Vec<u8>>> {
        self.inner.store_id()
    }
    fn set_store_id(&self, bytes: &[u8]) -> io::Result<()> {
        match *self.faults.identity.lock() {
            Some(kind) => Err(io::Error::from(kind)),
            None => self.inner.set_store_id(bytes),
        }
    }
    fn remove(&self, file: DataFile) -> io::Result<()> {
        self.inner.remove(file)
    }
    fn promote(&self) -> io::Result<()> {
        self.inner.promote()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        if self.faults.panic_about_room.swap(false, Ordering::SeqCst) {
            panic!("a fault of the test's");
        }
        self.inner.free_bytes()
    }
    fn allocated_bytes(&self, file: DataFile) -> io::Result<u64> {
        self.inner.allocated_bytes(file)
    }
    fn set_ballast(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_ballast(bytes)
    }
    fn release(&self) {
        self.inner.release();
    }
    fn path(&self, file: DataFile) -> String {
        self.inner.path(file)
    }
}
