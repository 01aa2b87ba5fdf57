//! Validation of CertificateSigningRequests. The structure of requests is parsed, and the outermost
//! structure of certificates. Names, keys and signatures are left to the signers.

use std::collections::HashSet;

use api::field::Field;
use api::names;
use api::object::Object;
use api::pem::pem_blocks;
use api::text::quoting::go_quote;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::asn1::check_request;
use super::enums::{must_be_one_of, require_one_of};
use super::required::require_text;
use api::error_list::ErrorList;

const MAX_DOMAIN: usize = 253;
/// A domain, a slash, a label, a dot and a subdomain.
const MAX_SIGNER_NAME: usize = 571;
const MIN_EXPIRATION: i64 = 600;
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Validates a CertificateSigningRequest.
pub fn validate_certificatesigningrequest(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let request = spec.member("request");
    let pem = decoded(&request);
    let block = pem_blocks(&pem).next();
    match block.filter(|block| block.kind == "CERTIFICATE REQUEST") {
        None => errors.push(request.invalid("PEM block type must be CERTIFICATE REQUEST")),
        Some(block) => {
            let wrong = check_request(&block.bytes).err();
            errors.extend(wrong.map(|wrong| request.invalid(wrong)));
        }
    }
    validate_usages(&spec.member("usages"), errors);
    let signer = spec.member("signerName");
    if signer.text() == LEGACY_SIGNER {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(signer.invalid(detail));
    } else {
        validate_signer_name(&signer, errors);
    }
    let expiration = spec.member("expirationSeconds");
    if expiration
        .int()
        .is_some_and(|seconds| seconds < MIN_EXPIRATION)
    {
        errors.push(
            expiration.invalid("may not specify a duration less than 600 seconds (10 minutes)"),
        );
    }
    let status = Field::of(object, "status");
    validate_conditions(&status.member("conditions"), errors);
    let certificate = status.member("certificate");
    if !certificate.text().is_empty()
        && let Err(wrong) = check_certificates(&decoded(&certificate))
    {
        errors.push(certificate.invalid_value("<certificate data>", wrong));
    }
}

/// Validates an update, which must not change spec and status.
pub fn validate_certificatesigningrequest_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    validate_change(object, stored, &Allowed::default(), errors);
}

/// Validates an update of the status, which may issue a certificate.
pub fn validate_certificatesigningrequest_status_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    let allowed = Allowed {
        certificate: true,
        ..Allowed::default()
    };
    validate_change(object, stored, &allowed, errors);
}

/// Validates an update of the approval.
pub fn validate_certificatesigningrequest_approval_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    let allowed = Allowed {
        approval: true,
        ..Allowed::default()
    };
    validate_change(object, stored, &allowed, errors);
}

/// The parts that an update may change.
#[derive(Default)]
struct Allowed {
    approval: bool,
    certificate: bool,
}

fn validate_change(object: &Object, stored: &Object, allowed: &Allowed, errors: &mut ErrorList) {
    validate_certificatesigningrequest(object, errors);
    let status = Field::of(object, "status");
    let conditions = status.member("conditions");
    let stored = Field::of(stored, "status");
    let before = stored.member("conditions");
    for kind in ["Approved", "Denied", "Failed"] {
        if of_kind(&conditions, kind).count() < of_kind(&before, kind).count() {
            let kind = go_quote(kind);
            let detail = format!("updates may not remove a condition of type {kind}");
            errors.push(conditions.forbidden(detail));
        }
    }
    for kind in ["Approved", "Denied"].iter().filter(|_| !allowed.approval) {
        let old: Vec<&Value> = of_kind(&before, kind).collect();
        let new: Vec<&Value> = of_kind(&conditions, kind).collect();
        let verb = match new.len().cmp(&old.len()) {
            std::cmp::Ordering::Greater => "add",
            std::cmp::Ordering::Equal if new != old => "modify",
            _ => continue,
        };
        let kind = go_quote(kind);
        let detail = format!("updates may not {verb} a condition of type {kind}");
        errors.push(conditions.forbidden(detail));
    }
    let certificate = status.member("certificate");
    let issued = stored.member("certificate");
    if certificate.text() != issued.text() {
        if !allowed.certificate {
            errors.push(certificate.forbidden("updates may not set certificate content"));
        } else if !issued.text().is_empty() {
            let detail = "updates may not modify existing certificate content";
            errors.push(certificate.forbidden(detail));
        }
    }
}

/// Returns the conditions of a type.
fn of_kind<'f>(conditions: &Field<'f>, kind: &str) -> impl Iterator<Item = &'f Value> {
    let list = conditions.list().iter();
    list.filter(move |condition| condition.get("type").and_then(Value::as_str) == Some(kind))
}

