//! The columns of `apps/v1` (API-218).

use api::field::Field;
use api::object::Object;
use api::resource::{Column, OfField};
use serde_json::Value;

use super::core::replicated;
use super::{
    NONE, computed, integer, labels, list, member, selector_column, template_columns,
    workload_selector,
};
use crate::validation::selectors::requirements_text;

/// Returns the columns of ControllerRevisions.
pub fn controllerrevisions() -> Vec<Column> {
    let controller = computed(|revision, _| controller(revision).into());
    let revision = computed(|revision, _| integer(revision, &["revision"]));
    vec![
        Column::name(),
        Column::text("Controller", "Owner of the revision.", controller),
        Column::text(
            "Revision",
            OfField("apps.v1.ControllerRevision.revision"),
            revision,
        ),
        Column::age(),
    ]
}

/// Returns the columns of DaemonSets.
pub fn daemonsets() -> Vec<Column> {
    let desired = computed(|set, _| integer(set, &["status", "desiredNumberScheduled"]));
    let current = computed(|set, _| integer(set, &["status", "currentNumberScheduled"]));
    let ready = computed(|set, _| integer(set, &["status", "numberReady"]));
    let updated = computed(|set, _| integer(set, &["status", "updatedNumberScheduled"]));
    let available = computed(|set, _| integer(set, &["status", "numberAvailable"]));
    let nodes = computed(|set, _| labels(set.at(&["spec", "template", "spec", "nodeSelector"])));
    let [containers, images] = template_columns();
    vec![
        Column::name(),
        Column::integer(
            "Desired",
            OfField("apps.v1.DaemonSetStatus.desiredNumberScheduled"),
            desired,
        ),
        Column::integer(
            "Current",
            OfField("apps.v1.DaemonSetStatus.currentNumberScheduled"),
            current,
        ),
        Column::integer(
            "Ready",
            OfField("apps.v1.DaemonSetStatus.numberReady"),
            ready,
        ),
        Column::integer(
            "Up-to-date",
            OfField("apps.v1.DaemonSetStatus.updatedNumberScheduled"),
            updated,
        ),
        Column::integer(
            "Available",
            OfField("apps.v1.DaemonSetStatus.numberAvailable"),
            available,
        ),
        Column::text(
            "Node Selector",
            OfField("core.v1.PodSpec.nodeSelector"),
            nodes,
        ),
        Column::age(),
        containers,
        images,
        workload_selector(OfField("apps.v1.DaemonSetSpec.selector")),
    ]
}

/// Returns the columns of Deployments.
pub fn deployments() -> Vec<Column> {
    let updated = computed(|object, _| integer(object, &["status", "updatedReplicas"]));
    let available = computed(|object, _| integer(object, &["status", "availableReplicas"]));
    let [containers, images] = template_columns();
    vec![
        Column::name(),
        ready(),
        Column::text(
            "Up-to-date",
            OfField("apps.v1.DeploymentStatus.updatedReplicas"),
            updated,
        ),
        Column::text(
            "Available",
            OfField("apps.v1.DeploymentStatus.availableReplicas"),
            available,
        ),
        Column::age(),
        containers,
        images,
        selector_column(OfField("apps.v1.DeploymentSpec.selector"), |object, _| {
            // A selector without requirements is an empty cell here, unlike in other kinds.
            requirements_text(&Field::named("", object.at(&["spec", "selector"]))).into()
        }),
    ]
}

/// Returns the columns of ReplicaSets.
pub fn replicasets() -> Vec<Column> {
    let described = [
        "apps.v1.ReplicaSetSpec.replicas",
        "apps.v1.ReplicaSetStatus.replicas",
        "apps.v1.ReplicaSetStatus.readyReplicas",
    ];
    let selector = workload_selector(OfField("apps.v1.ReplicaSetSpec.selector"));
    replicated(described, selector)
}

/// Returns the columns of StatefulSets.
pub fn statefulsets() -> Vec<Column> {
    let [containers, images] = template_columns();
    vec![Column::name(), ready(), Column::age(), containers, images]
}

fn ready() -> Column {
    let ready = computed(|object, _| {
        let ready = integer(object, &["status", "readyReplicas"]);
        format!("{ready}/{}", integer(object, &["spec", "replicas"])).into()
    });
    Column::text("Ready", "Ready pods and desired pods.", ready)
}

/// Returns the kind, group and name of the controller that owns a revision.
fn controller(revision: &Object) -> String {
    let owners = list(revision, &["metadata", "ownerReferences"]);
    let owner = owners
        .iter()
        .find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    let Some(owner) = owner else {
        return NONE.to_owned();
    };
    let kind = member(owner, "kind").to_lowercase();
    let name = member(owner, "name");
    match member(owner, "apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{}/{name}", group.to_lowercase()),
        None => format!("{kind}/{name}"),
    }
}
