//! The metrics of storage. They have Kubernetes' names where they measure the same (storage.md
//! 5.4). Durations and counts enter; series leave. This folder must not know keys, objects or
//! engines.

use std::sync::Arc;
use std::time::Instant;

use metrics::{
    Counter, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    histogram,
};

#[cfg(test)]
mod tests;

/// The metrics of one resource's store.
#[derive(Clone)]
pub struct Metrics {
    group: SharedString,
    resource: SharedString,
    decode_errors: Counter,
    store_lists: ListCounters,
    cache_lists: ListCounters,
}

#[derive(Clone)]
struct ListCounters {
    lists: Counter,
    fetched: Counter,
    evaluated: Option<Counter>,
    returned: Counter,
}

/// Registers units and help texts of these metrics.
pub fn describe() {
    describe_histogram!(
        "etcd_request_duration_seconds",
        Unit::Seconds,
        "Time of a call to the storage engine, by operation (the embedded engine's calls too)"
    );
    describe_counter!("etcd_requests_total", "Calls to the storage engine");
    describe_counter!(
        "etcd_request_errors_total",
        "Calls to the storage engine that failed"
    );
    describe_counter!(
        "apiserver_storage_decode_errors_total",
        "Stored values that could not be decoded"
    );
    describe_counter!(
        "apiserver_storage_list_total",
        "Lists served by the storage engine"
    );
    describe_counter!(
        "apiserver_storage_list_fetched_objects_total",
        "Objects read from the storage engine for lists"
    );
    describe_counter!(
        "apiserver_storage_list_evaluated_objects_total",
        "Objects of the storage engine tested against selectors for lists"
    );
    describe_counter!(
        "apiserver_storage_list_returned_objects_total",
        "Objects of the storage engine that lists answered"
    );
    describe_counter!(
        "apiserver_cache_list_total",
        "Lists served by the watch cache"
    );
    describe_counter!(
        "apiserver_cache_list_fetched_objects_total",
        "Objects that lists looked at in the watch cache"
    );
    describe_counter!(
        "apiserver_cache_list_returned_objects_total",
        "Objects of the watch cache that lists answered"
    );
    describe_counter!(
        "apiserver_watch_cache_consistent_read_total",
        "Consistent reads by whether the watch cache served them"
    );
    describe_gauge!(
        "taffrail_kept_snapshots",
        "Past states of a watch cache that are kept for the next pages of lists"
    );
    describe_histogram!(
        "apiserver_watch_cache_read_wait_seconds",
        Unit::Seconds,
        "Time that reads waited for the watch cache to become fresh enough"
    );
}

impl Metrics {
    /// The metrics of a resource, under this group and plural (SF-42).
    pub fn new(group: &str, resource: &str) -> Metrics {
        let shared = |text: &str| SharedString::from(Arc::<str>::from(text));
        let (group, resource) = (shared(group), shared(resource));
        let labels = [("group", group.clone()), ("resource", resource.clone())];
        let [of_group, of_resource] = labels.clone();
        let cache_labels = [
            of_group,
            of_resource,
            ("index", SharedString::const_str("")),
        ];
        Metrics {
            group,
            resource,
            decode_errors: counter!("apiserver_storage_decode_errors_total", &labels),
            store_lists: ListCounters {
                lists: counter!("apiserver_storage_list_total", &labels),
                fetched: counter!("apiserver_storage_list_fetched_objects_total", &labels),
                evaluated: Some(counter!(
                    "apiserver_storage_list_evaluated_objects_total",
                    &labels
                )),
                returned: counter!("apiserver_storage_list_returned_objects_total", &labels),
            },
            cache_lists: ListCounters {
                lists: counter!("apiserver_cache_list_total", &cache_labels),
                fetched: counter!("apiserver_cache_list_fetched_objects_total", &cache_labels),
                evaluated: None,
                returned: counter!("apiserver_cache_list_returned_objects_total", &labels),
            },
        }
    }

    /// One call to the engine (ME-1..3, ME-70).
    pub(super) fn request(&self, operation: &'static str, started: Instant, succeeded: bool) {
        let labels = [
            ("operation", SharedString::const_str(operation)),
            ("group", self.group.clone()),
            ("resource", self.resource.clone()),
        ];
        histogram!("etcd_request_duration_seconds", &labels)
            .record(started.elapsed().as_secs_f64());
        counter!("etcd_requests_total", &labels).increment(1);
        if !succeeded {
            counter!("etcd_request_errors_total", &labels).increment(1);
        }
    }

    /// Counts a value that could not be decoded (ME-18). Values that could not be decrypted do not
    /// count.
    pub(super) fn decode_error(&self) {
        self.decode_errors.increment(1);
    }

    /// A list that the engine served (ME-14..17).
    pub(super) fn store_list(&self, fetched: usize, returned: usize) {
        self.store_lists.count(fetched, returned);
    }

    /// A list that the cache served (ME-20..22).
    pub(super) fn cache_list(&self, fetched: usize, returned: usize) {
        self.cache_lists.count(fetched, returned);
    }

    /// A consistent read, served by the cache or below it (LI-35).
    pub(super) fn consistent_read(&self, succeeded: bool, fallback: bool) {
        let text = |value: bool| if value { "true" } else { "false" };
        counter!(
            "apiserver_watch_cache_consistent_read_total",
            "group" => self.group.clone(),
            "resource" => self.resource.clone(),
            "success" => text(succeeded),
            "fallback" => text(fallback)
        )
        .increment(1);
    }

    /// A wait for freshness (ME-32).
    pub(super) fn read_wait(&self, started: Instant) {
        histogram!(
            "apiserver_watch_cache_read_wait_seconds",
            "group" => self.group.clone(),
            "resource" => self.resource.clone()
        )
        .record(started.elapsed().as_secs_f64());
    }
}

impl ListCounters {
    fn count(&self, fetched: usize, returned: usize) {
        self.lists.increment(1);
        self.fetched.increment(fetched as u64);
        if let Some(evaluated) = &self.evaluated {
            evaluated.increment(fetched as u64);
        }
        self.returned.increment(returned as u64);
    }
}
