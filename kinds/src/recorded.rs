//! Comparison with recorded answers of kube-apiserver. `tools/facts/record.py` records them into
//! `kinds/recorded`.
//!
//! A case of a create has a body; a case of an update also has the object before it. The answer is
//! either the resulting object, without metadata and status, or the causes of the refusal.

use api::error_list::ErrorList;
use api::object::Object;
use api::status::StatusCause;
use serde_json::{Value, json};

/// The functions of a kind that a test compares.
pub struct Functions {
    /// Applies defaults.
    pub defaults: Option<fn(&mut Object)>,
    /// Validates a new object.
    pub create: fn(&Object, &mut ErrorList),
    /// Validates an update, from the new and the old object.
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

/// Returns the compared part of an object.
fn compared(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        for name in ["metadata", "status", "kind", "apiVersion"] {
            members.remove(name);
        }
    }
    object
}

/// Compares our answers with the recorded ones. `functions` returns the functions of a kind by its
/// path, such as `/apis/apps/v1/namespaces/default/deployments`. An update of a subresource has its
/// name after the path.
///
/// # Panics
/// If an answer differs. The message lists all differences.
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
                let cause = StatusCause::from(error);
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
