//! `certificates.k8s.io/v1`.

use super::{cluster, names, part, rules, status};
use crate::columns::certificates as columns;
use crate::special::certificates;
use api::resource::{
    CreateStrategy, FieldPath, NameRule, ResourceDefinition, SelectableField, UpdateChecks,
    UpdateStrategy, Verb,
};

/// CertificateSigningRequests. Only their approval and their status change.
pub fn certificatesigningrequests() -> ResourceDefinition {
    let approval = UpdateStrategy {
        keeps: FieldPath::list(&["spec", "status.certificate"]),
        ..UpdateStrategy::default()
    };
    let mut status = status(&["spec"]);
    status.update.prepare = Some(certificates::prepare_status);
    let verbs = [Verb::Get, Verb::Patch, Verb::Update];
    rules::applied(ResourceDefinition {
        short_names: names(&["csr"]),
        subresources: vec![part("approval", &verbs, approval), status],
        name_rule: NameRule::PathSegment,
        update_checks: UpdateChecks::ObjectThenChanges,
        // The server says who asks, and nobody approves with a request.
        create: CreateStrategy {
            drops: FieldPath::list(&[
                "spec.extra",
                "spec.groups",
                "spec.uid",
                "spec.username",
                "status",
            ]),
            ..CreateStrategy::default()
        },
        update: UpdateStrategy {
            keeps: FieldPath::list(&["spec", "status"]),
            ..UpdateStrategy::default()
        },
        selectable_fields: vec![SelectableField::text(
            "spec.signerName",
            &["spec.signerName"],
        )],
        selects_namespace: false,
        columns: columns::certificatesigningrequests(),
        ..cluster(
            "certificates.v1.CertificateSigningRequest",
            "certificates.k8s.io",
            "certificatesigningrequests",
        )
    })
}
