//! The series of one resource, with little memory and cheap rendering.
//!
//! All resources have the same series, except for the name in their labels. A series therefore
//! keeps only its value, and shares a [`Template`] with the same series of other resources. Most
//! lines of the page are those of resources, so a template has most of what its lines share as
//! text.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use metrics::{Counter, Gauge, GaugeFn, Histogram, HistogramFn, Key, SharedString};
use metrics_exporter_prometheus::formatting::{
    sanitize_label_key, sanitize_label_value, sanitize_metric_name, write_help_line,
    write_type_line,
};
use parking_lot::Mutex;

use super::family::Family;

/// The type of a series.
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
    /// The bounds of a histogram's buckets, as text.
    bounds: Vec<String>,
    ordinary: Ordinary,
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
    /// The same for every resource, and as the page shows it.
    Fixed(String, String),
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
            None => LabelValue::Fixed(value.to_owned(), sanitize_label_value(value)),
        }
    }

    fn is(&self, value: &str, resource: &str) -> bool {
        match self {
            LabelValue::Plural => value == plural_and_group(resource).0,
            LabelValue::Group => value == plural_and_group(resource).1,
            LabelValue::Qualified(prefix) => value.strip_prefix(&**prefix) == Some(resource),
            LabelValue::Fixed(text, _) => value == text,
        }
    }

    fn write(&self, text: &mut String, named: &Named) {
        match self {
            LabelValue::Plural => text.push_str(&named.plural),
            LabelValue::Group => text.push_str(&named.group),
            LabelValue::Qualified(prefix) => {
                text.push_str(&sanitize_label_value(prefix));
                text.push_str(&named.qualified);
            }
            LabelValue::Fixed(_, shown) => text.push_str(shown),
        }
    }
}

/// The name of a resource, as the values of labels show it.
struct Named {
    qualified: String,
    plural: String,
    group: String,
}

impl Named {
    fn of(resource: &str) -> Named {
        let (plural, group) = plural_and_group(resource);
        Named {
            qualified: sanitize_label_value(resource),
            plural: sanitize_label_value(plural),
            group: sanitize_label_value(group),
        }
    }
}

impl Template {
    fn of(kind: Kind, key: &Key, resource: &str, value: &Value) -> Template {
        let labels = key.labels().map(|label| {
            let value = LabelValue::of(label.value(), resource);
            (label.key().to_owned(), value)
        });
        Template {
            kind,
            ordinary: Ordinary::of(key.name()),
            name: key.name().to_owned(),
            labels: labels.collect(),
            bounds: match value {
                Value::Histogram(buckets) => buckets.bounds.iter().map(f64::to_string).collect(),
                Value::Counter(_) | Value::Gauge(_) => Vec::new(),
            },
        }
    }

    /// Whether this is the series of the key, whatever the order of its labels.
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

    /// Writes `group="apps",resource="deployments"`.
    fn write_labels(&self, text: &mut String, named: &Named) {
        text.clear();
        for (name, value) in &self.labels {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&sanitize_label_key(name));
            text.push_str("=\"");
            value.write(text, named);
            text.push('"');
        }
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

