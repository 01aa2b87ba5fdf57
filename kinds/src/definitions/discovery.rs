//! `discovery.k8s.io/v1`.

use super::{generation, typed};
use crate::columns::discovery as columns;
use api::resource::ResourceDefinition;

/// EndpointSlices.
pub fn endpointslices() -> ResourceDefinition {
    ResourceDefinition {
        // Anything outside of metadata, and labels (API-197).
        generation: generation(&["addressType", "endpoints", "metadata.labels", "ports"]),
        columns: columns::endpointslices(),
        ..typed(
            "discovery.v1.EndpointSlice",
            "discovery.k8s.io",
            "endpointslices",
        )
    }
}
