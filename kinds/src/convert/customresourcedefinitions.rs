//! Conversion of CustomResourceDefinitions between `apiextensions.k8s.io/v1` and `v1beta1`, in
//! which kube-apiserver stores them.
//!
//! In `v1beta1`, the parts that all versions share are members of the spec, next to the list of
//! versions.

use api::object::Object;
use serde_json::{Map, Value, json};

/// The members of a version in `v1`, and the members of the spec that replace them in `v1beta1` if
/// all versions share them.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

fn spec_of(definition: &mut Object) -> Option<&mut Map<String, Value>> {
    definition.0.get_mut("spec")?.as_object_mut()
}

/// Returns the versions of a resource that are objects.
fn versions_of(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    let versions = versions.into_iter().flatten();
    versions.filter_map(Value::as_object_mut)
}

/// Renames the path in each printer column.
fn rename_paths(holder: &mut Map<String, Value>, from: &str, to: &str) {
    let columns = holder.get_mut("additionalPrinterColumns");
    let columns = columns.and_then(Value::as_array_mut).into_iter().flatten();
    for column in columns.filter_map(Value::as_object_mut) {
        if let Some(path) = column.remove(from) {
            column.insert(to.to_owned(), path);
        }
    }
}

/// Converts from `v1beta1` to `v1`.
pub fn v1beta1_to_v1(definition: &mut Object) {
    let Some(spec) = spec_of(definition) else {
        return;
    };
    let only = spec.remove("version").filter(|name| *name != "");
    let listed = spec.get("versions").and_then(Value::as_array);
    if let Some(name) = only
        && listed.is_none_or(Vec::is_empty)
    {
        let version = json!([{"name": name, "served": true, "storage": true}]);
        spec.insert("versions".to_owned(), version);
    }
    rename_paths(spec, "JSONPath", "jsonPath");
    versions_of(spec).for_each(|version| rename_paths(version, "JSONPath", "jsonPath"));
    for (own, shared) in SHARED {
        if let Some(part) = spec.remove(shared).filter(|part| !part.is_null()) {
            for version in versions_of(spec) {
                version.insert(own.to_owned(), part.clone());
            }
        }
    }
    // `v1beta1` defaulted it to true.
    match spec.get("preserveUnknownFields") {
        Some(Value::Bool(false)) => drop(spec.remove("preserveUnknownFields")),
        Some(Value::Bool(true)) => {}
        _ => drop(spec.insert("preserveUnknownFields".to_owned(), true.into())),
    }
    let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) else {
        return;
    };
    let (client, reviews) = (
        conversion.remove("webhookClientConfig"),
        conversion.remove("conversionReviewVersions"),
    );
    let reviews = reviews.filter(|reviews| reviews.as_array().is_some_and(|all| !all.is_empty()));
    if client.is_some() || reviews.is_some() {
        let mut webhook = Map::new();
        webhook.extend(client.map(|client| ("clientConfig".to_owned(), client)));
        let reviews = reviews.unwrap_or_default();
        webhook.insert("conversionReviewVersions".to_owned(), reviews);
        conversion.insert("webhook".to_owned(), webhook.into());
    }
}

/// Converts from `v1` to `v1beta1`.
pub fn v1_to_v1beta1(definition: &mut Object) {
    let Some(spec) = spec_of(definition) else {
        return;
    };
    let first = versions_of(spec).next().map(|version| version.clone());
    if let Some(name) = first.as_ref().and_then(|version| version.get("name")) {
        spec.insert("version".to_owned(), name.clone());
    }
    for (own, shared) in SHARED {
        let part = first.as_ref().and_then(|version| version.get(own));
        if versions_of(spec).all(|version| version.get(own) == part) {
            spec.extend(part.map(|part| (shared.to_owned(), part.clone())));
            versions_of(spec).for_each(|version| drop(version.remove(own)));
        }
    }
    rename_paths(spec, "jsonPath", "JSONPath");
    versions_of(spec).for_each(|version| rename_paths(version, "jsonPath", "JSONPath"));
    let preserves = spec.get("preserveUnknownFields") == Some(&Value::Bool(true));
    spec.insert("preserveUnknownFields".to_owned(), preserves.into());
    let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(Value::Object(mut webhook)) = conversion.remove("webhook") {
        let client = webhook.remove("clientConfig");
        conversion.extend(client.map(|client| ("webhookClientConfig".to_owned(), client)));
        let reviews = webhook.remove("conversionReviewVersions");
        let reviews = reviews.filter(|reviews| !reviews.is_null());
        conversion.extend(reviews.map(|all| ("conversionReviewVersions".to_owned(), all)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(document: Value, by: fn(&mut Object)) -> Value {
        let Value::Object(members) = document else {
            panic!("no object");
        };
        let mut object = Object::of(members);
        by(&mut object);
        Value::Object(object.0)
    }

    fn version(name: &str, schema: &Value) -> Value {
        json!({"name": name, "served": true, "storage": name == "v1", "schema": schema,
            "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".n"}]})
    }

    /// SF-43, KV-24: stored definitions have shared parts in the spec, and the round trip loses
    /// nothing.
    #[test]
    fn stored_definitions_have_shared_parts_in_the_spec() {
        let [one, other] = ["one", "other"].map(|text| json!({"description": text}));
        let webhook = json!({"clientConfig": {"url": "https://x"},
            "conversionReviewVersions": ["v1"]});
        for (versions, is_shared) in [
            (json!([version("v1", &one), version("v2", &one)]), true),
            (json!([version("v1", &one), version("v2", &other)]), false),
        ] {
            let served = json!({"spec": {"group": "g", "versions": versions,
                "conversion": {"strategy": "Webhook", "webhook": webhook}}});
            let stored = converted(served.clone(), v1_to_v1beta1);
            let spec = &stored["spec"];
            assert_eq!(spec["version"], "v1");
            assert_eq!(spec["additionalPrinterColumns"][0]["JSONPath"], ".n");
            assert_eq!(
                spec["validation"],
                if is_shared { one.clone() } else { Value::Null }
            );
            assert_eq!(
                spec["conversion"]["webhookClientConfig"]["url"],
                "https://x"
            );
            assert_eq!(converted(stored, v1beta1_to_v1), served);
        }
    }

    #[test]
    fn a_definition_of_long_ago_names_one_version_and_keeps_unknown_fields() {
        let stored = json!({"spec": {"version": "v1alpha1", "validation": {"a": 1}}});
        let version = json!({"name": "v1alpha1", "served": true, "storage": true,
            "schema": {"a": 1}});
        assert_eq!(
            converted(stored, v1beta1_to_v1),
            json!({"spec": {"versions": [version], "preserveUnknownFields": true}}),
        );
    }
}
