//! The metrics of work queues, under the names of client-go.

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use tokio::time::Instant;

/// The measurements of one queue.
pub(super) struct QueueMetrics {
    adds: Counter,
    retries: Counter,
    depth: Gauge,
    unfinished: Gauge,
    longest: Gauge,
    waited: Histogram,
    worked: Histogram,
    /// When unfinished work began.
    began: Vec<(String, Instant)>,
}

impl QueueMetrics {
    pub(super) fn new(name: &'static str) -> QueueMetrics {
        QueueMetrics {
            adds: counter!("workqueue_adds_total", "name" => name),
            retries: counter!("workqueue_retries_total", "name" => name),
            depth: gauge!("workqueue_depth", "name" => name),
            unfinished: gauge!("workqueue_unfinished_work_seconds", "name" => name),
            longest: gauge!("workqueue_longest_running_processor_seconds", "name" => name),
            waited: histogram!("workqueue_queue_duration_seconds", "name" => name),
            worked: histogram!("workqueue_work_duration_seconds", "name" => name),
            began: Vec::new(),
        }
    }

    /// An item was queued; `waiting` items wait now.
    pub(super) fn added(&self, waiting: usize) {
        self.adds.increment(1);
        self.depth.set(waiting as f64);
    }

    /// The work on an item, which was queued at `queued`, begins; `waiting` items wait now.
    pub(super) fn begun(&mut self, item: &str, queued: Instant, waiting: usize) {
        self.waited.record(queued.elapsed().as_secs_f64());
        self.depth.set(waiting as f64);
        self.began.push((item.to_owned(), Instant::now()));
    }

    /// The work on an item has ended.
    pub(super) fn ended(&mut self, item: &str, is_tried_again: bool) {
        if is_tried_again {
            self.retries.increment(1);
        }
        if let Some(at) = self.began.iter().position(|(one, _)| one == item) {
            let (_, began) = self.began.swap_remove(at);
            self.worked.record(began.elapsed().as_secs_f64());
        }
        self.look();
    }

    /// Sets how long unfinished work has taken.
    pub(super) fn look(&self) {
        let seconds = self.began.iter().map(|(_, at)| at.elapsed().as_secs_f64());
        self.unfinished
            .set(seconds.clone().fold(0.0, |sum, one| sum + one));
        self.longest.set(seconds.fold(0.0, f64::max));
    }
}

/// Sets the sizes of the garbage collector's graph.
pub(super) fn collector_size(size: (usize, usize)) {
    gauge!(NODES).set(size.0 as f64);
    gauge!(OWNERS).set(size.1 as f64);
}

const NODES: &str = "taffrail_garbage_collector_objects";
const OWNERS: &str = "taffrail_garbage_collector_owners";

pub(super) fn describe() {
    describe_gauge!(
        NODES,
        "Objects that the garbage collector knows: those that have owners or wait for dependents"
    );
    describe_gauge!(
        OWNERS,
        "Owners that objects name, as the garbage collector knows them"
    );
    describe_counter!("workqueue_adds_total", "Items that were queued");
    describe_counter!("workqueue_retries_total", "Items that are tried again");
    describe_gauge!("workqueue_depth", "Items that wait");
    describe_gauge!(
        "workqueue_unfinished_work_seconds",
        "How long the work that goes on has taken so far, added up"
    );
    describe_gauge!(
        "workqueue_longest_running_processor_seconds",
        "How long the longest of it has taken so far"
    );
    describe_histogram!(
        "workqueue_queue_duration_seconds",
        "How long an item waited"
    );
    describe_histogram!(
        "workqueue_work_duration_seconds",
        "How long the work on an item took"
    );
}
