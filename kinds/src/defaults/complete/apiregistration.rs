//! Descriptions of defaulted APIServices.

use api::completeness::Expected;

use super::of;

/// Describes a defaulted APIService.
pub fn apiservice() -> Expected {
    of(Expected::default().below("service", Expected::default().given(&["port"])))
}
