//! Descriptions of defaulted EndpointSlices.

use api::completeness::Expected;

/// Describes a defaulted EndpointSlice.
pub fn endpointslice() -> Expected {
    Expected::default().below("ports", Expected::default().given(&["name", "protocol"]))
}
