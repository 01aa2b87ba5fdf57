//! Measures how long plugins take, by plugin, stage, operation and outcome.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::Histogram;

use super::Operation;

const NAME: &str = "apiserver_admission_controller_admission_duration_seconds";

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];
const STAGES: [&str; 2] = ["admit", "validate"];

/// The histograms of one plugin. Each is registered when it gets its first sample, so that unused
/// ones are not on the metrics page.
#[derive(Default)]
pub(super) struct Measured([OnceLock<Histogram>; OPERATIONS.len() * STAGES.len() * 2]);

/// The stage of a plugin.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    Admit,
    Validate,
}

impl Measured {
    pub(super) fn record(
        &self,
        plugin: &'static str,
        stage: Stage,
        operation: &Operation<'_>,
        is_rejected: bool,
        took: Duration,
    ) {
        let operation = match operation {
            Operation::Create(_) => 0,
            Operation::Update(_) => 1,
            Operation::Delete(_) => 2,
            Operation::Connect => 3,
        };
        let stage = match stage {
            Stage::Admit => 0,
            Stage::Validate => 1,
        };
        let number = (operation * STAGES.len() + stage) * 2 + usize::from(is_rejected);
        let (Some(histogram), Some(operation), Some(stage)) = (
            self.0.get(number),
            OPERATIONS.get(operation),
            STAGES.get(stage),
        ) else {
            return;
        };
        let histogram = histogram.get_or_init(|| {
            metrics::describe_histogram!(NAME, "Time that an admission plugin takes");
            let rejected = if is_rejected { "true" } else { "false" };
            metrics::histogram!(
                NAME,
                "name" => plugin, "operation" => *operation, "rejected" => rejected,
                "type" => *stage,
            )
        });
        histogram.record(took.as_secs_f64());
    }
}
