//! Measures durable updates of one client, one after the other, over stores of several sizes.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::Daemon;
use crate::load::{self, Until, Verb};
use crate::report::{Durations, figure, noise, part};

/// The bytes of the objects that fill the store.
const FILLER: usize = 400_000;
/// The number of the first filling object, greater than those of the updated objects.
const FILLER_FIRST: u64 = 1_000_000;
const UPDATED: u64 = 100;
const DURATION: Duration = Duration::from_secs(15);

/// Returns the 512-byte sectors written to the disk of a path. They include those of other
/// processes.
fn sectors(path: &Path) -> u64 {
    let device = path.metadata().unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).unwrap();
    let written = stat.split_whitespace().nth(6).unwrap();
    written.parse().unwrap()
}

/// Measures the time for a write of 4 KiB to an existing file and its sync.
fn sync_times(directory: &Path) -> Durations {
    const COUNT: u64 = 2000;
    const BLOCK: [u8; 4096] = [7; 4096];
    let path = directory.join("sync-times");
    let file = File::create(&path).unwrap();
    file.write_all_at(&vec![0; BLOCK.len() * COUNT as usize], 0)
        .unwrap();
    file.sync_all().unwrap();
    let mut times = Durations::default();
    for number in 0..COUNT {
        let begun = Instant::now();
        file.write_all_at(&BLOCK, number * BLOCK.len() as u64)
            .unwrap();
        file.sync_data().unwrap();
        times.add(begun.elapsed());
    }
    std::fs::remove_file(path).unwrap();
    times
}

/// Measures over a store with `gib` GiB of other objects.
pub async fn measure(gib: f64) {
    part(&format!(
        "lone updates of 1 KiB, each durable, over a store of {gib} GiB"
    ));
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    load::write(&daemon, Verb::Create, 1, 0, Until::Count(UPDATED)).await;
    let others = Until::Count((gib * (1 << 30) as f64) as u64 / FILLER as u64);
    load::write_filled(&daemon, Verb::Create, 8, FILLER_FIRST, others, FILLER).await;
    rustix::fs::sync();
    let data = daemon.data();
    let mut syncs = sync_times(&data);
    rustix::fs::sync();
    let before = sectors(&data);
    let mut updated = load::write(&daemon, Verb::Update, 1, UPDATED, Until::Time(DURATION)).await;
    rustix::fs::sync();
    let bytes = (sectors(&data) - before) * 512;
    let count = updated.count as f64;
    figure(
        "written to the disk for one",
        bytes as f64 / count / 1e3,
        "KB",
        "< 12",
    );
    figure(
        "CPU of the daemon for one",
        updated.used.daemon / count * 1e3,
        "ms",
        "< 0.3",
    );
    let p50 = updated.latency.percentile(0.5);
    figure("p50", p50, "ms", "");
    figure(
        "p50 in syncs of 4 KiB",
        p50 / syncs.percentile(0.5),
        "",
        "< 1.4",
    );
    figure("p99.9", updated.latency.percentile(0.999), "ms", "");
    figure("worst", updated.latency.percentile(1.0), "ms", "");
    figure("worst sync of 4 KiB", syncs.percentile(1.0), "ms", "");
    noise(updated.used.other_cores);
}
