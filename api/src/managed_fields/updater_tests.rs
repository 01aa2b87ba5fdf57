//! Examples of each rule, with two versions of a kind of which the second calls a field by another
//! name.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::updater::*;
use crate::field_set::{FieldSet, Filter, PathElement};
use crate::object::Object;
use crate::schema::{META, Schema};
use crate::typed::ValueType;

const V1: &str = "package a.v1 a/v1\n\n\
    type Thing kind\n  1 metadata meta.v1.ObjectMeta\n  2 spec Spec\n  3 status Spec\n\n\
    type Spec\n  1 count *int32\n  2 image string\n  3 items []Item list=map(name)\n\
    \x20 4 labels map[string]string\n  5 set []string list=set\n  6 part *Part\n\n\
    type Item\n  1 name string always\n  2 value string\n  3 note string\n\n\
    type Part map=atomic\n  1 a string\n  2 b string\n";

static SCHEMAS: LazyLock<[Schema; 2]> = LazyLock::new(|| {
    let v2 = V1.replace("a.v1 a/v1", "a.v2 a/v2");
    let v2 = v2.replace("2 image string", "2 picture string");
    [V1, &v2].map(|text| Schema::read(&[META, text]).unwrap())
});

#[derive(Default)]
struct TwoVersions {
    filter: Option<Filter>,
}

impl Versions for TwoVersions {
    fn value_type(&self, api_version: &str) -> Option<ValueType<'_>> {
        let (place, name) = match api_version {
            "a/v1" => (0, "a.v1.Thing"),
            "a/v2" => (1, "a.v2.Thing"),
            _ => return None,
        };
        let schema = &SCHEMAS[place];
        Some(ValueType::of(schema, schema.find(name)?))
    }

    fn convert(&self, object: &Object, api_version: &str) -> Result<Object, NoSuchVersion> {
        let (from, to) = match api_version {
            "a/v1" => ("picture", "image"),
            "a/v2" => ("image", "picture"),
            _ => return Err(NoSuchVersion),
        };
        let mut object = object.clone();
        if let Some(Value::Object(spec)) = object.0.get_mut("spec")
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
        }
        Ok(object)
    }

    fn filter(&self, _: &str) -> Option<&Filter> {
        self.filter.as_ref()
    }
}

fn spec(value: Value) -> Object {
    match json!({ "spec": value }) {
        Value::Object(members) => Object::of(members),
        _ => Object::default(),
    }
}

/// A live object and who owns what of it.
#[derive(Default)]
struct Live {
    versions: TwoVersions,
    object: Object,
    managers: Managers,
}

impl Live {
    fn apply(&mut self, manager: &str, version: &str, value: Value) -> Result<(), UpdateError> {
        self.apply_forced(manager, version, value, false)
    }

    fn apply_forced(
        &mut self,
        manager: &str,
        version: &str,
        value: Value,
        force: bool,
    ) -> Result<(), UpdateError> {
        let updater = Updater {
            versions: &self.versions,
        };
        let live = self.in_version(version);
        let by = (manager, force);
        let applied = updater.apply(&live, &spec(value), version, self.managers.clone(), by)?;
        self.managers = applied.managers;
        if let Some(object) = applied.object {
            self.store(&object, version);
        }
        Ok(())
    }

    fn update(&mut self, manager: &str, version: &str, value: Value) {
        let updater = Updater {
            versions: &self.versions,
        };
        let (live, new) = (self.in_version(version), spec(value));
        let managers = self.managers.clone();
        self.managers = updater
            .update(&live, &new, version, managers, manager)
            .unwrap();
        self.store(&new, version);
    }

    fn in_version(&self, version: &str) -> Object {
        match version {
            "a/v1" => self.object.clone(),
            version => self.versions.convert(&self.object, version).unwrap(),
        }
    }

    fn store(&mut self, object: &Object, version: &str) {
        self.object = match version {
            "a/v1" => object.clone(),
            _ => self.versions.convert(object, "a/v1").unwrap(),
        };
    }

    fn owned(&self, manager: &str) -> String {
        let owned = self.managers.get(manager);
        owned.map_or_else(String::new, |owned| owned.set.to_fields_v1())
    }
}

fn conflicts(result: Result<(), UpdateError>) -> Vec<String> {
    match result {
        Err(UpdateError::Conflicts(conflicts)) => conflicts
            .iter()
            .map(|conflict| format!("{} {}", conflict.manager, conflict.path))
            .collect(),
        other => panic!("no conflict: {other:?}"),
    }
}

