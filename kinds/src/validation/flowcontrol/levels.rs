//! Validation of PriorityLevelConfigurations.

use api::field::Field;
use api::object::Object;
use serde_json::json;

use super::validate_conditions;
use crate::types::internal::invalid_struct;
use api::error_list::ErrorList;

const MAX_QUEUES: i64 = 10_000_000;
/// The bits of the hash from which shuffle sharding deals hands of queues.
const MAX_HASH_BITS: i64 = 60;

/// Validates a PriorityLevelConfiguration.
pub fn validate_prioritylevelconfiguration(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let name = object.name();
    validate_spec(name, &spec, errors);
    let exemption = match name {
        "exempt" => " except the 'spec.exempt' field",
        _ => "",
    };
    if is_mandatory_changed(name, &spec) {
        let detail = format!("spec of '{name}'{exemption} must equal the fixed value");
        let type_name = "flowcontrol.v1.PriorityLevelConfigurationSpec";
        errors.push(invalid_struct(&spec, type_name, &detail));
    }
    validate_conditions(object, errors);
}

/// Validates an update of a PriorityLevelConfiguration.
pub fn validate_prioritylevelconfiguration_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_prioritylevelconfiguration(object, errors);
}

/// Validates an update of the status of a PriorityLevelConfiguration.
pub fn validate_prioritylevelconfiguration_status_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    validate_conditions(object, errors);
}

/// Reports whether a mandatory priority level differs from its required spec.
fn is_mandatory_changed(name: &str, spec: &Field<'_>) -> bool {
    match name {
        "exempt" => spec.member("type").text() != "Exempt" || spec.member("limited").is_set(),
        "catch-all" => {
            let limited = json!({
                "nominalConcurrencyShares": 5,
                "lendablePercent": 0,
                "limitResponse": {"type": "Reject"},
            });
            spec.member("type").text() != "Limited"
                || spec.member("exempt").is_set()
                || spec.member("limited").value() != Some(&limited)
        }
        _ => false,
    }
}

fn validate_spec(name: &str, spec: &Field<'_>, errors: &mut ErrorList) {
    let kind = spec.member("type");
    let limited = spec.member("limited");
    let exempt = spec.member("exempt");
    if (name == "exempt") != (kind.text() == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(kind.invalid_value(kind.text(), detail));
    }
    match kind.text() {
        "Limited" => {
            if exempt.is_set() {
                errors.push(exempt.forbidden("must be nil if the type is Limited"));
            }
            if limited.is_set() {
                validate_limited(&limited, errors);
            } else {
                errors.push(limited.required("must not be empty when type is Limited"));
            }
        }
        "Exempt" => {
            if limited.is_set() {
                errors.push(limited.forbidden("must be nil if the type is not Limited"));
            }
            validate_shares(&exempt, errors);
            validate_lendable(&exempt, errors);
        }
        _ => errors.push(kind.not_supported(&["Exempt", "Limited"])),
    }
}

fn validate_shares(level: &Field<'_>, errors: &mut ErrorList) {
    let shares = level.member("nominalConcurrencyShares");
    if shares.int().is_some_and(|shares| shares < 0) {
        errors.push(shares.invalid("must be a non-negative integer"));
    }
}

fn validate_lendable(level: &Field<'_>, errors: &mut ErrorList) {
    let percent = level.member("lendablePercent");
    let is_percent = |percent| (0..=100).contains(&percent);
    if percent.int().is_some_and(|percent| !is_percent(percent)) {
        errors.push(percent.invalid("must be between 0 and 100, inclusive"));
    }
}

fn validate_limited(limited: &Field<'_>, errors: &mut ErrorList) {
    validate_shares(limited, errors);
    let response = limited.member("limitResponse");
    let kind = response.member("type");
    let queuing = response.member("queuing");
    match kind.text() {
        "Reject" if queuing.is_set() => errors
            .push(queuing.forbidden("must be nil if limited.limitResponse.type is not Limited")),
        "Reject" => {}
        "Queue" if queuing.is_set() => validate_queuing(&queuing, errors),
        "Queue" => errors
            .push(queuing.required("must not be empty if limited.limitResponse.type is Limited")),
        _ => errors.push(kind.not_supported(&["Queue", "Reject"])),
    }
    validate_lendable(limited, errors);
    let borrowing = limited.member("borrowingLimitPercent");
    if borrowing.int().is_some_and(|percent| percent < 0) {
        errors.push(borrowing.invalid("if specified, must be a non-negative integer"));
    }
}

fn validate_queuing(queuing: &Field<'_>, errors: &mut ErrorList) {
    let limit = queuing.member("queueLengthLimit");
    if limit.int().unwrap_or(0) <= 0 {
        errors.push(limit.invalid("must be positive"));
    }
    let queues_field = queuing.member("queues");
    let queues = queues_field.int().unwrap_or(0);
    if queues <= 0 {
        errors.push(queues_field.invalid("must be positive"));
    } else if queues > MAX_QUEUES {
        errors.push(queues_field.invalid(format!("must not be greater than {MAX_QUEUES}")));
    }
    let hand_field = queuing.member("handSize");
    let hand = hand_field.int().unwrap_or(0);
    if hand <= 0 {
        errors.push(hand_field.invalid("must be positive"));
    } else if hand > queues {
        errors.push(hand_field.invalid(format!("should not be greater than queues ({queues})")));
    } else if entropy_bits(queues, hand) > MAX_HASH_BITS {
        errors.push(hand_field.invalid(format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater \
             than {MAX_HASH_BITS}"
        )));
    }
}

/// Returns the bits of entropy that are needed to deal a hand from this number of queues.
fn entropy_bits(queues: i64, hand: i64) -> i64 {
    ((queues as f64).log2() * hand as f64).ceil() as i64
}
