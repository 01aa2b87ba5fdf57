//! Computes the number of daemons for a load, and the work of etcd below them. Pure.

use super::constants::Constants;

/// The cores of one daemon, and the share that it may use. The rest is for bursts.
pub const CORES: f64 = 4.0;
pub const MEMORY_GIB: f64 = 16.0;
pub const BUSY: f64 = 0.6;
/// The default of `--max-connections`.
pub const CONNECTIONS: f64 = 32_768.0;
/// etcd's default quota, and the largest suggested quota.
pub const QUOTA_GIB: f64 = 2.0;
pub const LARGEST_QUOTA_GIB: f64 = 8.0;
/// Compaction every five minutes leaves the history of up to two intervals.
pub const HISTORY_S: f64 = 600.0;
/// The interval of bookmarks for an idle watch.
pub const BOOKMARK_S: f64 = 60.0;

const KIB: f64 = 1024.0;
const GIB: f64 = KIB * KIB * KIB;
const MICROSECOND: f64 = 1e-6;

/// The load on all daemons together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    pub watchers: f64,
    pub watches_per_connection: f64,
    pub objects: f64,
    pub object_bytes: f64,
    pub updates_per_s: f64,
    /// The number of watches that see one update.
    pub audience: f64,
    /// The number of objects that a watcher lists when it begins without a version.
    pub listed: f64,
}

/// Few updates, each delivered to everybody.
pub fn broadcast(watchers: f64) -> Load {
    Load {
        watchers,
        watches_per_connection: 1.0,
        objects: 1000.0,
        object_bytes: KIB,
        updates_per_s: 1.0,
        audience: watchers,
        listed: 1000.0,
    }
}

/// The objects of each watcher, the period of their updates, and the watchers of each update.
pub const OWN_OBJECTS: f64 = 5.0;
pub const OWN_PERIOD_S: f64 = 300.0;
pub const OWN_AUDIENCE: f64 = 3.0;

/// Each watcher has objects of its own, and each update is delivered to a few watchers.
pub fn own_objects(watchers: f64) -> Load {
    let objects = watchers * OWN_OBJECTS;
    Load {
        watchers,
        watches_per_connection: 1.0,
        objects,
        object_bytes: 2.0 * KIB,
        updates_per_s: objects / OWN_PERIOD_S,
        audience: OWN_AUDIENCE,
        listed: OWN_OBJECTS,
    }
}

/// The daemons and etcds for a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// `None` when no number of daemons is enough, because the fixed work of each exceeds its
    /// share.
    pub daemons: Option<Daemons>,
    /// The memory of each daemon for objects and events, without watchers.
    pub least_memory_gib: f64,
    /// The busy share of the one thread that follows a resource, if all objects are of one
    /// resource.
    pub following: f64,
    /// The time from a daemon's start until its caches are full.
    pub fill_s: f64,
    pub etcd: Etcd,
}

/// The daemons of a plan, and the load of each while one is missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Daemons {
    pub count: f64,
    pub cores: f64,
    pub memory_gib: f64,
    pub connections: f64,
    /// Of JSON, before TLS.
    pub sent_mb_per_s: f64,
    /// The time until the watchers of a dead daemon have resumed on the others.
    pub back_s: f64,
    /// The time until all clients have reconnected to all daemons, with a list and a watch.
    pub anew_s: f64,
    /// The data that each of them sends for that.
    pub anew_gb: f64,
}

/// The work of etcd.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Etcd {
    pub cores: f64,
    /// The share of the writes that it can do.
    pub share: f64,
    pub database_gib: f64,
    pub watches: f64,
    /// The number of etcds that the load needs.
    pub clusters: f64,
}

impl Plan {
    /// Whether one thread can follow all changes.
    pub fn is_followed(&self) -> bool {
        self.following <= BUSY
    }

    /// The number of threads that the caches of its resources would need.
    pub fn threads(&self) -> f64 {
        (self.following / BUSY).ceil().max(1.0)
    }

    /// Whether the plan works with one etcd.
    pub fn fits(&self) -> bool {
        self.daemons.is_some() && self.is_followed() && self.etcd.clusters <= 1.0
    }
}

/// Computes the plan for a load.
pub fn plan(constants: &Constants, load: &Load) -> Plan {
    let following = load.updates_per_s * constants.update_followed_cpu_us * MICROSECOND;
    let kib = load.object_bytes / KIB;
    let filled = constants.object_filled_us + constants.json_kib_filled_us * kib;
    let daemons = daemons(constants, load);
    Plan {
        daemons,
        least_memory_gib: own_memory(constants, load) / GIB,
        following,
        fill_s: load.objects * filled * MICROSECOND,
        etcd: etcd(
            constants,
            load,
            daemons.map_or(2.0, |daemons| daemons.count),
        ),
    }
}

