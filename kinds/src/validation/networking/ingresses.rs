//! Validation of Ingresses.

use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;

use super::super::addresses::parse_address;
use super::super::ports::{port_name, port_number};
use super::super::report;
use super::super::services::{
    ingress_addresses, validate_balancer_hostname, validate_balancer_ingress,
};
use super::super::text_formats::wildcard_subdomain;
use super::classes::validate_reference;
use api::error_list::ErrorList;

const CLASS: &str = "kubernetes.io/ingress.class";

/// Sequences that a path must not contain.
const BAD_SEQUENCES: &[&str] = &["//", "/./", "/../", "%2f", "%2F"];
const BAD_SUFFIXES: &[&str] = &["/..", "/."];
const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];

/// The violations that an update may keep because the stored Ingress has them.
#[derive(Clone, Copy, Default)]
struct Kept {
    /// Invalid names of Secrets.
    secrets: bool,
    /// Invalid wildcard hosts in rules.
    wildcards: bool,
}

/// Validates a new Ingress.
pub fn validate_ingress(object: &Object, errors: &mut ErrorList) {
    validate(object, Kept::default(), errors);
    let metadata = Field::of(object, "metadata");
    let annotations = metadata.member("annotations");
    let annotation = annotations.key(CLASS);
    let spec = Field::of(object, "spec");
    let class = spec.member("ingressClassName");
    if annotation.is_set() && class.is_set() && annotation.text() != class.text() {
        errors.push(FieldError::invalid(
            format!("annotations.{CLASS}"),
            annotation.text(),
            "must match `ingressClassName` when both are specified",
        ));
    }
}

/// Validates an update of an Ingress.
pub fn validate_ingress_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let spec = Field::of(stored, "spec");
    let has_bad_secret = spec.member("tls").items().any(|tls| {
        let name = tls.value().and_then(|tls| tls.get("secretName"));
        let name = name.and_then(serde_json::Value::as_str);
        !secret_name(name.unwrap_or_default()).is_empty()
    });
    let has_bad_wildcard = spec.member("rules").items().any(|rule| {
        let is_wildcard = rule.member("host").text().contains('*');
        is_wildcard && !ErrorList::of(|errors| validate_rule_value(&rule, errors)).is_empty()
    });
    let kept = Kept {
        secrets: has_bad_secret,
        wildcards: has_bad_wildcard,
    };
    validate(object, kept, errors);
}

fn validate(object: &Object, kept: Kept, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let (backend, rules) = (spec.member("defaultBackend"), spec.member("rules"));
    if rules.is_empty() && !backend.is_set() {
        errors.push(spec.invalid_value(
            rules.value().cloned().unwrap_or_default(),
            "either `defaultBackend` or `rules` must be specified",
        ));
    }
    if backend.is_set() {
        validate_backend(&backend, errors);
    }
    for rule in rules.items() {
        validate_rule(&rule, kept, errors);
    }
    for tls in spec.member("tls").items() {
        for host in tls.member("hosts").items() {
            validate_host(&host, errors);
        }
        let secret = tls.member("secretName");
        if !kept.secrets {
            report(&secret, secret_name(secret.text()), errors);
        }
    }
    let class = spec.member("ingressClassName");
    if class.is_set() {
        report(&class, names::dns_subdomain(class.text()), errors);
    }
}

/// Checks the name of a Secret, if any.
fn secret_name(name: &str) -> Vec<String> {
    match name {
        "" => Vec::new(),
        _ => names::dns_subdomain(name),
    }
}

fn validate_host(host: &Field<'_>, errors: &mut ErrorList) {
    let wrong = match host.text().contains('*') {
        true => wildcard_subdomain(host.text()),
        false => names::dns_subdomain(host.text()),
    };
    report(host, wrong, errors);
}

fn validate_rule(rule: &Field<'_>, kept: Kept, errors: &mut ErrorList) {
    let host = rule.member("host");
    if !host.text().is_empty() {
        if parse_address(host.text()).is_some() {
            errors.push(host.invalid("must be a DNS name, not an IP address"));
        }
        validate_host(&host, errors);
    }
    if !(kept.wildcards && host.text().contains('*')) {
        validate_rule_value(rule, errors);
    }
}

fn validate_rule_value(rule: &Field<'_>, errors: &mut ErrorList) {
    let http = rule.member("http");
    if !http.is_set() {
        return;
    }
    let paths = http.member("paths");
    if paths.is_empty() {
        errors.push(paths.required(""));
    }
    for path in paths.items() {
        validate_path(&path, errors);
    }
}

fn validate_path(path: &Field<'_>, errors: &mut ErrorList) {
    let kind = path.member("pathType");
    if !kind.is_set() {
        errors.push(kind.required("pathType must be specified"));
        return;
    }
    let text = path.member("path");
    let is_absolute = text.text().starts_with('/');
    let not_absolute = || text.invalid_value(text.text(), "must be an absolute path");
    match kind.text() {
        "Exact" | "Prefix" => {
            if !is_absolute {
                errors.push(not_absolute());
            }
            for sequence in BAD_SEQUENCES
                .iter()
                // linear: once for each of a few sequences.
                .filter(|part| text.text().contains(**part))
            {
                errors.push(text.invalid(format!("must not contain '{sequence}'")));
            }
            for suffix in BAD_SUFFIXES
                .iter()
                .filter(|part| text.text().ends_with(**part))
            {
                errors.push(text.invalid(format!("cannot end with '{suffix}'")));
            }
        }
        "ImplementationSpecific" => {
            if !is_absolute && !text.text().is_empty() {
                errors.push(not_absolute());
            }
        }
        _ => errors.push(kind.not_supported(PATH_TYPES)),
    }
    validate_backend(&path.member("backend"), errors);
}

fn validate_backend(backend: &Field<'_>, errors: &mut ErrorList) {
    let (resource, service) = (backend.member("resource"), backend.member("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => {
            let why = "cannot set both resource and service backends";
            errors.push(backend.invalid_value("", why));
        }
        (true, false) => validate_reference(&resource, errors),
        (false, true) => validate_service_backend(backend, &service, errors),
        (false, false) => {
            let why = "resource or service backend is required";
            errors.push(backend.invalid_value("", why));
        }
    }
}

fn validate_service_backend(backend: &Field<'_>, service: &Field<'_>, errors: &mut ErrorList) {
    let name = service.member("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        report(&name, names::dns_label(name.text()), errors);
    }
    let port = service.member("port");
    let (name, number) = (port.member("name"), port.member("number"));
    match (name.text(), number.int().unwrap_or_default()) {
        ("", 0) => errors.push(backend.required("port name or number is required")),
        ("", value) => report(&number, port_number(value), errors),
        (text, 0) => report(&name, port_name(text), errors),
        _ => {
            let why = "cannot set both port name & port number";
            errors.push(backend.invalid_value("", why));
        }
    }
}

/// Validates an update of the status of an Ingress.
pub fn validate_ingress_status_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let status = Field::of(object, "status");
    let balancer = status.member("loadBalancer");
    let existing = ingress_addresses(stored);
    for ingress in balancer.member("ingress").items() {
        validate_balancer_ingress(&ingress, &existing, errors);
        validate_balancer_hostname(&ingress, errors);
    }
}
