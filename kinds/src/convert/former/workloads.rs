//! Kinds of the group apps in `apps/v1beta1` and `extensions/v1beta1`. Absent selectors and labels
//! default to the labels of the template.

use api::object::Object;
use serde_json::{Value, json};

use crate::defaults::workloads::{
    TEMPLATE_GENERATION, daemonset_with_strategy, statefulset_with_strategy, template,
};
use crate::defaults::{Members, member, member_or_new, set_absent, set_default};

/// The annotation that replaced `spec.rollbackTo`, the revision to roll a Deployment back to.
const ROLLBACK: &str = "deprecated.deployment.rollback.to";

/// Converts a DaemonSet of `extensions/v1beta1`. `spec.templateGeneration` becomes an annotation.
pub(super) fn extensions_daemonset(object: &mut Object) {
    let Some(spec) = selected_as_template(object) else {
        return;
    };
    daemonset_with_strategy(spec, "OnDelete");
    let counted = spec.remove("templateGeneration");
    let counted = counted.as_ref().and_then(Value::as_i64).unwrap_or_default();
    annotate(object, TEMPLATE_GENERATION, Some(counted));
}

/// Converts a Deployment of `extensions/v1beta1`, which keeps any number of old ReplicaSets and has
/// no progress deadline.
pub(super) fn extensions_deployment(object: &mut Object) {
    deployment(object, |spec| {
        if let Some(strategy) = member_or_new(spec, "strategy") {
            set_default(strategy, "type", "RollingUpdate");
            if is_rolling(strategy) || member(strategy, "rollingUpdate").is_some() {
                roll_by(strategy, &json!(1));
            }
        }
        set_default(spec, "progressDeadlineSeconds", i32::MAX);
        set_default(spec, "revisionHistoryLimit", i32::MAX);
    });
}

/// Converts a Deployment of `apps/v1beta1`.
pub(super) fn v1beta1_deployment(object: &mut Object) {
    deployment(object, |spec| {
        if let Some(strategy) = member_or_new(spec, "strategy") {
            set_default(strategy, "type", "RollingUpdate");
            if is_rolling(strategy) {
                roll_by(strategy, &json!("25%"));
            }
        }
        set_default(spec, "progressDeadlineSeconds", 600);
        set_default(spec, "revisionHistoryLimit", 2);
    });
}

fn deployment(object: &mut Object, fill_in: fn(&mut Members)) {
    let Some(spec) = selected_as_template(object) else {
        return;
    };
    set_default(spec, "replicas", 1);
    fill_in(spec);
    let rollback = spec.remove("rollbackTo");
    let revision = rollback.filter(Value::is_object).map(|rollback| {
        let revision = rollback.get("revision").and_then(Value::as_i64);
        revision.unwrap_or_default()
    });
    annotate(object, ROLLBACK, revision);
}

fn is_rolling(strategy: &Members) -> bool {
    strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
}

fn roll_by(strategy: &mut Members, step: &Value) {
    if let Some(rolling) = member_or_new(strategy, "rollingUpdate") {
        set_absent(rolling, "maxUnavailable", step.clone());
        set_absent(rolling, "maxSurge", step.clone());
    }
}

/// Defaults a ReplicaSet of `extensions/v1beta1`.
pub(super) fn extensions_replicaset(object: &mut Object) {
    if let Some(spec) = selected_as_template(object) {
        set_default(spec, "replicas", 1);
    }
}

/// Defaults a StatefulSet of `apps/v1beta1`, whose update strategy is OnDelete.
pub(super) fn v1beta1_statefulset(object: &mut Object) {
    let Some(spec) = selected_as_template(object) else {
        return;
    };
    if let Some(strategy) = member_or_new(spec, "updateStrategy") {
        set_default(strategy, "type", "OnDelete");
    }
    statefulset_with_strategy(spec);
}

/// Defaults the template and the fields that follow from it. Returns the spec.
fn selected_as_template(object: &mut Object) -> Option<&mut Members> {
    select_as_template(object);
    let spec = member_or_new(&mut object.0, "spec")?;
    template(spec);
    Some(spec)
}

/// Defaults the selector and the labels to the labels of the template.
fn select_as_template(object: &mut Object) {
    let labels = object.at(&["spec", "template", "metadata", "labels"]);
    let Some(labels @ Value::Object(_)) = labels.cloned() else {
        return;
    };
    if let Some(spec) = member(&mut object.0, "spec") {
        set_absent(spec, "selector", json!({"matchLabels": labels}));
    }
    let own = object.metadata_mut().get("labels");
    if own
        .and_then(Value::as_object)
        .is_none_or(|own| own.is_empty())
    {
        object.metadata_mut().insert("labels".to_owned(), labels);
    }
}

/// Keeps a former field in an annotation.
fn annotate(object: &mut Object, name: &str, number: Option<i64>) {
    if let Some(annotations) = member_or_new(object.metadata_mut(), "annotations") {
        annotations.remove(name);
        if let Some(number) = number {
            annotations.insert(name.to_owned(), number.to_string().into());
        }
    }
}
