//! Objects that several managers apply and update in random order, and arbitrary FieldsV1. The
//! checks hold for all objects (API-172, API-173, API-182, API-185).

use std::sync::OnceLock;

use api::decode::{BodyFormat, decode_object};
use api::field_set::{FieldPath, FieldSet};
use api::managed_fields::{Application, ApplyError, FieldManager};
use api::object::Object;
use api::resource::ResourceDefinition;
use api::typed::ValueType;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::bodies::finished;
use super::typed::{Choices, body};

/// Decodes a random body. Returns `None` if it is refused.
fn object(row: &ResourceDefinition, choices: &mut Choices<'_>) -> Option<Object> {
    let (schema, id) = row.object_type().found().expect("a known type");
    let text = Value::Object(body(schema, id, choices, 12)).to_string();
    let decoded = decode_object(text.as_bytes(), BodyFormat::Json, row).ok()?;
    Some(finished(&decoded.object, row))
}

/// Runs the check. The first byte selects the kind, the others the objects and their managers.
pub fn by_bytes(data: &[u8]) {
    if let Some((kind, choices)) = data.split_first() {
        check(super::row(*kind), choices);
    }
}

/// Checks two texts that may be FieldsV1, separated by a zero byte: unions, differences and
/// intersections are those of sets.
pub fn field_sets(data: &[u8]) {
    let Some((one, other)) = super::halves(data) else {
        return;
    };
    let read = |text| {
        let text = std::str::from_utf8(text).ok()?;
        FieldSet::from_fields_v1(text).ok()
    };
    let (Some(one), Some(other)) = (read(one), read(other)) else {
        return;
    };
    let all = one.union(&other);
    let both = one.intersection(&other);
    let (left, right) = (one.difference(&other), other.difference(&one));
    assert_eq!(all, other.union(&one));
    assert_eq!(both, other.intersection(&one));
    assert!(one.is_subset(&all) && other.is_subset(&all));
    assert!(both.is_subset(&one) && both.is_subset(&other));
    assert!(left.is_subset(&one) && left.intersection(&other).is_empty());
    assert_eq!(left.union(&both), one);
    assert_eq!(left.union(&right).union(&both), all);
    assert!(one.difference(&one).is_empty());
    assert!(one.leaves().is_subset(&one));
}

/// Checks two random objects of a kind.
pub fn check(row: &ResourceDefinition, bytes: &[u8]) {
    let mut choices = Choices::of_bytes(bytes);
    let Some(one) = object(row, &mut choices) else {
        return;
    };
    let Some(other) = object(row, &mut choices) else {
        return;
    };
    let of = ValueType::of_objects(row.object_type());
    // As in Kubernetes, an empty key that is not printed counts as absent.
    if [&one, &other]
        .iter()
        .any(|object| of.validate(object, true).is_err())
    {
        return;
    }
    check_types(of, &one, &other);
    check_creator(row, of, &one, &other);
    // Null removes nothing, but an emptied value may become null the next time.
    let [one, other] = [one, other].map(|object| Object::of(without_nulls(object.0)));
    check_managers(row, [&one, &other], &mut choices);
}

fn without_nulls(members: Map<String, Value>) -> Map<String, Value> {
    let kept = members.into_iter().filter(|(_, value)| !value.is_null());
    let kept = kept.map(|(name, value)| match value {
        Value::Object(members) => (name, without_nulls(members).into()),
        other => (name, other),
    });
    kept.collect()
}

pub fn check_types(of: ValueType<'_>, one: &Object, other: &Object) {
    let set = of.field_set(one);
    let read = FieldSet::from_fields_v1(&set.to_fields_v1()).unwrap();
    assert_eq!(&read, &set);
    assert!(of.compare(one, one).is_same());
    assert_eq!(of.reconciled(&set), None);
    // A comparison is symmetric.
    let there = of.compare(one, other);
    let back = of.compare(other, one);
    assert_eq!(&there.added, &back.removed);
    assert_eq!(&there.removed, &back.added);
    assert_eq!(&there.modified, &back.modified);
    let created = of.compare(&Object::default(), one);
    assert!(created.modified.is_empty() && created.removed.is_empty());
    assert!(set.is_subset(&created.added));
    let named = of.with_named_fields(&set);
    assert_eq!(of.remove_items(one, &named), Object::default());
    let leaves = set.leaves();
    let left = of.field_set(&of.remove_items(one, &leaves));
    assert!(left.intersection(&leaves).is_empty());
    if of.validate(one, false).is_ok() {
        assert_eq!(&of.merge(one, one), one);
        assert_eq!(&of.merge(&Object::default(), one), one);
        // Applying adds and changes fields, and removes none.
        let merged = of.merge(other, one);
        let change = of.compare(other, &merged);
        assert!(of.compare(&merged, &of.merge(&merged, one)).is_same());
        if of.validate(other, false).is_ok() {
            assert!(change.removed.is_empty(), "{:?}", change.removed);
        }
    }
}

