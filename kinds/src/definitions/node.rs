//! `node.k8s.io/v1`.

use super::{cluster, rules};
use crate::columns::node as columns;
use api::resource::{ResourceDefinition, UpdateCheck};

/// RuntimeClasses.
pub fn runtimeclasses() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        create_on_update: true,
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        columns: columns::runtimeclasses(),
        ..cluster("node.v1.RuntimeClass", "node.k8s.io", "runtimeclasses")
    })
}
