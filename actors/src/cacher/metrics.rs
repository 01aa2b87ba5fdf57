//! The metrics of a Cacher. They have Kubernetes' names where they mean the same (storage.md 5.4).

use metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge};

use crate::snapshot::Snapshot;

/// The metrics of one resource's cache.
pub(crate) struct CacherMetrics {
    initializations: Counter,
    received: Counter,
    dispatched: Counter,
    revision: Gauge,
    unreadable: Gauge,
    ring_events: Gauge,
    ring_bytes: Gauge,
}

/// The resource version is reported modulo this number, so that a float holds it exactly (ME-27).
const REVISION_MODULUS: u64 = 1_000_000_000_000_000;

/// Gives every metric of this module its unit and help text.
pub(crate) fn describe() {
    describe_counter!(
        "apiserver_watch_cache_initializations_total",
        "Times a watch cache was filled"
    );
    describe_counter!(
        "apiserver_watch_cache_events_received_total",
        "Events that a watch cache received from the store"
    );
    describe_counter!(
        "apiserver_watch_cache_events_dispatched_total",
        "Events that a watch cache passed on to its ring"
    );
    describe_gauge!(
        "apiserver_watch_cache_resource_version",
        "Revision that a watch cache shows, modulo 10^15"
    );
    describe_gauge!(
        "taffrail_unreadable_values",
        "Values of a resource that are stored and can't be read; lists of it fail until they can"
    );
    describe_counter!(
        BACKFILLED,
        "Events of before a fill that were read into a ring, for watches that resume there"
    );
    describe_gauge!(
        "taffrail_watch_ring_events",
        "Events that a resource's ring holds"
    );
    describe_gauge!(
        "taffrail_watch_ring_bytes",
        Unit::Bytes,
        "Bytes that a resource's ring holds"
    );
}

/// The counter of events from before a fill that were put into a resource's ring.
pub(super) fn backfilled(resource: &str) -> Counter {
    let (resource, group) = resource_and_group(resource);
    counter!(BACKFILLED, "group" => group, "resource" => resource)
}

const BACKFILLED: &str = "taffrail_watch_ring_backfilled_events_total";

impl CacherMetrics {
    pub(crate) fn new(resource: &str) -> CacherMetrics {
        let (resource, group) = resource_and_group(resource);
        let labels = [("group", group), ("resource", resource)];
        CacherMetrics {
            initializations: counter!("apiserver_watch_cache_initializations_total", &labels),
            received: counter!("apiserver_watch_cache_events_received_total", &labels),
            dispatched: counter!("apiserver_watch_cache_events_dispatched_total", &labels),
            revision: gauge!("apiserver_watch_cache_resource_version", &labels),
            unreadable: gauge!("taffrail_unreadable_values", &labels),
            ring_events: gauge!("taffrail_watch_ring_events", &labels),
            ring_bytes: gauge!("taffrail_watch_ring_bytes", &labels),
        }
    }

    /// The cache was filled (ME-31).
    pub(crate) fn replaced(&self, snapshot: &Snapshot) {
        self.initializations.increment(1);
        self.shows(snapshot);
    }

    /// A batch was received (ME-24) and put into the ring (ME-25).
    pub(crate) fn applied(&self, received: usize, dispatched: usize, snapshot: &Snapshot) {
        self.received.increment(received as u64);
        self.dispatched.increment(dispatched as u64);
        self.shows(snapshot);
    }

    /// The ring's size has changed.
    pub(crate) fn ring(&self, events: usize, bytes: usize) {
        self.ring_events.set(events as f64);
        self.ring_bytes.set(bytes as f64);
    }

    fn shows(&self, snapshot: &Snapshot) {
        let revision = snapshot.revision.0 % REVISION_MODULUS;
        self.revision.set(revision as f64);
        self.unreadable.set(snapshot.unreadable_count() as f64);
    }
}

/// The two labels of a resource's metrics: `deployments.apps` is `deployments` of `apps`.
pub(crate) fn resource_and_group(resource: &str) -> (String, String) {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    (resource.to_owned(), group.to_owned())
}
