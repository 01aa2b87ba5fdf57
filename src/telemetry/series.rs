//! The series of metrics. Those of resources are kept apart.
//!
//! The recorder of `metrics-exporter-prometheus` keeps every series forever, takes some KiB with
//! all its tables, and renders a line in some microseconds. A resource has dozens of series, and
//! there may be hundreds of resources, which come and go. Their series are therefore kept apart
//! from it ([`ResourceSeries`]), and are removed with the resource. The page shows all series, each
//! family once.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use actors::threads::ThreadRecorder;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use parking_lot::RwLock;

use super::TelemetryError;
use super::family::Family;
use super::resource_series::{Registration, ResourceSeries, Templates};

/// The number of removed resources that are remembered. Late samples for them, such as from a
/// request in progress, create no series.
const REMOVED_MAX: usize = 1024;

/// The quantiles of a histogram without buckets, as Kubernetes' summaries have them.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// Quantiles are those of the last five hours, which are forgotten hour by hour.
const SUMMARY_PART: Duration = Duration::from_secs(60 * 60);
const SUMMARY_PARTS: NonZeroU32 = NonZeroU32::MIN.saturating_add(4);

/// All series of a daemon. Clones share the same state.
#[derive(Clone)]
pub struct Series {
    inner: Arc<Inner>,
}