/// Returns the bytes that a daemon needs without watchers.
fn own_memory(constants: &Constants, load: &Load) -> f64 {
    let object =
        constants.object_memory_bytes + constants.json_byte_memory_bytes * load.object_bytes;
    (constants.daemon_memory_mib + constants.ring_memory_mib) * KIB * KIB + load.objects * object
}

/// Returns the bytes for one watcher, with its part of a connection.
fn watcher_memory(constants: &Constants, load: &Load) -> f64 {
    let connection = constants.connection_memory_kib + constants.connection_kernel_memory_kib;
    (constants.watch_memory_kib + connection / load.watches_per_connection) * KIB
}

/// Returns the CPU seconds for one watcher per second.
fn watcher_cpu(constants: &Constants, load: &Load) -> f64 {
    let events = load.updates_per_s * load.audience / load.watchers;
    // Events that all watches of a connection see are sent together. Events of a watcher's own
    // objects, and bookmarks, each wake the connection.
    let everybody = load.audience >= load.watchers;
    let together = if everybody {
        load.watches_per_connection
    } else {
        1.0
    };
    let woken = constants.connection_woken_cpu_us;
    let event = constants.delivery_cpu_us + woken / together;
    let bookmark = constants.delivery_cpu_us + woken;
    (events * event + bookmark / BOOKMARK_S) * MICROSECOND
}

/// Returns the smallest number of daemons that carries the load while one is missing.
fn daemons(constants: &Constants, load: &Load) -> Option<Daemons> {
    let followed = constants.update_followed_cpu_us * MICROSECOND;
    let taken = (constants.update_taken_cpu_us * MICROSECOND - followed).max(0.0);
    let own_cpu = load.updates_per_s * followed;
    let shared_cpu = load.watchers * watcher_cpu(constants, load) + load.updates_per_s * taken;
    let own_memory = own_memory(constants, load);
    let shared_memory = load.watchers * watcher_memory(constants, load);
    let cores = CORES * BUSY - own_cpu;
    let memory = MEMORY_GIB * GIB - own_memory;
    if cores <= 0.0 || memory <= 0.0 {
        return None;
    }
    let left = (shared_cpu / cores)
        .max(shared_memory / memory)
        .ceil()
        .max(1.0);
    let count = left + 1.0;
    let deliveries = load.updates_per_s * load.audience;
    let opened = constants.watch_opened_cpu_us * MICROSECOND;
    let kib = load.object_bytes / KIB;
    let object = constants.object_listed_cpu_us + constants.json_kib_listed_cpu_us * kib;
    let listed = load.listed * object * MICROSECOND;
    let used = own_cpu + shared_cpu / left;
    Some(Daemons {
        count,
        cores: used,
        memory_gib: (own_memory + shared_memory / left) / GIB,
        connections: load.watchers / load.watches_per_connection / left,
        sent_mb_per_s: deliveries * load.object_bytes / left / 1e6,
        back_s: load.watchers / count * opened / (left * (CORES - used)),
        anew_gb: load.watchers * load.listed * load.object_bytes / count / 1e9,
        anew_s: load.watchers * (opened + listed) / (count * (CORES - own_cpu)),
    })
}

