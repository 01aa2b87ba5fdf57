//! Validation of the ports of containers.

use std::collections::HashSet;

use api::field::Field;
use api::field_error::{FieldError, FieldErrorKind};

use super::duplicate;
use crate::validation::enums::require_one_of;
use crate::validation::ports::{PROTOCOLS, port_name, port_number};
use crate::validation::report;
use api::error_list::ErrorList;

/// Validates the ports of a container.
pub(super) fn validate_ports(ports: &Field<'_>, errors: &mut ErrorList) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.member("name");
        if !name.text().is_empty() {
            let wrong = port_name(name.text());
            if wrong.is_empty() && !names.insert(name.text().to_owned()) {
                errors.push(duplicate(&name));
            }
            report(&name, wrong, errors);
        }
        let number = port.member("containerPort");
        match number.int() {
            None | Some(0) => errors.push(number.required("")),
            Some(given) => report(&number, port_number(given), errors),
        }
        let number = port.member("hostPort");
        if let Some(given) = number.int().filter(|given| *given != 0) {
            report(&number, port_number(given), errors);
        }
        let protocol = port.member("protocol");
        require_one_of(&protocol, PROTOCOLS, errors);
    }
}

/// Validates that each host port is used once in a pod.
pub(super) fn validate_host_ports(
    container: &Field<'_>,
    taken: &mut HashSet<String>,
    errors: &mut ErrorList,
) {
    for port in container.member("ports").items() {
        let number = port.member("hostPort");
        let Some(given) = number.int().filter(|given| *given != 0) else {
            continue;
        };
        let (protocol, ip) = (port.member("protocol"), port.member("hostIP"));
        let key = format!("{}/{}/{given}", protocol.text(), ip.text());
        if taken.contains(&key) {
            let kind = FieldErrorKind::Duplicate;
            errors.push(FieldError::new(kind, number.path(), &key.into(), ""));
        } else {
            taken.insert(key);
        }
    }
}
