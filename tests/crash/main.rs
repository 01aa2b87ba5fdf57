//! The crash simulator: the engine on a disk that loses, reorders and tears unsynced data.
//!
//! Each workload is a random load on one store. At random moments the disk is copied as a power
//! failure would leave it, and every image is opened. It must have every event that was
//! acknowledged or fed, no half-written event and no event that was never written, and revisions
//! must continue. Other workloads have I/O errors and full disks, and must recover without being
//! reopened by hand. The seed is printed. `TAFFRAIL_SEED=n cargo test --test crash` repeats it.
//! `TAFFRAIL_CRASH_IMAGES=n` sets the number of images.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod disk;
mod faults;
mod leases;
mod power_loss;
mod room;
mod workload;

/// The seed of this run: the time, unless it was given.
fn seed() -> u64 {
    let given = std::env::var("TAFFRAIL_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        since.as_millis() as u64 & 0xFFFF_FFFF
    });
    println!("seed: TAFFRAIL_SEED={seed}");
    seed
}

/// The number of images, scaled by the environment.
fn images(usual: usize) -> usize {
    let asked = std::env::var("TAFFRAIL_CRASH_IMAGES")
        .ok()
        .and_then(|text| text.parse().ok());
    asked.unwrap_or(usual)
}
