//! Validation of a Job's success policy.

use api::field::Field;

use super::indexes::count_indexes;
use crate::validation::numbers::validate_nonnegative;
use crate::validation::too_many;
use api::error_list::ErrorList;

const MAX_RULES: usize = 20;
const MAX_INDEXES_BYTES: usize = 64 * 1024;

/// Validates the success policy of a Job with this number of completions.
pub(super) fn validate_success_policy(
    policy: &Field<'_>,
    completions: i64,
    errors: &mut ErrorList,
) {
    let rules = policy.member("rules");
    if rules.is_empty() {
        errors.push(
            rules.required(
                "at least one rules must be specified when the successPolicy is specified",
            ),
        );
    }
    if rules.len() > MAX_RULES {
        errors.push(too_many(&rules, MAX_RULES));
    }
    for rule in rules.items() {
        validate_rule(&rule, completions, errors);
    }
}

fn validate_rule(rule: &Field<'_>, completions: i64, errors: &mut ErrorList) {
    let indexes = rule.member("succeededIndexes");
    let count = rule.member("succeededCount");
    if !indexes.is_set() && !count.is_set() {
        errors.push(
            rule.required("at least one of succeededCount or succeededIndexes must be specified"),
        );
    }
    let mut total = 0;
    if indexes.is_set() {
        if indexes.text().len() > MAX_INDEXES_BYTES {
            errors.push(indexes.too_long(MAX_INDEXES_BYTES));
        }
        match count_indexes(indexes.text(), completions) {
            Ok(counted) => total = counted,
            Err(error) => {
                let message = format!("error parsing succeededIndexes: {error}");
                errors.push(indexes.invalid(message));
            }
        }
    }
    let Some(number) = count.int() else {
        return;
    };
    validate_nonnegative(&count, errors);
    if number > completions {
        errors.push(count.invalid(format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        )));
    }
    if indexes.is_set() && number > total {
        errors.push(count.invalid(format!(
            "must be less than or equal to {total} (the number of indexes in the specified \
             succeededIndexes field)"
        )));
    }
}
