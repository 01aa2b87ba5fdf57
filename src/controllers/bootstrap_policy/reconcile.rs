//! The changes that bring a stored role or binding up to date (AC-68). Pure.

use serde_json::{Map, Value, json};

use super::policy::AUTO_UPDATE;
use crate::api::object::Object;
use crate::auth::rbac::{PolicyRule, missing_rules, read_rules};

/// The outcome for a stored object.
#[derive(Debug, PartialEq)]
pub(super) enum Reconciled {
    /// It has everything.
    Complete,
    /// It is replaced by this one.
    Changed(Object),
    /// It gives another role. That can't be changed, so it is deleted and made again with its
    /// subjects.
    Recreated(Object),
    /// Somebody keeps it as it is, and it lacks something.
    Protected,
}

/// Compares a stored object with the one that Kubernetes wants. Additional labels, rules and
/// subjects stay.
pub(super) fn reconciled(stored: &Object, wanted: &Object) -> Reconciled {
    let mut changed = stored.clone();
    add_members(&mut changed, wanted, "annotations");
    add_members(&mut changed, wanted, "labels");
    let mut is_recreated = false;
    match wanted.0.get("roleRef") {
        Some(role) => {
            is_recreated = !is_same_role(stored.0.get("roleRef"), role);
            add_items(&mut changed, wanted, &["subjects"]);
            changed.0.insert("roleRef".to_owned(), role.clone());
        }
        None => {
            add_rules(&mut changed, wanted);
            match wanted.0.contains_key("aggregationRule") {
                true => add_items(
                    &mut changed,
                    wanted,
                    &["aggregationRule", "clusterRoleSelectors"],
                ),
                false => {
                    changed.0.remove("aggregationRule");
                }
            }
        }
    }
    let is_protected = stored.text(&["metadata", "annotations", AUTO_UPDATE]) == "false";
    match (is_recreated, changed.0 == stored.0, is_protected) {
        (false, true, _) => Reconciled::Complete,
        (_, _, true) => Reconciled::Protected,
        (false, false, false) => Reconciled::Changed(changed),
        (true, _, false) => {
            for member in ["uid", "resourceVersion", "creationTimestamp"] {
                changed.metadata_mut().remove(member);
            }
            changed.set_managed_fields(None);
            Reconciled::Recreated(changed)
        }
    }
}

/// Returns the copies that a store of an old Kubernetes needs once, by the name of the new object
/// and that of the object to copy. `find` returns a stored ClusterRole.
pub(super) fn moved_roles(find: impl Fn(&str) -> Option<Object>) -> Vec<Object> {
    let pairs = [
        ("admin", "system:aggregate-to-admin"),
        ("edit", "system:aggregate-to-edit"),
        ("view", "system:aggregate-to-view"),
    ];
    let copies = pairs.into_iter().filter_map(|(old, new)| {
        let stored = find(old)?;
        let is_aggregated = stored
            .0
            .get("aggregationRule")
            .is_some_and(|rule| !rule.is_null());
        (!is_aggregated && find(new).is_none()).then(|| copy(&stored, new))
    });
    copies.collect()
}

/// Returns a copy of a stored object under another name.
pub(super) fn copy(stored: &Object, name: &str) -> Object {
    let mut copy = stored.clone();
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    for member in ["labels", "annotations"] {
        let kept = stored.at(&["metadata", member]).cloned();
        metadata.extend(kept.map(|kept| (member.to_owned(), kept)));
    }
    copy.set_managed_fields(None);
    copy.0.insert("metadata".to_owned(), metadata.into());
    copy
}

fn is_same_role(stored: Option<&Value>, wanted: &Value) -> bool {
    let same = |member: &str| stored.and_then(|role| role.get(member)) == wanted.get(member);
    same("kind") && same("name")
}