/// Checks that the fields of the creator are those of a comparison with the empty object, whatever
/// fields are ignored (API-179, API-183, API-185).
fn check_creator(row: &ResourceDefinition, of: ValueType<'_>, new: &Object, other: &Object) {
    let mut empty = Object::default();
    empty.set_type(&row.kind, &row.api_version());
    row.canonicalize(&mut empty);
    let path = |names: &[&str]| FieldSet::of([&*FieldPath::of(names)]);
    let nothing = FieldSet::default();
    let others = of.field_set(other);
    for (never_owned, excluded) in [
        (&nothing, None),
        (&path(&["metadata", "name"]), Some(&path(&["status"]))),
        (&path(&["spec"]), Some(&path(&["metadata"]))),
        (&others, None),
        (&nothing, Some(&others)),
        (&others, Some(&others.leaves())),
    ] {
        let compared = of.compare(&empty, new);
        let mut owned = compared
            .added
            .union(&compared.modified)
            .difference(never_owned);
        if let Some(excluded) = excluded {
            owned = owned.recursive_difference(excluded);
        }
        let written = of.created_fields_v1(&empty, new, never_owned, excluded);
        assert_eq!(
            written,
            owned.to_fields_v1(),
            "{never_owned:?} {excluded:?}"
        );
    }
}

fn check_managers(row: &ResourceDefinition, objects: [&Object; 2], choices: &mut Choices<'_>) {
    let empty = OnceLock::new();
    let writer = FieldManager {
        definition: row,
        versions: &[],
        subresource: "",
        filter: None,
        now: Timestamp::UNIX_EPOCH,
        empty: &empty,
        awaited: None,
    };
    let of = ValueType::of_objects(row.object_type());
    let mut live: Option<Object> = None;
    for _ in 0..6 {
        let manager = ["a", "b", "c"][choices.of(3)];
        let mut object = match choices.of(3) {
            2 => part_of(objects[choices.of(2)], choices),
            at => objects[at].clone(),
        };
        object.set_type(&row.kind, &row.api_version());
        object.set_managed_fields(None);
        // An atomic part must be complete, as it is when printed.
        row.canonicalize(&mut object);
        object = Object::of(without_nulls(object.0));
        if choices.of(2) == 0 {
            writer.update(live.as_ref(), &mut object, manager);
            live = Some(object);
            continue;
        }
        if of.validate(&object, false).is_err() {
            continue;
        }
        let apply = |live: Option<&Object>, manager, force| {
            let application = Application {
                object: &object,
                manager,
                force,
            };
            writer.apply(live, application, |_| {})
        };
        let force = choices.of(2) == 0;
        let applied = match apply(live.as_ref(), manager, force) {
            Ok(applied) => applied,
            Err(refusal) => {
                let is_conflict = matches!(refusal, ApplyError::Conflicts(_));
                assert!(!force && is_conflict, "{refusal:?}");
                continue;
            }
        };
        // An emptied value may disappear and come back as empty. After that, nothing changes.
        let again = apply(Some(&applied), manager, false);
        let again = again.expect("no conflict with what was applied");
        let same = apply(Some(&again), manager, false);
        assert_eq!(same.expect("no conflict with what was applied"), again);
        // Another manager may apply everything that is shown.
        let mut shown = again.clone();
        shown.set_managed_fields(None);
        if of.validate(&shown, false).is_ok() {
            let application = Application {
                object: &shown,
                manager: "d",
                force: false,
            };
            let same = writer.apply(Some(&again), application, |_| {});
            let mut same = same.expect("no conflict with what is shown");
            same.set_managed_fields(again.managed_fields().cloned());
            assert_eq!(same, again);
        }
        live = Some(again);
    }
}

/// Returns an object with some of the members.
fn part_of(object: &Object, choices: &mut Choices<'_>) -> Object {
    let mut part = object.clone();
    part.0.retain(|_, _| choices.of(4) > 0);
    for value in part.0.values_mut() {
        if let Value::Object(members) = value {
            members.retain(|_, _| choices.of(2) > 0);
        }
    }
    part
}

/// Checks a text that may be FieldsV1.
pub fn fields_v1(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(set) = FieldSet::from_fields_v1(text) else {
        return;
    };
    let written = set.to_fields_v1();
    let read = FieldSet::from_fields_v1(&written).unwrap();
    assert_eq!(read.to_fields_v1(), written);
    for row in super::ROWS.iter() {
        let of = ValueType::of_objects(row.object_type());
        let named = of.with_named_fields(&set);
        assert!(set.is_subset(&named));
        of.reconciled(&set);
    }
}
