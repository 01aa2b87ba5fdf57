//! Examples of each rule, with a kind of two versions. The second version has another name for a
//! field.

use std::sync::{Arc, LazyLock, OnceLock};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Application, FieldManager};
use crate::field_set::{FieldSet, Filter, PathElement};
use crate::object::Object;
use crate::resource::{
    Behaviour, ConversionStrategy, Declared, ResourceDefinition, Rules, convert,
};
use crate::schema::{META, Schema, SharedSchema};
use crate::status::Status;

const V1: &str = "package a.v1 a/v1\n\n\
    type Thing kind\n  1 metadata meta.v1.ObjectMeta\n  2 spec Spec\n  3 status Spec\n\n\
    type Spec\n  1 count *int32\n  2 image string\n  3 items []Item list=map(name)\n\
    \x20 4 labels map[string]string\n  5 set []string list=set\n  6 part *Part\n\n\
    type Item\n  1 name string always\n  2 value string\n  3 note string\n\n\
    type Part map=atomic\n  1 a string\n  2 b string\n";

static VERSIONS: LazyLock<[Arc<ResourceDefinition>; 2]> = LazyLock::new(|| {
    let second = V1.replace("a.v1 a/v1", "a.v2 a/v2");
    let second = second.replace("2 image string", "2 picture string");
    [("v1", V1.to_owned()), ("v2", second)].map(|(version, text)| {
        let schema = SharedSchema::new(move || Schema::read(&[META, &text]).unwrap());
        let rules = Rules {
            conversion: match version {
                "v1" => ConversionStrategy::TypeOnly,
                _ => ConversionStrategy::OwnForm,
            },
            ..Rules::default()
        };
        let declared = Declared {
            rules,
            object_type: schema.object_type(&format!("a.{version}.Thing")),
            ..Declared::default()
        };
        let thing = ResourceDefinition::named("a", version, "Thing", "things");
        Arc::new(thing.with(OfVersion(declared)))
    })
});

/// A kind whose second version calls `image` `picture`.
struct OfVersion(Declared);

impl Behaviour for OfVersion {
    fn declared(&self) -> &Declared {
        &self.0
    }

    fn convert_to_hub(&self, _version: &str, object: &mut Object) {
        rename(object, "picture", "image");
    }

    fn convert_from_hub(&self, _version: &str, object: &mut Object) {
        rename(object, "image", "picture");
    }
}

fn rename(object: &mut Object, from: &str, to: &str) {
    if let Some(Value::Object(spec)) = object.0.get_mut("spec")
        && let Some(value) = spec.remove(from)
    {
        spec.insert(to.to_owned(), value);
    }
}

fn of_version(version: &str) -> &'static ResourceDefinition {
    let mut versions = VERSIONS.iter();
    versions.find(|row| row.api_version() == version).unwrap()
}

/// Returns an object of a version with these members.
fn object(version: &str, members: Value) -> Object {
    let mut object = Object::of(members.as_object().unwrap().clone());
    object.set_type("Thing", version);
    object
}

/// A live object with its field owners.
#[derive(Default)]
struct Live {
    object: Option<Object>,
    filter: Option<Filter>,
}

impl Live {
    fn apply(&mut self, manager: &str, version: &str, spec: Value) -> Result<(), Box<Status>> {
        let applied = object(version, json!({ "spec": spec }));
        self.apply_object(manager, &applied, false)
    }

    fn force(&mut self, manager: &str, version: &str, spec: Value) {
        let applied = object(version, json!({ "spec": spec }));
        self.apply_object(manager, &applied, true).unwrap();
    }

    fn apply_object(
        &mut self,
        manager: &str,
        object: &Object,
        force: bool,
    ) -> Result<(), Box<Status>> {
        let application = Application {
            object,
            manager,
            force,
        };
        let version = object.api_version();
        let empty = OnceLock::new();
        let writer = self.writer(version, &empty);
        let live = self.in_version(version);
        let applied = writer.apply(live.as_ref(), application, |_| {})?;
        self.object = Some(converted(applied, "a/v1"));
        Ok(())
    }