struct Inner {
    base: PrometheusRecorder,
    /// The bounds of histograms' buckets, by name.
    buckets: Vec<(Matcher, &'static [f64])>,
    /// The help texts, by name.
    help: RwLock<HashMap<String, SharedString>>,
    /// Whether any resource was added. Before that, no key is checked.
    has_resources: AtomicBool,
    resources: RwLock<Resources>,
}

#[derive(Default)]
struct Resources {
    /// By the name of the resource: `deployments.apps`.
    added: HashMap<String, ResourceSeries>,
    templates: Templates,
    removed: VecDeque<String>,
}

/// Where a series is kept.
enum Place<'r> {
    Base(&'r PrometheusRecorder),
    Resource(&'r ResourceSeries, Registration<'r>),
    Nowhere,
}

impl Series {
    /// Without any series. These are the bounds of histograms' buckets.
    pub(super) fn new(
        mut buckets: Vec<(Matcher, &'static [f64])>,
    ) -> Result<Series, TelemetryError> {
        // The order in which the exporter tries them.
        buckets.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut builder = PrometheusBuilder::new()
            .set_quantiles(&QUANTILES)?
            .set_bucket_duration(SUMMARY_PART)?
            .set_bucket_count(SUMMARY_PARTS);
        for (matcher, bounds) in &buckets {
            builder = builder.set_buckets_for_metric(matcher.clone(), bounds)?;
        }
        let inner = Inner {
            base: builder.build_recorder(),
            buckets,
            help: RwLock::default(),
            has_resources: AtomicBool::new(false),
            resources: RwLock::default(),
        };
        Ok(Series {
            inner: Arc::new(inner),
        })
    }

    /// A recorder for the threads of one daemon. It measures into these series as long as they
    /// exist, and into nothing afterwards. The recorder, and the emptied box of the series that it
    /// refers to, are never freed, because a thread may end at any time: some hundred bytes.
    pub fn thread_recorder(&self) -> ThreadRecorder {
        Box::leak(Box::new(Forwarder(Arc::downgrade(&self.inner))))
    }

    /// Keeps the series of this resource separately. Call it before they are measured.
    pub fn add_resource(&self, name: &str) {
        self.add(name, ResourceSeries::default);
    }

    /// Does the same for a resource that is not in use yet. The page shows its series from its
    /// first use on, or when they show a problem.
    pub fn add_unused_resource(&self, name: &str) {
        self.add(name, ResourceSeries::unused);
    }

    fn add(&self, name: &str, new: fn() -> ResourceSeries) {
        let mut resources = self.inner.resources.write();
        resources.removed.retain(|removed| removed != name);
        resources.added.entry(name.to_owned()).or_insert_with(new);
        self.inner.has_resources.store(true, Ordering::Release);
    }

    /// Removes every series of an added resource.
    pub fn remove_resource(&self, name: &str) {
        let mut resources = self.inner.resources.write();
        if resources.added.remove(name).is_none() {
            return;
        }
        resources.templates.prune();
        if resources.removed.len() == REMOVED_MAX {
            resources.removed.pop_front();
        }
        resources.removed.push_back(name.to_owned());
    }

    /// Folds the samples of histograms into their buckets.
    pub fn run_upkeep(&self) {
        self.inner.base.handle().run_upkeep();
    }

    /// All series in Prometheus' text format.
    pub fn render(&self) -> String {
        let base = self.inner.base.handle().render();
        // Nothing is pruned while this is held.
        let resources = self.inner.resources.read();
        let mut families = resources.templates.families(&self.inner.help.read());
        for (name, series) in &resources.added {
            series.render(name, &mut families);
        }
        drop(resources);
        merged(base, families.by_name())
    }

    fn describe(&self, key: &KeyName, text: &SharedString) {
        let mut help = self.inner.help.write();
        help.insert(key.as_str().to_owned(), text.clone());
    }

    fn register<T>(&self, key: &Key, register: impl FnOnce(Place<'_>) -> T) -> T {
        if !self.inner.has_resources.load(Ordering::Acquire) {
            return register(Place::Base(&self.inner.base));
        }
        let Some(resource) = resource_of(key) else {
            return register(Place::Base(&self.inner.base));
        };
        let resources = self.inner.resources.read();
        register(match resources.added.get(&resource) {
            Some(series) => {
                let registration = Registration {
                    key,
                    resource: &resource,
                    templates: &resources.templates,
                };
                Place::Resource(series, registration)
            }
            None if resources.removed.contains(&resource) => Place::Nowhere,
            None => Place::Base(&self.inner.base),
        })
    }

    /// The bounds of a histogram's buckets. Without any, all samples are in one.
    fn bounds(&self, key: &Key) -> &'static [f64] {
        let mut known = self.inner.buckets.iter();
        let known = known.find(|(matcher, _)| matcher.matches(key.name()));
        known.map_or(&[], |(_, bounds)| bounds)
    }
}

/// The resource of a series, from its labels `resource` and `group`, or from the actor in `part`,
/// `cacher/deployments.apps`.
fn resource_of(key: &Key) -> Option<String> {
    let label = |name: &str| {
        let mut labels = key.labels();
        labels.find(|label| label.key() == name).map(|l| l.value())
    };
    if let Some((_, resource)) = label("part").and_then(|part| part.split_once('/')) {
        return Some(resource.to_owned());
    }
    let resource = label("resource")?;
    Some(match label("group") {
        None | Some("") => resource.to_owned(),
        Some(group) => format!("{resource}.{group}"),
    })
}

/// Adds further families to a page. Each appears once, with all its samples below its header.
fn merged(base: String, mut further: BTreeMap<String, Family>) -> String {
    if further.is_empty() {
        return base;
    }
    let more: usize = further.values().map(|family| family.samples.len()).sum();
    let mut page = String::with_capacity(base.len() + base.len() / 8 + more);
    for family in families(&base) {
        page += &family.head;
        page += &family.samples;
        if let Some(more) = further.remove(&family.name) {
            page += &more.samples;
        }
        page.push('\n');
    }
    for family in further.into_values() {
        page += &family.head;
        page += &family.samples;
        page.push('\n');
    }
    page
}

fn families(page: &str) -> Vec<Family> {
    let mut all: Vec<Family> = Vec::new();
    for line in page.lines().filter(|line| !line.is_empty()) {
        let named = line.strip_prefix("# ").and_then(|rest| {
            let mut words = rest.split(' ');
            let word = words.next().filter(|word| matches!(*word, "HELP" | "TYPE"));
            word.and(words.next())
        });
        let is_new = |name: &str| all.last().is_none_or(|family| family.name != name);
        if let Some(name) = named.filter(|name| is_new(name)) {
            all.push(Family {
                name: name.to_owned(),
                ..Family::default()
            });
        }
        if let Some(family) = all.last_mut() {
            let lines = match named {
                Some(_) => &mut family.head,
                None => &mut family.samples,
            };
            *lines += line;
            lines.push('\n');
        }
    }
    all
}

/// Measures into series as long as they exist.
struct Forwarder(Weak<Inner>);

impl Forwarder {
    fn series(&self) -> Option<Series> {
        self.0.upgrade().map(|inner| Series { inner })
    }
}

impl Recorder for Forwarder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        if let Some(series) = self.series() {
            series.describe_counter(key, unit, text);
        }
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        if let Some(series) = self.series() {
            series.describe_gauge(key, unit, text);
        }
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        if let Some(series) = self.series() {
            series.describe_histogram(key, unit, text);
        }
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let series = self.series();
        series.map_or_else(Counter::noop, |series| {
            series.register_counter(key, metadata)
        })
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let series = self.series();
        series.map_or_else(Gauge::noop, |series| series.register_gauge(key, metadata))
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let series = self.series();
        series.map_or_else(Histogram::noop, |series| {
            series.register_histogram(key, metadata)
        })
    }
}

