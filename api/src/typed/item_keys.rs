//! A check that all items of an object's granular lists have keys.

use serde_json::{Map, Value};

use super::ValueType;
use super::elements::element;
use super::forms::Items;
use super::kind::{Form, Item, Kind};

/// Returns whether all items have keys. Visits only lists whose type allows an item without its
/// keys.
pub(super) fn has_all(of: ValueType<'_>, members: &Map<String, Value>) -> bool {
    let parent = match of.kind {
        Kind::Struct { of: parent, .. } => parent,
        Kind::Other(other) => {
            return !other.types.has_keys(other.id) || has_all_members(of, members);
        }
        _ => return true,
    };
    parent.to_keyless().all(|field| {
        let value = members.get(&field.name);
        let of = of.at(Kind::of_field(of.schema, field));
        value.is_none_or(|value| has_all_below(of, value))
    })
}

/// As [`has_all`], for a type that does not list the members that lead to lists.
fn has_all_members(of: ValueType<'_>, members: &Map<String, Value>) -> bool {
    members.iter().all(|(name, value)| {
        let of = of.member(name);
        of.is_none_or(|of| has_all_below(of, value))
    })
}

fn has_all_below(of: ValueType<'_>, value: &Value) -> bool {
    match (of.kind, value) {
        (Kind::Other(_), Value::Object(members)) => has_all(of, members),
        (Kind::Other(other), Value::Array(values)) if other.types.has_keys(other.id) => {
            let Form::List { of: item, items } = of.kind.form(Some(value)) else {
                return true;
            };
            let kind = of.at(item.kind(of.schema));
            let is_keyed = matches!(items, Items::Map(_));
            values.iter().all(|value| {
                let has_keys = !is_keyed || element(of.schema, item, items, value).is_ok();
                has_keys && has_all_below(kind, value)
            })
        }
        (Kind::Struct { .. }, Value::Object(members)) => has_all(of, members),
        (Kind::Map { of: item, .. }, Value::Object(members)) => {
            let item = of.at(Kind::of_type(of.schema, item));
            members.values().all(|value| has_all_below(item, value))
        }
        (Kind::List { of: item, items }, Value::Array(values)) => {
            let kind = of.at(Kind::of_type(of.schema, item));
            values.iter().all(|value| {
                let has_keys = !matches!(items, Items::Map(_))
                    || element(of.schema, Item::Type(item), items, value).is_ok();
                has_keys && has_all_below(kind, value)
            })
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Object;
    use crate::schema::Schema;

    /// API-190: an item without keys in a granular list drops the field owners of the whole object.
    #[test]
    fn items_without_keys_are_found() {
        const TEXT: &str = "package a.v1\n\ntype Thing kind\n  1 refs []Ref list=map(name)\n\
            \x20 2 below map[string]Below\n  3 named []Named list=map(name)\n  4 loose []Ref\n\n\
            type Below\n  1 refs []Ref list=map(name)\n\n\
            type Ref\n  1 name string\n  2 note string\n\n\
            type Named\n  1 name string always\n";
        let schema = Schema::read(&[TEXT]).unwrap();
        let of = ValueType::of(&schema, schema.find("a.v1.Thing").unwrap());
        for (body, has_keys) in [
            (
                json!({"refs": [{"name": "a"}], "named": [{}], "loose": [{}]}),
                true,
            ),
            (json!({"refs": [{"name": "a"}, {"note": "b"}]}), false),
            (json!({"below": {"x": {"refs": [{}]}}}), false),
            (json!({"below": {"x": {"refs": [{"name": "a"}]}}}), true),
        ] {
            let Value::Object(members) = body.clone() else {
                panic!("an object");
            };
            assert_eq!(of.has_keys(&Object::of(members)), has_keys, "{body}");
        }
    }
}
