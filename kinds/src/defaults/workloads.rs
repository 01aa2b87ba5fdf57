//! What is filled in of the group apps, ReplicationControllers and PodTemplates (http.md 7).

use std::num::IntErrorKind;

use api::field_error::go_quote;
use api::object::Object;
use serde_json::{Value, json};

use super::pods::pod_template_spec;
use super::pods::resources::resource_list;
use super::storage::persistentvolumeclaim_spec;
use super::{Members, items, member, member_or_new, set_absent, set_default};
use crate::types::object_type;

/// The annotation of a DaemonSet that counts the changes of its template.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Fills in the template below a struct.
pub(crate) fn template(members: &mut Members) {
    if let Some(template) = member_or_new(members, "template") {
        pod_template_spec(template);
    }
}

/// Adds what an object with replicas shows of which nothing was given: in memory their number is
/// never absent (WA-41).
pub fn no_replicas(object: &mut Object) {
    if let Some(spec) = member_or_new(&mut object.0, "spec") {
        set_absent(spec, "replicas", 0);
    }
}

/// Adds what a DaemonSet shows of which nothing was given: the annotation is made of a number
/// (WA-41).
pub fn no_template_generation(object: &mut Object) {
    if let Some(metadata) = member_or_new(&mut object.0, "metadata")
        && let Some(annotations) = member_or_new(metadata, "annotations")
    {
        set_absent(annotations, TEMPLATE_GENERATION, "0");
    }
}

/// Why a DaemonSet can't be read: the annotation is a number in memory.
pub fn unreadable_daemonset(object: &Object) -> Option<String> {
    let text = object.at(&["metadata", "annotations", TEMPLATE_GENERATION]);
    let text = text.and_then(Value::as_str)?;
    let problem = match text.parse::<i64>().err()?.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    let text = go_quote(text);
    Some(format!("strconv.ParseInt: parsing {text}: {problem}"))
}

/// Fills in a Deployment (API-250).
pub fn deployment(object: &mut Object) {
    let Some(spec) = member_or_new(&mut object.0, "spec") else {
        return;
    };
    template(spec);
    set_default(spec, "replicas", 1);
    if let Some(strategy) = member_or_new(spec, "strategy") {
        set_default(strategy, "type", "RollingUpdate");
        if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
            && let Some(rolling) = member_or_new(strategy, "rollingUpdate")
        {
            set_absent(rolling, "maxUnavailable", "25%");
            set_absent(rolling, "maxSurge", "25%");
        }
    }
    set_default(spec, "revisionHistoryLimit", 10);
    set_default(spec, "progressDeadlineSeconds", 600);
}

/// Fills in a ReplicaSet (API-250).
pub fn replicaset(object: &mut Object) {
    if let Some(spec) = member_or_new(&mut object.0, "spec") {
        template(spec);
        set_default(spec, "replicas", 1);
    }
}

/// Fills in a DaemonSet (API-250). Who writes one without the count of its templates writes a 0,
/// and owns that (API-185).
pub fn daemonset(object: &mut Object) {
    no_template_generation(object);
    let Some(spec) = member_or_new(&mut object.0, "spec") else {
        return;
    };
    template(spec);
    daemonset_with_strategy(spec, "RollingUpdate");
}

/// Fills in the spec of a DaemonSet but for its template. The strategy is of this type if none is
/// given.
pub(crate) fn daemonset_with_strategy(spec: &mut Members, strategy_type: &str) {
    if let Some(strategy) = member_or_new(spec, "updateStrategy") {
        set_default(strategy, "type", strategy_type);
        if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
            && let Some(rolling) = member_or_new(strategy, "rollingUpdate")
        {
            set_absent(rolling, "maxUnavailable", 1);
        }
        if let Some(rolling) = member(strategy, "rollingUpdate") {
            set_absent(rolling, "maxUnavailable", 0);
            set_absent(rolling, "maxSurge", 0);
        }
    }
    set_default(spec, "revisionHistoryLimit", 10);
}

