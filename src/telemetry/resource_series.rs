//! The series of one resource that was added to a running daemon, in little memory.
//!
//! Resources have the same series but for the name in their labels. A series therefore keeps its
//! value alone, and shares a [`Template`] with the same series of other resources.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, GaugeFn, Histogram, HistogramFn, Key, Label};
use metrics_exporter_prometheus::LabelSet;
use metrics_exporter_prometheus::formatting::{
    sanitize_metric_name, write_metric_line, write_type_line,
};
use parking_lot::Mutex;

use super::series::Family;

/// What a series measures.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A series whose resource is left open.
#[derive(PartialEq, Eq, Hash)]
struct Template {
    kind: Kind,
    name: String,
    labels: Vec<(String, LabelValue)>,
}

/// The value of a label in a [`Template`].
#[derive(PartialEq, Eq, Hash)]
enum LabelValue {
    /// `deployments` of `deployments.apps`.
    Plural,
    /// `apps` of `deployments.apps`.
    Group,
    /// This prefix and then the whole name, such as in `cacher/deployments.apps`.
    Qualified(String),
    /// The same for every resource.
    Fixed(String),
}

/// `deployments.apps` as `deployments` and `apps`.
fn plural_and_group(resource: &str) -> (&str, &str) {
    resource.split_once('.').unwrap_or((resource, ""))
}

impl LabelValue {
    fn of(value: &str, resource: &str) -> LabelValue {
        let (plural, group) = plural_and_group(resource);
        if value == plural {
            return LabelValue::Plural;
        }
        if value == group {
            return LabelValue::Group;
        }
        match value.strip_suffix(resource) {
            Some(prefix) => LabelValue::Qualified(prefix.to_owned()),
            None => LabelValue::Fixed(value.to_owned()),
        }
    }

    fn is(&self, value: &str, resource: &str) -> bool {
        match self {
            LabelValue::Plural => value == plural_and_group(resource).0,
            LabelValue::Group => value == plural_and_group(resource).1,
            LabelValue::Qualified(prefix) => value.strip_prefix(&**prefix) == Some(resource),
            LabelValue::Fixed(text) => value == text,
        }
    }

    fn text(&self, resource: &str) -> String {
        match self {
            LabelValue::Plural => plural_and_group(resource).0.to_owned(),
            LabelValue::Group => plural_and_group(resource).1.to_owned(),
            LabelValue::Qualified(prefix) => format!("{prefix}{resource}"),
            LabelValue::Fixed(text) => text.clone(),
        }
    }
}

impl Template {
    fn of(kind: Kind, key: &Key, resource: &str) -> Template {
        let labels = key.labels().map(|label| {
            let value = LabelValue::of(label.value(), resource);
            (label.key().to_owned(), value)
        });
        Template {
            kind,
            name: key.name().to_owned(),
            labels: labels.collect(),
        }
    }

    /// Whether this is the series of that key, whatever the order of its labels.
    fn is(&self, kind: Kind, key: &Key, resource: &str) -> bool {
        let has = |(name, value): &(String, LabelValue)| {
            let mut labels = key.labels();
            labels.any(|label| label.key() == name && value.is(label.value(), resource))
        };
        self.kind == kind
            && self.name == key.name()
            && self.labels.len() == key.labels().len()
            && self.labels.iter().all(has)
    }

    fn labels(&self, resource: &str) -> LabelSet {
        let labels = self.labels.iter();
        let labels = labels.map(|(name, value)| Label::new(name.clone(), value.text(resource)));
        let key = Key::from_parts(self.name.clone(), labels.collect::<Vec<_>>());
        LabelSet::from_key_and_global(&key, &Default::default())
    }
}

/// The templates in use. Series of all resources share them.
#[derive(Default)]
pub(super) struct Templates(Mutex<HashSet<Arc<Template>>>);

impl Templates {
    fn share(&self, template: Template) -> Arc<Template> {
        let mut templates = self.0.lock();
        if let Some(known) = templates.get(&template) {
            return Arc::clone(known);
        }
        let template = Arc::new(template);
        templates.insert(Arc::clone(&template));
        template
    }

    /// Drops the templates that no series has any more.
    pub(super) fn prune(&self) {
        let mut templates = self.0.lock();
        templates.retain(|template| Arc::strong_count(template) > 1);
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }
}

/// The value of a series.
#[derive(Clone)]
enum Value {
    Counter(Arc<AtomicU64>),
    Gauge(Arc<AtomicU64>),
    Histogram(Arc<Buckets>),
}

/// The samples of a histogram.
struct Buckets {
    bounds: &'static [f64],
    /// The samples up to each bound and above the previous one; the last are above all bounds.
    counts: Box<[AtomicU64]>,
    /// The bits of a float.
    sum: AtomicU64,
}

