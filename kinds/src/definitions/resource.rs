//! `resource.k8s.io/v1`.

use super::{cluster, generation, rules, typed, with_bare_status};
use crate::columns::resource as columns;
use crate::special::{resourceclaims, resourceslices};
use api::resource::{
    NameRule, ResourceDefinition, SelectableField, UnknownLabels, UpdateCheck, UpdateStrategy,
};

const GROUP: &str = "resource.k8s.io";

/// DeviceClasses.
pub fn deviceclasses() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        name_rule: NameRule::DnsSubdomainWhole,
        generation: generation(&["spec"]),
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        ..cluster("resource.v1.DeviceClass", GROUP, "deviceclasses")
    })
}

/// ResourceClaims.
pub fn resourceclaims() -> ResourceDefinition {
    let mut row = with_bare_status(typed("resource.v1.ResourceClaim", GROUP, "resourceclaims"));
    for status in &mut row.subresources {
        status.update.prepare = Some(resourceclaims::prepare_status);
    }
    rules::applied(ResourceDefinition {
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        columns: columns::resourceclaims(),
        ..row
    })
}

/// ResourceClaimTemplates.
pub fn resourceclaimtemplates() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        returns_deleted: true,
        update_checks: &[UpdateCheck::Object, UpdateCheck::Changes],
        ..typed(
            "resource.v1.ResourceClaimTemplate",
            GROUP,
            "resourceclaimtemplates",
        )
    })
}

/// ResourceSlices.
pub fn resourceslices() -> ResourceDefinition {
    rules::applied(ResourceDefinition {
        generation: generation(&["spec"]),
        returns_deleted: true,
        update_checks: &[UpdateCheck::Changes],
        update: UpdateStrategy {
            stamp: Some(resourceslices::stamp),
            ..UpdateStrategy::default()
        },
        selectable_fields: vec![
            // Each kubelet watches the slices of its node.
            SelectableField::text("spec.nodeName", &["spec.nodeName"]).indexed(),
            SelectableField::text("spec.driver", &["spec.driver"]),
        ],
        unknown_labels: UnknownLabels::OfVersion,
        selects_namespace: false,
        columns: columns::resourceslices(),
        ..cluster("resource.v1.ResourceSlice", GROUP, "resourceslices")
    })
}