/// Adds the labels or annotations that are missing.
fn add_members(changed: &mut Object, wanted: &Object, part: &str) {
    let missing = wanted.at(&["metadata", part]).and_then(Value::as_object);
    let known = changed.metadata_mut().entry(part).or_insert(json!({}));
    if let Value::Object(known) = known {
        for (name, value) in missing.into_iter().flatten() {
            known.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// Adds the items of a list that are missing.
fn add_items(changed: &mut Object, wanted: &Object, path: &[&str]) {
    let Some(items) = wanted.at(path).and_then(Value::as_array) else {
        return;
    };
    let mut known = changed.at(path).and_then(Value::as_array).cloned();
    let known = known.get_or_insert_default();
    let before = known.len();
    for item in items {
        // linear: the lists are those of Kubernetes' bindings.
        if !known.contains(item) {
            known.push(item.clone());
        }
    }
    if known.len() > before {
        let list = Value::from(known.clone());
        match path {
            [outer, inner] => changed
                .0
                .insert((*outer).to_owned(), json!({ *inner: list })),
            [one, ..] => changed.0.insert((*one).to_owned(), list),
            [] => None,
        };
    }
}

/// Adds the rights that no stored rule covers, as a rule each.
fn add_rules(changed: &mut Object, wanted: &Object) {
    let read = |object: &Object| {
        let rules = object.0.get("rules").cloned().unwrap_or_default();
        let text = json!({ "rules": rules }).to_string();
        read_rules(text.as_bytes()).unwrap_or_default()
    };
    let missing = missing_rules(&read(changed), &read(wanted));
    if missing.is_empty() {
        return;
    }
    let rules = changed.0.entry("rules").or_insert(Value::Null);
    if !rules.is_array() {
        *rules = json!([]);
    }
    if let Value::Array(rules) = rules {
        rules.extend(missing.iter().map(PolicyRule::to_json));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(rules: Value) -> Object {
        let Value::Object(members) = json!({
            "kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": "r", "labels": {"a": "1"}, "annotations": {AUTO_UPDATE: "true"}},
            "rules": rules,
        }) else {
            unreachable!()
        };
        Object::of(members)
    }

    fn rule(resources: &[&str], verbs: &[&str]) -> Value {
        json!({"apiGroups": [""], "resources": resources, "verbs": verbs})
    }

    #[test]
    fn missing_rights_are_added_and_others_stay_ac_68() {
        let wanted = role(json!([rule(&["pods", "nodes"], &["get", "list"])]));
        assert_eq!(reconciled(&wanted, &wanted), Reconciled::Complete);
        let more = role(json!([rule(&["*"], &["*"])]));
        assert_eq!(reconciled(&more, &wanted), Reconciled::Complete);
        let mut stored = role(json!([
            rule(&["pods"], &["get", "list", "watch"]),
            rule(&["nodes"], &["get"])
        ]));
        stored
            .metadata_mut()
            .insert("labels".to_owned(), json!({"a": "2", "b": "3"}));
        let Reconciled::Changed(changed) = reconciled(&stored, &wanted) else {
            panic!("it lacks a right");
        };
        let added = rule(&["nodes"], &["list"]);
        assert_eq!(changed.0["rules"][2], added);
        assert_eq!(changed.0["metadata"]["labels"], json!({"a": "2", "b": "3"}));
        let mut protected = stored.clone();
        protected
            .metadata_mut()
            .insert("annotations".to_owned(), json!({AUTO_UPDATE: "false"}));
        assert_eq!(reconciled(&protected, &wanted), Reconciled::Protected);
    }

    #[test]
    fn aggregation_follows_kubernetes_and_rules_of_a_controller_stay_ac_68() {
        let mut wanted = role(Value::Null);
        let selectors = |labels: &[&str]| {
            let all = labels
                .iter()
                .map(|label| json!({"matchLabels": {*label: "true"}}));
            json!({"clusterRoleSelectors": all.collect::<Vec<_>>()})
        };
        wanted
            .0
            .insert("aggregationRule".to_owned(), selectors(&["x"]));
        let mut stored = role(json!([rule(&["pods"], &["get"])]));
        stored
            .0
            .insert("aggregationRule".to_owned(), selectors(&["y"]));
        let Reconciled::Changed(changed) = reconciled(&stored, &wanted) else {
            panic!("it lacks a selector");
        };
        assert_eq!(changed.0["aggregationRule"], selectors(&["y", "x"]));
        assert_eq!(changed.0["rules"], stored.0["rules"]);
        let plain = role(json!([rule(&["pods"], &["get"])]));
        let Reconciled::Changed(changed) = reconciled(&stored, &plain) else {
            panic!("it must not aggregate");
        };
        assert_eq!(changed.0, plain.0);
    }

    #[test]
    fn a_binding_of_another_role_is_made_again_with_its_subjects_ac_68() {
        let binding = |role: &str, names: &[&str]| {
            let subjects = names
                .iter()
                .map(|name| json!({"kind": "User", "name": name}));
            let Value::Object(members) = json!({
                "metadata": {"name": "b", "labels": {}, "annotations": {}},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": subjects.collect::<Vec<_>>(),
            }) else {
                unreachable!()
            };
            Object::of(members)
        };
        let wanted = binding("r", &["a"]);
        let more = binding("r", &["a", "b"]);
        assert_eq!(reconciled(&more, &wanted), Reconciled::Complete);
        let Reconciled::Changed(changed) = reconciled(&binding("r", &["b"]), &wanted) else {
            panic!("it lacks a subject");
        };
        assert_eq!(
            changed.0["subjects"],
            binding("r", &["b", "a"]).0["subjects"]
        );
        let mut other = binding("s", &["b"]);
        other.set_meta("uid", "1");
        let again = binding("r", &["b", "a"]);
        assert_eq!(reconciled(&other, &wanted), Reconciled::Recreated(again));
    }

    #[test]
    fn roles_of_an_old_store_move_once_ac_68() {
        let own = role(json!([rule(&["pods"], &["get"])]));
        let moved = moved_roles(|name| (name == "admin").then(|| own.clone()));
        assert_eq!(moved.len(), 1);
        assert_eq!(moved[0].name(), "system:aggregate-to-admin");
        assert_eq!(moved[0].0["rules"], own.0["rules"]);
        let moved = moved_roles(|name| name.contains("admin").then(|| own.clone()));
        assert!(moved.is_empty());
    }
}
