//! `certificates.k8s.io/v1`.

use super::{checking, cluster, names, part, rules, status};
use crate::columns::certificates as columns;
use crate::special::certificates;
use api::resource::{
    CreateStrategy, FieldPath, NameRule, ResourceDefinition, SelectableField, Subresource,
    UpdateCheck, UpdateStrategy, Verb,
};

/// All endpoints check metadata alike.
const CHECKS: &[UpdateCheck] = &[UpdateCheck::Object, UpdateCheck::Changes];

/// CertificateSigningRequests. Only their approval and their status change.
pub fn certificatesigningrequests() -> ResourceDefinition {
    let approval = UpdateStrategy {
        keeps: FieldPath::list(&["spec", "status.certificate"]),
        resets: FieldPath::list(&["spec", "status.certificate"]),
        stamp: Some(certificates::stamp_conditions),
        ..UpdateStrategy::default()
    };
    let mut status = status(&["spec"]);
    status.update.resets = FieldPath::list(&["spec", "status.conditions"]);
    status.update.prepare = Some(certificates::prepare_status);
    status.update.stamp = Some(certificates::stamp_conditions);
    let verbs = [Verb::Get, Verb::Patch, Verb::Update];
    let approval = Subresource {
        has_tables: false,
        ..part("approval", &verbs, approval)
    };
    rules::applied(ResourceDefinition {
        short_names: names(&["csr"]),
        subresources: vec![checking(approval, CHECKS), checking(status, CHECKS)],
        name_rule: NameRule::PathSegment,
        update_checks: CHECKS,
        // Nobody approves with a request.
        create: CreateStrategy {
            drops: FieldPath::list(&["status"]),
            requester: Some(certificates::set_requester),
            ..CreateStrategy::default()
        },
        update: UpdateStrategy {
            keeps: FieldPath::list(&["spec", "status"]),
            resets: FieldPath::list(&["spec", "status"]),
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
