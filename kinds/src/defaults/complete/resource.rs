//! Descriptions of defaulted ResourceClaims, their templates and ResourceSlices.

use api::completeness::Expected;

use super::of;

/// Describes a defaulted ResourceClaim.
pub fn resourceclaim() -> Expected {
    of(claim_spec())
}

/// Describes a defaulted ResourceClaimTemplate.
pub fn resourceclaimtemplate() -> Expected {
    of(of(claim_spec()))
}

fn claim_spec() -> Expected {
    let request = || {
        Expected::default()
            .has(&["allocationMode"])
            .when("allocationMode", "\"ExactCount\"", &["count"])
            .below("tolerations", Expected::default().has(&["operator"]))
    };
    let either = Expected::default()
        .below("exactly", request())
        .below("firstAvailable", request());
    Expected::default().below("devices", Expected::default().below("requests", either))
}

/// Describes a defaulted ResourceSlice.
pub fn resourceslice() -> Expected {
    let taint = Expected::default().given(&["timeAdded"]);
    let mapping = Expected::default().given(&["allocationMultiplier"]);
    let device = Expected::default()
        .below("taints", taint)
        .below("nodeAllocatableResourceMappings", mapping);
    of(Expected::default().below("devices", device))
}
