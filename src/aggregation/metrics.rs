//! The metrics of aggregation (CN-19).

use metrics::{counter, describe_counter, describe_gauge, gauge};

const UNAVAILABLE: &str = "aggregator_unavailable_apiservice";
const BECAME_UNAVAILABLE: &str = "aggregator_unavailable_apiservice_total";

/// Registers units and help texts.
pub fn describe() {
    describe_gauge!(UNAVAILABLE, "Whether an APIService is not available");
    describe_counter!(
        BECAME_UNAVAILABLE,
        "APIServices that became unavailable, by name and reason"
    );
}

/// Counts an APIService that became unavailable.
pub(super) fn became_unavailable(name: &str, reason: &'static str) {
    counter!(BECAME_UNAVAILABLE, "name" => name.to_owned(), "reason" => reason).increment(1);
}

/// Sets whether an APIService is available.
pub fn set_available(name: &str, is_available: bool) {
    let value = if is_available { 0.0 } else { 1.0 };
    gauge!(UNAVAILABLE, "name" => name.to_owned()).set(value);
}
