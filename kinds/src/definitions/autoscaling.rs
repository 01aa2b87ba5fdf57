//! The resources of `autoscaling/v2` and `autoscaling/v1`, and the kind of the subresource `scale`.

use super::row::{Conversions, Row};
use super::{typed, with_status};
use crate::columns::autoscaling as columns;
use crate::convert::autoscaling as convert;
use crate::{defaults, validation};
use api::resource::{ResourceDefinition, UpdateCheck};

/// Returns the row of HorizontalPodAutoscalers in one version. Both versions share their keys.
fn horizontalpodautoscalers(object_type: &'static str) -> Row {
    Row {
        short_names: &["hpa"],
        categories: &["all"],
        update_checks: &[UpdateCheck::Changes],
        is_convertible: true,
        ..with_status(typed(
            object_type,
            "autoscaling",
            "horizontalpodautoscalers",
        ))
    }
}

/// Returns the definition of HorizontalPodAutoscalers of autoscaling/v2, which have any metrics.
pub fn horizontalpodautoscalers_v2() -> ResourceDefinition {
    Row {
        columns: columns::horizontalpodautoscalers(),
        defaults: Some(defaults::autoscaling::horizontalpodautoscaler),
        complete: Some(defaults::complete::autoscaling::horizontalpodautoscaler),
        validate: Some(validation::autoscaling::validate_horizontalpodautoscaler),
        validate_update: Some(validation::autoscaling::validate_horizontalpodautoscaler_update),
        validate_status: Some(
            validation::autoscaling::validate_horizontalpodautoscaler_status_update,
        ),
        ratchets: validation::ratcheting::AUTOSCALERS,
        ..horizontalpodautoscalers("autoscaling.v2.HorizontalPodAutoscaler")
    }
    .definition()
}

/// Returns the definition of HorizontalPodAutoscalers of autoscaling/v1, which have a field for CPU
/// utilization and annotations for other metrics.
pub fn horizontalpodautoscalers_v1() -> ResourceDefinition {
    Row {
        columns: columns::horizontalpodautoscalers(),
        conversion: Some(Conversions {
            to_hub: convert::v1_to_v2,
            from_hub: convert::v2_to_v1,
        }),
        defaults: Some(defaults::autoscaling::horizontalpodautoscaler_v1),
        validate: Some(validation::autoscaling::validate_horizontalpodautoscaler),
        validate_update: Some(validation::autoscaling::validate_horizontalpodautoscaler_update),
        validate_status: Some(
            validation::autoscaling::validate_horizontalpodautoscaler_status_update,
        ),
        ratchets: validation::ratcheting::AUTOSCALERS,
        ..horizontalpodautoscalers("autoscaling.v1.HorizontalPodAutoscaler")
    }
    .definition()
}

/// Returns the definition of Scales. They are not stored; `scale` subresources convert other
/// objects to them (API-223).
pub fn scales() -> ResourceDefinition {
    Row {
        verbs: Vec::new(),
        columns: columns::scales(),
        validate: Some(validation::autoscaling::validate_scale),
        ..typed("autoscaling.v1.Scale", "autoscaling", "scales")
    }
    .definition()
}
