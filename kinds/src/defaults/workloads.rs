//! Defaults of the group apps, ReplicationControllers and PodTemplates (http.md 7).

use std::num::IntErrorKind;

use api::object::Object;
use api::text::quoting::go_quote;
use serde_json::Value;

use super::pods::pod_template_spec;
use super::pods::resources::resource_list;
use super::storage::persistentvolumeclaim_spec;
use super::{Members, items, member, member_or_new, set_absent, set_default};

/// The annotation with the template generation of a DaemonSet, which was a field before `apps/v1`.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Sets the defaults of the pod template in a struct.
pub(crate) fn template(members: &mut Members) {
    if let Some(template) = member_or_new(members, "template") {
        pod_template_spec(template);
    }
}

/// Sets the replicas of an empty object in a bookmark to 0: the internal type has a number there,
/// which is never absent (WA-41).
pub fn no_replicas(object: &mut Object) {
    if let Some(spec) = member_or_new(&mut object.0, "spec") {
        set_absent(spec, "replicas", 0);
    }
}

/// Adds the template generation of an empty DaemonSet in a bookmark: the internal type has a
/// number, which becomes an annotation (WA-41).
pub fn no_template_generation(object: &mut Object) {
    if let Some(metadata) = member_or_new(&mut object.0, "metadata")
        && let Some(annotations) = member_or_new(metadata, "annotations")
    {
        set_absent(annotations, TEMPLATE_GENERATION, "0");
    }
}

/// Returns the reason why a DaemonSet cannot be decoded: its template generation is not a valid
/// 64-bit integer.
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

/// Sets the defaults of a Deployment (API-250).
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

/// Sets the defaults of a ReplicaSet (API-250).
pub fn replicaset(object: &mut Object) {
    if let Some(spec) = member_or_new(&mut object.0, "spec") {
        template(spec);
        set_default(spec, "replicas", 1);
    }
}

/// Sets the defaults of a DaemonSet (API-250). Without a template generation it gets 0, which its
/// writer owns (API-185).
pub fn daemonset(object: &mut Object) {
    no_template_generation(object);
    let Some(spec) = member_or_new(&mut object.0, "spec") else {
        return;
    };
    template(spec);
    daemonset_with_strategy(spec, "RollingUpdate");
}

/// Sets the defaults of the spec of a DaemonSet, except its template. `strategy_type` is the
/// default update strategy.
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

/// Sets the defaults of a StatefulSet (API-250).
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

/// Sets the defaults of the spec of a StatefulSet whose update strategy is set.
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

/// Sets the defaults of a volume claim template. Unlike other embedded objects it has `kind` and
/// `apiVersion`, always of this type.
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

/// Sets the defaults of a ReplicationController. Labels and selector default to the labels of the
/// template (API-250).
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

/// Returns the labels of a spec's template, unless they are empty.
pub(crate) fn template_labels(spec: &Members) -> Option<&Value> {
    let labels = spec.get("template")?.get("metadata")?.get("labels")?;
    labels.as_object().filter(|labels| !labels.is_empty())?;
    Some(labels)
}

/// Reports whether a map is empty or absent.
pub(super) fn is_without(members: &Members, name: &str) -> bool {
    let map = members.get(name).and_then(Value::as_object);
    map.is_none_or(|map| map.is_empty())
}

/// Sets the defaults of a PodTemplate.
pub fn podtemplate(object: &mut Object) {
    template(&mut object.0);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// API-254: answers of kube-apiserver 1.36.
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
