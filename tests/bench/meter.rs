//! Measures the resource use of a process and of the machine, from /proc.

use std::time::{Duration, Instant};

/// A reading of the counters.
#[derive(Clone, Copy)]
pub struct Sample {
    at: Instant,
    /// The CPU time of the daemon, of this process and of the whole machine, in seconds.
    daemon: f64,
    own: f64,
    machine: f64,
}

/// The use between two readings.
pub struct Used {
    pub elapsed: Duration,
    pub daemon: f64,
    /// The CPU time of this process in seconds.
    pub own: f64,
    /// The cores that neither the daemon nor this process used.
    pub other_cores: f64,
}

impl Sample {
    pub fn take(pid: u32) -> Sample {
        Sample {
            daemon: process(&pid.to_string()),
            ..Sample::without_daemon()
        }
    }

    /// Takes a reading while no daemon runs.
    pub fn without_daemon() -> Sample {
        Sample {
            at: Instant::now(),
            daemon: 0.0,
            own: process("self"),
            machine: machine(),
        }
    }

    pub fn until(&self, later: &Sample) -> Used {
        let elapsed = later.at - self.at;
        let daemon = later.daemon - self.daemon;
        let own = later.own - self.own;
        let other = later.machine - self.machine - daemon - own;
        Used {
            elapsed,
            daemon,
            own,
            other_cores: (other / elapsed.as_secs_f64()).max(0.0),
        }
    }
}

/// Returns the peak resident memory of a process since its start or the last reset, in MiB.
pub fn peak(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib / 1024.0
}

/// Resets [`peak`].
pub fn reset_peak(pid: u32) {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
}

/// Returns the memory that a process shares with no other one, in KiB.
pub fn private(pid: u32) -> f64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let lines = rollup.lines().filter(|line| line.starts_with("Private_"));
    let sizes = lines.filter_map(|line| line.split_whitespace().nth(1));
    sizes.map(|size| size.parse::<f64>().unwrap()).sum()
}

/// Returns the kernel memory that grows with connections, in KiB: kernel objects and TCP buffers.
pub fn kernel_memory() -> f64 {
    let number = |file: &str, names: [&str; 2]| -> f64 {
        let text = std::fs::read_to_string(file).unwrap();
        let line = text.lines().find(|line| line.starts_with(names[0]));
        let (_, rest) = line.unwrap().split_once(names[1]).unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    let pages = number("/proc/net/sockstat", ["TCP:", " mem "]);
    let page = rustix::param::page_size() as f64 / 1024.0;
    number("/proc/meminfo", ["Slab:", ":"]) + pages * page
}

/// Returns the user and system time of a process so far, in seconds.
pub fn cpu(pid: u32) -> f64 {
    process(&pid.to_string())
}

fn ticks() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// Returns the user and system time of a process.
fn process(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name in brackets may contain spaces.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let number = |index: usize| fields[index].parse::<f64>().unwrap();
    (number(11) + number(12)) / ticks()
}

/// Returns the user and system time that the threads of a process have used so far, in seconds. It
/// is more precise than [`cpu`], and lacks that of threads that have ended.
pub fn threads(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let used = threads.map(|thread| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("schedstat"));
        // The thread may have ended.
        let stat = stat.unwrap_or_default();
        let nanos = stat.split_whitespace().next();
        nanos.map_or(0.0, |nanos| nanos.parse().unwrap())
    });
    used.sum::<f64>() / 1e9
}

/// Returns the user and system time of the calling thread so far, in seconds. The files of /proc
/// count the time of a running thread only when the kernel's clock ticks.
pub fn thread() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Returns the time that the machine was not idle.
fn machine() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let line = stat.lines().next().unwrap();
    let times: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .map(|number| number.parse().unwrap())
        .collect();
    // The times are user, nice, system, idle, iowait, irq, softirq, steal. The user time includes
    // guests.
    let busy = times.iter().take(8).sum::<f64>() - times[3] - times[4];
    busy / ticks()
}
