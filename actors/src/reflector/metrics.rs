//! What a Reflector counts, under Kubernetes' names (storage.md 5.4).

use metrics::{Counter, counter, describe_counter};

use crate::cacher::resource_and_group;
use crate::engine::FeedItem;

const EVENTS: &str = "apiserver_storage_events_received_total";
const BOOKMARKS: &str = "etcd_bookmark_total";

/// The metrics of one resource's feed.
pub(super) struct ReflectorMetrics {
    events: Counter,
    bookmarks: Counter,
}

/// Gives every metric of this module its unit and help text.
pub(crate) fn describe() {
    describe_counter!(EVENTS, "Events that the store has fed to a watch cache");
    describe_counter!(
        BOOKMARKS,
        "Times the store has told a watch cache how far it is, without an event"
    );
}

impl ReflectorMetrics {
    pub(super) fn new(resource: &str) -> ReflectorMetrics {
        let (resource, group) = resource_and_group(resource);
        let labels = [("group", group), ("resource", resource)];
        ReflectorMetrics {
            events: counter!(EVENTS, &labels),
            bookmarks: counter!(BOOKMARKS, &labels),
        }
    }

    /// The feed said something (ME-4, ME-13).
    pub(super) fn fed(&self, item: &FeedItem) {
        match item {
            FeedItem::Events(events) => self.events.increment(events.len() as u64),
            FeedItem::Progress(_) => self.bookmarks.increment(1),
        }
    }
}
