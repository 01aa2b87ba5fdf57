//! The metrics of a Reflector, with Kubernetes' names (storage.md 5.4).

use std::time::Instant;

use metrics::{Counter, Histogram, counter, describe_counter, histogram};

use crate::cacher::resource_and_group;
use crate::engine::FeedItem;

const EVENTS: &str = "apiserver_storage_events_received_total";
const BOOKMARKS: &str = "etcd_bookmark_total";

/// The metrics of one resource's feed.
pub(super) struct ReflectorMetrics {
    events: Counter,
    bookmarks: Counter,
    seconds: Histogram,
    requests: Counter,
    errors: Counter,
}

/// Gives every metric of this module its unit and help text.
pub(crate) fn describe() {
    describe_counter!(EVENTS, "Events that the store has fed to a watch cache");
    describe_counter!(
        BOOKMARKS,
        "Times the store has reported its progress to a watch cache without an event"
    );
}

impl ReflectorMetrics {
    pub(super) fn new(resource: &str) -> ReflectorMetrics {
        let (resource, group) = resource_and_group(resource);
        let labels = [("group", group.clone()), ("resource", resource.clone())];
        // The daemon's storage layer writes these metrics too, and describes them.
        let list = [
            ("operation", "list".to_owned()),
            ("group", group),
            ("resource", resource),
        ];
        ReflectorMetrics {
            events: counter!(EVENTS, &labels),
            bookmarks: counter!(BOOKMARKS, &labels),
            seconds: histogram!("etcd_request_duration_seconds", &list),
            requests: counter!("etcd_requests_total", &list),
            errors: counter!("etcd_request_errors_total", &list),
        }
    }

    /// A page was read (ME-1, ME-2, ME-3).
    pub(super) fn ranged(&self, started: Instant, succeeded: bool) {
        self.seconds.record(started.elapsed().as_secs_f64());
        self.requests.increment(1);
        if !succeeded {
            self.errors.increment(1);
        }
    }

    /// The feed delivered an item (ME-4, ME-13).
    pub(super) fn fed(&self, item: &FeedItem) {
        match item {
            FeedItem::Events(events) | FeedItem::Reset { events, .. } => {
                self.events.increment(events.len() as u64);
            }
            FeedItem::Progress(_) => self.bookmarks.increment(1),
        }
    }
}