fn validate_usages(usages: &Field<'_>, errors: &mut ErrorList) {
    if usages.is_empty() {
        errors.push(usages.required(""));
    }
    for usage in usages.items() {
        must_be_one_of(&usage, &USAGES, errors);
    }
    let mut seen = HashSet::new();
    for (usage, value) in usages.items().zip(usages.list()) {
        if !seen.insert(value) {
            errors.push(usage.duplicate());
        }
    }
}

/// Validates that the name of a signer is a domain, a slash and a path.
fn validate_signer_name(signer: &Field<'_>, errors: &mut ErrorList) {
    if !require_text(signer, errors) {
        return;
    }
    let text = signer.text();
    let parts = text.split_once('/').filter(|(_, path)| !path.contains('/'));
    let Some((domain, path)) = parts else {
        errors.push(signer.invalid(
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ));
        return;
    };
    if domain.len() > MAX_DOMAIN {
        errors.push(signer.too_long(MAX_DOMAIN));
    }
    validate_labels(signer, domain, names::dns_label, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(signer.invalid_value(domain, detail));
    }
    validate_labels(signer, path, names::dns_subdomain, errors);
    if text.len() > MAX_SIGNER_NAME {
        errors.push(signer.too_long(MAX_SIGNER_NAME));
    }
}

fn validate_labels(
    signer: &Field<'_>,
    part: &str,
    rule: fn(&str) -> Vec<String>,
    errors: &mut ErrorList,
) {
    // Kubernetes reports the first invalid label only.
    let mut labels = part.split('.').map(|label| (label, rule(label)));
    let first = labels.find(|(_, wrong)| !wrong.is_empty());
    for (label, message) in first.iter().flat_map(|(label, wrong)| {
        let messages = wrong.iter();
        messages.map(move |message| (label, message))
    }) {
        let detail = format!("validating label {}: {message}", go_quote(label));
        errors.push(signer.invalid_value(part, detail));
    }
}

fn validate_conditions(conditions: &Field<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (condition, value) in conditions.items().zip(conditions.list()) {
        let kind = condition.member("type");
        require_text(&kind, errors);
        let status = condition.member("status");
        let supported: &[&str] = match kind.text() {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        require_one_of(&status, supported, errors);
        let opposite = match kind.text() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !opposite.is_empty() && seen.contains(&opposite) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(conditions.invalid_value(kind.text(), detail));
        }
        let name = value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !seen.insert(name) {
            errors.push(kind.duplicate());
        }
    }
}

/// Returns the decoded Base64 of a field, or an empty text if it is invalid.
fn decoded(field: &Field<'_>) -> String {
    let bytes = STANDARD.decode(field.text()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Checks that a text contains certificates only.
fn check_certificates(pem: &str) -> Result<(), String> {
    let mut blocks = 0;
    for block in pem_blocks(pem) {
        if block.kind != "CERTIFICATE" {
            let found = go_quote(block.kind);
            return Err(format!(
                "only CERTIFICATE PEM blocks are allowed, found {found}"
            ));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if block.bytes.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        if !is_sequence(&block.bytes) {
            return Err("x509: malformed certificate".to_owned());
        }
        blocks += 1;
    }
    match blocks {
        0 => Err("must contain at least one CERTIFICATE PEM block".to_owned()),
        _ => Ok(()),
    }
}

/// Reports whether bytes are exactly one ASN.1 sequence.
fn is_sequence(der: &[u8]) -> bool {
    let Some((0x30, rest)) = der.split_first().map(|(tag, rest)| (*tag, rest)) else {
        return false;
    };
    let Some((first, rest)) = rest.split_first() else {
        return false;
    };
    if *first < 0x80 {
        return rest.len() == usize::from(*first);
    }
    let count = usize::from(first & 0x7f);
    let (Some(digits), Some(content)) = (rest.get(..count), rest.get(count..)) else {
        return false;
    };
    let digits = digits.iter().try_fold(0_usize, |length, digit| {
        Some(length.checked_mul(256)? + usize::from(*digit))
    });
    digits == Some(content.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::{Functions, check};

    fn functions(update: fn(&Object, &Object, &mut ErrorList)) -> Functions {
        Functions {
            defaults: None,
            create: validate_certificatesigningrequest,
            update: Some(update),
        }
    }

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        let cases = include_str!("../../recorded/certificates.json");
        check(cases, |_| {
            functions(validate_certificatesigningrequest_update)
        });
        let cases = include_str!("../../recorded/certificates_status.json");
        check(cases, |_| {
            functions(validate_certificatesigningrequest_status_update)
        });
        let cases = include_str!("../../recorded/certificates_approval.json");
        check(cases, |_| {
            functions(validate_certificatesigningrequest_approval_update)
        });
    }
}
