//! Removal of fields from values.

use serde_json::{Map, Value};

use super::ValueType;
use super::elements::element;
use super::forms::Items;
use super::kind::{Form, Kind};
use crate::field_set::{FieldSet, PathElement};

pub(super) fn remove_members(
    of: ValueType<'_>,
    members: &Map<String, Value>,
    gone: &FieldSet,
) -> Map<String, Value> {
    let mut left = Map::new();
    for (name, value) in members {
        let value = match gone.node(&PathElement::field(name)) {
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

/// Returns a value without the fields in `gone`, which are below it. The result may be empty; an
/// atomic part always becomes empty.
fn remove(of: ValueType<'_>, value: &Value, gone: &FieldSet) -> Value {
    match (of.kind.form(Some(value)), value) {
        (Form::Map { is_atomic: false }, Value::Object(members)) => {
            Value::Object(remove_members(of, members, gone))
        }
        (Form::List { of: item, items }, Value::Array(values))
            if !matches!(items, Items::Atomic) =>
        {
            let kind = item.kind(of.schema);
            let mut left = Vec::with_capacity(values.len());
            for value in values {
                let step = element(of.schema, item, items, value).ok();
                match step.and_then(|step| gone.node(&step)) {
                    Some(node) if node.is_member => {}
                    Some(node) => left.push(remove(of.at(kind), value, &node.below)),
                    None => left.push(value.clone()),
                }
            }
            Value::Array(left)
        }
        (Form::Scalar, scalar) => scalar.clone(),
        (_, Value::Object(_)) => Value::Object(Map::new()),
        (_, Value::Array(_)) => Value::Array(Vec::new()),
        _ => Value::Null,
    }
}
