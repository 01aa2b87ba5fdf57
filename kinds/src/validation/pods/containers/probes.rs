//! Validation of probes and lifecycle handlers.

use api::field::Field;

use crate::validation::enums::must_be_one_of;
use crate::validation::ports::port_number_or_name;
use crate::validation::required::require_text;
use crate::validation::text_formats::http_header_name;
use api::error_list::ErrorList;

/// Validates the lifecycle handlers of a container.
pub(super) fn validate_lifecycle(
    lifecycle: &Field<'_>,
    grace_seconds: Option<i64>,
    errors: &mut ErrorList,
) {
    for name in ["postStart", "preStop"] {
        let handler = lifecycle.member(name);
        if handler.is_set() {
            validate_handler(&handler, grace_seconds, errors);
        }
    }
}

/// Validates the probes of a container.
pub(super) fn validate_probes(container: &Field<'_>, errors: &mut ErrorList) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.member(name);
        if !probe.is_set() {
            continue;
        }
        validate_probe(&probe, errors);
        let grace = probe.member("terminationGracePeriodSeconds");
        let successes = probe.member("successThreshold");
        if name == "readinessProbe" {
            if grace.is_set() {
                errors.push(grace.invalid("must not be set for readinessProbes"));
            }
        } else if successes.int() != Some(1) {
            let given = successes.int().unwrap_or(0);
            errors.push(successes.invalid_value(given, "must be 1"));
        }
    }
}

fn validate_probe(probe: &Field<'_>, errors: &mut ErrorList) {
    validate_handler(probe, None, errors);
    let numbers = [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ];
    for name in numbers {
        let number = probe.member(name);
        if number.int().is_some_and(|number| number < 0) {
            errors.push(number.invalid("must be greater than or equal to 0"));
        }
    }
    let grace = probe.member("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|seconds| seconds <= 0) {
        errors.push(grace.invalid("must be greater than 0"));
    }
}

/// Validates that a probe or a handler has exactly one valid action.
fn validate_handler(handler: &Field<'_>, grace_seconds: Option<i64>, errors: &mut ErrorList) {
    let mut has_one = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = handler.member(kind);
        if !action.is_set() {
            continue;
        }
        if has_one {
            errors.push(action.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        has_one = true;
        match kind {
            "exec" => {
                let command = action.member("command");
                if command.is_empty() {
                    errors.push(command.required(""));
                }
            }
            "httpGet" => validate_http_get(&action, errors),
            "sleep" => validate_sleep(&action, grace_seconds, errors),
            _ => validate_port(&action.member("port"), errors),
        }
    }
    if !has_one {
        errors.push(handler.required("must specify a handler type"));
    }
}

fn validate_http_get(action: &Field<'_>, errors: &mut ErrorList) {
    require_text(&action.member("path"), errors);
    validate_port(&action.member("port"), errors);
    must_be_one_of(&action.member("scheme"), &["HTTP", "HTTPS"], errors);
    let headers = action.member("httpHeaders");
    for header in headers.items() {
        let name = header.member("name").text();
        let wrong = http_header_name(name).into_iter();
        errors.extend(wrong.map(|message| headers.invalid_value(name, message)));
    }
}

fn validate_port(port: &Field<'_>, errors: &mut ErrorList) {
    let shown = port.value().cloned().unwrap_or_else(|| 0.into());
    let wrong = port_number_or_name(port).into_iter();
    errors.extend(wrong.map(|message| port.invalid_value(shown.clone(), message)));
}

fn validate_sleep(action: &Field<'_>, grace_seconds: Option<i64>, errors: &mut ErrorList) {
    let seconds = action.member("seconds").int().unwrap_or(0);
    if let Some(grace) = grace_seconds.filter(|grace| !(0..=*grace).contains(&seconds)) {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(action.invalid_value(seconds, detail));
    }
}
