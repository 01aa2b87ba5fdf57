//! The files of the embedded engine. Stores of old releases open unchanged, damage is refused with
//! the names of file and record, and the engine survives disk failures without a restart.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod damage;
mod edition;
mod faulty;
mod files;
mod flips;
mod golden;
mod history_script;
mod journal;
mod leases;
mod middle;
mod reads;
mod records;
mod restart;
mod space;
mod verification;

/// A test that measures waiting times takes this lock for itself. Tests that need much CPU share
/// it.
static PROCESSORS: tokio::sync::RwLock<()> = tokio::sync::RwLock::const_new(());

/// The seed of this run: the time, unless `TAFFRAIL_SEED` says another.
fn seed() -> u64 {
    let given = std::env::var("TAFFRAIL_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        let now = std::time::SystemTime::now();
        let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
        since.as_millis() as u64 & 0xFFFF_FFFF
    });
    println!("seed: TAFFRAIL_SEED={seed}");
    seed
}
