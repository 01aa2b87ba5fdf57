//! Answers of kube-apiserver to bodies, and the comparison of ours with them.
//! `tools/facts/record.py` records them into `kinds/recorded`.
//!
//! A case of a creation has a body; one of an update has the object before it too. An answer has
//! either the object that was made, without metadata and status, or the causes of the refusal.

use api::error_list::ErrorList;
use api::object::Object;
use serde_json::{Value, json};

/// What is tested of a kind.
pub struct Functions {
    /// What fills in.
    pub defaults: Option<fn(&mut Object)>,
    /// What refuses new objects.
    pub create: fn(&Object, &mut ErrorList),
    /// What refuses changes, from the new object and the one before.
    pub update: Option<fn(&Object, &Object, &mut ErrorList)>,
}

fn object(value: &Value, defaults: Option<fn(&mut Object)>) -> Object {
    let mut object = Object::of(value.as_object().expect("an object").clone());
    if let Some(defaults) = defaults {
        defaults(&mut object);
        let once = object.clone();
        defaults(&mut object);
        assert_eq!(once, object, "filling in twice changes something");
    }
    object
}

/// What is compared of an object.
fn compared(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        for name in ["metadata", "status", "kind", "apiVersion"] {
            members.remove(name);
        }
    }
    object
}

/// Compares our answers with the recorded ones. `functions` finds what is tested of a kind by its
/// path: `/apis/apps/v1/namespaces/default/deployments`. Updates of a subresource have its name
/// behind it.
///
/// # Panics
/// If an answer differs, with all differences.
pub fn check(cases: &str, functions: impl Fn(&str) -> Functions) {
    let cases: Vec<Value> = serde_json::from_str(cases).expect("JSON");
    assert!(!cases.is_empty());
    let mut differences = Vec::new();
    for case in &cases {
        let path = case["path"].as_str().expect("a path");
        let functions = functions(&match case.get("subresource").and_then(Value::as_str) {
            None => path.to_owned(),
            Some(subresource) => format!("{path}{subresource}"),
        });
        let body = object(&case["body"], functions.defaults);
        let errors = match case.get("old") {
            None => ErrorList::of(|errors| (functions.create)(&body, errors)),
            Some(old) => {
                let old = object(old, functions.defaults);
                let update = functions.update.expect("updates are tested");
                ErrorList::of(|errors| update(&body, &old, errors))
            }
        };
        let ours: Vec<Value> = errors
            .iter()
            .map(|error| {
                let cause = error.cause();
                json!([cause.reason, cause.message, cause.field])
            })
            .collect();
        let theirs = case["answer"]["causes"].as_array().cloned();
        let theirs_causes = theirs.unwrap_or_default();
        if ours != theirs_causes {
            differences.push(format!(
                "{}:\n  ours:   {}\n  theirs: {}",
                case["name"],
                Value::from(ours),
                Value::from(theirs_causes)
            ));
        }
        if let Some(made) = case["answer"].get("object") {
            let (ours, theirs) = (compared(&Value::Object(body.0)), compared(made));
            if ours != theirs {
                differences.push(format!(
                    "{}:\n  ours:   {ours}\n  theirs: {theirs}",
                    case["name"]
                ));
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} differ\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}
