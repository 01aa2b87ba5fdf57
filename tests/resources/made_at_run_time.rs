//! A resource whose schema, defaults, validation, columns and selectable fields are made by
//! closures while the daemon runs. It is served like a built-in one, over each engine, and leaves
//! nothing behind when it is removed.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taffrail::api::error_list::ErrorList;
use taffrail::api::field_error::FieldError;
use taffrail::api::field_validation::StrictDecodingError;
use taffrail::api::object::Object;
use taffrail::api::resource::{
    Behaviour, Cell, Column, Declared, EndpointRules, FieldPath, GenerationRule,
    ResourceDefinition, Rules, SelectableField, Subresource, Verb,
};
use taffrail::schema::{META, Schema, SharedSchema};

use crate::SOON;
use crate::harness::{Call, Client};
use crate::process::Running;
use crate::servers::etcd::{self, Cluster};

type Change = Box<dyn Fn(&mut Object) + Send + Sync>;
type Check = Box<dyn Fn(&Object, &mut ErrorList) + Send + Sync>;
type Prune = Box<dyn Fn(&mut Object) -> Vec<StrictDecodingError> + Send + Sync>;

/// A kind that closures make.
struct Closures {
    declared: Declared,
    defaults: Change,
    prune: Prune,
    check: Check,
}

impl Behaviour for Closures {
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn prune(&self, object: &mut Object) -> Vec<StrictDecodingError> {
        (self.prune)(object)
    }

    fn has_defaults(&self) -> bool {
        true
    }

    fn set_defaults(&self, object: &mut Object) {
        (self.defaults)(object);
    }

    fn validate(&self, object: &Object, errors: &mut ErrorList) {
        (self.check)(object, errors);
    }

    fn validate_update(
        &self,
        _subresource: &str,
        object: &Object,
        _stored: &Object,
        errors: &mut ErrorList,
    ) {
        (self.check)(object, errors);
    }
}

/// A resource of this kind whose objects have a colour at a field of this name. It comes with a
/// handle that shows whether anything of it is left.
fn made(kind: &str, colour: &str) -> (ResourceDefinition, Weak<String>) {
    let colour = Arc::new(colour.to_owned());
    let text = format!(
        "package shop.v1 shop.example.com/v1\n\n\
         type {kind} kind\n  1 metadata meta.v1.ObjectMeta\n  2 spec Spec\n  3 status *Status\n\n\
         type Spec open\n  1 {colour} string\n  2 size int32\n  3 parts []Part list=map(name)\n\n\
         type Part\n  1 name string always\n  2 weight int32\n\n\
         type Status\n  1 ready bool\n"
    );
    let schema = SharedSchema::new(move || Schema::read(&[META, &text]).unwrap());
    let path = || FieldPath::new(vec!["spec".to_owned(), (*colour).clone()]);
    let field = SelectableField {
        label: format!("spec.{colour}"),
        paths: vec![path()],
        absent: String::new(),
        indexed: true,
        is_offered: true,
    };
    let shouted = colour.clone();
    let cell =
        Cell::computed(move |object, _| object.text(&["spec", &**shouted]).to_uppercase().into());
    let status = EndpointRules {
        keeps: FieldPath::list(&["spec"]),
        resets: FieldPath::list(&["spec"]),
        ..EndpointRules::default()
    };
    let declared = Declared {
        rules: Rules {
            generation: GenerationRule::OnChangeOf(FieldPath::list(&["spec"])),
            drops: FieldPath::list(&["status"]),
            update: EndpointRules {
                keeps: FieldPath::list(&["status"]),
                resets: FieldPath::list(&["status"]),
                raises_generation: true,
                ..EndpointRules::default()
            },
            subresources: vec![("status".to_owned(), status)],
            ..Rules::default()
        },
        object_type: schema.object_type(&format!("shop.v1.{kind}")),
        columns: vec![Column::name(), Column::text("Colour", "Its colour.", cell)],
        selectable_fields: vec![field],
    };
    let checked = colour.clone();
    let behaviour = Closures {
        declared,
        defaults: Box::new(|object| {
            if let Some(Value::Object(spec)) = object.0.get_mut("spec") {
                spec.entry("size").or_insert_with(|| 3.into());
            }
        }),
        prune: Box::new(|object| {
            let Some(Value::Object(spec)) = object.0.get_mut("spec") else {
                return Vec::new();
            };
            let gone = spec.remove("rust").map(|_| "spec.rust".to_owned());
            gone.map(StrictDecodingError::Unknown).into_iter().collect()
        }),
        check: Box::new(move |object, errors| {
            if object.text(&["spec", &**checked]) == "ugly" {
                let path = format!("spec.{checked}");
                errors.push(FieldError::invalid(path, "ugly", "must please the eye"));
            }
        }),
    };
    let plural = format!("{}s", kind.to_lowercase());
    let definition = ResourceDefinition {
        subresources: vec![Subresource {
            name: "status".to_owned(),
            verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
            kind: None,
            has_tables: true,
        }],
        ..ResourceDefinition::named("shop.example.com", "v1", kind, &plural)
    };
    (definition.with(behaviour), Arc::downgrade(&colour))
}

const WIDGETS: &str = "/apis/shop.example.com/v1/namespaces/default/widgets";

fn widget(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": spec, "status": {"ready": true},
    })
}

