//! The process metrics of Prometheus' own clients, under the same names: memory, CPU, files.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

const FILES: &str = "/proc/self/fd";
const STATUS: &str = "/proc/self/status";
const STAT: &str = "/proc/self/stat";

/// Clock ticks per second in /proc. The kernel's interface fixes this number.
const TICKS_PER_SECOND: u64 = 100;

/// Gauges of this process. They stay 0 without /proc.
pub(super) struct Process {
    resident: Gauge,
    cpu: Counter,
    open_files: Gauge,
}

impl Process {
    pub(super) fn new() -> Process {
        describe_gauge!("process_resident_memory_bytes", "Resident memory.");
        describe_counter!(
            "process_cpu_seconds_total",
            "CPU time, user and system, in whole seconds."
        );
        describe_gauge!("process_open_fds", "Open files, sockets included.");
        describe_gauge!(
            "process_start_time_seconds",
            "When the process started, in seconds since 1970."
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        gauge!("process_start_time_seconds").set(now.unwrap_or_default().as_secs_f64());
        Process {
            resident: gauge!("process_resident_memory_bytes"),
            cpu: counter!("process_cpu_seconds_total"),
            open_files: gauge!("process_open_fds"),
        }
    }

    /// Updates the gauges.
    pub(super) fn measure(&self) {
        if let Some(bytes) = read(STATUS).as_deref().and_then(resident_bytes) {
            self.resident.set(bytes as f64);
        }
        if let Some(ticks) = read(STAT).as_deref().and_then(cpu_ticks) {
            self.cpu.absolute(ticks / TICKS_PER_SECOND);
        }
        if let Some(count) = open_files(Path::new(FILES)) {
            self.open_files.set(count as f64);
        }
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// User and system time. The command's name comes before them in brackets and may contain anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn open_files(folder: &Path) -> Option<u64> {
    // Newer kernels report the count. Listing tens of thousands of entries takes milliseconds.
    match std::fs::metadata(folder).ok()?.len() {
        0 => Some(std::fs::read_dir(folder).ok()?.count() as u64),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_time_are_read_from_what_the_kernel_writes() {
        let status = "Name:\ttaffrail\nVmPeak:\t  100 kB\nVmRSS:\t   12345 kB\n";
        assert_eq!(resident_bytes(status), Some(12_345 * 1024));
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 500 0 0 0 250 50 0 0 20 0 9 0 100 0 0";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("nonsense"), None);
    }

    #[test]
    fn files_are_counted() {
        let before = open_files(Path::new(FILES)).unwrap();
        let open: Vec<_> = (0..50)
            .map(|_| std::fs::File::open("/dev/null").unwrap())
            .collect();
        // Other tests of this process open and close files at the same time.
        assert!(open_files(Path::new(FILES)).unwrap() + 20 > before + open.len() as u64);
    }
}
