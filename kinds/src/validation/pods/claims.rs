//! Validation of a pod's resource claims.

use std::collections::HashSet;

use api::field::Field;

use super::fields::{validate_dns_label, validate_dns_subdomain};
use crate::types::internal::invalid_struct;
use crate::validation::required::require_text;
use api::error_list::ErrorList;

/// Validates resource claims.
pub fn validate_resource_claims(claims: &Field<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for claim in claims.items() {
        let name = claim.member("name");
        if require_text(&name, errors) {
            if seen.insert(name.text().to_owned()) {
                validate_dns_label(&name, errors);
            } else {
                errors.push(name.duplicate());
            }
        }
        validate_source(&claim, errors);
    }
}

fn validate_source(claim: &Field<'_>, errors: &mut ErrorList) {
    const TYPE: &str = "core.v1.PodResourceClaim";
    let name = claim.member("resourceClaimName");
    let template = claim.member("resourceClaimTemplateName");
    match (name.is_set(), template.is_set()) {
        (true, true) => errors.push(invalid_struct(
            claim,
            TYPE,
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        )),
        (false, false) => errors.push(invalid_struct(
            claim,
            TYPE,
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        )),
        _ => {}
    }
    for name in [name, template] {
        if name.is_set() {
            validate_dns_subdomain(&name, errors);
        }
    }
}