/// A description holds for series of both kinds, and the page shows it once.
impl Recorder for Series {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(&key, &text);
        self.inner.base.describe_counter(key, unit, text);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(&key, &text);
        self.inner.base.describe_gauge(key, unit, text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(&key, &text);
        self.inner.base.describe_histogram(key, unit, text);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.register(key, |place| match place {
            Place::Base(recorder) => recorder.register_counter(key, metadata),
            Place::Resource(series, registration) => series.counter(registration),
            Place::Nowhere => Counter::noop(),
        })
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.register(key, |place| match place {
            Place::Base(recorder) => recorder.register_gauge(key, metadata),
            Place::Resource(series, registration) => series.gauge(registration),
            Place::Nowhere => Gauge::noop(),
        })
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.register(key, |place| match place {
            Place::Base(recorder) => recorder.register_histogram(key, metadata),
            Place::Resource(series, registration) => {
                series.histogram(registration, || self.bounds(key))
            }
            Place::Nowhere => Histogram::noop(),
        })
    }
}

#[cfg(test)]
mod tests {
    use metrics::{Label, with_local_recorder};

    use super::*;

    fn series() -> Series {
        let seconds = Matcher::Suffix("_seconds".to_owned());
        Series::new(vec![(seconds, &[0.1, 1.0])]).unwrap()
    }

    fn count(series: &Series, resource: &'static str, group: &'static str) {
        with_local_recorder(series, || {
            let labels = vec![
                Label::from_static_parts("group", group),
                Label::from_static_parts("resource", resource),
            ];
            metrics::counter!("lists", labels).increment(1);
            metrics::gauge!("part", "part" => format!("cacher/{resource}.{group}")).set(1.0);
        });
    }

