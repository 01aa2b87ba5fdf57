//! The resources of `resource.k8s.io/v1`.

use super::row::Row;
use super::{cluster, generation, typed, with_bare_status};
use crate::columns::resource as columns;
use crate::{defaults, strategies, validation, warnings};
use api::resource::{NameRule, ResourceDefinition, SelectableField, UnknownLabels, UpdateCheck};

const GROUP: &str = "resource.k8s.io";

/// Returns the definition of DeviceClasses.
pub fn deviceclasses() -> ResourceDefinition {
    Row {
        name_rule: NameRule::DnsSubdomainWhole,
        generation: generation(&["spec"]),
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        validate: Some(validation::resource::validate_deviceclass),
        validate_update: Some(validation::resource::validate_deviceclass_update),
        ..cluster("resource.v1.DeviceClass", GROUP, "deviceclasses")
    }
    .definition()
}

/// Returns the definition of ResourceClaims.
pub fn resourceclaims() -> ResourceDefinition {
    let mut row = with_bare_status(typed("resource.v1.ResourceClaim", GROUP, "resourceclaims"));
    for status in &mut row.subresources {
        status.prepare = Some(strategies::resource::claims::prepare_status);
    }
    Row {
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        columns: columns::resourceclaims(),
        defaults: Some(defaults::resource::resourceclaim),
        complete: Some(defaults::complete::resource::resourceclaim),
        validate: Some(validation::resource::validate_resourceclaim),
        validate_update: Some(validation::resource::validate_resourceclaim_update),
        validate_status: Some(validation::resource::validate_resourceclaim_status_update),
        ..row
    }
    .definition()
}

/// Returns the definition of ResourceClaimTemplates.
pub fn resourceclaimtemplates() -> ResourceDefinition {
    Row {
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        defaults: Some(defaults::resource::resourceclaimtemplate),
        complete: Some(defaults::complete::resource::resourceclaimtemplate),
        validate: Some(validation::resource::validate_resourceclaimtemplate),
        validate_update: Some(validation::resource::validate_resourceclaimtemplate_update),
        ..typed(
            "resource.v1.ResourceClaimTemplate",
            GROUP,
            "resourceclaimtemplates",
        )
    }
    .definition()
}

/// Returns the definition of ResourceSlices.
pub fn resourceslices() -> ResourceDefinition {
    Row {
        generation: generation(&["spec"]),
        returns_deleted: true,
        update_checks: &[UpdateCheck::Changes],
        stamp: Some(strategies::resource::slices::stamp),
        selectable_fields: vec![
            // Each kubelet watches the slices of its node, so the field is indexed.
            SelectableField::text("spec.nodeName", &["spec.nodeName"]).indexed(),
            SelectableField::text("spec.driver", &["spec.driver"]),
        ],
        unknown_labels: UnknownLabels::OfVersion,
        selects_namespace: false,
        columns: columns::resourceslices(),
        defaults: Some(defaults::resource::resourceslice),
        stored: Some(defaults::resource::stored_resourceslice),
        complete: Some(defaults::complete::resource::resourceslice),
        prepare: Some(strategies::resource::slices::prepare),
        prepare_update: Some(strategies::resource::slices::prepare_update),
        validate: Some(validation::resource::validate_resourceslice),
        validate_update: Some(validation::resource::validate_resourceslice_update),
        warnings: Some(warnings::resource::of_resourceslice),
        ..cluster("resource.v1.ResourceSlice", GROUP, "resourceslices")
    }
    .definition()
}
