//! The process metrics of Prometheus' own clients, under the same names: memory, CPU, files.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use metrics::{describe_gauge, gauge};

const FILES: &str = "/proc/self/fd";
const STATUS: &str = "/proc/self/status";
const STAT: &str = "/proc/self/stat";
const LIMITS: &str = "/proc/self/limits";

/// Clock ticks per second in /proc. The kernel's interface fixes this number.
const TICKS_PER_SECOND: f64 = 100.0;

/// The lines of the metrics page about this process, measured now. Values that /proc does not show
/// are missing. CPU time has its fractions, which counters of the recorder lack.
pub fn process_lines() -> String {
    let status = read(STATUS).unwrap_or_default();
    let stat = read(STAT).unwrap_or_default();
    let limits = read(LIMITS).unwrap_or_default();
    let number = |value: Option<u64>| value.map(|value| value as f64);
    let cpu = cpu_ticks(&stat).map(|ticks| ticks as f64 / TICKS_PER_SECOND);
    let mut page = String::new();
    for (name, kind, help, value) in [
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory.",
            number(bytes_of(&status, "VmRSS:")),
        ),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Memory that the process has mapped.",
            number(bytes_of(&status, "VmSize:")),
        ),
        (
            "process_cpu_seconds_total",
            "counter",
            "CPU time, user and system.",
            cpu,
        ),
        (
            "go_goroutines",
            "gauge",
            "Threads of the process, which has no goroutines.",
            number(count_of(&status, "Threads:")),
        ),
        (
            "process_open_fds",
            "gauge",
            "Open files, sockets included.",
            number(open_files(Path::new(FILES))),
        ),
        (
            "process_max_fds",
            "gauge",
            "How many files the process may have open.",
            number(most_files(&limits)),
        ),
    ] {
        if let Some(value) = value {
            page += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n\n");
        }
    }
    page
}

/// Sets when the process started.
pub(super) fn started() {
    describe_gauge!(
        "process_start_time_seconds",
        "When the process started, in seconds since 1970."
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    gauge!("process_start_time_seconds").set(now.unwrap_or_default().as_secs_f64());
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The value of a line such as `Threads:   12`.
fn count_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

/// The value of a line such as `VmRSS:   12 kB`.
fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The soft limit. `unlimited` is not a number.
fn most_files(limits: &str) -> Option<u64> {
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
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
        assert_eq!(bytes_of(status, "VmRSS:"), Some(12_345 * 1024));
        assert_eq!(
            count_of("VmRSS:\t 1 kB\nThreads:\t17\n", "Threads:"),
            Some(17)
        );
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  4096  files\n";
        assert_eq!(most_files(limits), Some(1024));
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 500 0 0 0 250 50 0 0 20 0 9 0 100 0 0";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("nonsense"), None);
    }

    #[test]
    fn the_lines_are_those_of_this_process() {
        let page = process_lines();
        for name in [
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_cpu_seconds_total",
            "go_goroutines",
            "process_open_fds",
            "process_max_fds",
        ] {
            let mut lines = page.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            let value: f64 = value
                .unwrap_or_else(|| panic!("no {name}"))
                .parse()
                .unwrap();
            assert!(value >= 0.0, "{name} {value}");
        }
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
