//! Conversion of HorizontalPodAutoscalers between autoscaling/v1 and autoscaling/v2.
//!
//! v1 has fields for one metric only, CPU utilization. Everything else is in annotations, which v2
//! never shows.

mod to_v1;
mod to_v2;

#[cfg(test)]
mod tests;

pub use to_v1::v2_to_v1;
pub use to_v2::v1_to_v2;

use api::object::Object;

use crate::defaults::autoscaling::{horizontalpodautoscaler, horizontalpodautoscaler_v1};

/// Applies the defaults of autoscaling/v1, converts to autoscaling/v2, and applies the defaults of
/// that version.
pub fn filled_in_as_v1(object: &mut Object) {
    horizontalpodautoscaler_v1(object);
    v1_to_v2(object);
    horizontalpodautoscaler(object);
}

/// Applies the defaults of autoscaling/v2, then converts to autoscaling/v1.
pub fn filled_in_as_v2(object: &mut Object) {
    horizontalpodautoscaler(object);
    v2_to_v1(object);
}