impl Buckets {
    fn new(bounds: &'static [f64]) -> Buckets {
        Buckets {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }
}

impl HistogramFn for Buckets {
    fn record(&self, sample: f64) {
        let place = self.bounds.iter().position(|bound| sample <= *bound);
        if let Some(count) = self.counts.get(place.unwrap_or(self.bounds.len())) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        GaugeFn::increment(&self.sum, sample);
    }
}

/// A resource gets a few dozen series once and then few more. So the list grows by few.
const GROW_BY: usize = 4;

/// A series of a resource.
struct OneSeries {
    /// The hash of its key.
    hash: u64,
    template: Arc<Template>,
    value: Value,
}

/// All series of one resource.
#[derive(Default)]
pub(super) struct ResourceSeries(Mutex<Vec<OneSeries>>);

/// The key of a series that is registered, and what it takes to add it.
#[derive(Clone, Copy)]
pub(super) struct Registration<'r> {
    pub(super) key: &'r Key,
    /// The name of the resource: `deployments.apps`.
    pub(super) resource: &'r str,
    pub(super) templates: &'r Templates,
}

impl ResourceSeries {
    pub(super) fn counter(&self, registration: Registration<'_>) -> Counter {
        let new = || Value::Counter(Arc::default());
        match self.value(Kind::Counter, registration, new) {
            Value::Counter(value) => Counter::from_arc(value),
            Value::Gauge(_) | Value::Histogram(_) => Counter::noop(),
        }
    }

    pub(super) fn gauge(&self, registration: Registration<'_>) -> Gauge {
        let new = || Value::Gauge(Arc::default());
        match self.value(Kind::Gauge, registration, new) {
            Value::Gauge(value) => Gauge::from_arc(value),
            Value::Counter(_) | Value::Histogram(_) => Gauge::noop(),
        }
    }

    /// The histogram with these bounds of buckets.
    pub(super) fn histogram(
        &self,
        registration: Registration<'_>,
        bounds: impl FnOnce() -> &'static [f64],
    ) -> Histogram {
        let new = || Value::Histogram(Arc::new(Buckets::new(bounds())));
        match self.value(Kind::Histogram, registration, new) {
            Value::Histogram(buckets) => Histogram::from_arc(buckets),
            Value::Counter(_) | Value::Gauge(_) => Histogram::noop(),
        }
    }

    fn value(
        &self,
        kind: Kind,
        registration: Registration<'_>,
        new: impl FnOnce() -> Value,
    ) -> Value {
        let Registration {
            key,
            resource,
            templates,
        } = registration;
        let hash = key.get_hash();
        let mut series = self.0.lock();
        let is_known = |one: &&OneSeries| one.hash == hash && one.template.is(kind, key, resource);
        if let Some(known) = series.iter().find(is_known) {
            return known.value.clone();
        }
        let value = new();
        if series.len() == series.capacity() {
            series.reserve_exact(GROW_BY);
        }
        series.push(OneSeries {
            hash,
            template: templates.share(Template::of(kind, key, resource)),
            value: value.clone(),
        });
        value
    }

    /// Adds the samples to their families.
    pub(super) fn render(&self, resource: &str, families: &mut BTreeMap<String, Family>) {
        for one in &*self.0.lock() {
            let name = sanitize_metric_name(&one.template.name);
            let family = families.entry(name).or_insert_with_key(|name| {
                let mut head = String::new();
                write_type_line(&mut head, name, None, None, one.template.kind.name());
                Family {
                    name: name.clone(),
                    head,
                    samples: String::new(),
                }
            });
            one.render(resource, family);
        }
    }
}

impl OneSeries {
    fn render(&self, resource: &str, family: &mut Family) {
        let Family { name, samples, .. } = family;
        let labels = &self.template.labels(resource);
        match &self.value {
            Value::Counter(value) => {
                let value = value.load(Ordering::Acquire);
                write_metric_line::<&str, u64>(samples, name, None, labels, None, value, None);
            }
            Value::Gauge(value) => {
                let value = f64::from_bits(value.load(Ordering::Acquire));
                write_metric_line::<&str, f64>(samples, name, None, labels, None, value, None);
            }
            Value::Histogram(buckets) => buckets.render(name, labels, samples),
        }
    }
}

impl Buckets {
    fn render(&self, name: &str, labels: &LabelSet, samples: &mut String) {
        let mut counts = self.counts.iter();
        let mut total = 0;
        let bucket = Some("bucket");
        for (bound, count) in self.bounds.iter().zip(&mut counts) {
            total += count.load(Ordering::Relaxed);
            let le = Some(("le", *bound));
            write_metric_line(samples, name, bucket, labels, le, total, None);
        }
        total += counts
            .map(|count| count.load(Ordering::Relaxed))
            .sum::<u64>();
        let le = Some(("le", "+Inf"));
        write_metric_line(samples, name, bucket, labels, le, total, None);
        let sum = f64::from_bits(self.sum.load(Ordering::Acquire));
        write_metric_line::<&str, f64>(samples, name, Some("sum"), labels, None, sum, None);
        write_metric_line::<&str, u64>(samples, name, Some("count"), labels, None, total, None);
    }
}
