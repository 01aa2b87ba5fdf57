//! The series of metrics. Resources that can be removed have separate series.
//!
//! The recorder of `metrics-exporter-prometheus` keeps every series forever. A resource that is
//! added to a running daemon therefore gets its own recorder, which is removed with it. The page
//! shows the series of all recorders, each family once.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use parking_lot::RwLock;

use super::TelemetryError;

/// The number of removed resources that are remembered. Late samples for them, such as from a
/// request in progress, create no series.
const REMOVED_MAX: usize = 1024;

/// All series of the process. Clones share the same state.
#[derive(Clone)]
pub struct Series {
    inner: Arc<Inner>,
}

struct Inner {
    builder: fn() -> Result<PrometheusBuilder, TelemetryError>,
    base: PrometheusRecorder,
    /// Whether any resource was added. Before that, no key is checked.
    has_resources: AtomicBool,
    resources: RwLock<Resources>,
}

#[derive(Default)]
struct Resources {
    /// By the name of the resource: `deployments.apps`.
    recorders: HashMap<String, PrometheusRecorder>,
    removed: VecDeque<String>,
}

/// The recorder of a series.
enum Place<'r> {
    Base(&'r PrometheusRecorder),
    Resource(&'r PrometheusRecorder),
    Nowhere,
}

impl Series {
    /// Without any series. `builder` has the buckets of histograms.
    pub(super) fn new(
        builder: fn() -> Result<PrometheusBuilder, TelemetryError>,
    ) -> Result<Series, TelemetryError> {
        let inner = Inner {
            base: builder()?.build_recorder(),
            builder,
            has_resources: AtomicBool::new(false),
            resources: RwLock::default(),
        };
        Ok(Series {
            inner: Arc::new(inner),
        })
    }

    /// Separates the series of this resource, so that they can be removed.
    ///
    /// # Errors
    /// The table of buckets is wrong.
    pub fn add_resource(&self, name: &str) -> Result<(), TelemetryError> {
        let recorder = (self.inner.builder)()?.build_recorder();
        let mut resources = self.inner.resources.write();
        resources.removed.retain(|removed| removed != name);
        resources.recorders.insert(name.to_owned(), recorder);
        self.inner.has_resources.store(true, Ordering::Release);
        Ok(())
    }

    /// Removes every series of an added resource.
    pub fn remove_resource(&self, name: &str) {
        let mut resources = self.inner.resources.write();
        if resources.recorders.remove(name).is_none() {
            return;
        }
        if resources.removed.len() == REMOVED_MAX {
            resources.removed.pop_front();
        }
        resources.removed.push_back(name.to_owned());
    }

    /// Folds the samples of histograms into their buckets.
    pub fn run_upkeep(&self) {
        self.inner.base.handle().run_upkeep();
        for recorder in self.inner.resources.read().recorders.values() {
            recorder.handle().run_upkeep();
        }
    }

    /// All series in Prometheus' text format.
    pub fn render(&self) -> String {
        let base = self.inner.base.handle().render();
        let resources = self.inner.resources.read();
        let pages = resources.recorders.values();
        merged(base, pages.map(|recorder| recorder.handle().render()))
    }

    fn register<T>(
        &self,
        key: &Key,
        register: impl FnOnce(&PrometheusRecorder) -> T,
        nowhere: impl FnOnce() -> T,
    ) -> T {
        if !self.inner.has_resources.load(Ordering::Acquire) {
            return register(&self.inner.base);
        }
        let resources = self.inner.resources.read();
        match resources.place(key, &self.inner.base) {
            Place::Base(recorder) | Place::Resource(recorder) => register(recorder),
            Place::Nowhere => nowhere(),
        }
    }
}

impl Resources {
    fn place<'r>(&'r self, key: &Key, base: &'r PrometheusRecorder) -> Place<'r> {
        let Some(name) = resource_of(key) else {
            return Place::Base(base);
        };
        match self.recorders.get(&name) {
            Some(recorder) => Place::Resource(recorder),
            None if self.removed.contains(&name) => Place::Nowhere,
            None => Place::Base(base),
        }
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

/// Merges pages. Each family of series appears once, with all its samples below its header.
fn merged(base: String, pages: impl Iterator<Item = String>) -> String {
    let mut further: BTreeMap<String, Family> = BTreeMap::new();
    for page in pages {
        for family in families(&page) {
            let known = further
                .entry(family.name.clone())
                .or_insert_with(|| Family {
                    samples: String::new(),
                    ..family.clone()
                });
            known.samples += &family.samples;
        }
    }
    if further.is_empty() {
        return base;
    }
    let mut page = String::with_capacity(base.len() * 2);
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

/// A family of series on a page.
#[derive(Clone, Default)]
struct Family {
    name: String,
    /// Its help and type lines.
    head: String,
    samples: String,
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

/// Every description goes to the base recorder, and the page shows it once.
impl Recorder for Series {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner.base.describe_counter(key, unit, text);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner.base.describe_gauge(key, unit, text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner.base.describe_histogram(key, unit, text);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let register = |recorder: &PrometheusRecorder| recorder.register_counter(key, metadata);
        self.register(key, register, Counter::noop)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let register = |recorder: &PrometheusRecorder| recorder.register_gauge(key, metadata);
        self.register(key, register, Gauge::noop)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let register = |recorder: &PrometheusRecorder| recorder.register_histogram(key, metadata);
        self.register(key, register, Histogram::noop)
    }
}

#[cfg(test)]
mod tests {
    use metrics::{Label, with_local_recorder};

    use super::*;

    fn series() -> Series {
        Series::new(|| Ok(PrometheusBuilder::new())).unwrap()
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
        series.add_resource("gadgets.example.com").unwrap();
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
        series.add_resource("gadgets.example.com").unwrap();
        count(&series, "gadgets", "example.com");
        assert!(series.render().contains("gadgets"));
    }

    #[test]
    fn what_is_remembered_of_removed_resources_is_bounded() {
        let series = series();
        for number in 0..REMOVED_MAX * 2 {
            let name = format!("gadgets-{number}");
            series.add_resource(&name).unwrap();
            series.remove_resource(&name);
        }
        let resources = series.inner.resources.read();
        assert_eq!(resources.removed.len(), REMOVED_MAX);
        assert!(resources.recorders.is_empty());
    }

    #[test]
    fn samples_without_a_family_are_no_reason_to_fail() {
        assert!(families("x 1\n\n").is_empty());
        assert_eq!(families("# TYPE x counter\nx 1\n").len(), 1);
    }
}