/// API-172: what is applied is owned; what others own with another value is a conflict.
#[test]
fn values_of_others_conflict() {
    let mut live = Live::default();
    let first = json!({"count": 1, "image": "a", "items": [{"name": "x", "value": "1"}]});
    live.apply("one", "a/v1", first.clone()).unwrap();
    let set = concat!(
        r#"{"f:spec":{"f:count":{},"f:image":{},"#,
        r#""f:items":{"k:{\"name\":\"x\"}":{".":{},"f:name":{},"f:value":{}}}}}"#,
    );
    assert_eq!(
        (live.object.clone(), live.owned("one")),
        (spec(first), set.into())
    );
    // Equal values are owned by both.
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
    live.apply_forced("three", "a/v1", other.clone(), true)
        .unwrap();
    assert_eq!(live.object, spec(other));
    let left = r#"{"f:spec":{"f:items":{"k:{\"name\":\"x\"}":{".":{},"f:name":{}}}}}"#;
    assert_eq!(
        (live.owned("one").as_str(), live.owned("two").as_str()),
        (left, "")
    );
}

/// API-173: what is left out goes, unless somebody else owns it.
#[test]
fn what_is_left_out_goes() {
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
    let mut changed = live.object.clone();
    changed.0["spec"]["items"][0]["note"] = "by others".into();
    live.update("controller", "a/v1", changed.0["spec"].clone());
    live.apply("one", "a/v1", json!({"set": ["q"]})).unwrap();
    let left = json!({
        "image": "a", "set": ["q"], "items": [{"name": "y"}],
    });
    assert_eq!(live.object, spec(left));
    assert_eq!(live.owned("one"), r#"{"f:spec":{"f:set":{"v:\"q\"":{}}}}"#);
    // What a manager that does not apply has changed stays.
    live.update(
        "controller",
        "a/v1",
        json!({"image": "a", "set": ["q", "r"]}),
    );
    live.apply("one", "a/v1", json!({})).unwrap();
    assert_eq!(live.object, spec(json!({"image": "a", "set": ["r"]})));
    assert_eq!(
        live.owned("controller"),
        r#"{"f:spec":{"f:set":{"v:\"r\"":{}}}}"#
    );
    assert_eq!(live.owned("one"), r#"{"f:spec":{}}"#);
}

/// API-173: what others own below goes with an item; of what nothing is left, nothing stays but
/// what somebody owns.
#[test]
fn what_is_emptied_goes() {
    let mut live = Live::default();
    let item = json!({"items": [{"name": "x"}], "labels": {"a": "1"}, "set": ["p"], "count": 1});
    live.apply("one", "a/v1", item.clone()).unwrap();
    live.apply("one", "a/v1", json!({"count": 1})).unwrap();
    assert_eq!(live.object, spec(json!({"count": 1})));
    live.apply("one", "a/v1", item.clone()).unwrap();
    let mut changed = item;
    changed["items"][0]["value"] = "v".into();
    live.update("controller", "a/v1", changed);
    live.apply("two", "a/v1", json!({"labels": {}})).unwrap();
    live.apply("one", "a/v1", json!({"count": 1})).unwrap();
    assert_eq!(live.object, spec(json!({"count": 1, "labels": {}})));
    assert_eq!(live.owned("controller"), "");
}

/// API-172: applying the same again changes nothing.
#[test]
fn applying_again_changes_nothing() {
    let versions = TwoVersions::default();
    let updater = Updater {
        versions: &versions,
    };
    let config = spec(json!({"count": 1, "items": [{"name": "x"}]}));
    let by = ("one", false);
    let live = Object::default();
    let first = updater
        .apply(&live, &config, "a/v1", Managers::new(), by)
        .unwrap();
    let object = first.object.unwrap();
    let second = updater
        .apply(&object, &config, "a/v1", first.managers.clone(), by)
        .unwrap();
    assert_eq!((second.object, second.managers), (None, first.managers));
}

/// API-185: who updates owns what changed, and nobody owns what is gone.
#[test]
fn updates_take_what_they_change() {
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
    let managers = live.managers.clone();
    live.update(
        "three",
        "a/v1",
        json!({"count": 2, "image": "a", "labels": {"a": "1"}}),
    );
    assert_eq!(live.managers, managers);
    live.update("two", "a/v1", json!({"image": "a"}));
    assert_eq!((live.owned("two").as_str(), live.managers.len()), ("", 1));
}

/// API-173: sets of other versions are compared in their versions.
#[test]
fn managers_may_use_several_versions() {
    let mut live = Live::default();
    live.apply("one", "a/v2", json!({"picture": "a", "count": 1}))
        .unwrap();
    assert_eq!(live.object, spec(json!({"image": "a", "count": 1})));
    live.apply("two", "a/v1", json!({"image": "a"})).unwrap();
    let found = conflicts(live.apply("two", "a/v1", json!({"image": "b"})));
    assert_eq!(found, ["one .spec.picture"]);
    live.update("three", "a/v1", json!({"image": "c", "count": 1}));
    assert_eq!(live.owned("one"), r#"{"f:spec":{"f:count":{}}}"#);
    // A manager goes on in another version: what it applied before is known.
    live.apply("one", "a/v1", json!({"labels": {"a": "1"}}))
        .unwrap();
    assert_eq!(
        live.object,
        spec(json!({"image": "c", "labels": {"a": "1"}}))
    );
    assert_eq!(live.managers["one"].api_version, "a/v1");
    // What others apply in another version stays.
    live.apply_forced("two", "a/v2", json!({"picture": "d", "count": 5}), true)
        .unwrap();
    live.apply("one", "a/v1", json!({"image": "d", "count": 5}))
        .unwrap();
    live.apply("one", "a/v1", json!({"count": 5})).unwrap();
    assert_eq!(live.object, spec(json!({"image": "d", "count": 5})));
}

/// API-173: a version that is gone owns nothing.
#[test]
fn a_version_that_is_gone_owns_nothing() {
    let mut live = Live::default();
    live.apply("one", "a/v1", json!({"count": 1})).unwrap();
    live.apply("two", "a/v1", json!({"image": "a"})).unwrap();
    for owned in live.managers.values_mut() {
        owned.api_version = "a/v0".into();
    }
    live.apply("one", "a/v1", json!({"image": "b"})).unwrap();
    assert_eq!(live.object, spec(json!({"count": 1, "image": "b"})));
    assert_eq!(live.managers.keys().collect::<Vec<_>>(), ["one"]);
    let updater = Updater {
        versions: &live.versions,
    };
    let object = Object::default();
    let failed = updater.update(&object, &object, "a/v0", Managers::new(), "one");
    assert_eq!(failed, Err(UpdateError::NoSuchVersion(NoSuchVersion)));
}

/// API-179: fields that do not count are neither owned nor in conflict.
#[test]
fn fields_that_do_not_count_are_ignored() {
    let excluded = FieldSet::of([&[PathElement::field("status")][..]]);
    let mut live = Live::default();
    let both = |count: i32| {
        let mut object = spec(json!({"count": count}));
        object
            .0
            .insert("status".to_owned(), json!({"count": count}));
        object
    };
    let updater = Updater {
        versions: &live.versions,
    };
    let status = updater.update(
        &Object::default(),
        &both(1),
        "a/v1",
        Managers::new(),
        "status",
    );
    live.managers = status.unwrap();
    live.object = both(1);
    live.versions.filter = Some(Filter::Exclude(excluded));
    let updater = Updater {
        versions: &live.versions,
    };
    let by = ("one", false);
    let object = spec(json!({"count": 1}));
    let mut with_status = object.clone();
    with_status
        .0
        .insert("status".to_owned(), json!({"count": 7}));
    let managers = live.managers.clone();
    let applied = updater
        .apply(&live.object, &with_status, "a/v1", managers, by)
        .unwrap();
    let owned = applied.managers["one"].set.to_fields_v1();
    assert_eq!(owned, r#"{"f:spec":{"f:count":{}}}"#);
    let status = concat!(
        r#"{"f:spec":{".":{},"f:count":{}},"#,
        r#""f:status":{".":{},"f:count":{}}}"#,
    );
    assert_eq!(applied.managers["status"].set.to_fields_v1(), status);
}

/// Parts that became atomic are owned as one field by who owned some of them.
#[test]
fn sets_follow_the_types_of_today() {
    let mut live = Live::default();
    live.apply("one", "a/v1", json!({"part": {"a": "x"}}))
        .unwrap();
    let old = r#"{"f:spec":{"f:part":{".":{},"f:a":{}}}}"#;
    let owned = live.managers.get_mut("one").unwrap();
    owned.set = FieldSet::from_fields_v1(old).unwrap();
    let found = conflicts(live.apply("two", "a/v1", json!({"part": {"b": "y"}})));
    assert_eq!(found, ["one .spec.part"]);
    live.apply("one", "a/v1", json!({"part": {"b": "y"}}))
        .unwrap();
    assert_eq!(live.object, spec(json!({"part": {"b": "y"}})));
    assert_eq!(live.owned("one"), r#"{"f:spec":{"f:part":{}}}"#);
}
