//! The resources of `certificates.k8s.io/v1`.

use super::row::{Part, Row};
use super::{checking, cluster, part, status};
use crate::columns::certificates as columns;
use crate::strategies::certificates;
use crate::validation;
use api::resource::{
    EndpointRules, FieldPath, NameRule, ResourceDefinition, SelectableField, UpdateCheck, Verb,
};

const VERBS: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];

/// The metadata checks of all endpoints.
const CHECKS: &[UpdateCheck] = &[UpdateCheck::Object, UpdateCheck::Changes];

/// Returns the definition of CertificateSigningRequests. Only approval and status can change.
pub fn certificatesigningrequests() -> ResourceDefinition {
    let approval = EndpointRules {
        keeps: FieldPath::list(&["spec", "status.certificate"]),
        resets: FieldPath::list(&["spec", "status.certificate"]),
        ..EndpointRules::default()
    };
    let mut status = status(&["spec"]);
    status.rules.resets = FieldPath::list(&["spec", "status.conditions"]);
    status.prepare = Some(certificates::prepare_status);
    status.stamp = Some(certificates::stamp_conditions);
    let approval = Part {
        has_tables: false,
        stamp: Some(certificates::stamp_conditions),
        validate: Some(
            validation::certificates::validate_certificatesigningrequest_approval_update,
        ),
        ..part("approval", VERBS, approval)
    };
    Row {
        short_names: &["csr"],
        subresources: vec![checking(approval, CHECKS), checking(status, CHECKS)],
        name_rule: NameRule::PathSegment,
        update_checks: CHECKS,
        // A new request cannot contain its own approval.
        drops: &["status"],
        requester: Some(certificates::set_requester),
        keeps: &["spec", "status"],
        resets: &["spec", "status"],
        selectable_fields: vec![SelectableField::text(
            "spec.signerName",
            &["spec.signerName"],
        )],
        selects_namespace: false,
        columns: columns::certificatesigningrequests(),
        validate: Some(validation::certificates::validate_certificatesigningrequest),
        validate_update: Some(validation::certificates::validate_certificatesigningrequest_update),
        validate_status: Some(
            validation::certificates::validate_certificatesigningrequest_status_update,
        ),
        ratchets: validation::ratcheting::CERTIFICATE_REQUESTS,
        ..cluster(
            "certificates.v1.CertificateSigningRequest",
            "certificates.k8s.io",
            "certificatesigningrequests",
        )
    }
    .definition()
}
