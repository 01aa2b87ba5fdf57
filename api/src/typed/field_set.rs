//! The field sets of values.

use serde_json::{Map, Value};

use super::ValueType;
use super::elements::element;
use super::forms::Items;
use super::kind::{Form, Item, Kind};
use crate::field_set::{FieldSet, Node, PathElement};

pub(super) fn of_members(of: ValueType<'_>, members: &Map<String, Value>) -> FieldSet {
    let mut set = FieldSet::default();
    for (name, value) in members {
        let element = PathElement::field(name);
        let member = of.member(name).unwrap_or(of.at(Kind::Deduced));
        let (is_leaf, below) = below(member, value);
        let is_member = is_leaf || is_bare(value) || !of.names(&element);
        set.push(Node {
            element,
            is_member,
            below,
        });
    }
    set
}

/// Returns whether a value is a leaf, and the fields below it.
fn below(of: ValueType<'_>, value: &Value) -> (bool, FieldSet) {
    match (of.kind.form(Some(value)), value) {
        (Form::Scalar, _)
        | (Form::Map { is_atomic: true }, _)
        | (
            Form::List {
                items: Items::Atomic,
                ..
            },
            _,
        ) => (true, FieldSet::default()),
        (Form::Map { .. }, Value::Object(members)) => (false, of_members(of, members)),
        (Form::List { of: item, items }, Value::Array(values)) => {
            (false, of_items(of, item, items, values))
        }
        (Form::Map { .. } | Form::List { .. }, _) => (false, FieldSet::default()),
    }
}

fn is_bare(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Items with the same key are one field with nothing below it.
fn of_items(of: ValueType<'_>, item: Item<'_>, items: Items<'_>, values: &[Value]) -> FieldSet {
    let kind = item.kind(of.schema);
    let found = values.iter().filter_map(|value| {
        let element = element(of.schema, item, items, value).ok()?;
        Some((element, value))
    });
    let mut found: Vec<(PathElement, &Value)> = found.collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut set = FieldSet::default();
    for same in found.chunk_by(|(one, _), (other, _)| one == other) {
        let Some((element, value)) = same.first() else {
            continue;
        };
        set.push(Node {
            element: element.clone(),
            is_member: true,
            below: match same.len() {
                1 => below(of.at(kind), value).1,
                _ => FieldSet::default(),
            },
        });
    }
    set
}

pub(super) fn with_named_fields(of: ValueType<'_>, set: &FieldSet) -> FieldSet {
    let mut with = FieldSet::default();
    for node in set.nodes() {
        let child = match (&node.element, of.kind) {
            (PathElement::Field(name), _) => of.member(name),
            (PathElement::Key(_), Kind::List { of: item, .. }) => {
                Some(of.at(Kind::of_type(of.schema, item)))
            }
            (PathElement::Key(_), Kind::Other(list)) => Some(of.at(list.items(of.schema))),
            _ => None,
        };
        with.push(Node {
            element: node.element.clone(),
            is_member: node.is_member || of.names(&node.element),
            below: match child {
                Some(child) if !node.below.is_empty() => with_named_fields(child, &node.below),
                _ => node.below.clone(),
            },
        });
    }
    with
}
