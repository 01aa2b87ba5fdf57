//! The metrics of a Dispatcher. Frames are counted locally and added once per tick, because the
//! metrics are shared by all threads.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

use crate::cacher::resource_and_group;

/// The metrics of one resource on one thread.
pub(super) struct ResourceMetrics {
    pub(super) watchers: Gauge,
    pub(super) history_reads: Counter,
    /// Frames handed to streams since the last tick.
    pub(super) frames: u64,
    /// Frames of initial events and from history among them.
    pub(super) initial_frames: u64,
    frames_total: Counter,
    initial_frames_total: Counter,
}

/// Gives every metric of this module its help text.
pub(crate) fn describe() {
    describe_gauge!("taffrail_watchers", "Watches being served");
    describe_counter!(
        "taffrail_watch_history_reads_total",
        "Chunks of history read for watches that the ring no longer reaches"
    );
    describe_counter!(
        "taffrail_watch_frames_total",
        "Frames handed to watch streams"
    );
    describe_counter!(
        "apiserver_init_events_total",
        "Frames of initial events and from history handed to watch streams"
    );
}

impl ResourceMetrics {
    pub(super) fn new(resource: &str) -> ResourceMetrics {
        let (resource, group) = resource_and_group(resource);
        let labels = [("group", group), ("resource", resource)];
        ResourceMetrics {
            watchers: gauge!("taffrail_watchers", &labels),
            history_reads: counter!("taffrail_watch_history_reads_total", &labels),
            frames: 0,
            initial_frames: 0,
            frames_total: counter!("taffrail_watch_frames_total", &labels),
            initial_frames_total: counter!("apiserver_init_events_total", &labels),
        }
    }

    /// Adds the local counts to the metrics (ME-23).
    pub(super) fn flush(&mut self) {
        self.frames_total
            .increment(std::mem::take(&mut self.frames));
        self.initial_frames_total
            .increment(std::mem::take(&mut self.initial_frames));
    }
}
