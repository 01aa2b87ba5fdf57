//! Validation of the status of ResourceClaims.

use std::collections::HashSet;

use api::field::Field;
use api::names;
use api::object::Object;
use api::text::quoting::go_quote;
use serde_json::{Value, json};

use super::claims::validate_references;
use super::devices::validate_conditions;
use super::names::{Requests, validate_driver, validate_pool, validate_share};
use super::{MAX_CONFIGS, validate_length, validate_opaque, validate_parameters, validate_unique};
use crate::types::internal::invalid_struct;
use crate::validation::addresses::parse_address;
use crate::validation::conditions;
use crate::validation::enums::require_one_of;
use crate::validation::pods::scheduling::validate_node_selector;
use crate::validation::report;
use crate::validation::required::require_text;
use api::error_list::ErrorList;

const MAX_CONSUMERS: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
const MAX_ADDRESSES: usize = 16;
const MAX_INTERFACE_NAME: usize = 256;
const MAX_HARDWARE_ADDRESS: usize = 128;
const SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

/// Validates an update of the status of a ResourceClaim.
pub fn validate_resourceclaim_status_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    let status = Field::of(object, "status");
    let allocation = status.member("allocation");
    validate_consumers(&status, errors);
    validate_allocated_devices(&status, errors);
    let before = Field::of(stored, "status");
    let before = before.member("allocation");
    if allocation.is_set() && before.is_set() {
        if !object.is_same_at(stored, &["status", "allocation"]) {
            let type_name = "resource.v1.AllocationResult";
            errors.push(invalid_struct(&allocation, type_name, "field is immutable"));
        }
    } else if allocation.is_set() {
        let spec = Field::of(object, "spec");
        let devices = spec.member("devices");
        let requests = devices.member("requests");
        validate_allocation(&allocation, &Requests::of(&requests), errors);
    }
}

fn validate_consumers(status: &Field<'_>, errors: &mut ErrorList) {
    let consumers = status.member("reservedFor");
    if validate_length(&consumers, MAX_CONSUMERS, errors) {
        for consumer in consumers.items() {
            for name in ["resource", "name", "uid"] {
                require_text(&consumer.member(name), errors);
            }
        }
        validate_unique(&consumers, "uid", errors);
    }
    if !consumers.is_empty() && !status.member("allocation").is_set() {
        errors.push(consumers.forbidden("may not be specified when `allocated` is not set"));
    }
}

fn validate_allocation(allocation: &Field<'_>, known: &Requests<'_>, errors: &mut ErrorList) {
    let devices = allocation.member("devices");
    let results = devices.member("results");
    if validate_length(&results, MAX_RESULTS, errors) {
        for result in results.items() {
            known.validate(&result.member("request"), errors);
            validate_driver(&result.member("driver"), errors);
            validate_pool(&result.member("pool"), errors);
            let device = result.member("device");
            report(&device, names::dns_label(device.text()), errors);
            validate_conditions(&result, errors);
            validate_share(&result.member("shareID"), errors);
        }
    }
    let configurations = devices.member("config");
    if validate_length(&configurations, 2 * MAX_CONFIGS, errors) {
        for configuration in configurations.items() {
            require_one_of(&configuration.member("source"), &SOURCES, errors);
            validate_references(&configuration.member("requests"), known, errors);
            validate_opaque(&configuration, errors);
        }
    }
    let selector = allocation.member("nodeSelector");
    if selector.is_set() {
        validate_node_selector(&selector, errors);
    }
}

/// Returns the members that identify a device, as errors show them.
pub fn identity(device: &Value) -> Value {
    let text = |name: &str| device.get(name).cloned().unwrap_or_else(|| "".into());
    json!([
        text("driver"),
        text("pool"),
        text("device"),
        text("shareID")
    ])
}

/// Formats an identity with the member names and order of the Go struct.
fn identity_json(identity: &Value) -> String {
    let text = |index: usize| identity.get(index).unwrap_or(&Value::Null);
    format!(
        "{{\"Driver\":{},\"Pool\":{},\"Device\":{},\"ShareID\":{}}}",
        text(0),
        text(1),
        text(2),
        text(3)
    )
}

fn validate_allocated_devices(status: &Field<'_>, errors: &mut ErrorList) {
    let allocation = status.member("allocation");
    let allocated = allocation.member("devices");
    let results = allocated.member("results");
    let allocated: HashSet<Value> = results.list().iter().map(identity).collect();
    let devices = status.member("devices");
    for (device, value) in devices.items().zip(devices.list()) {
        validate_driver(&device.member("driver"), errors);
        validate_pool(&device.member("pool"), errors);
        let name = device.member("device");
        report(&name, names::dns_label(name.text()), errors);
        validate_share(&device.member("shareID"), errors);
        let identity = identity(value);
        if !allocated.contains(&identity) {
            let error = device.invalid("must be an allocated device in the claim");
            errors.push(error.showing_json(|| identity_json(&identity)));
        }
        let found = device.member("conditions");
        validate_length(&found, MAX_CONDITIONS, errors);
        conditions::validate_conditions(&found, errors);
        let data = device.member("data");
        if data.is_set() {
            validate_parameters(&data, errors);
        }
        validate_network(&device.member("networkData"), errors);
    }
    let mut seen = HashSet::new();
    for (device, value) in devices.items().zip(devices.list()) {
        let identity = identity(value);
        if seen.contains(&identity) {
            errors.push(device.duplicate().showing_json(|| identity_json(&identity)));
        }
        seen.insert(identity);
    }
}

fn validate_network(network: &Field<'_>, errors: &mut ErrorList) {
    let limits = [
        ("interfaceName", MAX_INTERFACE_NAME),
        ("hardwareAddress", MAX_HARDWARE_ADDRESS),
    ];
    for (name, most) in limits {
        let text = network.member(name);
        if text.text().len() > most {
            errors.push(text.too_long(most));
        }
    }
    let addresses = network.member("ips");
    if !validate_length(&addresses, MAX_ADDRESSES, errors) {
        return;
    }
    for address in addresses.items() {
        validate_interface_address(&address, errors);
    }
    for (address, index) in addresses.items().zip(0..) {
        let mut before = addresses.list().iter().take(index);
        // linear: at most 16 addresses.
        if before.any(|other| Some(other) == address.value()) {
            errors.push(address.duplicate());
        }
    }
}

/// Validates an interface address with a prefix length, in canonical form.
fn validate_interface_address(field: &Field<'_>, errors: &mut ErrorList) {
    let parts = field.text().split_once('/');
    let parsed = parts.and_then(|(address, length)| {
        let address = parse_address(address)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length: u8 = length.parse().ok().filter(|length| *length <= most)?;
        Some(format!("{address}/{length}"))
    });
    match parsed {
        None => {
            errors.push(field.invalid(
                "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
            ))
        }
        Some(canonical) if canonical != field.text() => {
            let shown = go_quote(&canonical);
            errors.push(field.invalid(format!("must be in canonical form ({shown})")));
        }
        Some(_) => {}
    }
}
