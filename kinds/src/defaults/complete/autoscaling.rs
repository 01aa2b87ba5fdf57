//! Descriptions of defaulted HorizontalPodAutoscalers.

use api::completeness::Expected;

use super::of;

/// Describes a defaulted HorizontalPodAutoscaler of autoscaling/v2.
pub fn horizontalpodautoscaler() -> Expected {
    let rules = || Expected::default().given(&["policies", "selectPolicy"]);
    let behavior = Expected::default()
        .given(&["scaleDown", "scaleUp"])
        .below("scaleDown", rules())
        .below("scaleUp", rules().given(&["stabilizationWindowSeconds"]));
    let spec = Expected::default()
        .has(&["minReplicas"])
        .filled(&["metrics"])
        .below("behavior", behavior);
    let metadata =
        Expected::default().never_mentions("annotations", "autoscaling.alpha.kubernetes.io/");
    of(spec).given(&["spec"]).below("metadata", metadata)
}