/// Bodies are decoded, pruned, defaulted and refused by what the closures say.
async fn writes_follow_the_closures(client: &Client) {
    let strict = format!("{WIDGETS}?fieldValidation=Strict");
    let body = widget("a", json!({"colour": "red", "rust": 1}));
    let refused = client.call(Call::post(&strict, &body)).await.expect(400);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.ends_with("strict decoding error: unknown field \"spec.rust\""),
        "{message}"
    );
    let body = widget("a", json!({"colour": 5}));
    let refused = client.call(Call::post(WIDGETS, &body)).await.expect(400);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("Spec.spec.colour of type string"),
        "{message}"
    );
    let body = widget("a", json!({"colour": "ugly"}));
    let refused = client.call(Call::post(WIDGETS, &body)).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.colour");
    let body = widget("a", json!({"colour": "red", "rust": 1, "other": [1]}));
    let made = client.call(Call::post(WIDGETS, &body)).await.expect(201);
    assert_eq!(
        made["spec"],
        json!({"colour": "red", "size": 3, "other": [1]})
    );
    assert_eq!(
        (&made["metadata"]["generation"], made.get("status")),
        (&json!(1), None)
    );
    let one = format!("{WIDGETS}/a");
    let ugly = json!({"spec": {"colour": "ugly"}});
    client
        .call(Call::merge_patch(&one, &ugly))
        .await
        .expect(422);
    let ready = json!({"status": {"ready": true}, "spec": {"colour": "blue"}});
    let status = format!("{one}/status");
    let patched = client
        .call(Call::merge_patch(&status, &ready))
        .await
        .expect(200);
    assert_eq!(patched["status"], json!({"ready": true}));
    assert_eq!(
        (
            &patched["spec"]["colour"],
            &patched["metadata"]["generation"]
        ),
        (&json!("red"), &json!(1))
    );
}

/// Owners own items by the keys of the schema, and an applier loses only what it no longer applies.
async fn appliers_own_by_the_schema(client: &Client) {
    let apply = async |manager: &str, parts: Value| {
        let mut body = widget("b", json!({"parts": parts}));
        body.as_object_mut().unwrap().remove("status");
        let path = format!("{WIDGETS}/b?fieldManager={manager}");
        let call = Call::new("PATCH", &path).body("application/apply-patch+yaml", body.to_string());
        client.call(call).await
    };
    apply("one", json!([{"name": "x", "weight": 1}]))
        .await
        .expect(201);
    apply("two", json!([{"name": "y", "weight": 2}]))
        .await
        .expect(200);
    let merged = apply("one", json!([{"name": "z", "weight": 3}]))
        .await
        .expect(200);
    assert_eq!(
        merged["spec"]["parts"],
        json!([{"name": "y", "weight": 2}, {"name": "z", "weight": 3}])
    );
}

/// Tables, selectors, discovery and OpenAPI show what the closures and the schema say.
async fn reads_follow_the_closures(client: &Client) {
    let table = Call::get(WIDGETS).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let table = client.call(table).await.expect(200);
    assert_eq!(table["columnDefinitions"][1]["name"], "Colour");
    let cells: Vec<&Value> = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["cells"])
        .collect();
    assert_eq!(cells, [&json!(["a", "RED"]), &json!(["b", ""])]);
    let selected = format!("{WIDGETS}?fieldSelector=spec.colour%3Dred");
    let list = client.call(Call::get(&selected)).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let document = "/openapi/v3/apis/shop.example.com/v1";
    let document = client.call(Call::get(document)).await.expect(200);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let has_parts = |schema: &Value| schema["properties"]["parts"].is_object();
    assert!(schemas.values().any(has_parts), "{document}");
}

/// Serves a resource made at run time, removes it, and makes another one of the same name.
async fn is_served_and_forgotten(running: &Running) {
    let client = running.client();
    let (definition, left) = made("Widget", "colour");
    running.resources.add(definition).await.unwrap();
    writes_follow_the_closures(&client).await;
    appliers_own_by_the_schema(&client).await;
    reads_follow_the_closures(&client).await;
    let mut watch = client
        .watch(&format!("{WIDGETS}?watch=true&resourceVersion=0"))
        .await;
    assert_eq!(watch.event().await["type"], "ADDED");
    let remove = || {
        running
            .resources
            .remove("shop.example.com", "v1", "widgets")
    };
    remove().await.unwrap();
    assert_eq!(client.call(Call::get(WIDGETS)).await.status, 404);
    let begun = Instant::now();
    while left.strong_count() > 0 {
        assert!(
            begun.elapsed() < SOON,
            "{} handles are left",
            left.strong_count()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The objects stay in the store, and the next schema of that name is another one.
    let (definition, _) = made("Widget", "tint");
    running.resources.add(definition).await.unwrap();
    let patch = json!({"spec": {"tint": "ugly"}});
    let one = format!("{WIDGETS}/a");
    let refused = client
        .call(Call::merge_patch(&one, &patch))
        .await
        .expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.tint");
    remove().await.unwrap();
}

fn over(arguments: &[&str]) {
    let running = Running::start(arguments);
    running.block_on(is_served_and_forgotten(&running));
    running.stop();
}

#[test]
fn a_resource_made_at_run_time_is_served_in_memory() {
    over(&["--storage-backend=memory"]);
}

#[test]
fn a_resource_made_at_run_time_is_served_over_the_embedded_engine() {
    over(&[]);
}

#[test]
fn a_resource_made_at_run_time_is_served_over_etcd() {
    if etcd::find("3.5").is_none() {
        return;
    }
    let cluster = Cluster::single("3.5");
    over(&["--etcd-servers", &cluster.urls().join(",")]);
}
