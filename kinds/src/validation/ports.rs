//! Validation of ports: their numbers, names and protocols.

use api::error_list::ErrorList;
use api::field::{Detail, Field};
use api::names;
use serde_json::Value;

use super::enums::require_one_of;
use super::numbers::in_range;
use super::report;
use super::text_formats::{consists_of, is_lower, too_long};

const MAX_NAME: usize = 15;

/// The protocols of ports.
pub const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Checks the number of a port.
pub fn port_number(number: i64) -> Option<Detail<'static>> {
    in_range(number, 1, 65535)
}

/// Checks the name of a port.
pub fn port_name(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, MAX_NAME).into_iter().collect();
    if !consists_of(text, |byte| is_lower(byte) || byte == b'-') {
        wrong.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// Checks the number or the name of a port.
pub fn port_number_or_name(port: &Field<'_>) -> Vec<Detail<'static>> {
    match port.value() {
        Some(Value::String(name)) => port_name(name).into_iter().map(Detail::from).collect(),
        _ => Vec::from_iter(port_number(port.int().unwrap_or_default())),
    }
}

/// Validates the number and the protocol of a port of a Service or of its Endpoints.
pub fn validate_number_and_protocol(port: &Field<'_>, errors: &mut ErrorList) {
    let number = port.member("port");
    let value = number.int().unwrap_or_default();
    let wrong = port_number(value).into_iter();
    errors.extend(wrong.map(|message| number.invalid_value(value, message)));
    require_one_of(&port.member("protocol"), PROTOCOLS, errors);
}

/// Validates the application protocol of a port.
pub fn validate_application(port: &Field<'_>, errors: &mut ErrorList) {
    let application = port.member("appProtocol");
    if application.is_set() {
        report(
            &application,
            names::qualified_name(application.text()),
            errors,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of kube-apiserver 1.36.
    #[test]
    fn messages_are_those_of_kubernetes() {
        assert_eq!(
            port_name("-"),
            [
                "must contain at least one letter (a-z)",
                "must not begin or end with a hyphen"
            ]
        );
        let wrong = port_number(0).map(|detail| detail.to_string());
        let ports = "must be between 1 and 65535, inclusive";
        assert_eq!(wrong.as_deref(), Some(ports));
    }
}
