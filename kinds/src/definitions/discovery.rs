//! `discovery.k8s.io/v1`.

use super::{generation, rules, typed};
use crate::columns::discovery as columns;
use crate::special::endpointslices;
use api::resource::{CreateStrategy, ResourceDefinition, UpdateCheck, UpdateStrategy};

/// EndpointSlices.
pub fn endpointslices() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        // Anything outside of metadata, and labels (API-197).
        generation: generation(&["addressType", "endpoints", "metadata.labels", "ports"]),
        create: CreateStrategy {
            prepare: Some(endpointslices::prepare_create),
            ..CreateStrategy::default()
        },
        update: UpdateStrategy {
            prepare: Some(endpointslices::prepare_update),
            ..UpdateStrategy::default()
        },
        update_checks: &[UpdateCheck::Object],
        columns: columns::endpointslices(),
        ..typed(
            "discovery.v1.EndpointSlice",
            "discovery.k8s.io",
            "endpointslices",
        )
    })
}
