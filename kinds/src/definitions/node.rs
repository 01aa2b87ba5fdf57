//! The resources of `node.k8s.io/v1`.

use super::cluster;
use super::row::Row;
use crate::columns::node as columns;
use crate::{validation, warnings};
use api::resource::{ResourceDefinition, UpdateCheck};

/// Returns the definition of RuntimeClasses.
pub fn runtimeclasses() -> ResourceDefinition {
    Row {
        create_on_update: true,
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        columns: columns::runtimeclasses(),
        validate: Some(validation::node::validate_runtimeclass),
        validate_update: Some(validation::node::validate_runtimeclass_update),
        warnings: Some(warnings::node::of_runtimeclass),
        ..cluster("node.v1.RuntimeClass", "node.k8s.io", "runtimeclasses")
    }
    .definition()
}
