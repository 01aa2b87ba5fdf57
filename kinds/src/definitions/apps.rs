//! `apps/v1`.

use super::{generation, names, rules, status, typed, with_scale, with_status};
use crate::columns::apps as columns;
use crate::defaults::workloads::{
    TEMPLATE_GENERATION, prepare_daemonset_status, unreadable_daemonset,
};
use crate::validation::selectors::requirements_of_spec;
use api::resource::{NameRule, ResourceDefinition, UpdateCheck};

/// A workload of the group.
fn workload(object_type: &'static str, plural: &str) -> ResourceDefinition {
    ResourceDefinition {
        categories: names(&["all"]),
        generation: generation(&["spec"]),
        update_checks: &[UpdateCheck::Changes],
        ..with_status(typed(object_type, "apps", plural))
    }
}

/// ControllerRevisions, the histories of StatefulSets and DaemonSets.
pub fn controllerrevisions() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::controllerrevisions(),
        ..typed("apps.v1.ControllerRevision", "apps", "controllerrevisions")
    })
}

/// DaemonSets.
pub fn daemonsets() -> ResourceDefinition {
    let mut status = status(&["spec"]);
    status.update.prepare = Some(prepare_daemonset_status);
    rules::applied(ResourceDefinition {
        short_names: names(&["ds"]),
        subresources: vec![status],
        columns: columns::daemonsets(),
        unreadable: Some(unreadable_daemonset),
        annotation_of_whole: Some(TEMPLATE_GENERATION),
        ..workload("apps.v1.DaemonSet", "daemonsets")
    })
}

/// Deployments.
pub fn deployments() -> ResourceDefinition {
    let row = ResourceDefinition {
        short_names: names(&["deploy"]),
        // A status update can't change labels (http.md 6.2).
        subresources: vec![status(&["spec", "metadata.labels"])],
        generation: generation(&["spec", "metadata.annotations"]),
        columns: columns::deployments(),
        ..workload("apps.v1.Deployment", "deployments")
    };
    rules::applied(with_scale(row, requirements_of_spec))
}

/// ReplicaSets.
pub fn replicasets() -> ResourceDefinition {
    let row = ResourceDefinition {
        short_names: names(&["rs"]),
        columns: columns::replicasets(),
        ..workload("apps.v1.ReplicaSet", "replicasets")
    };
    rules::applied(with_scale(row, requirements_of_spec))
}

/// StatefulSets. Their names are the first part of the names of their pods.
pub fn statefulsets() -> ResourceDefinition {
    let row = ResourceDefinition {
        short_names: names(&["sts"]),
        name_rule: NameRule::DnsLabel,
        columns: columns::statefulsets(),
        ..workload("apps.v1.StatefulSet", "statefulsets")
    };
    rules::applied(with_scale(row, requirements_of_spec))
}
