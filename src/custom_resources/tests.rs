//! Decisions about definitions.

use std::sync::Arc;

use actors::engine::{Key, Revision};
use actors::object::CachedObject;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::definition::Definition;
use super::entry::{Entry, Step};
use super::life::{Closing, Leftovers};
use super::made::Made;
use super::names::Taken;
use super::status::StatusChange;
use crate::api::object::Object;
use crate::api::resource::{Deprecation, Phase};
use crate::kinds::definitions::apiextensions::customresourcedefinitions;
use crate::storage::codec::Codec;

fn object(plural: &str, spec: &Value, status: &Value) -> Object {
    let mut whole = json!({
        "metadata": {"name": format!("{plural}.example.com"), "uid": plural, "generation": 1},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural,
            "singular": plural.trim_end_matches('s'), "kind": "Lamp", "listKind": "LampList"},
            "conversion": {"strategy": "None"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema":
                {"openAPIV3Schema": {"type": "object"}}}]},
        "status": status,
    });
    let members = spec.as_object().unwrap().clone();
    whole["spec"].as_object_mut().unwrap().extend(members);
    Object::of(whole.as_object().unwrap().clone())
}

fn cached(object: &Object, revision: u64) -> Arc<CachedObject> {
    let codec = Codec::new(customresourcedefinitions());
    let key = Key::new("/registry/apiextensions.k8s.io/customresourcedefinitions/x");
    Arc::new(codec.wire(&key, object, Revision(revision)).unwrap())
}

fn definition(object: &Object) -> Definition {
    Definition::read(&cached(object, 1), None).unwrap()
}

fn time() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

/// Carries out all changes of a definition's status, and returns its conditions in words.
fn settled(object: &mut Object, others: &[Definition]) -> Vec<Vec<String>> {
    let mut steps = Vec::new();
    loop {
        let own = definition(object);
        let taken = Taken::of(others.iter().chain([&own]));
        let Some(change) = StatusChange::next(&own, &taken, None) else {
            return steps;
        };
        change.apply(object, time());
        let conditions = object.at(&["status", "conditions"]).unwrap();
        let words = conditions.as_array().unwrap().iter().map(|condition| {
            let text = |name: &str| condition[name].as_str().unwrap();
            format!("{} {} {}", text("type"), text("status"), text("reason"))
        });
        steps.push(words.collect());
        assert!(steps.len() < 5, "{steps:?}");
    }
}

/// CRD-60: the names first, then the definition is established, in two writes.
#[test]
fn a_definition_is_established_in_two_steps_crd_60() {
    let mut lamps = object("lamps", &json!({}), &json!({"storedVersions": ["v1"]}));
    assert_eq!(
        settled(&mut lamps, &[]),
        [
            [
                "NamesAccepted True NoConflicts",
                "Established False Installing"
            ],
            [
                "NamesAccepted True NoConflicts",
                "Established True InitialNamesAccepted"
            ],
        ]
    );
    assert_eq!(
        lamps.at(&["status", "acceptedNames"]),
        Some(
            &json!({"plural": "lamps", "singular": "lamp", "kind": "Lamp",
            "listKind": "LampList"})
        )
    );
    // A second look changes nothing.
    assert_eq!(settled(&mut lamps, &[]), [[""; 0]; 0]);
}

/// CRD-61, CRD-62: free names are accepted; of several clashes the last one is reported; short
/// names are accepted all or none.
#[test]
fn names_that_others_have_are_not_accepted_crd_62() {
    let mut first = object("lamps", &json!({}), &json!({}));
    settled(&mut first, &[]);
    let first = definition(&first);
    let names = json!({"names": {"plural": "lights", "singular": "lamp", "kind": "Light",
        "listKind": "LightList", "shortNames": ["li", "lamps"], "categories": ["all"]}});
    let mut second = object("lights", &names, &json!({}));
    assert_eq!(
        settled(&mut second, &[first]),
        [[
            "NamesAccepted False ShortNamesConflict",
            "Established False NotAccepted"
        ]]
    );
    assert_eq!(
        second.at(&["status", "acceptedNames"]),
        Some(
            &json!({"plural": "lights", "kind": "Light", "listKind": "LightList",
            "categories": ["all"]})
        )
    );
    // The first one goes (CRD-63).
    assert_eq!(settled(&mut second, &[]).len(), 2);
    // Later clashes take nothing away (CRD-60).
    let mut third = object("bulbs", &json!({}), &json!({}));
    settled(&mut third, &[]);
    let renamed = json!({"names": {"plural": "lights", "singular": "light", "kind": "Lamp",
        "listKind": "LightList"}});
    let mut changed = object("lights", &renamed, &second.0["status"]);
    let steps = settled(&mut changed, &[definition(&third)]);
    assert_eq!(
        steps,
        [[
            "NamesAccepted False KindConflict",
            "Established True InitialNamesAccepted"
        ]]
    );
}

fn made(object: &Object) -> Made {
    Made::of(
        &definition(object),
        cached(object, 1),
        &Closing::default(),
        false,
    )
    .unwrap()
}

fn established(spec: &Value) -> Object {
    let mut lamps = object("lamps", spec, &json!({"storedVersions": ["v1"]}));
    settled(&mut lamps, &[]);
    lamps
}

