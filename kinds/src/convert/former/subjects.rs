//! Bindings of `rbac.authorization.k8s.io/v1alpha1`, whose subjects have an `apiVersion` instead of
//! a group.

use api::object::Object;
use serde_json::Value;

use crate::defaults::items;
use crate::defaults::rbac::rolebinding;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Converts a binding. The user `*` becomes the group of all authenticated users.
pub(super) fn v1alpha1(object: &mut Object) {
    for subject in items(&mut object.0, "subjects") {
        let version = subject.remove("apiVersion").unwrap_or_default();
        let kind = subject.get("kind").and_then(Value::as_str);
        let group = match kind {
            Some("ServiceAccount") => "",
            Some("User" | "Group") => GROUP,
            _ => match version.as_str().and_then(|version| version.split_once('/')) {
                Some((group, version)) if !version.contains('/') => group,
                _ => "",
            },
        };
        if kind == Some("User") && subject.get("name").and_then(Value::as_str) == Some("*") {
            subject.insert("kind".to_owned(), "Group".into());
            subject.insert("name".to_owned(), "system:authenticated".into());
        }
        subject.insert("apiGroup".to_owned(), group.into());
    }
    rolebinding(object);
}
