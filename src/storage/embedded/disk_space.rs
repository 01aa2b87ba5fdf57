//! Disk space: a reserve that creates and updates may not use, and a ballast file that is removed
//! when the disk is full all the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::disk::Disk;
use super::metrics;

/// How long an answer of the file system is used.
const CHECK_EVERY: Duration = Duration::from_millis(10);
/// After this many written bytes the free space is checked again, however soon.
const CHECK_BYTES: u64 = 4 * 1024 * 1024;

/// Tracks the free space. The writer owns it.
#[derive(Debug)]
pub struct DiskSpace {
    disk: Arc<dyn Disk>,
    reserve_bytes: u64,
    ballast_bytes: u64,
    free_bytes: u64,
    asked: Option<Instant>,
    written_bytes: u64,
    ballast: bool,
}

impl DiskSpace {
    /// Has not asked the file system yet.
    pub fn new(disk: Arc<dyn Disk>, reserve_bytes: u64, ballast_bytes: u64) -> DiskSpace {
        DiskSpace {
            disk,
            reserve_bytes,
            ballast_bytes,
            free_bytes: u64::MAX,
            asked: None,
            written_bytes: 0,
            ballast: false,
        }
    }

    /// Why creates and updates must be refused, if they must. Cheap: the file system is asked every
    /// few milliseconds only.
    pub fn shortage(&mut self, now: Instant) -> Option<String> {
        let stale = self
            .asked
            .is_none_or(|asked| now.duration_since(asked) >= CHECK_EVERY);
        if stale || self.written_bytes >= CHECK_BYTES {
            self.asked = Some(now);
            self.written_bytes = 0;
            // If the file system cannot say, the store writes until it refuses.
            let free_bytes = self.disk.free_bytes().ok();
            if let Some(free_bytes) = free_bytes {
                metrics::disk_space(free_bytes, self.reserve_bytes);
            }
            self.free_bytes = free_bytes.unwrap_or(u64::MAX);
        }
        (self.free_bytes < self.reserve_bytes).then(|| {
            format!(
                "{} MiB are free and {} MiB are kept for deletes and compaction: delete objects, \
                 compact, or make room on the file system",
                self.free_bytes >> 20,
                self.reserve_bytes >> 20
            )
        })
    }

    /// Counts written bytes.
    pub fn wrote(&mut self, bytes: u64) {
        self.written_bytes += bytes;
    }

    /// Removes the ballast file, because the disk is full.
    pub fn give_up_ballast(&mut self) {
        match self.disk.set_ballast(0) {
            Ok(()) => {
                tracing::warn!("disk full: removed the ballast file so that deletes work");
            }
            Err(error) => {
                tracing::error!(
                    %error,
                    "disk full, and the ballast file cannot be removed: deletes may fail"
                )
            }
        }
        self.ballast = false;
        self.asked = None;
    }

    /// Creates the ballast file if it is missing and there is ample space.
    pub fn keep_ballast(&mut self, now: Instant) {
        if self.ballast || self.ballast_bytes == 0 || self.shortage(now).is_some() {
            return;
        }
        if self.free_bytes < self.reserve_bytes.saturating_add(2 * self.ballast_bytes) {
            return;
        }
        match self.disk.set_ballast(self.ballast_bytes) {
            Ok(()) => self.ballast = true,
            Err(error) => {
                tracing::warn!(
                    %error,
                    "the ballast file cannot be created: deletes may fail on a full disk"
                );
                // Tried again only after the disk was full, because some file systems never can.
                self.ballast = true;
            }
        }
    }
}
