//! What is refused of claims for devices.

use std::collections::HashSet;

use api::field::Field;

use super::fields::{validate_dns_label, validate_dns_subdomain};
use crate::validation::Faults;
use crate::validation::formats::require_text;
use crate::validation::internal::invalid_struct;

/// The faults of claims.
pub fn validate_resource_claims(claims: &Field<'_>, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for claim in claims.items() {
        let name = claim.member("name");
        if require_text(&name, faults) {
            if seen.insert(name.text().to_owned()) {
                validate_dns_label(&name, faults);
            } else {
                faults.push(name.duplicate());
            }
        }
        validate_source(&claim, faults);
    }
}

fn validate_source(claim: &Field<'_>, faults: &mut Faults) {
    const TYPE: &str = "core.v1.PodResourceClaim";
    let name = claim.member("resourceClaimName");
    let template = claim.member("resourceClaimTemplateName");
    match (name.is_set(), template.is_set()) {
        (true, true) => faults.push(invalid_struct(
            claim,
            TYPE,
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        )),
        (false, false) => faults.push(invalid_struct(
            claim,
            TYPE,
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        )),
        _ => {}
    }
    for name in [name, template] {
        if name.is_set() {
            validate_dns_subdomain(&name, faults);
        }
    }
}
