//! Tenants write as many roles and bindings as they have room for.

use serde_json::json;

use super::objects::{Binding, read_rules};
use super::{RbacIndex, Verdict, covers, decide};
use crate::api::user_info::UserInfo;
use crate::auth::Attributes;

/// Returns an index with one role of two namespaces and many bindings of it in each.
fn crowded(bindings: usize) -> RbacIndex {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let rules = json!({"rules": [rule]}).to_string();
    let mut index = RbacIndex::default();
    for namespace in ["a", "b"] {
        index.set_role(namespace, "r", read_rules(rules.as_bytes()).unwrap());
        for number in 0..bindings {
            let binding = json!({
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "Group", "name": "crew"}, {"kind": "User", "name": "bob"}],
            });
            let name = format!("b{number:06}");
            let binding = Binding::read(namespace, &name, binding.to_string().as_bytes());
            index.set_binding(binding.unwrap());
        }
    }
    index
}

/// A hundred thousand bindings of one subject: each rule is looked at once for a decision.
#[test]
fn a_role_counts_once_however_many_bindings_name_it_api_288() {
    let index = crowded(100_000);
    let bob = UserInfo {
        name: "bob".to_owned(),
        groups: vec!["crew".to_owned()],
        ..UserInfo::default()
    };
    let grants = index.grants(&bob, "a");
    assert_eq!(grants.len(), 100_000);
    let repeated = grants.iter().filter(|grant| grant.is_repeated);
    assert_eq!(repeated.count(), 99_999);
    let request = Attributes {
        namespace: "a",
        ..Attributes::on_resource(&bob, "get", "", "pods")
    };
    let reason = "RBAC: allowed by RoleBinding \"b000000/a\" of Role \"r\" to Group \"crew\"";
    let allowed = decide(&grants, &request);
    assert_eq!(allowed, Verdict::Allowed(reason.into()));
    let other = Attributes {
        verb: "list",
        ..request
    };
    assert_eq!(decide(&grants, &other), Verdict::NoOpinion("".into()));
    // The bindings of one namespace are nothing in another one.
    assert!(index.grants(&bob, "c").is_empty());
}

/// Many bindings to roles that are not there: a reason names some of them.
#[test]
fn a_reason_names_few_absent_roles_ac_66() {
    let mut index = crowded(1000);
    index.remove_role("a", "r");
    let bob = UserInfo {
        name: "bob".to_owned(),
        ..UserInfo::default()
    };
    let grants = index.grants(&bob, "a");
    assert!(grants.iter().all(|grant| !grant.is_repeated));
    let request = Attributes {
        namespace: "a",
        ..Attributes::on_resource(&bob, "get", "", "pods")
    };
    let Verdict::NoOpinion(reason) = decide(&grants, &request) else {
        panic!("it is allowed");
    };
    assert!(reason.contains("and 936 more"), "{reason}");
    assert!(reason.len() < 6_000, "{}", reason.len());
}

/// A check of an author with very many rules is refused before they are compared.
#[test]
fn authors_with_very_many_rules_are_not_compared_ac_60() {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let rules = read_rules(json!({"rules": [rule]}).to_string().as_bytes()).unwrap();
    let times = |count: usize| covers(std::iter::repeat_n(&rules[0], count), &rules[..]);
    assert_eq!(times(1000), Ok(()));
    assert_eq!(times(1_000_000), Err(super::Lacking::TooMany));
}
