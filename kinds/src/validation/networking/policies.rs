//! Validation of NetworkPolicies.

use std::collections::HashSet;

use api::field::Field;
use api::object::Object;
use serde_json::Value;

use super::super::addresses::{Range, validate_legacy_range};
use super::super::enums::{must_be_one_of, validate_one_of};
use super::super::ports::{port_name, port_number};
use super::super::report;
use super::super::selectors::{has_invalid_values, validate_label_selector};
use api::error_list::ErrorList;

/// The violations that an update may keep because the stored policy has them.
#[derive(Default)]
struct Kept<'s> {
    /// Invalid label values in selectors.
    selector_values: bool,
    /// CIDRs.
    ranges: HashSet<&'s str>,
}

/// Validates a NetworkPolicy.
pub fn validate_networkpolicy(object: &Object, errors: &mut ErrorList) {
    validate(object, &Kept::default(), errors);
}

/// Validates an update of a NetworkPolicy.
pub fn validate_networkpolicy_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let spec = Field::of(stored, "spec");
    let mut kept = Kept {
        selector_values: has_invalid_values(&spec.member("podSelector")),
        ranges: HashSet::new(),
    };
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.member(rules).items() {
            for peer in rule.member(peers).items() {
                let selectors = ["podSelector", "namespaceSelector"];
                kept.selector_values |= selectors
                    .iter()
                    .any(|name| has_invalid_values(&peer.member(name)));
            }
        }
    }
    kept.ranges = stored_ranges(stored);
    validate(object, &kept, errors);
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    let list = value.get(name).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Returns all CIDRs of a stored policy.
fn stored_ranges(stored: &Object) -> HashSet<&str> {
    let mut ranges = HashSet::new();
    let Some(spec) = stored.0.get("spec") else {
        return ranges;
    };
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        let peers = list(spec, rules).iter().flat_map(|rule| list(rule, peers));
        for block in peers.filter_map(|peer| peer.get("ipBlock")) {
            ranges.extend(block.get("cidr").and_then(Value::as_str));
            ranges.extend(list(block, "except").iter().filter_map(Value::as_str));
        }
    }
    ranges
}

fn validate(object: &Object, kept: &Kept<'_>, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let selector = spec.member("podSelector");
    validate_label_selector(&selector, kept.selector_values, errors);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.member(rules).items() {
            for port in rule.member("ports").items() {
                validate_port(&port, errors);
            }
            for peer in rule.member(peers).items() {
                validate_peer(&peer, kept, errors);
            }
        }
    }
    let types = spec.member("policyTypes");
    if types.len() > 2 {
        errors.push(types.invalid("may not specify more than two policyTypes"));
        return;
    }
    for kind in types.items() {
        must_be_one_of(&kind, &["Ingress", "Egress"], errors);
    }
}

fn validate_port(port: &Field<'_>, errors: &mut ErrorList) {
    let protocol = port.member("protocol");
    validate_one_of(&protocol, &["TCP", "UDP", "SCTP"], errors);
    let (first, last) = (port.member("port"), port.member("endPort"));
    match (first.value(), last.int()) {
        (None, None) => {}
        (None, Some(_)) => {
            errors.push(last.invalid("may not be specified when `port` is not specified"));
        }
        (Some(Value::String(name)), end) => {
            if end.is_some() {
                errors.push(last.invalid("may not be specified when `port` is non-numeric"));
            }
            report(&first, port_name(name), errors);
        }
        (Some(number), end) => {
            let number = number.as_i64().unwrap_or_default();
            report(&first, port_number(number), errors);
            if let Some(end) = end {
                if end < number {
                    let why = "must be greater than or equal to `port`";
                    errors.push(last.invalid_value(number, why));
                }
                report(&last, port_number(end), errors);
            }
        }
    }
}

fn validate_peer(peer: &Field<'_>, kept: &Kept<'_>, errors: &mut ErrorList) {
    let selectors = [peer.member("podSelector"), peer.member("namespaceSelector")];
    for selector in &selectors {
        validate_label_selector(selector, kept.selector_values, errors);
    }
    let block = peer.member("ipBlock");
    if block.is_set() {
        validate_block(&block, kept, errors);
    }
    let has_selector = selectors.iter().any(Field::is_set);
    match (has_selector, block.is_set()) {
        (false, false) => errors.push(peer.required("must specify a peer")),
        (true, true) => {
            errors.push(peer.forbidden("may not specify both ipBlock and another peer"));
        }
        _ => {}
    }
}

fn validate_block(block: &Field<'_>, kept: &Kept<'_>, errors: &mut ErrorList) {
    let cidr = block.member("cidr");
    if cidr.text().is_empty() {
        errors.push(cidr.required(""));
        return;
    }
    let Some(range) = validate_legacy_range(&cidr, &kept.ranges, errors) else {
        return;
    };
    for exception in block.member("except").items() {
        let excepted = validate_legacy_range(&exception, &kept.ranges, errors);
        if excepted.is_some_and(|excepted| !is_strict_part(excepted, range)) {
            errors.push(exception.invalid("must be a strict subset of `cidr`"));
        }
    }
}

fn is_strict_part(part: Range, whole: Range) -> bool {
    whole.contains(part.first()) && whole.bits < part.bits
}
