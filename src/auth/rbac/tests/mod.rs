//! Decisions of RBAC: what rules match, and recorded reasons.

mod scan;

use std::sync::Arc;

use serde_json::json;
use smol_str::SmolStr;

use super::objects::{Binding, RoleKind, read_rules};
use super::{PolicyRule, RbacIndex, Verdict, decide};
use crate::api::user_info::UserInfo;
use crate::auth::Attributes;

fn rules(json: &serde_json::Value) -> Arc<[PolicyRule]> {
    read_rules(json!({ "rules": json }).to_string().as_bytes()).unwrap()
}

fn binding(namespace: &str, name: &str, json: &serde_json::Value) -> Binding {
    Binding::read(namespace, name, json.to_string().as_bytes()).unwrap()
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..UserInfo::default()
    }
}

/// Returns the attributes of a request: `verb group resource/subresource namespace name`, with `-`
/// for what is empty, or `verb path`.
fn request<'r>(user: &'r UserInfo, text: &'r str) -> Attributes<'r> {
    let words: Vec<&str> = text.split(' ').collect();
    let word = |at: usize| match words.get(at).copied() {
        Some("-") | None => "",
        Some(word) => word,
    };
    let (resource, subresource) = word(2).split_once('/').unwrap_or((word(2), ""));
    let of = Attributes::on_resource(user, word(0), word(1), resource);
    match word(1).starts_with('/') {
        true => Attributes {
            is_resource_request: false,
            path: word(1),
            api_group: "",
            api_version: "",
            ..of
        },
        false => Attributes {
            subresource,
            namespace: word(3),
            name: word(4),
            ..of
        },
    }
}

fn asked(index: &RbacIndex, user: &UserInfo, text: &str) -> Verdict {
    let request = request(user, text);
    decide(&index.grants(user, request.namespace), &request)
}

fn allowed(reason: &str) -> Verdict {
    Verdict::Allowed(format!("RBAC: allowed by {reason}").into())
}

/// API-288.
#[test]
fn rules_match_verbs_groups_resources_names_and_paths_api_288() {
    let someone = user("u", &[]);
    for (rule, text, expected) in [
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}),
            "get - pods ns x",
            true,
        ),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}),
            "list - pods ns",
            false,
        ),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}),
            "get apps pods ns",
            false,
        ),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}),
            "get - pods/log ns x",
            false,
        ),
        (
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
            "x y z/w ns n",
            true,
        ),
        (
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
            "get /healthz",
            false,
        ),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}),
            "get - pods/log ns x",
            true,
        ),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}),
            "get - pods ns x",
            false,
        ),
        (
            json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["*/scale"]}),
            "get apps deployments/scale ns x",
            true,
        ),
        (
            json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["*/scale"]}),
            "get apps deployments ns x",
            false,
        ),
        // AC-66: these are texts like any other.
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/*"]}),
            "get - pods/log ns x",
            false,
        ),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*/*"]}),
            "get - pods/log ns x",
            false,
        ),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}),
            "get - pods ns a",
            true,
        ),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}),
            "get - pods ns b",
            false,
        ),
        (
            json!({"verbs": ["create"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}),
            "create - pods ns",
            false,
        ),
        (
            json!({"verbs": ["create"], "apiGroups": [""], "resources": ["pods"], "resourceNames": [""]}),
            "create - pods ns",
            true,
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["/a"]}),
            "get /a",
            true,
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["/a"]}),
            "get /a/b",
            false,
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["/a/*"]}),
            "get /a/b/c",
            true,
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["/a/**"]}),
            "get /a/b",
            true,
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["/a/*"]}),
            "get /a",
            false,
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["*"]}),
            "get /a",
            true,
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["*"]}),
            "head /a",
            false,
        ),
        (
            json!({"verbs": null, "nonResourceURLs": null}),
            "get /a",
            false,
        ),
    ] {
        let all = rules(&json!([rule]));
        assert_eq!(
            all[0].allows(&request(&someone, text)),
            expected,
            "{rule} {text}"
        );
    }
}