    #[test]
    fn a_resource_that_is_removed_leaves_no_series() {
        let series = series();
        count(&series, "pods", "");
        let before = series.render();
        series.add_resource("gadgets.example.com");
        count(&series, "gadgets", "example.com");
        count(&series, "pods", "");
        let page = series.render();
        assert_eq!(page.matches("# TYPE lists counter").count(), 1, "{page}");
        assert!(
            page.contains(r#"lists{group="",resource="pods"} 2"#),
            "{page}"
        );
        assert!(page.contains(r#"lists{group="example.com",resource="gadgets"} 1"#));
        assert!(page.contains(r#"part{part="cacher/gadgets.example.com"} 1"#));
        series.remove_resource("gadgets.example.com");
        // A request in progress.
        count(&series, "gadgets", "example.com");
        assert_eq!(
            series.render(),
            before.replace("} 1\n\n# TYPE part", "} 2\n\n# TYPE part")
        );
        series.add_resource("gadgets.example.com");
        count(&series, "gadgets", "example.com");
        assert!(series.render().contains("gadgets"));
    }

    /// The lines of a page, sorted, with this name for `gadgets`.
    fn lines(page: &str, name: &str) -> Vec<String> {
        let lines = page.lines().map(|line| line.replace("gadgets", name));
        let mut lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_series_of_an_added_resource_are_rendered_as_all_others() {
        let measure = |series: &Series, group: &'static str| {
            count(series, "gadgets", group);
            with_local_recorder(series, || {
                let labels = [("resource", "gadgets"), ("group", group), ("verb", "\"a\"")];
                metrics::counter!("size_total", &labels).absolute(7);
                metrics::gauge!("part", "part" => format!("reflector/gadgets.{group}")).set(1.5);
                for sample in [0.05, 0.1, 0.2, 2.0] {
                    metrics::histogram!("took_seconds", &labels).record(sample);
                }
                let _ = metrics::histogram!("wait_seconds", &labels);
                let _ = metrics::counter!("unused", &labels);
            });
            series.render()
        };
        let (base, added) = (series(), series());
        added.add_resource("gadgets.example.com");
        let page = measure(&added, "example.com");
        assert!(page.contains("took_seconds_bucket"), "{page}");
        let expected = lines(&measure(&base, "example.com"), "widgets");
        assert_eq!(lines(&page, "widgets"), expected);
    }

    #[test]
    fn an_unused_resource_is_shown_when_it_is_used_or_something_is_wrong() {
        let series = series();
        series.add_unused_resource("gadgets.example.com");
        let labels = [("group", "example.com"), ("resource", "gadgets")];
        let set = |ready: f64, objects: f64| {
            with_local_recorder(&series, || {
                let part = "cacher/gadgets.example.com";
                metrics::gauge!("taffrail_part_ready", "part" => part).set(ready);
                metrics::gauge!("apiserver_resource_objects", &labels).set(objects);
                metrics::gauge!("apiserver_watch_cache_resource_version", &labels).set(7.0);
                metrics::counter!("etcd_requests_total", &labels).increment(1);
                let _ = metrics::counter!("lists", &labels);
            });
            series.render().matches("gadgets").count()
        };
        assert_eq!(set(1.0, 0.0), 0);
        assert_eq!(set(0.0, 0.0), 5);
        assert_eq!(set(1.0, 0.0), 0);
        assert_eq!(set(1.0, 3.0), 5);
        assert_eq!(set(1.0, 0.0), 0);
        count(&series, "gadgets", "example.com");
        assert!(set(1.0, 0.0) > 5);
    }

    #[test]
    fn resources_share_the_templates_of_their_series() {
        let series = series();
        let templates = || series.inner.resources.read().templates.count();
        let names = ["gadgets", "widgets"];
        for name in names {
            series.add_resource(&format!("{name}.example.com"));
            count(&series, name, "example.com");
            count(&series, name, "example.com");
            assert_eq!(templates(), 2);
        }
        let page = series.render();
        for name in names {
            assert!(
                page.contains(&format!(r#"resource="{name}"}} 2"#)),
                "{page}"
            );
            assert_eq!(templates(), 2);
            series.remove_resource(&format!("{name}.example.com"));
        }
        assert_eq!(templates(), 0);
    }

    #[test]
    fn what_is_remembered_of_removed_resources_is_bounded() {
        let series = series();
        for number in 0..REMOVED_MAX * 2 {
            let name = format!("gadgets-{number}");
            series.add_resource(&name);
            series.remove_resource(&name);
        }
        let resources = series.inner.resources.read();
        assert_eq!(resources.removed.len(), REMOVED_MAX);
        assert!(resources.added.is_empty());
    }

    #[test]
    fn samples_without_a_family_are_no_reason_to_fail() {
        assert!(families("x 1\n\n").is_empty());
        assert_eq!(families("# TYPE x counter\nx 1\n").len(), 1);
    }
}
