//! DaemonSets: the generation of their template.

use api::object::Object;
use serde_json::json;

use crate::defaults::member_or_new;
use crate::defaults::workloads::TEMPLATE_GENERATION;
use crate::types::object_type;

/// Sets the template generation of a new DaemonSet to at least 1.
pub fn prepare_daemonset_create(object: &mut Object) {
    let counted = template_generation(object).max(1);
    set_template_generation(object, counted);
}

/// Increases the template generation of a DaemonSet if its template changes.
pub fn prepare_daemonset_update(object: &mut Object, stored: &Object) {
    let path = ["spec", "template"];
    // Adding an empty list or map is not a change.
    let is_changed = object.at(&path) != stored.at(&path) && {
        let mut object = object.clone();
        if let Some((schema, id)) = object_type("apps.v1.DaemonSet").found() {
            schema.forget_same_empties(id, &mut object.0, &stored.0);
        }
        object.at(&path) != stored.at(&path)
    };
    let counted = template_generation(stored).saturating_add(i64::from(is_changed));
    set_template_generation(object, counted);
}

/// Keeps the template generation of a DaemonSet in updates of its status.
pub fn prepare_daemonset_status(object: &mut Object, stored: &Object) {
    set_template_generation(object, template_generation(stored));
}

fn template_generation(object: &Object) -> i64 {
    let text = object.text(&["metadata", "annotations", TEMPLATE_GENERATION]);
    text.parse().unwrap_or_default()
}

fn set_template_generation(object: &mut Object, counted: i64) {
    if let Some(annotations) = member_or_new(object.metadata_mut(), "annotations") {
        let counted = json!(counted.to_string());
        annotations.insert(TEMPLATE_GENERATION.to_owned(), counted);
    }
}
