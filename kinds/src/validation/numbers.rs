//! Validation of numbers and percentages.

use api::error_list::ErrorList;
use api::field::{Detail, Field, LazyError};
use serde_json::Value;

use super::text_formats::{consists_of, with_examples};

/// The largest user or group ID.
const MAX_ID: i64 = 2_147_483_647;

/// Checks that a number is in an inclusive range.
pub fn in_range(number: i64, least: i64, most: i64) -> Option<Detail<'static>> {
    let is_valid = (least..=most).contains(&number);
    (!is_valid).then_some(Detail::Range(least, most))
}

/// Checks a user or group ID.
pub fn user_id(number: i64) -> Option<Detail<'static>> {
    in_range(number, 0, MAX_ID)
}

/// Validates that a number is absent or not negative.
pub fn validate_nonnegative(field: &Field<'_>, errors: &mut ErrorList) {
    if field.int().is_some_and(|number| number < 0) {
        errors.push(field.invalid("must be greater than or equal to 0"));
    }
}

/// Validates that these numbers of a struct are absent or not negative.
pub fn validate_all_nonnegative(parent: &Field<'_>, names: &[&str], errors: &mut ErrorList) {
    for name in names {
        validate_nonnegative(&parent.member(name), errors);
    }
}

/// Returns a number, 0 if absent.
pub fn number(field: &Field<'_>) -> i64 {
    field.int().unwrap_or_default()
}

/// Validates that these numbers of a struct do not exceed another one.
pub fn validate_not_above(
    parent: &Field<'_>,
    names: &[&str],
    limit: &str,
    message: &str,
    errors: &mut ErrorList,
) {
    let limit = number(&parent.member(limit));
    for name in names {
        let counted = parent.member(name);
        if number(&counted) > limit {
            errors.push(counted.invalid_value(number(&counted), message));
        }
    }
}

/// Parses a percentage without sign or fraction: digits followed by `%`.
fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let are_digits = consists_of(digits, |byte| byte.is_ascii_digit());
    // Overflow counts as the largest number, as in Go.
    are_digits.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// Validates a non-negative number or a percentage.
pub fn validate_number_or_percent(field: &Field<'_>, errors: &mut ErrorList) {
    match field.value() {
        Some(Value::String(text)) if percent(text).is_none() => {
            errors.push(field.invalid(with_examples(
                "a valid percent string must be a numeric string followed by an ending '%'",
                &["1%", "93%"],
                "[0-9]+%",
            )));
        }
        Some(Value::String(_)) => {}
        _ => validate_nonnegative(field, errors),
    }
}

/// Validates that a percentage is at most 100.
pub fn validate_at_most_all(field: &Field<'_>, errors: &mut ErrorList) {
    if percent(field.text()).is_some_and(|percent| percent > 100) {
        errors.push(field.invalid("must not be greater than 100%"));
    }
}

/// Reports whether a number or a percentage is zero. Invalid texts count as zero.
pub fn is_zero(field: &Field<'_>) -> bool {
    match field.value() {
        Some(Value::String(text)) => {
            percent(text)
                .or_else(|| text.parse().ok())
                .unwrap_or_default()
                == 0
        }
        _ => number(field) == 0,
    }
}

/// Returns the error of a number that decreases or disappears, although it may only grow.
pub fn decremented<'f>(field: &Field<'f>, stored: &Field<'_>) -> Option<LazyError<'f>> {
    let is_less = match (field.int(), stored.int()) {
        (None, Some(_)) => true,
        (Some(number), Some(stored)) => number < stored,
        (_, None) => false,
    };
    is_less.then(|| field.invalid_value(number(field), "cannot be decremented"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_digits_before_a_sign() {
        assert_eq!([percent("0%"), percent("300%")], [Some(0), Some(300)]);
        assert_eq!([percent("%"), percent("+1%")], [None, None]);
    }

    /// Messages of kube-apiserver 1.36.
    #[test]
    fn user_ids_are_32_bits_long() {
        let text = |wrong: Option<Detail<'_>>| wrong.map(|detail| detail.to_string());
        let ids = "must be between 0 and 2147483647, inclusive";
        assert_eq!(text(user_id(-1)).as_deref(), Some(ids));
        assert_eq!(text(user_id(0)), None);
    }
}
