//! Measures how long admission takes: each plugin, and each stage as a whole (HK-94).

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Histogram, describe_histogram, histogram};

use super::{OPERATIONS, Operation};

const PLUGIN: &str = "apiserver_admission_controller_admission_duration_seconds";
const STEP: &str = "apiserver_admission_step_admission_duration_seconds";
const STEP_SUMMARY: &str = "apiserver_admission_step_admission_duration_seconds_summary";

const STAGES: [&str; 2] = ["admit", "validate"];

/// The stage of a plugin.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    Admit,
    Validate,
}

/// The end of a plugin or of a stage.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    pub(super) stage: Stage,
    /// The place of the operation of the request.
    pub(super) operation: usize,
    pub(super) is_rejected: bool,
    pub(super) took: Duration,
}

impl Ended {
    pub(super) fn new(
        stage: Stage,
        operation: &Operation<'_>,
        is_rejected: bool,
        took: Duration,
    ) -> Ended {
        Ended {
            stage,
            operation: operation.place(),
            is_rejected,
            took,
        }
    }

    fn stage(self) -> usize {
        match self.stage {
            Stage::Admit => 0,
            Stage::Validate => 1,
        }
    }

    /// The labels `operation`, `rejected` and `type`.
    fn labels(self) -> [(&'static str, &'static str); 3] {
        let name = |names: &[&'static str], place: usize| names.get(place).copied();
        [
            (
                "operation",
                name(&OPERATIONS, self.operation).unwrap_or_default(),
            ),
            ("rejected", if self.is_rejected { "true" } else { "false" }),
            ("type", name(&STAGES, self.stage()).unwrap_or_default()),
        ]
    }
}

/// Something for each operation, stage and outcome. Each is registered when it gets its first
/// sample, so that unused ones are not on the metrics page.
struct Each<T>([OnceLock<T>; OPERATIONS.len() * STAGES.len() * 2]);

impl<T> Default for Each<T> {
    fn default() -> Each<T> {
        Each(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl<T> Each<T> {
    fn of(&self, ended: Ended, make: impl FnOnce() -> T) -> Option<&T> {
        let place = ended.operation * STAGES.len() + ended.stage();
        let place = self.0.get(place * 2 + usize::from(ended.is_rejected))?;
        Some(place.get_or_init(make))
    }
}

/// The histograms of one plugin.
#[derive(Default)]
pub(super) struct Measured(Each<Histogram>);

impl Measured {
    pub(super) fn record(&self, plugin: &'static str, ended: Ended) {
        let histogram = self.0.of(ended, || {
            describe_histogram!(PLUGIN, "Time that an admission plugin takes");
            let [operation, rejected, stage] = ended.labels();
            histogram!(PLUGIN, &[("name", plugin), operation, rejected, stage])
        });
        if let Some(histogram) = histogram {
            histogram.record(ended.took.as_secs_f64());
        }
    }
}

/// The histogram and the summary of the stages.
#[derive(Default)]
pub(super) struct MeasuredStages(Each<[Histogram; 2]>);

impl MeasuredStages {
    pub(super) fn record(&self, ended: Ended) {
        let both = self.0.of(ended, || {
            describe_histogram!(STEP, "Time that a stage of admission takes");
            describe_histogram!(STEP_SUMMARY, "Time that a stage of admission takes");
            let labels = ended.labels();
            [histogram!(STEP, &labels), histogram!(STEP_SUMMARY, &labels)]
        });
        for histogram in both.into_iter().flatten() {
            histogram.record(ended.took.as_secs_f64());
        }
    }
}