    fn update(&mut self, manager: &str, version: &str, spec: Value) {
        self.update_object(manager, object(version, json!({ "spec": spec })));
    }

    fn update_object(&mut self, manager: &str, mut new: Object) {
        let empty = OnceLock::new();
        let writer = self.writer(new.api_version(), &empty);
        let live = self.in_version(new.api_version());
        writer.update(live.as_ref(), &mut new, manager);
        self.object = Some(converted(new, "a/v1"));
    }

    fn writer<'w>(&'w self, version: &str, empty: &'w OnceLock<Object>) -> FieldManager<'w> {
        FieldManager {
            definition: of_version(version),
            versions: &*VERSIONS,
            subresource: "",
            filter: self.filter.as_ref(),
            now: Timestamp::UNIX_EPOCH,
            empty,
            awaited: None,
        }
    }

    fn in_version(&self, version: &str) -> Option<Object> {
        let live = self.object.clone();
        live.map(|live| converted(live, version))
    }

    fn spec(&self) -> Value {
        self.object.as_ref().unwrap().0["spec"].clone()
    }

    fn managed_fields(&self) -> String {
        let live = self.object.as_ref().unwrap();
        live.managed_fields().unwrap().to_string()
    }

    /// Replaces text in the managedFields.
    fn rewrite(&mut self, from: &str, to: &str) {
        let text = self.managed_fields();
        assert!(text.contains(from), "{text}");
        let live = self.object.as_mut().unwrap();
        live.set_managed_fields(Some(text.replace(from, to).into()));
    }

    fn entries(&self) -> Vec<Value> {
        serde_json::from_str(&self.managed_fields()).unwrap()
    }

    fn managers(&self) -> Vec<String> {
        let names = self.entries().into_iter();
        let names = names.map(|entry| entry["manager"].as_str().unwrap().to_owned());
        names.collect()
    }

    fn owned(&self, manager: &str) -> String {
        let mut entries = self.entries().into_iter();
        let owned = entries.find(|entry| entry["manager"] == manager);
        owned.map_or_else(String::new, |owned| owned["fieldsV1"].to_string())
    }
}

fn converted(mut object: Object, version: &str) -> Object {
    let (from, to) = (of_version(object.api_version()), of_version(version));
    convert(&mut object, from, to);
    object
}

fn conflicts(result: Result<(), Box<Status>>) -> Vec<String> {
    let refusal = result.unwrap_err();
    let causes = refusal.details.unwrap().causes.into_iter();
    let conflict = |manager: &str, path: &str| format!("{manager} {path}");
    let causes = causes.map(|cause| {
        let manager = cause.message.split('"').nth(1).unwrap();
        conflict(manager, &cause.field)
    });
    causes.collect()
}

/// API-172: the applier owns the applied fields; other values of fields that others own are
/// conflicts.
#[test]
fn values_of_others_conflict() {
    let mut live = Live::default();
    let first = json!({"count": 1, "image": "a", "items": [{"name": "x", "value": "1"}]});
    live.apply("one", "a/v1", first.clone()).unwrap();
    let set = concat!(
        r#"{"f:spec":{"f:count":{},"f:image":{},"#,
        r#""f:items":{"k:{\"name\":\"x\"}":{".":{},"f:name":{},"f:value":{}}}}}"#,
    );
    assert_eq!((live.spec(), live.owned("one")), (first, set.into()));
    // Appliers of equal values share ownership.
    live.apply("two", "a/v1", json!({"count": 1})).unwrap();
    let other = json!({"count": 2, "image": "b", "items": [{"name": "x", "value": "2"}]});
    let found = conflicts(live.apply("three", "a/v1", other.clone()));
    assert_eq!(
        found,
        [
            "one .spec.count",
            "one .spec.image",
            "one .spec.items[name=\"x\"].value",
            "two .spec.count",
        ]
    );
    live.force("three", "a/v1", other.clone());
    assert_eq!(live.spec(), other);
    let left = r#"{"f:spec":{"f:items":{"k:{\"name\":\"x\"}":{".":{},"f:name":{}}}}}"#;
    assert_eq!(
        (live.owned("one").as_str(), live.owned("two").as_str()),
        (left, "")
    );
}

