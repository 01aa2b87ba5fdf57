//! `autoscaling/v2` and `autoscaling/v1`, with the kind of the subresource `scale`.

use super::{names, rules, typed, with_status};
use crate::columns::autoscaling as columns;
use crate::convert::autoscaling as convert;
use api::resource::{ConversionStrategy, ResourceDefinition, UpdateCheck};

/// HorizontalPodAutoscalers in one of their versions. Both are stored below the same keys.
fn horizontalpodautoscalers(object_type: &'static str) -> ResourceDefinition {
    ResourceDefinition {
        short_names: names(&["hpa"]),
        categories: names(&["all"]),
        update_checks: &[UpdateCheck::Changes],
        conversion: ConversionStrategy::TypeOnly,
        ..with_status(typed(
            object_type,
            "autoscaling",
            "horizontalpodautoscalers",
        ))
    }
}

/// HorizontalPodAutoscalers with any metrics.
pub fn horizontalpodautoscalers_v2() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::horizontalpodautoscalers(),
        ..horizontalpodautoscalers("autoscaling.v2.HorizontalPodAutoscaler")
    })
}

/// HorizontalPodAutoscalers by use of processors only. Other metrics are in annotations.
pub fn horizontalpodautoscalers_v1() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::horizontalpodautoscalers(),
        conversion: ConversionStrategy::Functions {
            to_hub: convert::v1_to_v2,
            from_hub: convert::v2_to_v1,
        },
        ..horizontalpodautoscalers("autoscaling.v1.HorizontalPodAutoscaler")
    })
}

/// Scales, which are not stored: subresources of other objects show themselves as Scales (API-223).
pub fn scales() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        verbs: Vec::new(),
        columns: columns::scales(),
        ..typed("autoscaling.v1.Scale", "autoscaling", "scales")
    })
}
