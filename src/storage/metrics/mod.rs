//! The metrics of storage. They have Kubernetes' names where they measure the same (storage.md
//! 5.4). This folder must not know keys, objects or engines.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use metrics::{
    Counter, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, histogram,
};
use parking_lot::RwLock;
use smallvec::SmallVec;

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
    /// By name of the operation. Each is looked up once, because each call to the engine counts.
    operations: Arc<RwLock<Operations>>,
    read_wait: Arc<OnceLock<Histogram>>,
    /// By whether they succeeded and by whether the cache did not serve them.
    consistent_reads: Arc<[[OnceLock<Counter>; 2]; 2]>,
}

/// Operations by name. Most resources see few of them.
type Operations = SmallVec<[(&'static str, Operation); 1]>;

/// The calls to the engine for one operation.
#[derive(Clone)]
struct Operation {
    seconds: Histogram,
    total: Counter,
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
            operations: Arc::default(),
            read_wait: Arc::default(),
            consistent_reads: Arc::default(),
        }
    }

    /// One call to the engine (ME-1..3, ME-70).
    pub(super) fn request(&self, operation: &'static str, started: Instant, succeeded: bool) {
        let Operation { seconds, total } = self
            .known_operation(operation)
            .unwrap_or_else(|| self.operation(operation));
        seconds.record(started.elapsed().as_secs_f64());
        total.increment(1);
        if !succeeded {
            counter!("etcd_request_errors_total", &self.labels(operation)).increment(1);
        }
    }

    fn known_operation(&self, name: &str) -> Option<Operation> {
        let known = self.operations.read();
        let known = known.iter().find(|(known, _)| *known == name);
        known.map(|(_, handles)| handles.clone())
    }

    /// The handles of an operation, known from now on.
    fn operation(&self, name: &'static str) -> Operation {
        let labels = self.labels(name);
        let handles = Operation {
            seconds: histogram!("etcd_request_duration_seconds", &labels),
            total: counter!("etcd_requests_total", &labels),
        };
        let mut known = self.operations.write();
        if !known.iter().any(|(other, _)| *other == name) {
            known.push((name, handles.clone()));
        }
        handles
    }

    fn labels(&self, operation: &'static str) -> [(&'static str, SharedString); 3] {
        [
            ("operation", SharedString::const_str(operation)),
            ("group", self.group.clone()),
            ("resource", self.resource.clone()),
        ]
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
        let [as_wanted, by_fallback] = match succeeded {
            false => &self.consistent_reads[0],
            true => &self.consistent_reads[1],
        };
        let reads = if fallback { by_fallback } else { as_wanted };
        let reads = reads.get_or_init(|| {
            counter!(
                "apiserver_watch_cache_consistent_read_total",
                "group" => self.group.clone(),
                "resource" => self.resource.clone(),
                "success" => text(succeeded),
                "fallback" => text(fallback)
            )
        });
        reads.increment(1);
    }

    /// A wait for freshness (ME-32).
    pub(super) fn read_wait(&self, started: Instant) {
        let seconds = self.read_wait.get_or_init(|| {
            histogram!(
                "apiserver_watch_cache_read_wait_seconds",
                "group" => self.group.clone(),
                "resource" => self.resource.clone()
            )
        });
        seconds.record(started.elapsed().as_secs_f64());
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
