//! Server-side apply on a custom resource, by the recorded answers of kube-apiserver 1.36.2
//! (CRD-220 to CRD-223): objects, owners of fields, and conflicts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, OnceLock};

use api::custom::CustomSchema;
use api::managed_fields::{Application, FieldManager};
use api::object::Object;
use api::resource::{Behaviour, Declared, ResourceDefinition};
use api::schema::Empty;
use api::status::Status;
use api::structural::StructuralSchema;
use api::typed::ValueType;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

const RECORDED: &str = include_str!("recorded/custom-applies.json");

struct Custom {
    declared: Declared,
    schema: CustomSchema,
}

impl Behaviour for Custom {
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn value_type(&self) -> ValueType<'_> {
        self.schema.value_type()
    }

    fn canonicalize(&self, object: &mut Object, empty: Empty) -> bool {
        self.schema.canonicalize(object, empty)
    }

    fn has_defaults(&self) -> bool {
        self.schema.has_defaults()
    }

    fn set_defaults(&self, object: &mut Object) {
        self.schema.set_defaults(object);
    }
}

fn object(value: &Value) -> Object {
    Object::of(value.as_object().unwrap().clone())
}

fn merged(live: &Value, patch: &Map<String, Value>) -> Value {
    let mut live = live.as_object().cloned().unwrap_or_default();
    for (name, value) in patch {
        let value = match value {
            Value::Object(patch) => merged(&live[name], patch),
            other => other.clone(),
        };
        live.insert(name.clone(), value);
    }
    Value::Object(live)
}

/// Returns spec and managedFields in the form of the recorded answers.
fn answer(object: &Object) -> (Value, Vec<Value>) {
    let document = object.clone().into_document();
    let mut entries = document["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .clone();
    for entry in &mut entries {
        entry.as_object_mut().unwrap().remove("time");
    }
    (document["spec"].clone(), sorted(entries))
}

fn sorted(mut entries: Vec<Value>) -> Vec<Value> {
    entries.sort_by_key(|entry| entry["manager"].to_string());
    entries
}

#[test]
fn applies_are_answered_as_by_kube_apiserver() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let schema = StructuralSchema::compile(&recorded["schema"]);
    let definition =
        ResourceDefinition::named("ns.example.com", "v1", "Ant", "ants").with(Custom {
            declared: Declared::default(),
            schema: CustomSchema::new(Arc::new(schema)),
        });
    let versions = [Arc::new(definition.clone())];
    let empty = OnceLock::new();
    let fields = FieldManager {
        definition: &definition,
        versions: &versions,
        subresource: "",
        filter: None,
        now: Timestamp::UNIX_EPOCH,
        empty: &empty,
        awaited: None,
    };
    let mut live: Option<Object> = None;
    for step in recorded["steps"].as_array().unwrap() {
        let (name, body) = (&step["name"], &step["body"]);
        let manager = step["manager"].as_str().unwrap();
        let new = if step["is_apply"] == true {
            let application = Application {
                object: &object(body),
                manager,
                force: step["force"] == true,
            };
            let fill_in = |object: &mut Object| definition.fill_in(object);
            fields
                .apply(live.as_ref(), application, fill_in)
                .map_err(|error| {
                    let status = Status::from(error);
                    json!(status)["message"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned()
                })
        } else {
            let document = Value::Object(live.clone().unwrap().into_document());
            let mut new = object(&merged(&document, body.as_object().unwrap()));
            fields.update(live.as_ref(), &mut new, manager);
            Ok(new)
        };
        match new {
            Err(why) => assert_eq!(json!(why), step["refusal"], "{name} {body}"),
            Ok(new) => {
                let (spec, entries) = answer(&new);
                assert_eq!(spec, step["spec"], "{name} {body}");
                let theirs = step["managedFields"].as_array().unwrap().clone();
                assert_eq!(entries, sorted(theirs), "{name} {body}");
                live = Some(new);
            }
        }
    }
}

/// The message of an apply that does not fit the schema, before field validation.
#[test]
fn an_apply_that_does_not_fit_is_refused_in_recorded_words() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"a": {"type": "string"}}}}});
    let definition = ResourceDefinition::named("ns.example.com", "v1", "Door", "doors");
    let definition = definition.with(Custom {
        declared: Declared::default(),
        schema: CustomSchema::new(Arc::new(StructuralSchema::compile(&schema))),
    });
    let empty = OnceLock::new();
    let fields = FieldManager {
        definition: &definition,
        versions: &[],
        subresource: "",
        filter: None,
        now: Timestamp::UNIX_EPOCH,
        empty: &empty,
        awaited: None,
    };
    let applied = json!({"apiVersion": "ns.example.com/v1", "kind": "Door",
        "metadata": {"name": "a"}, "spec": {"odd": 1}});
    let application = Application {
        object: &object(&applied),
        manager: "m",
        force: false,
    };
    let refused = fields.apply(None, application, |_| {}).unwrap_err();
    assert_eq!(
        json!(Status::from(refused))["message"],
        "failed to create typed patch object (/a; ns.example.com/v1, Kind=Door): .spec.odd: field \
         not declared in schema"
    );
}
