//! The resources of `apps/v1`.

use super::row::Row;
use super::{generation, status, typed, with_scale, with_status};
use crate::columns::apps as columns;
use crate::defaults::workloads::{TEMPLATE_GENERATION, unreadable_daemonset};
use crate::validation::selectors::requirements_of_spec;
use crate::{defaults, strategies, validation, warnings};
use api::resource::{NameRule, ResourceDefinition, UpdateCheck};

/// Returns the row of a workload.
fn workload(object_type: &'static str, plural: &'static str) -> Row {
    Row {
        categories: &["all"],
        generation: generation(&["spec"]),
        update_checks: &[UpdateCheck::Changes],
        ..with_status(typed(object_type, "apps", plural))
    }
}

/// Returns the definition of ControllerRevisions, the histories of StatefulSets and DaemonSets.
pub fn controllerrevisions() -> ResourceDefinition {
    Row {
        columns: columns::controllerrevisions(),
        validate: Some(validation::workloads::validate_controllerrevision),
        validate_update: Some(validation::workloads::validate_controllerrevision_update),
        ..typed("apps.v1.ControllerRevision", "apps", "controllerrevisions")
    }
    .definition()
}

/// Returns the definition of DaemonSets.
pub fn daemonsets() -> ResourceDefinition {
    let mut status = status(&["spec"]);
    status.prepare = Some(strategies::workloads::prepare_daemonset_status);
    Row {
        short_names: &["ds"],
        subresources: vec![status],
        columns: columns::daemonsets(),
        unreadable: Some(unreadable_daemonset),
        annotation_hidden_in_partial: Some(TEMPLATE_GENERATION),
        defaults: Some(defaults::workloads::daemonset),
        complete: Some(defaults::complete::workloads::daemonset),
        disabled: Some(strategies::disabled_fields::drop_of_template),
        empty: Some(defaults::workloads::no_template_generation),
        validate: Some(validation::workloads::validate_daemonset),
        validate_update: Some(validation::workloads::validate_daemonset_update),
        validate_status: Some(validation::workloads::validate_daemonset_status_update),
        prepare: Some(strategies::workloads::prepare_daemonset_create),
        prepare_update: Some(strategies::workloads::prepare_daemonset_update),
        ratchets: validation::ratcheting::PODS,
        warnings: Some(warnings::workloads::of_daemonset),
        ..workload("apps.v1.DaemonSet", "daemonsets")
    }
    .definition()
}

/// Returns the definition of Deployments.
pub fn deployments() -> ResourceDefinition {
    let row = Row {
        short_names: &["deploy"],
        // As in Kubernetes, a status update cannot change labels of Deployments, unlike those of
        // other workloads (http.md 6.2).
        subresources: vec![status(&["spec", "metadata.labels"])],
        generation: generation(&["spec", "metadata.annotations"]),
        columns: columns::deployments(),
        defaults: Some(defaults::workloads::deployment),
        complete: Some(defaults::complete::workloads::deployment),
        disabled: Some(strategies::disabled_fields::drop_of_template),
        empty: Some(defaults::workloads::no_replicas),
        validate: Some(validation::workloads::validate_deployment),
        validate_update: Some(validation::workloads::validate_deployment_update),
        validate_status: Some(validation::workloads::validate_deployment_status_update),
        ratchets: validation::ratcheting::PODS,
        warnings: Some(warnings::workloads::of_deployment),
        ..workload("apps.v1.Deployment", "deployments")
    };
    with_scale(row, requirements_of_spec).definition()
}

/// Returns the definition of ReplicaSets.
pub fn replicasets() -> ResourceDefinition {
    let row = Row {
        short_names: &["rs"],
        columns: columns::replicasets(),
        defaults: Some(defaults::workloads::replicaset),
        complete: Some(defaults::complete::workloads::replicaset),
        disabled: Some(strategies::disabled_fields::drop_of_template),
        empty: Some(defaults::workloads::no_replicas),
        validate: Some(validation::workloads::validate_replicaset),
        validate_update: Some(validation::workloads::validate_replicaset_update),
        validate_status: Some(validation::workloads::validate_replicaset_status_update),
        ratchets: validation::ratcheting::PODS,
        warnings: Some(warnings::workloads::of_replicaset),
        ..workload("apps.v1.ReplicaSet", "replicasets")
    };
    with_scale(row, requirements_of_spec).definition()
}

/// Returns the definition of StatefulSets. Their names begin the host names of their pods, so they
/// are DNS labels.
pub fn statefulsets() -> ResourceDefinition {
    let row = Row {
        short_names: &["sts"],
        name_rule: NameRule::DnsLabel,
        columns: columns::statefulsets(),
        defaults: Some(defaults::workloads::statefulset),
        complete: Some(defaults::complete::workloads::statefulset),
        disabled: Some(strategies::disabled_fields::drop_of_statefulset),
        empty: Some(defaults::workloads::no_replicas),
        validate: Some(validation::workloads::validate_statefulset),
        validate_update: Some(validation::workloads::validate_statefulset_update),
        validate_status: Some(validation::workloads::validate_statefulset_status_update),
        ratchets: validation::ratcheting::PODS,
        warnings: Some(warnings::workloads::of_statefulset),
        ..workload("apps.v1.StatefulSet", "statefulsets")
    };
    with_scale(row, requirements_of_spec).definition()
}
