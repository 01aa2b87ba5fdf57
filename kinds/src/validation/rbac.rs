//! Validation of roles and bindings.

use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::selectors::{is_evaluable, validate_label_selector};
use crate::types::internal::invalid_struct;
use api::error_list::ErrorList;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Validates a Role.
pub fn validate_role(object: &Object, errors: &mut ErrorList) {
    for rule in Field::of(object, "rules").items() {
        validate_policy_rule(&rule, true, errors);
    }
}

/// Validates an update of a Role.
pub fn validate_role_update(object: &Object, _stored: &Object, errors: &mut ErrorList) {
    validate_role(object, errors);
}

/// Validates a ClusterRole.
pub fn validate_clusterrole(object: &Object, errors: &mut ErrorList) {
    for rule in Field::of(object, "rules").items() {
        validate_policy_rule(&rule, false, errors);
    }
    let aggregation = Field::of(object, "aggregationRule");
    if !aggregation.is_set() {
        return;
    }
    let selectors = aggregation.member("clusterRoleSelectors");
    if selectors.is_empty() {
        errors.push(
            selectors.required(
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            ),
        );
    }
    for selector in selectors.items() {
        validate_label_selector(&selector, false, errors);
        if !is_evaluable(&selector) {
            errors.push(selector.invalid_value(Value::Null, "invalid label selector."));
        }
    }
}

/// Validates an update of a ClusterRole.
pub fn validate_clusterrole_update(object: &Object, _stored: &Object, errors: &mut ErrorList) {
    validate_clusterrole(object, errors);
}

fn validate_policy_rule(rule: &Field<'_>, is_namespaced: bool, errors: &mut ErrorList) {
    let verbs = rule.member("verbs");
    if verbs.is_empty() {
        errors.push(verbs.required("verbs must contain at least one value"));
    }
    let groups = rule.member("apiGroups");
    let resources = rule.member("resources");
    let urls = rule.member("nonResourceURLs");
    if !urls.is_empty() {
        if is_namespaced {
            errors.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        let names = rule.member("resourceNames");
        if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
            errors.push(
                urls.invalid("rules cannot apply to both regular resources and non-resource URLs"),
            );
        }
        return;
    }
    if groups.is_empty() {
        errors.push(groups.required("resource rules must supply at least one api group"));
    }
    if resources.is_empty() {
        errors.push(resources.required("resource rules must supply at least one resource"));
    }
}

/// Validates a RoleBinding.
pub fn validate_rolebinding(object: &Object, errors: &mut ErrorList) {
    validate_binding(object, &["Role", "ClusterRole"], true, errors);
}

/// Validates an update of a RoleBinding.
pub fn validate_rolebinding_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_rolebinding(object, errors);
    validate_same_role(object, stored, errors);
}

/// Validates a ClusterRoleBinding.
pub fn validate_clusterrolebinding(object: &Object, errors: &mut ErrorList) {
    validate_binding(object, &["ClusterRole"], false, errors);
}

/// Validates an update of a ClusterRoleBinding.
pub fn validate_clusterrolebinding_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    validate_clusterrolebinding(object, errors);
    validate_same_role(object, stored, errors);
}

fn validate_binding(object: &Object, kinds: &[&str], is_namespaced: bool, errors: &mut ErrorList) {
    let reference = Field::of(object, "roleRef");
    let group = reference.member("apiGroup");
    if group.text() != GROUP {
        errors.push(group.not_supported(&[GROUP]));
    }
    let kind = reference.member("kind");
    if !kinds.contains(&kind.text()) {
        errors.push(kind.not_supported(kinds));
    }
    let name = reference.member("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        let wrong = names::path_segment(name.text()).into_iter();
        errors.extend(wrong.map(|message| name.invalid(message)));
    }
    for subject in Field::of(object, "subjects").items() {
        validate_subject(&subject, is_namespaced, errors);
    }
}

fn validate_subject(subject: &Field<'_>, is_namespaced: bool, errors: &mut ErrorList) {
    let name = subject.member("name");
    let group = subject.member("apiGroup");
    if name.text().is_empty() {
        errors.push(name.required(""));
    }
    let kind = subject.member("kind");
    match kind.text() {
        "ServiceAccount" => {
            if !name.text().is_empty() {
                let wrong = names::dns_subdomain(name.text()).into_iter();
                errors.extend(wrong.map(|message| name.invalid(message)));
            }
            if !group.text().is_empty() {
                errors.push(group.not_supported(&[""]));
            }
            let namespace = subject.member("namespace");
            if !is_namespaced && namespace.text().is_empty() {
                errors.push(namespace.required(""));
            }
        }
        "User" | "Group" if group.text() != GROUP => errors.push(group.not_supported(&[GROUP])),
        "User" | "Group" => {}
        _ => errors.push(kind.not_supported(&["ServiceAccount", "User", "Group"])),
    }
}

fn validate_same_role(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let parts = |object| {
        let reference = Field::of(object, "roleRef");
        ["apiGroup", "kind", "name"].map(|name| reference.member(name).text().to_owned())
    };
    if parts(object) != parts(stored) {
        let reference = Field::of(object, "roleRef");
        errors.push(invalid_struct(
            &reference,
            "rbac.v1.RoleRef",
            "cannot change roleRef",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::rbac::{clusterrolebinding, rolebinding};
    use crate::recorded::{Functions, check};

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        check(
            include_str!("../../recorded/rbac.json"),
            |path| match path.rsplit('/').next() {
                Some("roles") => Functions {
                    defaults: None,
                    create: validate_role,
                    update: Some(validate_role_update),
                },
                Some("clusterroles") => Functions {
                    defaults: None,
                    create: validate_clusterrole,
                    update: Some(validate_clusterrole_update),
                },
                Some("rolebindings") => Functions {
                    defaults: Some(rolebinding),
                    create: validate_rolebinding,
                    update: Some(validate_rolebinding_update),
                },
                _ => Functions {
                    defaults: Some(clusterrolebinding),
                    create: validate_clusterrolebinding,
                    update: Some(validate_clusterrolebinding_update),
                },
            },
        );
    }
}
