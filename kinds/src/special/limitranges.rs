//! LimitRanges: their names.

use api::object::Object;

/// A LimitRange that has no name is named like its uid (API-230).
pub fn prepare(object: &mut Object) {
    if object.name().is_empty() {
        let uid = object.uid().to_owned();
        object.set_meta("name", &uid);
    }
}