fn cluster() -> RbacIndex {
    let mut index = RbacIndex::default();
    let reads = |resource: &str| {
        rules(&json!([{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]))
    };
    index.set_role("ns", "reader", reads("configmaps"));
    index.set_role("", "nodes", reads("nodes"));
    let role = |kind: &str, name: &str| json!({"kind": kind, "name": name});
    let one = |kind: &str, name: &str| json!({"kind": kind, "name": name});
    for (namespace, name, role, subjects) in [
        (
            "ns",
            "reader",
            role("Role", "reader"),
            json!([one("User", "u"), one("Group", "g"),
            {"kind": "ServiceAccount", "name": "sa"}]),
        ),
        (
            "",
            "nodes",
            role("ClusterRole", "nodes"),
            json!([one("Group", "g"),
            {"kind": "ServiceAccount", "name": "sa", "namespace": "other"}]),
        ),
        (
            "ns",
            "absent",
            role("Role", "none"),
            json!([one("User", "v")]),
        ),
        (
            "",
            "absent",
            role("ClusterRole", "none"),
            json!([one("User", "v"), one("User", "w")]),
        ),
        (
            "",
            "of-a-role",
            role("Role", "reader"),
            json!([one("User", "x")]),
        ),
        (
            "ns",
            "nobody",
            role("Role", "reader"),
            json!([one("Robot", "x")]),
        ),
    ] {
        let json = json!({"roleRef": role, "subjects": subjects});
        index.set_binding(binding(namespace, name, &json));
    }
    index
}

/// AC-66.
#[test]
fn reasons_name_binding_role_and_subject_ac_66() {
    let index = cluster();
    let configmap = "get - configmaps ns x";
    for (who, text, expected) in [
        (user("u", &[]), configmap, allowed(r#"RoleBinding "reader/ns" of Role "reader" to User "u""#)),
        (user("x", &["a", "g"]), configmap, allowed(r#"RoleBinding "reader/ns" of Role "reader" to Group "g""#)),
        (
            user("system:serviceaccount:ns:sa", &[]),
            configmap,
            allowed(r#"RoleBinding "reader/ns" of Role "reader" to ServiceAccount "sa/ns""#),
        ),
        (
            user("system:serviceaccount:other:sa", &[]),
            "get - nodes - n",
            allowed(r#"ClusterRoleBinding "nodes" of ClusterRole "nodes" to ServiceAccount "sa/other""#),
        ),
        // Cluster-wide bindings come first, and count in each namespace.
        (
            user("u", &["g"]),
            "get - nodes ns n",
            allowed(r#"ClusterRoleBinding "nodes" of ClusterRole "nodes" to Group "g""#),
        ),
        (user("u", &[]), "get - configmaps other x", Verdict::NoOpinion(SmolStr::default())),
        (user("u", &[]), "get - configmaps - x", Verdict::NoOpinion(SmolStr::default())),
        (
            user("w", &[]),
            configmap,
            Verdict::NoOpinion(r#"RBAC: clusterrole.rbac.authorization.k8s.io "none" not found"#.into()),
        ),
        (
            user("v", &[]),
            configmap,
            Verdict::NoOpinion(
                r#"RBAC: [clusterrole.rbac.authorization.k8s.io "none" not found, role.rbac.authorization.k8s.io "none" not found]"#
                    .into(),
            ),
        ),
    ] {
        assert_eq!(asked(&index, &who, text), expected, "{} {text}", who.name);
    }
    let nobody = asked(&index, &user("x", &[]), configmap);
    assert!(matches!(nobody, Verdict::NoOpinion(_)), "{nobody:?}");
}

#[test]
fn changes_and_removals_leave_nothing() {
    let mut index = cluster();
    let u = user("u", &[]);
    let changed = json!({"roleRef": {"kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "t"}]});
    index.set_binding(binding("ns", "reader", &changed));
    let configmap = "get - configmaps ns x";
    assert_eq!(
        asked(&index, &u, configmap),
        Verdict::NoOpinion(SmolStr::default())
    );
    assert!(matches!(
        asked(&index, &user("t", &[]), configmap),
        Verdict::Allowed(_)
    ));
    index.remove_role("ns", "reader");
    assert!(
        matches!(asked(&index, &user("t", &[]), configmap), Verdict::NoOpinion(text) if !text.is_empty())
    );
    index.clear_bindings(false);
    assert_eq!(index.bindings(), 3);
    index.clear_bindings(true);
    index.clear_roles(RoleKind::Role);
    index.clear_roles(RoleKind::ClusterRole);
    assert_eq!(index.bindings(), 0);
    assert!(index.is_empty());
}
