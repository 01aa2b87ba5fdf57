//! The cost of a request.

use allocation_counter::measure;
use rustix::time::{ClockId, clock_gettime};
use taffrail::api::cost::{Counts, counts};

/// The cost of a piece of work on this thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// The time of the processor, in nanoseconds.
    pub cpu: u64,
    /// All memory that was asked for, in bytes.
    pub bytes: u64,
    /// How often memory was asked for.
    pub allocations: u64,
    /// The most memory at a time, in bytes.
    pub peak: u64,
    /// What the code counts itself.
    pub counts: Counts,
}

impl Cost {
    /// What is the same in each run, by name.
    pub fn counts(&self) -> [(&'static str, u64); 6] {
        [
            ("bytes of memory", self.bytes),
            ("allocations", self.allocations),
            ("bytes of memory at a time", self.peak),
            ("values looked at", self.counts.nodes),
            ("comparisons", self.counts.comparisons),
            ("errors made", self.counts.errors),
        ]
    }
}

fn cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Does the work on this thread and measures it.
pub fn of<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let mut done = None;
    let mut taken = 0;
    let before = counts();
    let counted = measure(|| {
        let begun = cpu();
        done = Some(work());
        taken = cpu() - begun;
    });
    let cost = Cost {
        cpu: taken,
        bytes: counted.bytes_total,
        allocations: counted.count_total,
        peak: counted.bytes_max,
        counts: counts().since(before),
    };
    (done.unwrap(), cost)
}
