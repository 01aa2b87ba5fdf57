//! The resources of `flowcontrol.apiserver.k8s.io/v1`.

use super::row::Row;
use super::{cluster, generation, with_bare_status};
use crate::columns::flowcontrol as columns;
use crate::{defaults, validation};
use api::resource::{Effect, ResourceDefinition, UpdateCheck};

/// Returns a row of the group.
fn flowcontrol(object_type: &'static str, plural: &'static str) -> Row {
    Row {
        effect: Effect::NotYet,
        generation: generation(&["spec"]),
        update_checks: &[UpdateCheck::Object],
        ..with_bare_status(cluster(object_type, "flowcontrol.apiserver.k8s.io", plural))
    }
}

/// Returns the definition of FlowSchemas.
pub fn flowschemas() -> ResourceDefinition {
    Row {
        columns: columns::flowschemas(),
        defaults: Some(defaults::flowcontrol::flowschema),
        complete: Some(defaults::complete::flowcontrol::flowschema),
        validate: Some(validation::flowcontrol::validate_flowschema),
        validate_update: Some(validation::flowcontrol::validate_flowschema_update),
        validate_status: Some(validation::flowcontrol::validate_flowschema_status_update),
        ..flowcontrol("flowcontrol.v1.FlowSchema", "flowschemas")
    }
    .definition()
}

/// Returns the definition of PriorityLevelConfigurations.
pub fn prioritylevelconfigurations() -> ResourceDefinition {
    Row {
        columns: columns::prioritylevelconfigurations(),
        defaults: Some(defaults::flowcontrol::prioritylevelconfiguration),
        complete: Some(defaults::complete::flowcontrol::prioritylevelconfiguration),
        validate: Some(validation::flowcontrol::validate_prioritylevelconfiguration),
        validate_update: Some(validation::flowcontrol::validate_prioritylevelconfiguration_update),
        validate_status: Some(
            validation::flowcontrol::validate_prioritylevelconfiguration_status_update,
        ),
        ..flowcontrol(
            "flowcontrol.v1.PriorityLevelConfiguration",
            "prioritylevelconfigurations",
        )
    }
    .definition()
}
