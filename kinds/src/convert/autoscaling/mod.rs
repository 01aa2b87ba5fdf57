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