fn etcd(constants: &Constants, load: &Load, daemons: f64) -> Etcd {
    let update = constants.etcd_update_cpu_us + constants.etcd_event_cpu_us * (daemons - 1.0);
    // The constant is for objects of 1 KiB.
    let revision = constants.etcd_revision_bytes * load.object_bytes / KIB;
    let revisions = load.objects + load.updates_per_s * HISTORY_S;
    let share = load.updates_per_s / constants.etcd_writes_per_s;
    let database_gib = revisions * revision / GIB;
    let clusters = (share / BUSY).max(database_gib / LARGEST_QUOTA_GIB).ceil();
    Etcd {
        cores: load.updates_per_s * update * MICROSECOND,
        share,
        database_gib,
        watches: constants.etcd_watches_per_daemon * daemons,
        clusters: clusters.max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round numbers, and zero for all other constants.
    fn constants() -> Constants {
        Constants {
            delivery_cpu_us: 1.0,
            connection_woken_cpu_us: 9.0,
            watch_opened_cpu_us: 1000.0,
            object_listed_cpu_us: 6.0,
            json_kib_listed_cpu_us: 4.0,
            etcd_writes_per_s: 1000.0,
            ..Constants::default()
        }
    }

    fn daemons_of(constants: &Constants, load: &Load) -> Daemons {
        plan(constants, load).daemons.unwrap()
    }

    #[test]
    fn little_is_served_by_two_so_that_one_may_be_away() {
        let daemons = daemons_of(&constants(), &broadcast(100.0));
        assert_eq!((daemons.count, daemons.connections), (2.0, 100.0));
    }

    #[test]
    fn processors_are_given_by_deliveries_and_bookmarks() {
        // 600,000 deliveries and 10,000 bookmarks of 10 us are 6.1 s: 3 daemons at 2.4, and one.
        let load = broadcast(600_000.0);
        let daemons = daemons_of(&constants(), &load);
        assert_eq!(daemons.count, 4.0);
        assert!((daemons.cores - 6.1 / 3.0).abs() < 1e-9);
        // 10 watches of a connection are woken together, but not for bookmarks.
        let together = Load {
            watches_per_connection: 10.0,
            ..load
        };
        let daemons = daemons_of(&constants(), &together);
        assert!((daemons.cores - (0.6 * 1.9 + 0.1)).abs() < 1e-9);
    }

    #[test]
    fn who_sees_nothing_of_the_others_is_woken_for_each_event() {
        // 1,000 updates a second for 3 each, 10 us; 1,000 bookmarks.
        let load = Load {
            watches_per_connection: 10.0,
            ..own_objects(60_000.0)
        };
        let daemons = daemons_of(&constants(), &load);
        assert!((daemons.cores - 0.04).abs() < 1e-9);
    }

    #[test]
    fn memory_is_given_by_objects_in_each_and_watchers_in_one() {
        let constants = Constants {
            daemon_memory_mib: 512.0,
            ring_memory_mib: 512.0,
            object_memory_bytes: 512.0,
            json_byte_memory_bytes: 1.5,
            watch_memory_kib: 2.0,
            connection_memory_kib: 20.0,
            connection_kernel_memory_kib: 10.0,
            ..constants()
        };
        let mut load = broadcast(1024.0 * 1024.0);
        load.objects = 1024.0 * 1024.0;
        // Each 1 GiB and 2 GiB of objects; 32 GiB of watchers on 13 GiB.
        load.updates_per_s = 0.0;
        let full = plan(&constants, &load);
        assert!((full.least_memory_gib - 3.0).abs() < 1e-9);
        let daemons = full.daemons.unwrap();
        assert_eq!(daemons.count, 4.0);
        assert!((daemons.memory_gib - (3.0 + 32.0 / 3.0)).abs() < 1e-9);
        // If the objects do not fit into a daemon, more daemons do not help.
        load.objects *= 8.0;
        assert_eq!(plan(&constants, &load).daemons, None);
    }

    #[test]
    fn one_thread_follows_all_updates_of_a_resource() {
        let constants = Constants {
            update_followed_cpu_us: 100.0,
            update_taken_cpu_us: 300.0,
            ..constants()
        };
        let mut load = broadcast(60.0);
        load.audience = 1.0;
        load.updates_per_s = 5000.0;
        let fits = plan(&constants, &load);
        assert_eq!(fits.following, 0.5);
        // Following 0.5, taking 1.0 besides, delivering 0.05, bookmarks.
        let cores = fits.daemons.unwrap().cores;
        assert!((cores - 1.55001).abs() < 1e-6, "{cores}");
        assert!(fits.is_followed());
        load.updates_per_s = 7000.0;
        assert!(!plan(&constants, &load).is_followed());
        // Following takes 2.4 cores in each daemon, so that none has time for other work.
        load.updates_per_s = 24_000.0;
        assert_eq!(plan(&constants, &load).daemons, None);
    }

    #[test]
    fn after_a_death_the_others_use_the_processors_that_they_have_left() {
        // With two daemons, the remaining one takes back 50,000 watchers at 1 ms each.
        let daemons = daemons_of(&constants(), &broadcast(100_000.0));
        assert_eq!(daemons.count, 2.0);
        assert!((daemons.back_s - 50.0 / (4.0 - daemons.cores)).abs() < 1e-9);
        // All watchers reconnect to both: 1 ms to open, and 10 ms for a list of 1,000.
        assert!((daemons.anew_s - 100_000.0 * 0.011 / 8.0).abs() < 1e-9);
    }

    #[test]
    fn etcd_is_given_by_updates_history_and_daemons() {
        let constants = Constants {
            etcd_update_cpu_us: 200.0,
            etcd_event_cpu_us: 10.0,
            etcd_revision_bytes: 1280.0,
            etcd_watches_per_daemon: 10.0,
            ..constants()
        };
        // 500,000 objects of 2 KiB, 1,667 updates a second, two daemons.
        let etcd = plan(&constants, &own_objects(100_000.0)).etcd;
        assert!((etcd.cores - 1666.667 * 210e-6).abs() < 1e-5);
        assert!((etcd.share - 1.666_667).abs() < 1e-5);
        assert!((etcd.database_gib - 1_500_000.0 * 2560.0 / GIB).abs() < 1e-9);
        assert_eq!((etcd.watches, etcd.clusters), (20.0, 3.0));
    }
}
