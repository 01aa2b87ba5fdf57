//! The files of the embedded engine: stores of old releases open as they were, damage is refused
//! by the name of file and record, and failures of the disk are survived in the process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod damage;
mod faulty;
mod files;
mod golden;
mod history_script;
mod leases;
mod middle;
mod reads;
mod records;
mod restart;
mod space;
mod verification;

/// Who measures how long others wait has the processors alone: those that need them much share
/// this.
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
