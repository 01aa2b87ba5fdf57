//! Metrics of watches: their number, and the events that they were sent (ME-61).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Instant;

use actors::dispatcher::{Caller, WatchFrame};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use parking_lot::Mutex;

use crate::api::resource::ResourceDefinition;
use crate::auth::{Access, WatchAccess};
use crate::server::encoding::ends_initial_events;
use crate::server::filters::seats::Seat;
use crate::storage::RunningWatch;
use crate::transport::WatchBody;

/// The smallest upper bound of sizes, which doubles seven times. One more bucket holds larger
/// events.
const SMALLEST_BYTES: usize = 1024;
const BUCKETS: usize = 9;

/// The upper bounds of delays in microseconds. One more bucket holds longer ones.
const DELAYS: [u64; 6] = [1_000, 5_000, 10_000, 25_000, 100_000, 1_000_000];

/// One in this many deliveries per thread and resource is timed, beginning with the first. Timing
/// all of them would add two percent to the cost of a delivery.
const TIMED: u64 = 8;

/// The watch metrics of one thread.
#[derive(Default)]
pub struct WatchMeters {
    by_resource: Mutex<HashMap<Resource, Arc<WatchMeter>>>,
}

/// The watch metrics of one thread and resource. Only that thread counts, so that the cache lines
/// stay with its core.
#[derive(Default)]
pub struct WatchMeter {
    open: AtomicU64,
    events: [AtomicU64; BUCKETS],
    bytes: [AtomicU64; BUCKETS],
    deliveries: AtomicU64,
    delays: [AtomicU64; DELAYS.len() + 1],
    delay_micros: AtomicU64,
}

impl WatchMeters {
    /// Returns the metrics of watches on a resource.
    pub fn of(&self, definition: &ResourceDefinition) -> Arc<WatchMeter> {
        let mut known = self.by_resource.lock();
        Arc::clone(known.entry(Resource::of(definition)).or_default())
    }
}

impl WatchMeter {
    fn count(&self, bytes: usize) {
        let doublings = bytes
            .div_ceil(SMALLEST_BYTES)
            .next_power_of_two()
            .trailing_zeros();
        let bucket = (doublings as usize).min(BUCKETS - 1);
        if let (Some(events), Some(sum)) = (self.events.get(bucket), self.bytes.get(bucket)) {
            add(events, 1);
            add(sum, bytes as u64);
        }
    }

    /// Records the delay of an event since it arrived in the watch cache.
    fn time(&self, since: Instant) {
        let number = self.deliveries.load(Ordering::Relaxed);
        add(&self.deliveries, 1);
        if !number.is_multiple_of(TIMED) {
            return;
        }
        let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        let bucket = DELAYS.partition_point(|bound| *bound < micros);
        if let Some(delays) = self.delays.get(bucket) {
            add(delays, 1);
            add(&self.delay_micros, micros);
        }
    }
}

/// Adds to a counter that only this thread writes.
fn add(counter: &AtomicU64, more: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(more);
    counter.store(sum, Ordering::Relaxed);
}

/// A resource as a set of labels.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Resource {
    group: String,
    version: String,
    resource: String,
}

impl Resource {
    fn of(definition: &ResourceDefinition) -> Resource {
        Resource {
            group: definition.group.clone(),
            version: definition.version.clone(),
            resource: definition.plural.clone(),
        }
    }
}

/// The sums over all threads for one resource.
#[derive(Clone, Copy, Default)]
struct Totals {
    open: u64,
    events: [u64; BUCKETS],
    bytes: [u64; BUCKETS],
    delays: [u64; DELAYS.len() + 1],
    delay_micros: u64,
}

