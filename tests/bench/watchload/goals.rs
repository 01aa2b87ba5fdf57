//! The goals, and the figures of kube-apiserver 1.36.2 on etcd 3.5 for the same work. Those were
//! measured with the same tool on two shared cores; a range means that several runs or days
//! differed. CPU is that of kube-apiserver without etcd, unless `with etcd` follows.

/// The direction in which a value meets its goal.
#[derive(Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// One figure.
#[derive(Clone, Copy)]
pub struct Goal {
    pub what: &'static str,
    pub unit: &'static str,
    pub limit: Limit,
    /// The figure of kube-apiserver, empty if it was not measured.
    pub theirs: &'static str,
}

const fn at_most(limit: f64, unit: &'static str, what: &'static str, theirs: &'static str) -> Goal {
    Goal {
        what,
        unit,
        limit: Limit::AtMost(limit),
        theirs,
    }
}

const fn at_least(
    limit: f64,
    unit: &'static str,
    what: &'static str,
    theirs: &'static str,
) -> Goal {
    Goal {
        what,
        unit,
        limit: Limit::AtLeast(limit),
        theirs,
    }
}

const DELIVERY_CPU: &str = "CPU for a million deliveries";
const UPDATES: &str = "updates reached";
const IDLE_WATCH: &str = "memory for an idle watch";
const LIST_CPU: &str = "CPU for a list";
const CLIENT_CPU: &str = "CPU for a client";
const ABOVE_IDLE: &str = "peak memory above idle";

/// A goal of every run: the faults that an informer would notice.
pub const WRONG: Goal = at_most(
    0.0,
    "",
    "events lost, repeated, reordered; watches ended",
    "",
);
/// A row for every run that did not reach the requested load.
pub const LOAD: Goal = at_least(0.0, "/s", "load reached", "");

pub const FANOUT_CPU: Goal = at_most(1.4, "s", DELIVERY_CPU, "24-35");
pub const FANOUT_CPU_10000: Goal = at_most(1.4, "s", DELIVERY_CPU, "26-34 at 4/s");
pub const FANOUT_P99: Goal = at_most(30.0, "ms", "write to delivery p99", "236-317");
pub const FANOUT_MEMORY: Goal = at_most(2.5, "KiB", IDLE_WATCH, "34-46");
pub const FANOUT_MEMORY_10000: Goal = at_most(2.5, "KiB", IDLE_WATCH, "51");

pub const ONE_STREAM_CPU: Goal = at_most(13.0, "s", DELIVERY_CPU, "28-32");
// With a record and a system call for each event, two cores cannot make and read more. The goal is
// kube-apiserver's figure.
pub const ONE_STREAM_RATE: Goal = at_least(9.8, "/s", UPDATES, "9.8");
pub const ONE_STREAM_MEMORY: Goal = at_most(33.0, "KiB", IDLE_WATCH, "84-86");

pub const HTTP1_CPU: Goal = at_most(11.0, "s", DELIVERY_CPU, "22-24");
pub const HTTP1_RATE: Goal = at_least(11.7, "/s", UPDATES, "11.7");
pub const HTTP1_MEMORY: Goal = at_most(30.0, "KiB", IDLE_WATCH, "78-80");

pub const SATURATION: Goal = at_least(400_000.0, "/s", "deliveries", "48,000-60,000");

pub const SELECTIVE_CPU: Goal = at_most(0.4, "ms", "CPU for an update", "8.1-9.1 with etcd");
pub const SELECTIVE_FLAT: Goal = at_most(1.15, "times", "dearer with 10,000 than with 1,000", "1");

pub const LIST_RV0: Goal = at_most(12.0, "ms", LIST_CPU, "144");
pub const LIST_NEWEST: Goal = at_most(12.0, "ms", LIST_CPU, "128");
pub const LISTS_MEMORY: Goal = at_most(24.0, "MiB", ABOVE_IDLE, "");
pub const LISTS_REACHED: Goal = at_least(19.0, "/s", "lists read", "");
pub const LISTS_BESIDE: Goal = at_most(2.0, "times", "write to delivery p99 with over without", "");

// A twentieth and a twelfth of kube-apiserver's.
pub const WATCHLIST_CPU: Goal = at_most(3.6, "ms", CLIENT_CPU, "72");
pub const WATCHLIST_MEMORY: Goal = at_most(48.0, "MiB", ABOVE_IDLE, "163");
pub const RELIST_CPU: Goal = at_most(3.33, "ms", CLIENT_CPU, "40");
pub const RELIST_MEMORY: Goal = at_most(48.0, "MiB", ABOVE_IDLE, "308");

// Eight times kube-apiserver's.
pub const CONTENDED: Goal = at_least(992.0, "/s", "merge patches", "124");
// A goal of the embedded engine: updates of one object share commits.
pub const CHAINED: Goal = at_least(5000.0, "/s", "merge patches", "");
pub const CONFLICTS: Goal = at_most(0.0, "", "requests not answered with success", "");

pub const STOPPED_P50: Goal = at_most(1.2, "times", "p50 of the others with over without", "");
pub const STOPPED_P99: Goal = at_most(2.0, "times", "p99 of the others with over without", "");
// The limit of the ring, and as much again for everything else.
pub const STOPPED_MEMORY: Goal = at_most(64.0, "MiB", ABOVE_IDLE, "");
// In addition, 256 KiB for each of 100 watches that read history: a chunk of 64 KiB, its wire form,
// and buffers.
pub const GOING_ON_MEMORY: Goal = at_most(89.0, "MiB", "the same until all have caught up", "");
pub const STOPPED_MISSING: Goal = at_most(0.0, "", "events that they miss or get twice, 410s", "");

pub const QUIET_WRAPS: Goal = at_least(100.0, "", "times that the ring wrapped", "");
pub const QUIET_READS: Goal = at_most(0.0, "", "reads of history", "");
pub const QUIET_ENDED: Goal = at_most(0.0, "", "watches that ended or missed their event", "");
pub const QUIET_CPU: Goal = at_most(1.15, "times", "CPU for an update with over without", "");

pub const IDLE_OPENED: Goal = at_most(30.0, "s", "opened in", "");
pub const IDLE_MEMORY: Goal = at_most(200.0, "MiB", "peak resident memory", "");

// A daemon is ready when its caches are filled.
pub const FULL_START: Goal = at_most(600.0, "ms", "exec to ready, median of 5", "");
