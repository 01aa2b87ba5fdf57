//! Puts load on the engine, and measures it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use actors::engine::{Change, Expect, Key, LeaseId, Mutation, Origin, Prepared};
use bytes::Bytes;

const VALUE_BYTES: usize = 1024;

pub fn put(key: String, expect: Expect, count: u64) -> Mutation {
    let mut value = vec![b'x'; VALUE_BYTES];
    for (place, byte) in value.iter_mut().zip(count.to_le_bytes().iter().cycle()) {
        *place = byte.wrapping_mul(31).wrapping_add(*place);
    }
    Mutation {
        key: Key::new(key),
        expect,
        change: Change::Put {
            value: Bytes::from(value),
            lease: LeaseId(0),
        },
        origin: Origin {
            user: "admin".into(),
            manager: "engine-load".into(),
            audit_id: "9e107d9d-3721-4d2c-8a1b-1c2d3e4f5a6b".into(),
        },
        prepared: Prepared::default(),
    }
}

pub struct Meter {
    pub started: Instant,
    pub cpu: f64,
}

impl Meter {
    pub fn start() -> Meter {
        Meter {
            started: Instant::now(),
            cpu: cpu_seconds(),
        }
    }

    pub fn report(&self, events: u64, mut waits: Vec<Duration>) {
        waits.sort_unstable();
        let at = |part: usize| {
            waits
                .get(waits.len() * part / 1000)
                .copied()
                .unwrap_or_default()
        };
        let (wall, cpu) = (
            self.started.elapsed().as_secs_f64(),
            cpu_seconds() - self.cpu,
        );
        println!(
            "{events} events in {wall:.1} s: {:.0}/s, {:.1} us CPU each; wait p50 {:.1?} p99 {:.1?} \
             max {:.1?}",
            events as f64 / wall,
            cpu * 1e6 / events.max(1) as f64,
            at(500),
            at(990),
            waits.last().copied().unwrap_or_default()
        );
    }
}

pub fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    (ticks(12).unwrap_or(0.0) + ticks(13).unwrap_or(0.0)) / 100.0
}

pub fn blocks(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.blocks() * 512)
        .sum()
}

pub fn resident_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|text| text.parse::<u64>().ok());
    (pages.unwrap_or(0) * 4096) >> 20
}