    /// The families of the page for these templates, in order of their names, with these help texts
    /// and without samples. They are valid while nothing is pruned.
    pub(super) fn families(&self, help: &HashMap<String, SharedString>) -> Families {
        let mut all: Vec<Family> = Vec::new();
        let mut by_template = HashMap::new();
        let templates = self.0.lock();
        let mut sorted: Vec<_> = templates.iter().collect();
        sorted.sort_by(|one, other| one.name.cmp(&other.name));
        for template in sorted {
            let name = sanitize_metric_name(&template.name);
            if all.last().is_none_or(|family| family.name != name) {
                let mut head = String::new();
                if let Some(text) = help.get(&template.name) {
                    write_help_line(&mut head, &name, None, None, text);
                }
                write_type_line(&mut head, &name, None, None, template.kind.name());
                all.push(Family {
                    name,
                    head,
                    samples: String::new(),
                });
            }
            by_template.insert(Arc::as_ptr(template), all.len() - 1);
        }
        Families { all, by_template }
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

impl Value {
    /// The value, or how many samples there are.
    fn number(&self) -> f64 {
        match self {
            Value::Counter(value) => value.load(Ordering::Relaxed) as f64,
            Value::Gauge(value) => f64::from_bits(value.load(Ordering::Relaxed)),
            Value::Histogram(buckets) => {
                let counts = buckets.counts.iter();
                counts
                    .map(|count| count.load(Ordering::Relaxed))
                    .sum::<u64>() as f64
            }
        }
    }
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

/// A resource gets a few dozen series once and few more later. So the list grows by few.
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
pub(super) struct ResourceSeries {
    all: Mutex<Vec<OneSeries>>,
    /// Whether they are shown only when there is something to see.
    is_unused: AtomicBool,
}

/// The key of a series that is registered, and the data needed to add it.
#[derive(Clone, Copy)]
pub(super) struct Registration<'r> {
    pub(super) key: &'r Key,
    /// The name of the resource: `deployments.apps`.
    pub(super) resource: &'r str,
    pub(super) templates: &'r Templates,
}

/// Series that move while nobody uses a resource: its cache is filled and follows the store.
const OF_UNUSED: &[&str] = &[
    "apiserver_watch_cache_initializations_total",
    "apiserver_watch_cache_resource_version",
    "etcd_bookmark_total",
    "etcd_request_duration_seconds",
    "etcd_request_errors_total",
    "etcd_requests_total",
];

/// The series that are 1 while all is well.
const PART_READY: &str = "taffrail_part_ready";

/// The values of a series of a resource that nobody uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Ordinary {
    /// It says nothing of use, whatever it is.
    Any,
    One,
    Zero,
}

impl Ordinary {
    fn of(name: &str) -> Ordinary {
        match name {
            PART_READY => Ordinary::One,
            name if OF_UNUSED.contains(&name) => Ordinary::Any,
            _ => Ordinary::Zero,
        }
    }
}

impl ResourceSeries {
    /// The series of a resource that nobody has used yet.
    pub(super) fn unused() -> ResourceSeries {
        ResourceSeries {
            is_unused: AtomicBool::new(true),
            ..ResourceSeries::default()
        }
    }

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
        let mut series = self.all.lock();
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
            template: templates.share(Template::of(kind, key, resource, &value)),
            value: value.clone(),
        });
        value
    }

    /// Adds the samples to their families.
    pub(super) fn render(&self, resource: &str, families: &mut Families) {
        let series = self.all.lock();
        if self.is_unused.load(Ordering::Relaxed) {
            if series.iter().all(OneSeries::is_ordinary) {
                return;
            }
            let is_used = series.iter().any(OneSeries::is_of_use);
            self.is_unused.store(!is_used, Ordering::Relaxed);
        }
        let named = Named::of(resource);
        let mut labels = String::new();
        for one in &*series {
            // A template that was added after the families were made is on the next page.
            if let Some(family) = families.of(&one.template) {
                one.template.write_labels(&mut labels, &named);
                one.render(&labels, family);
            }
        }
    }
}

impl OneSeries {
    /// Whether it is as it is while nobody uses the resource.
    fn is_ordinary(&self) -> bool {
        match self.template.ordinary {
            Ordinary::Any => true,
            Ordinary::One => self.value.number() == 1.0,
            Ordinary::Zero => self.value.number() == 0.0,
        }
    }

    /// Whether it proves that somebody has used the resource, now or earlier.
    fn is_of_use(&self) -> bool {
        !matches!(self.value, Value::Gauge(_)) && !self.is_ordinary()
    }

    fn render(&self, labels: &str, family: &mut Family) {
        match &self.value {
            Value::Counter(value) => {
                family.add("", labels, None, value.load(Ordering::Acquire));
            }
            Value::Gauge(value) => {
                let value = f64::from_bits(value.load(Ordering::Acquire));
                family.add("", labels, None, value);
            }
            Value::Histogram(buckets) => buckets.render(&self.template.bounds, labels, family),
        }
    }
}

impl Buckets {
    fn render(&self, bounds: &[String], labels: &str, family: &mut Family) {
        let mut total = 0;
        let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
        for (bound, count) in bounds.zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            family.add("_bucket", labels, Some(bound), total);
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Acquire));
        family.add("_sum", labels, None, sum);
        family.add("_count", labels, None, total);
    }
}

impl Family {
    /// Adds a line. `bound` is the upper bound of a bucket.
    fn add(&mut self, suffix: &str, labels: &str, bound: Option<&str>, value: impl Display) {
        let Family { name, samples, .. } = self;
        for piece in [name, suffix, "{", labels] {
            samples.push_str(piece);
        }
        if let Some(bound) = bound {
            for piece in [",le=\"", bound, "\""] {
                samples.push_str(piece);
            }
        }
        // Writing to a string never fails.
        let _ = writeln!(samples, "}} {value}");
    }
}

/// The families that templates make.
pub(super) struct Families {
    all: Vec<Family>,
    by_template: HashMap<*const Template, usize>,
}

impl Families {
    fn of(&mut self, template: &Arc<Template>) -> Option<&mut Family> {
        self.all
            .get_mut(*self.by_template.get(&Arc::as_ptr(template))?)
    }

    /// The families by their names.
    pub(super) fn by_name(self) -> BTreeMap<String, Family> {
        let named = self.all.into_iter();
        named.map(|family| (family.name.clone(), family)).collect()
    }
}
