//! Values without some of their fields.

use serde_json::{Map, Value};

use super::ValueType;
use super::elements::element;
use super::kind::{Form, Items, Kind};
use crate::field_set::{FieldSet, PathElement};

fn remove(of: ValueType<'_>, value: &Value, items: &FieldSet) -> Value {
    match (of.kind.form(Some(value)), value) {
        (Form::Scalar, scalar) => scalar.clone(),
        (Form::Map { is_atomic: false }, Value::Object(members)) => {
            let left = remove_members(of, members, items);
            or_null(left.is_empty(), Value::Object(left))
        }
        (
            Form::List {
                of: item,
                items: by,
            },
            Value::Array(values),
        ) if !matches!(by, Items::Atomic) => {
            let kind = item.map_or(Kind::Deduced, |item| Kind::of_type(of.schema, item));
            let mut left = Vec::with_capacity(values.len());
            for value in values {
                let step = element(of.schema, item, by, value).ok();
                match step.and_then(|step| items.node(&step)) {
                    Some(node) if node.is_member => {}
                    Some(node) => left.push(remove(of.at(kind), value, &node.below)),
                    None => left.push(value.clone()),
                }
            }
            or_null(left.is_empty(), Value::Array(left))
        }
        // Of an atomic part nothing can be left.
        (Form::Map { .. } | Form::List { .. }, _) => Value::Null,
    }
}

pub(super) fn remove_members(
    of: ValueType<'_>,
    members: &Map<String, Value>,
    items: &FieldSet,
) -> Map<String, Value> {
    let mut left = Map::new();
    for (name, value) in members {
        let step = PathElement::field(name);
        let value = match items.node(&step) {
            Some(node) if node.is_member => continue,
            Some(node) => {
                let member = of.member(name).unwrap_or(of.at(Kind::Deduced));
                remove(member, value, &node.below)
            }
            None => value.clone(),
        };
        left.insert(name.clone(), value);
    }
    left
}

fn or_null(is_empty: bool, value: Value) -> Value {
    match is_empty {
        true => Value::Null,
        false => value,
    }
}
