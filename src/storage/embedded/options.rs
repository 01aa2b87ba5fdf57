//! The settings of the embedded engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actors::engine::Revision;
use actors::watchdog::Watchdog;

use crate::clock;

/// Reads the wall clock. Tests provide their own.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Reads how long the process has been up. Never goes back.
pub type Uptime = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Settings of an embedded engine. Every default suits a small machine.
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// The engine's directory. The engine keeps all others out of it.
    pub directory: PathBuf,
    /// Bytes of pages that the database keeps in memory. Small, because the watch caches hold every
    /// value already. Default 4 MiB.
    pub cache_bytes: usize,
    /// Creates and updates are refused while the file system has less free space. Deletes and
    /// compaction still work. Default 64 MiB.
    pub reserve_bytes: u64,
    /// The size of a file that is removed when the file system is full all the same. It counts in
    /// the directory's size. Default 8 MiB; 0 for none.
    pub ballast_bytes: u64,
    /// The most mutations that share one commit. Default 1024.
    pub batch_count_max: usize,
    /// The most bytes of values that share one commit, beyond the first mutation. Half the cache,
    /// because redb writes more to the file before the commit. Default 4 MiB.
    pub batch_bytes_max: usize,
    /// The size of each of the two files of the journal. A checkpoint follows when one is full.
    /// Default 8 MiB.
    pub journal_bytes: u64,
    /// Bytes of changes after which a checkpoint follows. Opening the store after a crash takes
    /// longer the more there are. Default 2 MiB.
    pub checkpoint_bytes: u64,
    /// How long after a checkpoint the next one is made while no request comes. Default 60 s.
    pub checkpoint_pause: Duration,
    /// Bytes of mutations that may wait for their commit. Further callers wait. Default 32 MiB.
    pub queue_bytes_max: usize,
    /// The largest value. Default 3 MiB, the largest request that kube-apiserver accepts.
    pub value_bytes_max: usize,
    /// The largest key. Default 4 KiB.
    pub key_bytes_max: usize,
    /// Bytes of new events that are kept for feeds. A feed that needs older events reads the log.
    /// Default 4 MiB.
    pub tail_bytes_max: usize,
    /// Bytes of values in one answer to a range without a limit. Default 1 MiB.
    pub range_bytes_max: usize,
    /// Threads that read. Default 2.
    pub reader_threads: usize,
    /// Reads that may wait for a thread. Further callers wait. Default 256.
    pub reader_queue_max: usize,
    /// How long one step of removing compacted records may take. Default 2 ms.
    pub scrub_budget: Duration,
    /// How long one step of deleting expired keys may take. Default 2 ms.
    pub expiry_budget: Duration,
    /// Bytes of the store that are verified in a second, to find damage while it serves. 0 for
    /// none. Default 0; the daemon has a setting for it.
    pub verify_bytes_per_second: u64,
    /// How often verification runs. Default 1 s, the unit of its bytes.
    pub verify_pause: Duration,
    /// How long commits with an unknown outcome wait for the database to be reopened, which settles
    /// the outcome. Default 2 s.
    pub verdict_wait: Duration,
    /// The longest pause between two attempts to reopen the database after a failure.
    /// Default 1 s.
    pub reopen_pause_max: Duration,
    /// Whether the directory must hold a store already. Otherwise one is created. Default false.
    pub must_exist: bool,
    /// Whether files are synced. Without it the death of the process loses nothing, and a power cut
    /// may lose or damage everything. Default true.
    pub syncs: bool,
    /// The revision of a store that has none yet, as if events up to it had been compacted. Default
    /// zero.
    pub begins_at: Revision,
    /// The edition of the program: a number that is raised when it would write other values for the
    /// same objects. The store remembers whether all its values are of it. `None` neither knows
    /// nor changes that. Default `None`.
    pub edition: Option<u32>,
    /// Acknowledged revisions may be missing from this one on; `None` refuses such a store.
    pub accept_loss: Option<Revision>,
    /// Watches the threads of the engine. Default: nobody does.
    pub watchdog: Watchdog,
    /// The clock.
    pub clock: Clock,
    /// The uptime, which leases use while the engine runs.
    pub uptime: Uptime,
}

impl EmbeddedOptions {
    /// The defaults, for a store in this directory.
    pub fn new(directory: impl Into<PathBuf>) -> EmbeddedOptions {
        const MIB: usize = 1024 * 1024;
        let started = clock::moment();
        EmbeddedOptions {
            directory: directory.into(),
            cache_bytes: 4 * MIB,
            reserve_bytes: 64 * MIB as u64,
            ballast_bytes: 8 * MIB as u64,
            batch_count_max: 1024,
            batch_bytes_max: 4 * MIB,
            journal_bytes: 8 * MIB as u64,
            checkpoint_bytes: 2 * MIB as u64,
            checkpoint_pause: Duration::from_secs(60),
            queue_bytes_max: 32 * MIB,
            value_bytes_max: 3 * MIB,
            key_bytes_max: 4096,
            tail_bytes_max: 4 * MIB,
            range_bytes_max: MIB,
            reader_threads: 2,
            reader_queue_max: 256,
            scrub_budget: Duration::from_millis(2),
            expiry_budget: Duration::from_millis(2),
            verify_bytes_per_second: 0,
            verify_pause: Duration::from_secs(1),
            verdict_wait: Duration::from_secs(2),
            reopen_pause_max: Duration::from_secs(1),
            must_exist: false,
            syncs: true,
            begins_at: Revision::ZERO,
            edition: None,
            accept_loss: None,
            watchdog: Watchdog::default(),
            clock: Arc::new(clock::system_time),
            uptime: Arc::new(move || clock::moment() - started),
        }
    }
}
