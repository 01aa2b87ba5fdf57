//! HorizontalPodAutoscalers as autoscaling/v1 has them, and as autoscaling/v2 has them.
//!
//! The older version knows one metric, the utilization of CPUs. It keeps everything else in
//! annotations, which the newer one never shows.

mod to_v1;
mod to_v2;

#[cfg(test)]
mod tests;

pub use to_v1::v2_to_v1;
pub use to_v2::v1_to_v2;

use api::object::Object;

use crate::defaults::autoscaling::{horizontalpodautoscaler, horizontalpodautoscaler_v1};

/// Fills in an autoscaler of autoscaling/v1 and turns it into one of autoscaling/v2, which has what
/// that version fills in.
pub fn filled_in_as_v1(object: &mut Object) {
    horizontalpodautoscaler_v1(object);
    v1_to_v2(object);
    horizontalpodautoscaler(object);
}

/// Fills in an autoscaler of autoscaling/v2 and turns it into one of autoscaling/v1.
pub fn filled_in_as_v2(object: &mut Object) {
    horizontalpodautoscaler(object);
    v2_to_v1(object);
}