/// API-173: fields that an applier omits are removed, unless others own them.
#[test]
fn omitted_fields_are_removed() {
    let mut live = Live::default();
    let first = json!({
        "count": 1, "image": "a", "set": ["p", "q"], "labels": {"a": "1"},
        "items": [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}],
        "part": {"a": "b"},
    });
    live.apply("one", "a/v1", first).unwrap();
    live.apply(
        "two",
        "a/v1",
        json!({"image": "a", "items": [{"name": "y"}]}),
    )
    .unwrap();
    let mut changed = live.spec();
    changed["items"][0]["note"] = "by others".into();
    live.update("controller", "a/v1", changed);
    live.apply("one", "a/v1", json!({"set": ["q"]})).unwrap();
    let left = json!({
        "image": "a", "set": ["q"], "items": [{"name": "y"}],
    });
    assert_eq!(live.spec(), left);
    assert_eq!(live.owned("one"), r#"{"f:spec":{"f:set":{"v:\"q\"":{}}}}"#);
    // A change by a manager that does not apply stays.
    live.update(
        "controller",
        "a/v1",
        json!({"image": "a", "set": ["q", "r"]}),
    );
    live.apply("one", "a/v1", json!({})).unwrap();
    assert_eq!(live.spec(), json!({"image": "a", "set": ["r"]}));
    assert_eq!(
        live.owned("controller"),
        r#"{"f:spec":{"f:set":{"v:\"r\"":{}}}}"#
    );
    assert_eq!(live.owned("one"), r#"{"f:spec":{}}"#);
}

/// API-173: an item is removed with the fields that others own below it; empty parents are removed.
#[test]
fn emptied_parents_are_removed() {
    let mut live = Live::default();
    let item = json!({"items": [{"name": "x"}], "labels": {"a": "1"}, "set": ["p"], "count": 1});
    live.apply("one", "a/v1", item.clone()).unwrap();
    live.apply("one", "a/v1", json!({"count": 1})).unwrap();
    assert_eq!(live.spec(), json!({"count": 1}));
    live.apply("one", "a/v1", item.clone()).unwrap();
    let mut changed = item;
    changed["items"][0]["value"] = "v".into();
    live.update("controller", "a/v1", changed);
    live.apply("two", "a/v1", json!({"labels": {}})).unwrap();
    live.apply("one", "a/v1", json!({"count": 1})).unwrap();
    // Go does not print an empty map, even if a manager owns it.
    assert_eq!(live.spec(), json!({"count": 1}));
    assert_eq!(live.owned("two"), r#"{"f:spec":{"f:labels":{}}}"#);
    assert_eq!(live.owned("controller"), "");
}

/// API-172: applying the same again changes nothing.
#[test]
fn applying_again_changes_nothing() {
    let mut live = Live::default();
    let config = json!({"count": 1, "items": [{"name": "x"}]});
    live.apply("one", "a/v1", config.clone()).unwrap();
    let first = live.object.clone();
    live.apply("one", "a/v1", config).unwrap();
    assert_eq!(live.object, first);
}

/// API-185: an updater owns the fields that it changes, and removed fields have no owner.
#[test]
fn updaters_own_the_changed_fields() {
    let mut live = Live::default();
    live.apply(
        "one",
        "a/v1",
        json!({"count": 1, "image": "a", "set": ["p"]}),
    )
    .unwrap();
    live.update(
        "two",
        "a/v1",
        json!({"count": 2, "image": "a", "labels": {"a": "1"}}),
    );
    assert_eq!(live.owned("one"), r#"{"f:spec":{"f:image":{}}}"#);
    let owned = r#"{"f:spec":{"f:count":{},"f:labels":{".":{},"f:a":{}}}}"#;
    assert_eq!(live.owned("two"), owned);
    let managers = live.managed_fields();
    live.update(
        "three",
        "a/v1",
        json!({"count": 2, "image": "a", "labels": {"a": "1"}}),
    );
    assert_eq!(live.managed_fields(), managers);
    live.update("two", "a/v1", json!({"image": "a"}));
    assert_eq!((live.owned("two").as_str(), live.managers().len()), ("", 1));
}

/// API-173: field sets of other versions are compared in those versions.
#[test]
fn managers_may_use_several_versions() {
    let mut live = Live::default();
    live.apply("one", "a/v2", json!({"picture": "a", "count": 1}))
        .unwrap();
    assert_eq!(live.spec(), json!({"image": "a", "count": 1}));
    live.apply("two", "a/v1", json!({"image": "a"})).unwrap();
    let found = conflicts(live.apply("two", "a/v1", json!({"image": "b"})));
    assert_eq!(found, ["one .spec.picture"]);
    live.update("three", "a/v1", json!({"image": "c", "count": 1}));
    assert_eq!(live.owned("one"), r#"{"f:spec":{"f:count":{}}}"#);
    // A manager changes its version: fields that it applied before are known.
    live.apply("one", "a/v1", json!({"labels": {"a": "1"}}))
        .unwrap();
    assert_eq!(live.spec(), json!({"image": "c", "labels": {"a": "1"}}));
    let mut entries = live.entries().into_iter();
    let own = entries.find(|entry| entry["manager"] == "one").unwrap();
    assert_eq!(own["apiVersion"], "a/v1");
    // Fields that others apply in another version stay.
    live.force("two", "a/v2", json!({"picture": "d", "count": 5}));
    live.apply("one", "a/v1", json!({"image": "d", "count": 5}))
        .unwrap();
    live.apply("one", "a/v1", json!({"count": 5})).unwrap();
    assert_eq!(live.spec(), json!({"image": "d", "count": 5}));
}

/// API-173: managers of a version that no longer exists own nothing.
#[test]
fn a_version_that_is_gone_owns_nothing() {
    let mut live = Live::default();
    live.apply("one", "a/v1", json!({"count": 1})).unwrap();
    live.apply("two", "a/v1", json!({"image": "a"})).unwrap();
    live.rewrite("a/v1", "a/v0");
    live.apply("one", "a/v1", json!({"image": "b"})).unwrap();
    assert_eq!(live.spec(), json!({"count": 1, "image": "b"}));
    assert_eq!(live.managers(), ["one"]);
}

/// API-179: fields that do not count are neither owned nor in conflict.
#[test]
fn fields_that_do_not_count_are_ignored() {
    let excluded = FieldSet::of([&[PathElement::field("status")][..]]);
    let mut live = Live::default();
    let both = |status: i32| {
        let members = json!({"spec": {"count": 1}, "status": {"count": status}});
        object("a/v1", members)
    };
    live.update_object("status", both(1));
    live.filter = Some(Filter::Exclude(excluded));
    live.apply_object("one", &both(7), false).unwrap();
    assert_eq!(live.owned("one"), r#"{"f:spec":{"f:count":{}}}"#);
    let status = r#"{"f:spec":{"f:count":{}},"f:status":{"f:count":{}}}"#;
    assert_eq!(live.owned("status"), status);
}

/// The owner of a part of a value that became atomic owns the whole value.
#[test]
fn sets_follow_the_types_of_today() {
    let mut live = Live::default();
    live.apply("one", "a/v1", json!({"part": {"a": "x"}}))
        .unwrap();
    live.rewrite(r#""f:part":{}"#, r#""f:part":{".":{},"f:a":{}}"#);
    let found = conflicts(live.apply("two", "a/v1", json!({"part": {"b": "y"}})));
    assert_eq!(found, ["one .spec.part"]);
    live.apply("one", "a/v1", json!({"part": {"b": "y"}}))
        .unwrap();
    assert_eq!(live.spec(), json!({"part": {"b": "y"}}));
    assert_eq!(live.owned("one"), r#"{"f:spec":{"f:part":{}}}"#);
}
