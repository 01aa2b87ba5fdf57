//! Custom resources by the recorded answers of kube-apiserver 1.36.2 (crd.md 7 to 9): what objects
//! become, their warnings, and the causes of refusals.
//!
//! `recorded/custom-objects.json` has the schemas and requests of recorded scenarios. Causes and
//! warnings of rules in CEL are left out, because nothing here runs them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use api::custom::{
    CustomSchema, ScalePaths, Structure, WrongTypes, coerce_metadata, rules_not_checked,
};
use api::error_list::ErrorList;
use api::object::Object;
use api::schema::Empty;
use api::status::StatusCause;
use api::structural::StructuralSchema;
use serde_json::{Value, json};

const RECORDED: &str = include_str!("recorded/custom-objects.json");

fn object(value: &Value) -> Object {
    Object::of(value.as_object().unwrap().clone())
}

/// Returns our answer to a request, in the form of the recorded ones.
fn answer(custom: &CustomSchema, case: &Value) -> Value {
    let kind = case["body"]["kind"].as_str().unwrap();
    let refused = |why: String| {
        let text = format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}");
        json!({ "refusal": text })
    };
    let mut new = object(&case["body"]);
    let mut warnings = Vec::new();
    match coerce_metadata(new.0.get_mut("metadata").unwrap(), WrongTypes::Refused) {
        Err(why) => return refused(why),
        Ok(unknown) => warnings.extend(
            unknown
                .into_iter()
                .map(|path| format!("unknown field \"metadata.{path}\"")),
        ),
    }
    if let Some(why) = custom.why_unreadable(&new) {
        return refused(why);
    }
    warnings.extend(custom.prune(&mut new).iter().map(ToString::to_string));
    custom.set_defaults(&mut new);
    let mut errors = ErrorList::new();
    let structure = match case.get("old") {
        None => custom.validate(&new, &mut errors),
        Some(old) => custom.validate_update(&new, &object(old), &mut errors),
    };
    if structure == Structure::Broken && custom.schema.root().has_validations() {
        errors.push(rules_not_checked());
    }
    let mut answer = json!({});
    if !warnings.is_empty() && case.get("causes").is_none() {
        answer["warnings"] = json!(warnings);
    }
    if !errors.is_empty() {
        let causes = errors.iter().map(|error| {
            let cause = StatusCause::from(error);
            json!([cause.reason, cause.message, cause.field])
        });
        answer["causes"] = causes.collect();
        return answer;
    }
    custom.canonicalize(&mut new, Empty::Forgotten);
    new.0.remove("metadata");
    answer["object"] = Value::Object(new.0);
    answer
}

/// CRD-125 to CRD-131, CRD-135, CRD-150 to CRD-160, CRD-225, CRD-227.
#[test]
fn objects_become_what_kube_apiserver_makes_of_them() {
    let groups: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    let (mut differences, mut count) = (Vec::new(), 0);
    for group in &groups {
        let schema = Arc::new(StructuralSchema::compile(&group["schema"]));
        let mut custom = CustomSchema::new(schema);
        custom.scale = group.get("scale").map(|_| ScalePaths {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            label_selector: Some(".status.selector".to_owned()),
        });
        for case in group["cases"].as_array().unwrap() {
            count += 1;
            let ours = answer(&custom, case);
            let mut theirs = case.clone();
            for name in ["name", "body", "old"] {
                theirs.as_object_mut().unwrap().remove(name);
            }
            if ours != theirs {
                let (name, body) = (&case["name"], &case["body"]["spec"]);
                differences.push(format!(
                    "{name} {body}\n  ours:   {ours}\n  theirs: {theirs}"
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(count > 75, "{count}");
}
