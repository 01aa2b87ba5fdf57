//! The resources of `discovery.k8s.io/v1`.

use super::row::Row;
use super::{generation, typed};
use crate::columns::discovery as columns;
use crate::{defaults, strategies, validation, warnings};
use api::resource::{ResourceDefinition, UpdateCheck};

/// Returns the definition of EndpointSlices.
pub fn endpointslices() -> ResourceDefinition {
    Row {
        // Everything outside metadata, and labels (API-197).
        generation: generation(&["addressType", "endpoints", "metadata.labels", "ports"]),
        prepare: Some(strategies::discovery::prepare_create),
        prepare_update: Some(strategies::discovery::prepare_update),
        update_checks: &[UpdateCheck::Object],
        columns: columns::endpointslices(),
        defaults: Some(defaults::discovery::endpointslice),
        stored: Some(defaults::discovery::stored_endpointslice),
        complete: Some(defaults::complete::discovery::endpointslice),
        validate: Some(validation::discovery::validate_endpointslice),
        validate_update: Some(validation::discovery::validate_endpointslice_update),
        warnings: Some(warnings::discovery::of_endpointslice),
        ..typed(
            "discovery.v1.EndpointSlice",
            "discovery.k8s.io",
            "endpointslices",
        )
    }
    .definition()
}