/// Fills in a StatefulSet (API-250).
pub fn statefulset(object: &mut Object) {
    let Some(spec) = member_or_new(&mut object.0, "spec") else {
        return;
    };
    template(spec);
    if let Some(strategy) = member_or_new(spec, "updateStrategy") {
        let had_type = strategy
            .get("type")
            .and_then(Value::as_str)
            .is_some_and(|t| !t.is_empty());
        if !had_type {
            set_default(strategy, "type", "RollingUpdate");
            member_or_new(strategy, "rollingUpdate");
        }
    }
    statefulset_with_strategy(spec);
}

/// Fills in the spec of a StatefulSet that has a strategy.
pub(crate) fn statefulset_with_strategy(spec: &mut Members) {
    for claim in items(spec, "volumeClaimTemplates") {
        claim_template(claim);
    }
    set_default(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = member(spec, "updateStrategy")
        && strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
        && let Some(rolling) = member(strategy, "rollingUpdate")
    {
        set_default(rolling, "partition", 0);
    }
    if let Some(policy) = member_or_new(spec, "persistentVolumeClaimRetentionPolicy") {
        set_default(policy, "whenDeleted", "Retain");
        set_default(policy, "whenScaled", "Retain");
    }
    set_default(spec, "replicas", 1);
    set_default(spec, "revisionHistoryLimit", 10);
}

/// Fills in a claim that is a template. It says its type, unlike other objects inside objects, and
/// no other one.
fn claim_template(claim: &mut Members) {
    claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
    claim.insert("apiVersion".to_owned(), "v1".into());
    if let Some(status) = member_or_new(claim, "status") {
        set_default(status, "phase", "Pending");
        resource_list(status, "capacity");
        resource_list(status, "allocatedResources");
    }
    if let Some(spec) = member_or_new(claim, "spec") {
        persistentvolumeclaim_spec(spec);
    }
}

/// Fills in a ReplicationController: labels and selector are those of its template (API-250).
pub fn replicationcontroller(object: &mut Object) {
    let Some(spec) = member_or_new(&mut object.0, "spec") else {
        return;
    };
    if let Some(template) = member(spec, "template") {
        pod_template_spec(template);
    }
    set_default(spec, "replicas", 1);
    let labels = template_labels(spec).cloned();
    let Some(labels) = labels else {
        return;
    };
    if is_without(spec, "selector") {
        spec.insert("selector".to_owned(), labels.clone());
    }
    if is_without(object.metadata_mut(), "labels") {
        object.metadata_mut().insert("labels".to_owned(), labels);
    }
}

/// The labels of a spec's template, if it has some.
pub(super) fn template_labels(spec: &Members) -> Option<&Value> {
    let labels = spec.get("template")?.get("metadata")?.get("labels")?;
    labels.as_object().filter(|labels| !labels.is_empty())?;
    Some(labels)
}

/// Whether a map has nothing in it.
pub(super) fn is_without(members: &Members, name: &str) -> bool {
    let map = members.get(name).and_then(Value::as_object);
    map.is_none_or(|map| map.is_empty())
}

/// Fills in a PodTemplate.
pub fn podtemplate(object: &mut Object) {
    template(&mut object.0);
}

/// Counts the first template of a new DaemonSet, in an annotation.
pub fn prepare_daemonset_create(object: &mut Object) {
    let counted = template_generation(object).max(1);
    set_template_generation(object, counted);
}

/// Counts a change of a DaemonSet's template, in an annotation.
pub fn prepare_daemonset_update(object: &mut Object, stored: &Object) {
    let path = ["spec", "template"];
    // An empty list where none was is no change.
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

/// Keeps the count of a DaemonSet's templates when its status is written.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// API-254, as kube-apiserver 1.36 answers.
    #[test]
    fn amounts_in_templates_of_claims_are_whole_thousandths() {
        let amounts = json!({"storage": "1.00001"});
        let status = json!({"capacity": amounts, "allocatedResources": amounts});
        let claim = json!({"metadata": {"name": "v"}, "status": status});
        let body = json!({"spec": {"volumeClaimTemplates": [claim]}});
        let mut object = Object::of(body.as_object().expect("an object").clone());
        statefulset(&mut object);
        let claim = &object.0["spec"]["volumeClaimTemplates"][0];
        let whole = json!({"storage": "1001m"});
        assert_eq!(claim["status"]["capacity"], whole);
        assert_eq!(claim["status"]["allocatedResources"], whole);
    }
}
