//! The columns of `policy/v1` (API-218).

use api::object::Object;
use api::resource::Column;
use serde_json::Value;

use super::{computed, integer};

/// Returns the columns of PodDisruptionBudgets.
pub fn poddisruptionbudgets() -> Vec<Column> {
    let minimum = computed(|budget, _| bound(budget, "minAvailable"));
    let maximum = computed(|budget, _| bound(budget, "maxUnavailable"));
    let allowed = computed(|budget, _| integer(budget, &["status", "disruptionsAllowed"]));
    vec![
        Column::name(),
        Column::text("Min Available", "Pods that must stay available.", minimum),
        Column::text("Max Unavailable", "Pods that may be unavailable.", maximum),
        Column::integer(
            "Allowed Disruptions",
            "Pods that may be evicted now.",
            allowed,
        ),
        Column::age(),
    ]
}

/// Formats a count or a percentage.
fn bound(budget: &Object, name: &str) -> Value {
    match budget.at(&["spec", name]) {
        Some(Value::String(percent)) => percent.as_str().into(),
        Some(number) => number.to_string().into(),
        None => "N/A".into(),
    }
}