fn totals(
    threads: &[Arc<WatchMeters>],
    is_served: impl Fn(&str, &str, &str) -> bool,
) -> BTreeMap<Resource, Totals> {
    let mut all: BTreeMap<Resource, Totals> = BTreeMap::new();
    for thread in threads {
        let mut meters = thread.by_resource.lock();
        meters.retain(|of, _| is_served(&of.group, &of.version, &of.resource));
        for (resource, meter) in meters.iter() {
            let totals = all.entry(resource.clone()).or_default();
            totals.open += meter.open.load(Ordering::Relaxed);
            let counts = meter.events.iter().zip(&meter.bytes);
            let sums = totals.events.iter_mut().zip(&mut totals.bytes);
            for ((events, bytes), (events_sum, bytes_sum)) in counts.zip(sums) {
                *events_sum += events.load(Ordering::Relaxed);
                *bytes_sum += bytes.load(Ordering::Relaxed);
            }
            for (delays, sum) in meter.delays.iter().zip(&mut totals.delays) {
                *sum += delays.load(Ordering::Relaxed);
            }
            totals.delay_micros += meter.delay_micros.load(Ordering::Relaxed);
        }
    }
    all
}

/// Updates counters and gauges from the counts of all threads for served resources, drops the
/// others, and writes the histograms. The recorder's own histograms keep every sample until they
/// are folded, which is too much for millions of deliveries.
pub(super) fn collect(
    threads: &[Arc<WatchMeters>],
    is_served: impl Fn(&str, &str, &str) -> bool,
) -> String {
    let mut page = format!("# HELP {SIZES} Size of events sent to watchers in bytes\n");
    page.push_str(&format!("# TYPE {SIZES} histogram\n"));
    let mut delays = format!(
        "# HELP {DELAY} Time from the arrival of an event in the watch cache to its delivery to \
         the connection of a watcher that keeps up; one in {TIMED} deliveries is timed\n\
         # TYPE {DELAY} histogram\n"
    );
    for (of, totals) in totals(threads, is_served) {
        let Resource {
            group,
            version,
            resource,
        } = of;
        let labels = format!(r#"group="{group}",version="{version}",resource="{resource}""#);
        write_sizes(&mut page, &labels, &totals);
        write_delays(&mut delays, &labels, &totals);
        gauge!(
            "apiserver_longrunning_requests",
            "verb" => "WATCH", "group" => group.clone(), "version" => version.clone(),
            "resource" => resource.clone(),
            "subresource" => "", "component" => "apiserver",
        )
        .set(totals.open as f64);
        counter!(
            "apiserver_watch_events_total",
            "group" => group, "version" => version, "resource" => resource,
        )
        .absolute(totals.events.iter().sum());
    }
    page + &delays
}

const SIZES: &str = "apiserver_watch_events_sizes";
const DELAY: &str = "taffrail_watch_delivery_seconds";

fn write_sizes(page: &mut String, labels: &str, totals: &Totals) {
    let mut below = 0;
    for (bucket, events) in totals.events.iter().enumerate() {
        below += events;
        let bound = match bucket {
            _ if bucket + 1 == BUCKETS => "+Inf".to_owned(),
            _ => (SMALLEST_BYTES << bucket).to_string(),
        };
        // Writing to a string never fails, here and below.
        let _ = writeln!(page, "{SIZES}_bucket{{{labels},le=\"{bound}\"}} {below}");
    }
    let sum: u64 = totals.bytes.iter().sum();
    let _ = writeln!(page, "{SIZES}_sum{{{labels}}} {sum}");
    let _ = writeln!(page, "{SIZES}_count{{{labels}}} {below}");
}

fn write_delays(page: &mut String, labels: &str, totals: &Totals) {
    let mut below = 0;
    let bounds = DELAYS
        .iter()
        .map(|micros| (*micros as f64 / 1e6).to_string());
    let bounds = bounds.chain(["+Inf".to_owned()]);
    for (bound, delays) in bounds.zip(totals.delays) {
        below += delays;
        let _ = writeln!(page, "{DELAY}_bucket{{{labels},le=\"{bound}\"}} {below}");
    }
    let seconds = totals.delay_micros as f64 / 1e6;
    let _ = writeln!(page, "{DELAY}_sum{{{labels}}} {seconds}");
    let _ = writeln!(page, "{DELAY}_count{{{labels}}} {below}");
}

/// A watch that counts the events that it sends. It is stored inside the state of its stream,
/// because with thousands of watches each further pointer would cost a cache miss.
pub struct MeteredWatch {
    stream: RunningWatch,
    meter: Arc<WatchMeter>,
    access: WatchAccess,
    /// The watch's share of the limit.
    _seat: Option<Seat>,
    /// `Some` until the bookmark that ends the initial events was sent.
    initial: Option<Box<Initial>>,
    /// Called when the watch ends. Boxed twice, because few watches have it and a thin pointer is
    /// smaller.
    at_end: Option<Box<AtEnd>>,
}

/// The function to call when a watch ends.
type AtEnd = Box<dyn FnOnce()>;

/// The start of a watch whose initial events are timed.
struct Initial {
    since: Instant,
    definition: Arc<ResourceDefinition>,
}

impl MeteredWatch {
    /// Counts a stream that was opened with this access and holds this seat. `times_initial` is
    /// whether to time its initial events.
    pub fn new(
        stream: RunningWatch,
        meters: &WatchMeters,
        definition: Arc<ResourceDefinition>,
        times_initial: bool,
        access: Access,
        seat: Option<Seat>,
    ) -> MeteredWatch {
        let meter = meters.of(&definition);
        meter.open.fetch_add(1, Ordering::Relaxed);
        let since = Instant::now();
        MeteredWatch {
            stream,
            meter,
            access: WatchAccess::new(access),
            _seat: seat,
            initial: times_initial.then(|| Box::new(Initial { since, definition })),
            at_end: None,
        }
    }

    fn look_for_initial_end(&mut self, frame: &[u8]) {
        let is_end = |_: &mut Box<Initial>| ends_initial_events(frame);
        if let Some(initial) = self.initial.take_if(is_end) {
            let ResourceDefinition {
                group,
                version,
                plural,
                ..
            } = &*initial.definition;
            histogram!(
                "apiserver_watch_list_duration_seconds",
                "group" => group.clone(), "version" => version.clone(),
                "resource" => plural.clone(),
            )
            .record(initial.since.elapsed().as_secs_f64());
        }
    }

    /// Sets a function that is called when the watch ends, that is, when it is dropped.
    pub fn at_end(&mut self, done: AtEnd) {
        self.at_end = Some(Box::new(done));
    }
}

impl WatchBody for MeteredWatch {
    fn poll_next(&mut self, caller: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        let polled = self.stream.poll_next(caller);
        if let Poll::Ready(Some(frame)) = &polled {
            self.meter.count(frame.bytes.len());
            if let Some(since) = frame.since {
                self.meter.time(since);
            }
            if self.initial.is_some() {
                self.look_for_initial_end(&frame.bytes);
            }
        }
        polled
    }

    fn is_revoked(&self) -> bool {
        self.access.access().is_revoked()
    }

    fn revocation(&self) -> Box<dyn Fn() -> bool> {
        let access = self.access.access().clone();
        Box::new(move || access.is_revoked())
    }
}

impl Drop for MeteredWatch {
    fn drop(&mut self) {
        self.meter.open.fetch_sub(1, Ordering::Relaxed);
        if self.is_revoked() {
            counter!(REVOKED).increment(1);
        }
        if let Some(at_end) = self.at_end.take() {
            at_end();
        }
    }
}

const REVOKED: &str = "taffrail_watches_revoked_total";

pub(super) fn describe() {
    describe_counter!(
        REVOKED,
        "Watches that ended because a reload revoked the token or the rights of their user"
    );
    counter!(REVOKED).increment(0);
    describe_gauge!(
        "apiserver_longrunning_requests",
        "Open watches, logs, commands and port forwardings"
    );
    describe_counter!(
        "apiserver_watch_events_total",
        "Events sent to watchers; an event counts once for each watcher"
    );
    describe_histogram!(
        "apiserver_watch_list_duration_seconds",
        "Time from the start of a watch to the bookmark that ends its initial events"
    );
}
