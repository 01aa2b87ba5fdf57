//! Validation of the restart and resize policies of containers.

use std::collections::HashSet;

use api::field::Field;
use api::field_error::FieldErrorKind;

use crate::validation::enums::{must_be_one_of, require_one_of, validate_one_of};
use api::error_list::ErrorList;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

const RULES_NEED_POLICY: &str = "must specify restartPolicy when restart rules are used";

/// Validates the restart policy of an init container.
pub(super) fn validate_init_restart_policy(container: &Field<'_>, errors: &mut ErrorList) {
    let policy = container.member("restartPolicy");
    if policy.is_set() {
        validate_restart_policy(container, errors);
    } else if !container.member("restartPolicyRules").is_empty() {
        errors.push(policy.required(RULES_NEED_POLICY));
    }
}

/// Validates the restart policy and the restart rules of a container.
pub(super) fn validate_restart_policy(container: &Field<'_>, errors: &mut ErrorList) {
    let policy = container.member("restartPolicy");
    let rules = container.member("restartPolicyRules");
    if policy.is_set() {
        validate_one_of(&policy, &["Always", "Never", "OnFailure"], errors);
    } else if !rules.is_empty() {
        errors.push(policy.required(RULES_NEED_POLICY));
    }
    validate_count(&rules, MAX_RULES, errors);
    for rule in rules.items() {
        must_be_one_of(
            &rule.member("action"),
            &["Restart", "RestartAllContainers"],
            errors,
        );
        let codes = rule.member("exitCodes");
        if codes.is_set() {
            must_be_one_of(&codes.member("operator"), &["In", "NotIn"], errors);
            validate_count(&codes.member("values"), MAX_EXIT_CODES, errors);
        } else {
            errors.push(codes.required("must be specified"));
        }
    }
}

fn validate_count(list: &Field<'_>, most: usize, errors: &mut ErrorList) {
    if list.len() > most {
        let found = serde_json::Value::from(list.len());
        let detail = format!("must have at most {most} items");
        errors.push(
            list.with_value(&found)
                .fault(FieldErrorKind::TooMany, detail),
        );
    }
}

/// Validates the resize policy of a container.
pub(super) fn validate_resize_policy(
    container: &Field<'_>,
    restart_policy: &str,
    errors: &mut ErrorList,
) {
    let policies = container.member("resizePolicy");
    let mut resources = HashSet::new();
    for policy in policies.items() {
        let name = policy.member("resourceName");
        if !resources.insert(name.text().to_owned()) {
            let shown = serde_json::Value::from(name.text());
            errors.push(policy.with_value(&shown).duplicate());
        }
        let supported = [
            ("resourceName", ["cpu", "memory"]),
            ("restartPolicy", ["NotRequired", "RestartContainer"]),
        ];
        for (member, supported) in supported {
            let given = serde_json::Value::from(policy.member(member).text());
            let given = policies.with_value(&given);
            require_one_of(&given, &supported, errors);
        }
        let on_resize = policy.member("restartPolicy").text();
        if restart_policy == "Never" && on_resize != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(policies.invalid_value(on_resize, detail));
        }
    }
}
