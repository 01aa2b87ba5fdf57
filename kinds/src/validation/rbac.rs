//! What is refused of roles and their bindings.

use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::Faults;
use super::internal::invalid_struct;
use super::selectors::{is_evaluable, validate_label_selector};

const GROUP: &str = "rbac.authorization.k8s.io";

/// The faults of a role in a namespace.
pub fn validate_role(object: &Object) -> Faults {
    let mut faults = Faults::new();
    for rule in Field::of(object, "rules").items() {
        validate_policy_rule(&rule, true, &mut faults);
    }
    faults
}

/// The faults of a change to a role.
pub fn validate_role_update(object: &Object, _stored: &Object) -> Faults {
    validate_role(object)
}

/// The faults of a role in the whole cluster.
pub fn validate_clusterrole(object: &Object) -> Faults {
    let mut faults = Faults::new();
    for rule in Field::of(object, "rules").items() {
        validate_policy_rule(&rule, false, &mut faults);
    }
    let aggregation = Field::of(object, "aggregationRule");
    if !aggregation.is_set() {
        return faults;
    }
    let selectors = aggregation.member("clusterRoleSelectors");
    if selectors.is_empty() {
        faults.push(
            selectors.required(
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            ),
        );
    }
    for selector in selectors.items() {
        validate_label_selector(&selector, false, &mut faults);
        if !is_evaluable(&selector) {
            faults.push(selector.invalid_value(Value::Null, "invalid label selector."));
        }
    }
    faults
}

/// The faults of a change to a role of the whole cluster.
pub fn validate_clusterrole_update(object: &Object, _stored: &Object) -> Faults {
    validate_clusterrole(object)
}

fn validate_policy_rule(rule: &Field<'_>, is_namespaced: bool, faults: &mut Faults) {
    let verbs = rule.member("verbs");
    if verbs.is_empty() {
        faults.push(verbs.required("verbs must contain at least one value"));
    }
    let groups = rule.member("apiGroups");
    let resources = rule.member("resources");
    let urls = rule.member("nonResourceURLs");
    if !urls.is_empty() {
        if is_namespaced {
            faults.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        let names = rule.member("resourceNames");
        if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
            faults.push(
                urls.invalid("rules cannot apply to both regular resources and non-resource URLs"),
            );
        }
        return;
    }
    if groups.is_empty() {
        faults.push(groups.required("resource rules must supply at least one api group"));
    }
    if resources.is_empty() {
        faults.push(resources.required("resource rules must supply at least one resource"));
    }
}

/// The faults of a binding of a role in a namespace.
pub fn validate_rolebinding(object: &Object) -> Faults {
    validate_binding(object, &["Role", "ClusterRole"], true)
}

/// The faults of a change to a binding in a namespace.
pub fn validate_rolebinding_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = validate_rolebinding(object);
    validate_same_role(object, stored, &mut faults);
    faults
}

/// The faults of a binding of a role in the whole cluster.
pub fn validate_clusterrolebinding(object: &Object) -> Faults {
    validate_binding(object, &["ClusterRole"], false)
}

/// The faults of a change to a binding in the whole cluster.
pub fn validate_clusterrolebinding_update(object: &Object, stored: &Object) -> Faults {
    let mut faults = validate_clusterrolebinding(object);
    validate_same_role(object, stored, &mut faults);
    faults
}

fn validate_binding(object: &Object, kinds: &[&str], is_namespaced: bool) -> Faults {
    let mut faults = Faults::new();
    let reference = Field::of(object, "roleRef");
    let group = reference.member("apiGroup");
    if group.text() != GROUP {
        faults.push(group.not_supported(&[GROUP]));
    }
    let kind = reference.member("kind");
    if !kinds.contains(&kind.text()) {
        faults.push(kind.not_supported(kinds));
    }
    let name = reference.member("name");
    if name.text().is_empty() {
        faults.push(name.required(""));
    } else {
        let wrong = names::path_segment(name.text()).into_iter();
        faults.extend(wrong.map(|message| name.invalid(message)));
    }
    for subject in Field::of(object, "subjects").items() {
        validate_subject(&subject, is_namespaced, &mut faults);
    }
    faults
}

fn validate_subject(subject: &Field<'_>, is_namespaced: bool, faults: &mut Faults) {
    let name = subject.member("name");
    let group = subject.member("apiGroup");
    if name.text().is_empty() {
        faults.push(name.required(""));
    }
    let kind = subject.member("kind");
    match kind.text() {
        "ServiceAccount" => {
            if !name.text().is_empty() {
                let wrong = names::dns_subdomain(name.text()).into_iter();
                faults.extend(wrong.map(|message| name.invalid(message)));
            }
            if !group.text().is_empty() {
                faults.push(group.not_supported(&[""]));
            }
            let namespace = subject.member("namespace");
            if !is_namespaced && namespace.text().is_empty() {
                faults.push(namespace.required(""));
            }
        }
        "User" | "Group" if group.text() != GROUP => faults.push(group.not_supported(&[GROUP])),
        "User" | "Group" => {}
        _ => faults.push(kind.not_supported(&["ServiceAccount", "User", "Group"])),
    }
}

fn validate_same_role(object: &Object, stored: &Object, faults: &mut Faults) {
    let parts = |object| {
        let reference = Field::of(object, "roleRef");
        ["apiGroup", "kind", "name"].map(|name| reference.member(name).text().to_owned())
    };
    if parts(object) != parts(stored) {
        let reference = Field::of(object, "roleRef");
        faults.push(invalid_struct(
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
