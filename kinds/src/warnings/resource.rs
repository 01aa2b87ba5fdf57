//! Warnings about ResourceSlices.

use api::field::Field;
use api::object::Object;

use super::{Warnings, quoted, warn};

/// Returns the warnings about a ResourceSlice.
pub fn of_resourceslice(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let spec = Field::of(object, "spec");
    let driver = spec.member("driver");
    if driver.text().to_lowercase() != driver.text() {
        let shown = quoted(driver.text());
        let text =
            format!("driver names should be lowercase; {shown} contains uppercase characters");
        warn(&driver, text, &warnings);
    }
    warnings.take()
}