fn versions(list: &[(&str, bool, &str)]) -> Value {
    let versions = list.iter().map(|(name, is_storage, kind)| {
        json!({"name": name, "served": true, "storage": is_storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "a": {"type": kind}}}}})
    });
    json!({"versions": versions.collect::<Vec<_>>()})
}

/// CRD-90, CRD-91: what is cached changes only with the schemas of versions that may be stored.
#[test]
fn caches_hold_the_same_as_long_as_stored_versions_are_the_same_crd_91() {
    let one = made(&established(&versions(&[("v1", true, "string")])));
    let added = [("v1", true, "string"), ("v2", false, "integer")];
    let two = made(&established(&versions(&added)));
    assert_eq!(one.form, two.form);
    assert_eq!((one.served.len(), two.served.len()), (1, 2));
    assert!(two.served[1].has_own_form() && two.served[0].is_type_only());
    let same = [("v1", true, "string"), ("v2", false, "string")];
    assert!(made(&established(&versions(&same))).served[1].is_type_only());
    let changed = made(&established(&versions(&[("v1", true, "integer")])));
    assert_ne!(one.form, changed.form);
    let mut old = versions(&added);
    old["versions"][0]["deprecated"] = json!(true);
    let old = made(&established(&old));
    let text = "example.com/v1 Lamp is deprecated; use example.com/v2 Lamp".to_owned();
    assert_eq!(
        old.served[0].deprecation,
        Some(Deprecation::ByDefinition(text))
    );
}

/// Gives an entry the state of a definition at a revision.
fn take(entry: &mut Entry, object: &Object, revision: u64, is_new: bool) {
    let cached = cached(object, revision);
    let read = Definition::read(&cached, entry.definition()).unwrap();
    entry.take(read, &cached, is_new);
}

/// CRD-81, CRD-84, CRD-91: the steps of serving.
#[test]
fn a_resource_is_served_from_its_names_to_its_end_crd_81() {
    let mut entry = Entry::default();
    let mut lamps = object("lamps", &json!({}), &json!({"storedVersions": ["v1"]}));
    let next = |entry: &mut Entry, object: &Object| {
        take(entry, object, 1, false);
        match entry.step(false) {
            Step::None => None,
            Step::Withdraw => panic!("it is served"),
            Step::Serve { made, ends_watches } => {
                entry.served = Some(*made);
                Some((
                    entry.served.as_ref().unwrap().phase().unwrap(),
                    ends_watches,
                ))
            }
        }
    };
    assert_eq!(next(&mut entry, &lamps), None);
    let own = definition(&lamps);
    let accepted = StatusChange::next(&own, &Taken::of([&own]), None).unwrap();
    accepted.apply(&mut lamps, time());
    assert_eq!(next(&mut entry, &lamps), Some((Phase::Announced, true)));
    settled(&mut lamps, &[]);
    assert_eq!(next(&mut entry, &lamps), None);
    // A label is nothing to serving.
    lamps
        .metadata_mut()
        .insert("labels".to_owned(), json!({"a": "b"}));
    assert_eq!(next(&mut entry, &lamps), None);
    assert!(!entry.needs_cleanup());
    crate::kinds::strategies::apiextensions::mark_definition(&mut lamps, time());
    assert_eq!(next(&mut entry, &lamps), Some((Phase::Terminating, false)));
    assert!(entry.needs_cleanup());
    entry.current = None;
    assert!(matches!(entry.step(false), Step::Withdraw));
}

/// CRD-72: what a daemon stores before it sees that a definition is gone belongs to nobody, and
/// what is newer than the next definition belongs to that one.
#[test]
fn objects_of_a_definition_that_is_gone_are_left_crd_72() {
    let mut entry = Entry::default();
    let mut lamps = established(&json!({}));
    take(&mut entry, &lamps, 1, true);
    let Step::Serve { made, .. } = entry.step(false) else {
        panic!("it is served");
    };
    let is_open = |made: &Made| made.served[0].behaviour.accepts_objects();
    assert!(is_open(&made));
    entry.served = Some(*made.clone());
    assert_eq!(entry.sweep(), None);
    crate::kinds::strategies::apiextensions::mark_definition(&mut lamps, time());
    take(&mut entry, &lamps, 5, false);
    // Requests that have begun before see it, too.
    assert!(!is_open(&made));
    take(&mut entry, &lamps, 6, false);
    entry.forget();
    let left = entry.sweep().unwrap();
    assert_eq!(
        left,
        Leftovers {
            since: 5,
            until: None
        }
    );
    assert!(!left.includes(5) && left.includes(6));
    // Only one looks for them at a time.
    assert_eq!(entry.sweep(), None);
    entry.is_sweeping = false;
    let mut next = established(&json!({}));
    next.metadata_mut().insert("uid".to_owned(), json!("next"));
    take(&mut entry, &next, 9, true);
    let left = entry.sweep().unwrap();
    assert_eq!(
        left,
        Leftovers {
            since: 5,
            until: Some(9)
        }
    );
    assert!(left.includes(8) && !left.includes(9));
    // A definition whose finalizer somebody removes keeps its objects.
    let mut other = Entry::default();
    take(&mut other, &next, 9, true);
    other.served = Some(*made);
    other.forget();
    assert_eq!(other.sweep(), None);
}
