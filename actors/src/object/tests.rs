use proptest::prelude::*;
use smol_str::SmolStr;

use super::*;
use crate::testing::key;

const TYPES: &[u8] = br#"{"kind":"Thing","apiVersion":"v1","#;
const BEFORE: &[u8] = br#""metadata":{"#;
const AFTER: &[u8] = br#""name":"a"},"data":{}}"#;

fn thing(revision: Revision, attributes: &Attributes) -> CachedObject {
    let wire = WireParts {
        types: &Arc::new(TypeMembers(TYPES.into())),
        before: BEFORE,
        revision_member: &revision_member(revision),
        after: AFTER,
    };
    CachedObject::new(&key("ns/a"), revision, wire, attributes).unwrap()
}

#[test]
fn the_parts_of_an_object_are_found_in_its_buffer() {
    let attributes = Attributes {
        namespace: "ns".into(),
        name: "a".into(),
        labels: Box::new([("app".into(), "web".into())]),
        fields: Box::new(["node-1".into()]),
    };
    let object = thing(Revision(7), &attributes);
    assert_eq!(object.key(), key("ns/a").as_bytes());
    let member = br#""resourceVersion":"7","#;
    assert_eq!(object.wire(), [TYPES, BEFORE, member, AFTER].concat());
    assert_eq!(object.item_body(), [BEFORE, member, AFTER].concat());
    assert_eq!(object.around_revision(), (BEFORE, AFTER));
    let stored = [TYPES, BEFORE, AFTER].concat();
    assert_eq!(object.stored_form(), stored);
    assert!(object.is_stored_as(&stored) && !object.is_stored_as(&object.wire()));
    assert_eq!(object.attributes().field(0), "node-1");
    assert_eq!(object.attributes().label("app"), Some("web"));
    // A longer revision moves what follows it.
    let later = object.at(Revision(123_456));
    assert_eq!(later, thing(Revision(123_456), &attributes));
    assert_eq!(later.wire(), object.wire_at(Revision(123_456)));
}

fn texts() -> impl Strategy<Value = SmolStr> {
    prop_oneof!["\\PC{0,30}", "[ab]{250,260}"].prop_map(SmolStr::from)
}

proptest! {
    /// Each text is read where it was put, and nothing beyond it, for any texts.
    #[test]
    fn attributes_are_read_as_they_were_given(
        namespace in prop_oneof![texts(), Just("ns".into()), Just(SmolStr::default())],
        name in prop_oneof![texts(), Just("a".into())],
        labels in proptest::collection::btree_map(texts(), texts(), 0..5),
        fields in proptest::collection::vec(texts(), 0..5),
        unknown in texts(),
    ) {
        let attributes = Attributes {
            namespace: namespace.clone(),
            name: name.clone(),
            labels: labels.clone().into_iter().collect(),
            fields: fields.clone().into(),
        };
        let object = thing(Revision(1), &attributes);
        let found = object.attributes();
        prop_assert_eq!(found.namespace(), namespace);
        prop_assert_eq!(found.name(), name);
        prop_assert_eq!(found.fields().collect::<Vec<_>>(), fields.clone());
        for (place, value) in fields.iter().enumerate() {
            prop_assert_eq!(found.field(place), value);
        }
        prop_assert_eq!(found.field(fields.len()), "");
        for (key, value) in &labels {
            prop_assert_eq!(found.label(key), Some(value.as_str()));
        }
        prop_assert_eq!(found.label(&unknown), labels.get(&unknown).map(SmolStr::as_str));
        // In one pass, with a key that there may not be, and each twice.
        let asked = labels.keys().chain([&unknown]).flat_map(|key| [key, key]);
        let mut asked: Vec<&SmolStr> = asked.collect();
        asked.sort_unstable();
        let mut pass = found.labels();
        for key in asked {
            prop_assert_eq!(pass.value(key), labels.get(key).map(SmolStr::as_str));
        }
    }
}
