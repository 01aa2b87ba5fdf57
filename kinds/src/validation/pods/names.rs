//! Validation of host names, DNS settings, and the names of service account and node.

use api::field::Field;
use api::names::dns_subdomain;
use std::collections::HashSet;

use super::fields::{validate_dns_label, validate_dns_subdomain};
use crate::validation::addresses::validate_legacy_address;
use crate::validation::enums::require_one_of;
use crate::validation::report;
use crate::validation::text_formats::subdomain_with_underscores;
use api::error_list::ErrorList;

const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// The limits of DNS resolvers on Linux.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_BYTES: usize = 2048;

const MAX_HOSTNAME: usize = 64;

/// Validates the DNS policy.
pub fn validate_dns_policy(policy: &Field<'_>, errors: &mut ErrorList) {
    require_one_of(policy, &DNS_POLICIES, errors);
}

/// Validates the DNS configuration.
pub fn validate_dns_config(spec: &Field<'_>, errors: &mut ErrorList) {
    let config = spec.member("dnsConfig");
    let servers = config.member("nameservers");
    if spec.member("dnsPolicy").text() == "None" {
        if !config.is_set() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            return errors.push(config.required(detail));
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.push(servers.required(detail));
        }
    }
    if servers.len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.push(servers.invalid(detail));
    }
    for server in servers.items() {
        validate_legacy_address(&server, &HashSet::new(), errors);
    }
    validate_searches(&config.member("searches"), errors);
    for option in config.member("options").items() {
        if option.member("name").text().is_empty() {
            errors.push(option.required("must not be empty"));
        }
    }
}

fn validate_searches(searches: &Field<'_>, errors: &mut ErrorList) {
    if searches.len() > MAX_SEARCHES {
        let detail = format!("must not have more than {MAX_SEARCHES} search paths");
        errors.push(searches.invalid(detail));
    }
    let texts = searches.list().iter().filter_map(|search| search.as_str());
    let bytes: usize = texts.map(|search| search.len() + 1).sum();
    if bytes > MAX_SEARCH_BYTES + 1 {
        errors.push(searches.invalid(format!(
            "must not have more than {MAX_SEARCH_BYTES} characters (including spaces) in the \
             search list"
        )));
    }
    for search in searches.items() {
        let text = search.text();
        if text != "." {
            let text = text.strip_suffix('.').unwrap_or(text);
            for detail in subdomain_with_underscores(text) {
                errors.push(search.invalid_value(text, detail));
            }
        }
    }
}

/// Validates host aliases.
pub fn validate_host_aliases(aliases: &Field<'_>, errors: &mut ErrorList) {
    for alias in aliases.items() {
        validate_legacy_address(&alias.member("ip"), &HashSet::new(), errors);
        for host in alias.member("hostnames").items() {
            validate_dns_subdomain(&host, errors);
        }
    }
}

/// Validates `hostnameOverride`, and the names of service account and node.
pub fn validate_names(spec: &Field<'_>, errors: &mut ErrorList) {
    let name = spec.member("hostnameOverride");
    if name.is_set() {
        if spec.member("setHostnameAsFQDN").is_true() {
            errors.push(name.forbidden("may not be specified when setHostnameAsFQDN is true"));
        }
        if spec.member("hostNetwork").is_true() {
            errors.push(name.forbidden("may not be specified when hostNetwork is true"));
        }
        if name.text().len() > MAX_HOSTNAME {
            errors.push(name.too_long(MAX_HOSTNAME));
        }
        validate_dns_subdomain(&name, errors);
    }
    for member in ["serviceAccountName", "nodeName"] {
        let name = spec.member(member);
        if !name.text().is_empty() {
            report(&name, dns_subdomain(name.text()), errors);
        }
    }
}

/// Validates hostname and subdomain.
pub fn validate_host_names(spec: &Field<'_>, errors: &mut ErrorList) {
    for member in ["hostname", "subdomain"] {
        let name = spec.member(member);
        if !name.text().is_empty() {
            validate_dns_label(&name, errors);
        }
    }
}
