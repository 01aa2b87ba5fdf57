//! Descriptions of defaulted workloads and PodTemplates.

use api::completeness::Expected;

use super::pods::pod_template_spec;
use super::storage::persistentvolumeclaim;

/// Describes an object that has a spec, which is defaulted.
pub(super) fn of_workload(spec: Expected) -> Expected {
    Expected::default().given(&["spec"]).below("spec", spec)
}

/// Describes a struct with a defaulted pod template.
pub(super) fn template(part: Expected) -> Expected {
    part.given(&["template"])
        .below("template", pod_template_spec())
}

/// Describes a strategy that may be RollingUpdate.
fn rolling_update() -> Expected {
    let rolling = Expected::default().given(&["maxSurge", "maxUnavailable"]);
    Expected::default()
        .has(&["type"])
        .when("type", "\"RollingUpdate\"", &["rollingUpdate"])
        .below("rollingUpdate", rolling)
}

/// Describes a defaulted Deployment.
pub fn deployment() -> Expected {
    let spec = template(Expected::default())
        .has(&["replicas", "revisionHistoryLimit"])
        .has(&["progressDeadlineSeconds", "strategy"])
        .below("strategy", rolling_update());
    of_workload(spec)
}

/// Describes a defaulted ReplicaSet.
pub fn replicaset() -> Expected {
    of_workload(template(Expected::default()).has(&["replicas"]))
}

/// Describes a defaulted DaemonSet.
pub fn daemonset() -> Expected {
    let spec = template(Expected::default())
        .has(&["revisionHistoryLimit", "updateStrategy"])
        .below("updateStrategy", rolling_update());
    let counted = "\"deprecated.daemonset.template.generation\":";
    let metadata = Expected::default().mentions("annotations", counted);
    of_workload(spec)
        .given(&["metadata"])
        .below("metadata", metadata)
}

/// Describes a defaulted StatefulSet.
pub fn statefulset() -> Expected {
    let rolling = Expected::default().given(&["partition"]);
    let strategy = Expected::default()
        .has(&["type"])
        .below("rollingUpdate", rolling);
    let retention = Expected::default().has(&["whenDeleted", "whenScaled"]);
    let claim = persistentvolumeclaim()
        .says("kind", "\"PersistentVolumeClaim\"")
        .says("apiVersion", "\"v1\"");
    let spec = template(Expected::default())
        .has(&["podManagementPolicy", "replicas", "revisionHistoryLimit"])
        .has(&["persistentVolumeClaimRetentionPolicy", "updateStrategy"])
        .below("updateStrategy", strategy)
        .below("persistentVolumeClaimRetentionPolicy", retention)
        .below("volumeClaimTemplates", claim);
    of_workload(spec)
}

/// Describes a defaulted ReplicationController. A scan cannot see whether absent labels default to
/// those of the template, so it requires labels and selector.
pub fn replicationcontroller() -> Expected {
    let spec = Expected::default()
        .has(&["replicas"])
        .filled(&["selector"])
        .below("template", pod_template_spec());
    labelled(of_workload(spec))
}

/// Describes an object that has labels.
pub(super) fn labelled(part: Expected) -> Expected {
    part.given(&["metadata"])
        .below("metadata", Expected::default().filled(&["labels"]))
}

/// Describes a defaulted PodTemplate.
pub fn podtemplate() -> Expected {
    template(Expected::default())
}
