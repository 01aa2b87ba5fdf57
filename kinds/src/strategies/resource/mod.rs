//! ResourceClaims and ResourceSlices.

pub mod claims;
pub mod slices;
