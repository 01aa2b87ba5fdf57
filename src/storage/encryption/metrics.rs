//! The metrics of transformers (ME-40, ME-41, ME-71). Each resource with a rule has its series.
//! Values of other resources are not counted.

use std::time::Instant;

use metrics::{
    Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    histogram,
};

const SECONDS: &str = "apiserver_storage_transformation_duration_seconds";
const OPERATIONS: &str = "apiserver_storage_transformation_operations_total";

const READING: &str = "from_storage";
const WRITING: &str = "to_storage";

/// The status of a failure without a gRPC code. No failure here has one.
const FAILED: &str = "unknown-non-grpc";

/// Registers the unit and help text of the encryption metrics.
pub fn describe() {
    describe_histogram!(
        SECONDS,
        Unit::Seconds,
        "Time to encrypt or decrypt a value, of those that succeeded"
    );
    describe_counter!(
        OPERATIONS,
        "Values encrypted and decrypted, by resource, prefix and outcome"
    );
    describe_counter!(
        super::reload::RELOADS,
        "Reloads of the encryption configuration by outcome"
    );
    describe_gauge!(
        super::reload::LAST_RELOAD,
        Unit::Seconds,
        "When the encryption configuration was last reloaded, by outcome, as a Unix time"
    );
    describe_gauge!(
        super::reload::CONFIG_INFO,
        "1 for the digest of the encryption configuration in use"
    );
}

/// The series of one prefix transformer.
pub(super) struct TransformerMetrics {
    resource: String,
    /// By index of the transformer.
    read: Vec<Series>,
    /// The series of the first transformer, which writes.
    written: Option<Series>,
}

/// The series of successes, looked up once because they are used often.
struct Series {
    operations: Counter,
    seconds: Histogram,
}

impl Series {
    fn new(resource: &str, transformation: &'static str, prefix: &str) -> Series {
        let labels = labels(resource, transformation, prefix, "OK");
        let (seconds, labels) = (labels[1..3].to_vec(), labels.to_vec());
        Series {
            operations: counter!(OPERATIONS, labels),
            seconds: histogram!(SECONDS, seconds),
        }
    }

    fn count(&self, started: Instant) {
        self.operations.increment(1);
        self.seconds.record(started.elapsed().as_secs_f64());
    }
}

impl TransformerMetrics {
    /// The series of a resource, for transformers with these prefixes.
    pub(super) fn new<'p>(
        resource: &str,
        prefixes: impl Iterator<Item = &'p [u8]> + Clone,
    ) -> TransformerMetrics {
        let series = |transformation, prefix: &[u8]| {
            Series::new(resource, transformation, &String::from_utf8_lossy(prefix))
        };
        let read = prefixes.clone().map(|prefix| match prefix {
            b"" => series(READING, b"identity"),
            prefix => series(READING, prefix),
        });
        TransformerMetrics {
            resource: resource.to_owned(),
            read: read.collect(),
            written: prefixes
                .clone()
                .next()
                .map(|prefix| series(WRITING, prefix)),
        }
    }

    /// Counts a value that the transformer with this index has read.
    pub(super) fn has_read(&self, index: usize, started: Instant) {
        if let Some(series) = self.read.get(index) {
            series.count(started);
        }
    }

    /// Counts a value that could not be read. `None` when no prefix matched.
    pub(super) fn failed_to_read(&self, prefix: Option<&[u8]>) {
        self.failed(READING, prefix.unwrap_or(b"unknown"));
    }

    /// Counts a value that was written.
    pub(super) fn has_written(&self, started: Instant) {
        if let Some(series) = &self.written {
            series.count(started);
        }
    }

    /// Counts a value that could not be written.
    pub(super) fn failed_to_write(&self, prefix: &[u8]) {
        self.failed(WRITING, prefix);
    }

    fn failed(&self, transformation: &'static str, prefix: &[u8]) {
        let prefix = String::from_utf8_lossy(prefix);
        let labels = labels(&self.resource, transformation, &prefix, FAILED);
        counter!(OPERATIONS, labels.to_vec()).increment(1);
    }
}

fn labels(
    resource: &str,
    transformation: &'static str,
    prefix: &str,
    status: &'static str,
) -> [metrics::Label; 4] {
    [
        metrics::Label::new("resource", resource.to_owned()),
        metrics::Label::new("transformation_type", transformation),
        metrics::Label::new("transformer_prefix", prefix.to_owned()),
        metrics::Label::new("status", status),
    ]
}
