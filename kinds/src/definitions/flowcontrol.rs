//! `flowcontrol.apiserver.k8s.io/v1`.

use super::{cluster, generation, rules, with_bare_status};
use crate::columns::flowcontrol as columns;
use api::resource::{Effect, ResourceDefinition, UpdateCheck};

/// A resource of the group.
fn flowcontrol(object_type: &'static str, plural: &str) -> ResourceDefinition {
    ResourceDefinition {
        effect: Effect::NotYet,
        generation: generation(&["spec"]),
        update_checks: &[UpdateCheck::Object],
        ..with_bare_status(cluster(object_type, "flowcontrol.apiserver.k8s.io", plural))
    }
}

/// FlowSchemas.
pub fn flowschemas() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::flowschemas(),
        ..flowcontrol("flowcontrol.v1.FlowSchema", "flowschemas")
    })
}

/// PriorityLevelConfigurations.
pub fn prioritylevelconfigurations() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        columns: columns::prioritylevelconfigurations(),
        ..flowcontrol(
            "flowcontrol.v1.PriorityLevelConfiguration",
            "prioritylevelconfigurations",
        )
    })
}
