//! Validation of StatefulSets.

use std::collections::HashSet;

use api::field::Field;
use api::object::Object;
use serde_json::{Value, json};

use super::{ABOVE_REPLICAS, validate_is_selected, validate_runs_forever, validate_selector};
use crate::types::internal::invalid_struct;
use crate::validation::immutable::is_same;
use crate::validation::numbers::{
    decremented, validate_all_nonnegative, validate_nonnegative, validate_not_above,
};
use crate::validation::pods::{validate_pod_template_spec, validate_template_metadata};
use crate::validation::storage::claims::validate_persistent_volume_claim_spec;
use api::error_list::ErrorList;

/// The mutable fields of a StatefulSet's spec.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// The fields that each pod of a StatefulSet gets from the controller.
const NAMES: [&str; 2] = ["hostname", "subdomain"];

/// Validates a StatefulSet.
pub fn validate_statefulset(object: &Object, errors: &mut ErrorList) {
    validate(object, None, errors);
}

/// Validates an update of a StatefulSet.
pub fn validate_statefulset_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate(object, Some(stored), errors);
    let (spec, old) = (Field::of(object, "spec"), Field::of(stored, "spec"));
    let names = spec.entries().chain(old.entries()).map(|(name, _)| name);
    let is_fixed = |name: &str| {
        MUTABLE.contains(&name) || is_same(spec.member(name).value(), old.member(name).value())
    };
    if !names.into_iter().all(is_fixed) {
        errors.push(spec.forbidden(
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
             'template', 'updateStrategy', 'revisionHistoryLimit', \
             'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
}

/// Validates a StatefulSet. Unchanged fields of a stored one are skipped.
fn validate(object: &Object, stored: Option<&Object>, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let is_new = |name: &str| {
        stored.is_none_or(|stored| {
            let old = Field::of(stored, "spec");
            !is_same(spec.member(name).value(), old.member(name).value())
        })
    };
    validate_policies(&spec, errors);
    let claims = spec.member("volumeClaimTemplates");
    if stored.is_none() {
        for claim in claims.items() {
            validate_persistent_volume_claim_spec(&claim.member("spec"), errors);
        }
    }
    validate_all_nonnegative(&spec, &["replicas", "minReadySeconds"], errors);
    validate_nonnegative(&spec.member("ordinals").member("start"), errors);
    let service = spec.member("serviceName");
    if stored.is_none() && !service.text().is_empty() {
        let wrong = api::names::dns_label(service.text()).into_iter();
        errors.extend(wrong.map(|message| service.invalid(message)));
    }
    let (selector, template) = (spec.member("selector"), spec.member("template"));
    let empty = "empty selector is invalid for statefulset";
    if validate_selector(&selector, empty, "", errors) {
        validate_is_selected(&selector, &template, errors);
        if is_new("template") || is_new("volumeClaimTemplates") {
            validate_template(&template, claims.list(), errors);
        }
    }
    validate_runs_forever(&template, "StatefulSet", errors);
}

fn validate_policies(spec: &Field<'_>, errors: &mut ErrorList) {
    let management = spec.member("podManagementPolicy");
    match management.text() {
        "OrderedReady" | "Parallel" => {}
        "" => errors.push(management.required("")),
        _ => errors.push(management.invalid("must be 'OrderedReady' or 'Parallel'")),
    }
    let strategy = spec.member("updateStrategy");
    let rolling = strategy.member("rollingUpdate");
    match strategy.member("type").text() {
        "" => errors.push(strategy.required("")),
        "OnDelete" if rolling.is_set() => errors.push(invalid_struct(
            &rolling,
            "apps.v1.RollingUpdateStatefulSetStrategy",
            "only allowed for updateStrategy 'RollingUpdate'",
        )),
        "OnDelete" => {}
        "RollingUpdate" => validate_nonnegative(&rolling.member("partition"), errors),
        _ => errors.push(invalid_struct(
            &strategy,
            "apps.v1.StatefulSetUpdateStrategy",
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
    let retention = spec.member("persistentVolumeClaimRetentionPolicy");
    for name in ["whenDeleted", "whenScaled"] {
        let policy = retention.member(name);
        if retention.is_set() && !matches!(policy.text(), "Retain" | "Delete") {
            errors.push(policy.not_supported(&["Retain", "Delete"]));
        }
    }
}

/// Validates a template as pods will have it: with a volume for each claim, and with names. As in
/// kube-apiserver, labels and annotations are validated twice.
fn validate_template(template: &Field<'_>, claims: &[Value], errors: &mut ErrorList) {
    validate_template_metadata(template, errors);
    let spec = template.member("spec");
    let is_named = NAMES.iter().any(|name| spec.member(name).is_set());
    if claims.is_empty() && !is_named {
        validate_pod_template_spec(template, errors);
        return;
    }
    // Errors of the claims' volumes would only be counted.
    if errors.is_full() {
        return;
    }
    let mut with_claims = template.value().cloned().unwrap_or_else(|| json!({}));
    let mut volumes: Vec<Value> = Vec::new();
    let mut names = HashSet::new();
    let unnamed = Value::from("");
    for claim in claims {
        let name = claim.pointer("/metadata/name").unwrap_or(&unnamed);
        if names.insert(name) {
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
    if let Some(Value::Array(own)) = with_claims.pointer("/spec/volumes") {
        let name_of = |volume: &Value| names.contains(volume.get("name").unwrap_or(&Value::Null));
        volumes.extend(own.iter().filter(|volume| !name_of(volume)).cloned());
    }
    if let Some(spec) = with_claims.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("volumes".to_owned(), volumes.into());
        for name in NAMES {
            spec.remove(name);
        }
    }
    let path = template.path();
    validate_pod_template_spec(&Field::named(&path, Some(&with_claims)), errors);
}

/// Validates an update of the status of a StatefulSet.
pub fn validate_statefulset_status_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    let (status, old) = (Field::of(object, "status"), Field::of(stored, "status"));
    let counts = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    validate_all_nonnegative(&status, &counts, errors);
    let replicas = [
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    validate_not_above(&status, &replicas, "replicas", ABOVE_REPLICAS, errors);
    let message = "cannot be greater than status.readyReplicas";
    validate_not_above(
        &status,
        &["availableReplicas"],
        "readyReplicas",
        message,
        errors,
    );
    let collisions = status.member("collisionCount");
    errors.extend(decremented(&collisions, &old.member("collisionCount")));
}
