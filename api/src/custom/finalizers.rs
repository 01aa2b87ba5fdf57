//! Warnings about the finalizers of custom resources (CRD-158).

use std::collections::HashSet;

use crate::metadata::{FOREGROUND, ORPHAN};
use crate::names;
use crate::object::Object;
use crate::text::quoting::go_quote;

/// Returns warnings about finalizers that a new object has, or that a change adds, sorted by name.
pub fn finalizer_warnings(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let known: HashSet<&str> = stored.into_iter().flat_map(Object::finalizers).collect();
    let mut added = object.finalizers();
    added.retain(|finalizer| !known.contains(finalizer));
    added.sort_unstable();
    added.dedup();
    added.into_iter().flat_map(warnings).collect()
}

fn warnings(finalizer: &str) -> Vec<String> {
    let mut texts = names::qualified_name(finalizer);
    let is_standard = matches!(finalizer, ORPHAN | FOREGROUND | "kubernetes");
    if !finalizer.contains('/') && !is_standard {
        let part = match finalizer.contains('.') {
            true => " including a path (/)",
            false => "",
        };
        texts.push(format!(
            "prefer a domain-qualified finalizer name{part} to avoid accidental conflicts with \
             other finalizer writers"
        ));
    }
    let quoted = go_quote(finalizer);
    let texts = texts.into_iter();
    texts
        .map(|text| format!("metadata.finalizers: {quoted}: {text}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// CRD-158, by a recorded answer.
    #[test]
    fn finalizers_without_a_domain_are_warned_of() {
        let object = |finalizers: &[&str]| {
            let object = json!({"metadata": {"finalizers": finalizers}});
            Object::of(object.as_object().unwrap().clone())
        };
        let new = object(&["plain", "a.b", "example.com/a", "orphan"]);
        let end = "to avoid accidental conflicts with other finalizer writers";
        assert_eq!(
            finalizer_warnings(&new, None),
            [
                format!(
                    "metadata.finalizers: \"a.b\": prefer a domain-qualified finalizer name \
                     including a path (/) {end}"
                ),
                format!(
                    "metadata.finalizers: \"plain\": prefer a domain-qualified finalizer name {end}"
                ),
            ]
        );
        assert_eq!(
            finalizer_warnings(&new, Some(&object(&["a.b", "plain"]))),
            [""; 0]
        );
    }
}
