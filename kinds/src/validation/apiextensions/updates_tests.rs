//! Rules that an update of a definition may go on violating, and rules that it must obey (CRD-29,
//! CRD-30, CRD-41).

use serde_json::json;

use super::*;

/// Returns the fields of the errors of an update.
fn changed(stored: Value, object: Value) -> Vec<String> {
    let whole = |spec: Value| {
        let mut whole = json!({
            "metadata": {"name": "foos.d.example.com"},
            "spec": {"group": "d.example.com", "scope": "Namespaced", "names": {
                "plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList",
            }},
            "status": {"storedVersions": ["v1"]},
        });
        let members = spec.as_object().unwrap().clone();
        whole["spec"].as_object_mut().unwrap().extend(members);
        if spec["established"] == true {
            whole["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        }
        Object::of(whole.as_object().unwrap().clone())
    };
    let errors = ErrorList::of(|errors| {
        validate_customresourcedefinition_update(&whole(object), &whole(stored), errors)
    });
    errors.iter().map(|error| error.path.to_string()).collect()
}

fn with_schema(schema: &Value, preserves: bool) -> Value {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    json!({"versions": [version], "preserveUnknownFields": preserves})
}

fn with_bundle(is_established: bool, bundle: Option<&str>) -> Value {
    let mut spec = with_schema(&json!({"openAPIV3Schema": {"type": "object"}}), false);
    spec["established"] = json!(is_established);
    spec["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://a", "caBundle": bundle}}});
    spec
}

/// CRD-41, CRD-47: a schema that is not structural may stay, unless unknown fields are dropped, or
/// something else needs the structure.
#[test]
fn structure_is_required_where_something_needs_it() {
    let schema =
        |members: Value| json!({"openAPIV3Schema": {"type": "object", "properties": members}});
    let stored = with_schema(&schema(json!({"a": {}})), true);
    let place = "spec.validation.openAPIV3Schema.properties[a].type";
    let next = |members: Value, preserves: bool| {
        changed(stored.clone(), with_schema(&schema(members), preserves))
    };
    assert!(next(json!({"a": {}, "b": {}}), true).is_empty());
    assert!(next(json!({"a": {"x-kubernetes-list-type": null}}), true).is_empty());
    assert_eq!(next(json!({"a": {}}), false), [place]);
    let extended = json!({"a": {}, "b": {"x-kubernetes-int-or-string": true}});
    assert_eq!(next(extended, true), [place]);
    // No version that drops unknown fields is served without a schema.
    let none = with_schema(&Value::Null, true);
    assert!(changed(none.clone(), none.clone()).is_empty());
    let pruned = changed(none, with_schema(&Value::Null, false));
    assert_eq!(pruned, ["spec.versions[0].schema.openAPIV3Schema"]);
}

/// CRD-30: certificates must be readable once the definition is established, if they were.
#[test]
fn certificates_may_stay_unreadable() {
    let (bad, place) = (Some("QUFB"), "spec.conversion.webhookClientConfig.caBundle");
    assert_eq!(
        changed(with_bundle(true, None), with_bundle(true, bad)),
        [place]
    );
    assert!(changed(with_bundle(false, None), with_bundle(false, bad)).is_empty());
    assert!(changed(with_bundle(true, Some("QkJC")), with_bundle(true, bad)).is_empty());
    assert!(changed(with_bundle(true, bad), with_bundle(true, None)).is_empty());
    for (bundle, has_fault) in [("", false), ("?", true), ("Cg==", true), ("QUFB", true)] {
        assert_eq!(bundle_fault(bundle).is_some(), has_fault, "{bundle}");
    }
}
