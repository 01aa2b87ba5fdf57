//! Validation of request policies of device capacities.

use api::field::Field;
use api::quantity::Quantity;

use super::validate_length;
use crate::defaults::pods::resources::read;
use api::error_list::ErrorList;

const MAX_VALUES: usize = 10;

/// Validates the request policy of a capacity.
pub fn validate_policy(amount: &Field<'_>, is_shared: bool, errors: &mut ErrorList) {
    let policy = amount.member("requestPolicy");
    if !policy.is_set() {
        return;
    }
    if !is_shared {
        errors.push(policy.forbidden("allowMultipleAllocations must be true"));
        return;
    }
    let values = policy.member("validValues");
    let range = policy.member("validRange");
    let name = match (values.is_empty(), range.is_set()) {
        (false, true) => {
            errors.push(policy.forbidden(
                "exactly one policy can be specified, cannot specify \"validValues\" and \
                 \"validRange\" at the same time",
            ));
            return;
        }
        (true, false) => return,
        (false, false) => "validValues",
        (true, true) => "validRange",
    };
    let default = policy.member("default");
    let Some(preset) = quantity(&default) else {
        errors.push(default.required(format!("required when {name} is defined")));
        return;
    };
    let Some(most) = quantity(&amount.member("value")) else {
        return;
    };
    if range.is_set() {
        validate_range(&range, preset, most, errors);
    } else {
        validate_values(&values, preset, most, errors);
    }
}

fn quantity(field: &Field<'_>) -> Option<Quantity> {
    field.value().and_then(read)
}

/// Validates the valid values: they are sorted and include the default.
fn validate_values(values: &Field<'_>, preset: Quantity, most: Quantity, errors: &mut ErrorList) {
    let mut has_preset = false;
    if validate_length(values, MAX_VALUES, errors) {
        let amounts: Vec<(Field<'_>, Quantity)> = values
            .items()
            .filter_map(|value| quantity(&value).map(|amount| (value, amount)))
            .collect();
        for (before, (value, amount)) in amounts.iter().zip(amounts.iter().skip(1)) {
            if *amount < before.1 {
                let detail = "values must be sorted in ascending order";
                errors.push(value.invalid_value(amount.to_string(), detail));
            }
        }
        for (value, amount) in &amounts {
            if *amount > most {
                let detail = format!("option is larger than capacity value: {most}");
                errors.push(value.invalid_value(amount.to_string(), detail));
            }
        }
        // Kubernetes compares values rounded up to whole numbers.
        let mut seen = Vec::new();
        for (value, amount) in &amounts {
            let whole = amount.value();
            // linear: at most ten values.
            if seen.contains(&whole) {
                let shown = whole.to_string().into();
                errors.push(value.with_value(&shown).duplicate());
            }
            seen.push(whole);
        }
        has_preset = amounts.iter().any(|(_, amount)| *amount == preset);
    }
    if !has_preset {
        let detail = "default value is not valid according to the requestPolicy";
        errors.push(values.invalid_value(preset.to_string(), detail));
    }
}

/// Validates the valid range, which must contain the default.
fn validate_range(range: &Field<'_>, preset: Quantity, most: Quantity, errors: &mut ErrorList) {
    let (min_field, max_field) = (range.member("min"), range.member("max"));
    let (Some(min), max) = (quantity(&min_field), quantity(&max_field)) else {
        errors.push(min_field.required("required when validRange is defined"));
        return;
    };
    if min > most {
        let detail = format!("min is larger than capacity value: {most}");
        errors.push(min_field.invalid_value(min.to_string(), detail));
    }
    if preset < min {
        let detail = format!("default is less than min: {min}");
        errors.push(min_field.invalid_value(preset.to_string(), detail));
    }
    if let Some(max) = &max {
        if min > *max {
            let detail = format!("min is larger than max: {max}");
            errors.push(max_field.invalid_value(min.to_string(), detail));
        }
        if *max > most {
            let detail = format!("max is larger than capacity value: {most}");
            errors.push(max_field.invalid_value(max.to_string(), detail));
        }
        if preset > *max {
            let detail = format!("default is more than max: {max}");
            errors.push(max_field.invalid_value(preset.to_string(), detail));
        }
    }
    let step_field = range.member("step");
    let Some(step) = quantity(&step_field) else {
        return;
    };
    let one = min.plus(&step);
    if one > most {
        let detail = format!("one step {one} is larger than capacity value: {most}");
        errors.push(step_field.invalid_value(step.to_string(), detail));
    }
    for amount in [Some(preset), max].into_iter().flatten() {
        if !is_on_step(&amount, &min, &step) {
            errors.push(step_field.invalid_value(
                amount.to_string(),
                format!("value is not a multiple of a given step ({step}) from ({min})"),
            ));
        }
    }
}

/// Reports whether an amount is a multiple of the step above the minimum. All are rounded up to
/// whole numbers. With a step of zero, every amount is.
fn is_on_step(amount: &Quantity, min: &Quantity, step: &Quantity) -> bool {
    let above = amount.value().wrapping_sub(min.value());
    above.checked_rem(step.value()).unwrap_or(0) == 0
}
