//! Jobs: the selector of a new one, and the labels of its pods.

use api::object::Object;
use serde_json::{Value, json};

use crate::defaults::batch::{CONTROLLER_UID, JOB_NAME, label_as_template};
use crate::defaults::workloads::template_labels;
use crate::defaults::{member, member_or_new};

/// Adds the selector of a new Job and the labels of its pods, made from its uid and name (API-231).
/// A Job whose labels were copied from its template gets these labels too: in kube-apiserver both
/// are the same map then, unless the object was copied to generate a name. A Job with a manual
/// selector stays unchanged.
pub fn prepare_job_create(object: &mut Object) {
    if object.at(&["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) = (
        object.meta("uid").to_owned(),
        object.meta("name").to_owned(),
    );
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    let had_labels = template_labels(spec).is_some();
    let metadata = member_or_new(spec, "template").and_then(|t| member_or_new(t, "metadata"));
    if let Some(labels) = metadata.and_then(|metadata| member_or_new(metadata, "labels")) {
        for (keys, value) in [(CONTROLLER_UID, &uid), (JOB_NAME, &name)] {
            for key in keys {
                labels.entry(key).or_insert_with(|| json!(value));
            }
        }
    }
    if let Some(selector) = member_or_new(spec, "selector")
        && let Some(labels) = member_or_new(selector, "matchLabels")
    {
        let [key, _] = CONTROLLER_UID;
        labels.entry(key).or_insert_with(|| json!(uid));
    }
    if had_labels {
        label_as_template(object);
    }
}
