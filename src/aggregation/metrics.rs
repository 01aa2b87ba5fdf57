//! The metrics of aggregation (CN-19).

use std::fmt::Write;

use metrics::{counter, describe_counter};

use super::view::View;

const UNAVAILABLE: &str = "aggregator_unavailable_apiservice";
const BECAME_UNAVAILABLE: &str = "aggregator_unavailable_apiservice_total";

/// Registers units and help texts.
pub(super) fn describe() {
    describe_counter!(
        BECAME_UNAVAILABLE,
        "APIServices that became unavailable, by name and reason"
    );
}

/// Counts an APIService that became unavailable.
pub(super) fn became_unavailable(name: &str, reason: &'static str) {
    counter!(BECAME_UNAVAILABLE, "name" => name.to_owned(), "reason" => reason).increment(1);
}

/// Returns the lines of a page of metrics about the APIServices of now.
pub fn lines(view: &View) -> String {
    let mut lines = format!(
        "# HELP {UNAVAILABLE} Whether an APIService is not available\n\
         # TYPE {UNAVAILABLE} gauge\n"
    );
    for one in view.all() {
        let value = u8::from(one.is_remote() && !one.is_available());
        // Writing to a String does not fail. A name has no character to be escaped.
        let _ = writeln!(lines, "{UNAVAILABLE}{{name=\"{}\"}} {value}", one.name);
    }
    lines
}
