//! The fields that the creator of an object owns, as text. They are the result of [`compare`] with
//! the empty object, but are written without building a set, because new objects are large and have
//! one owner.

use serde_json::{Map, Value};

use super::ValueType;
use super::compare::{self, Comparison};
use super::forms::Items;
use super::kind::{Form, Item, Kind};
use crate::field_set::{FieldSet, PathElement, equal, write_name, write_set};

type Members = Map<String, Value>;

/// Fields to leave out, below one path.
#[derive(Clone, Copy, Default)]
struct LeftOut<'s> {
    /// Fields to leave out without the fields below them.
    never_owned: Option<&'s FieldSet>,
    /// Fields to leave out with all fields below them.
    excluded: Option<&'s FieldSet>,
}

impl<'s> LeftOut<'s> {
    /// Returns whether the child itself is left out, and the fields to leave out below it. Returns
    /// `None` if the child and everything below it are left out.
    fn at(self, element: &PathElement) -> Option<(bool, LeftOut<'s>)> {
        let never_owned = self.never_owned.and_then(|set| set.node(element));
        let excluded = self.excluded.and_then(|set| set.node(element));
        if excluded.is_some_and(|node| node.is_member) {
            return None;
        }
        let below = LeftOut {
            never_owned: never_owned.map(|node| &node.below),
            excluded: excluded.map(|node| &node.below),
        };
        Some((never_owned.is_some_and(|node| node.is_member), below))
    }

    fn is_nothing(self) -> bool {
        let is_empty = |set: Option<&FieldSet>| set.is_none_or(FieldSet::is_empty);
        is_empty(self.never_owned) && is_empty(self.excluded)
    }

    /// Returns a set without the fields to leave out.
    fn rest_of(self, mut set: FieldSet) -> FieldSet {
        if let Some(never_owned) = self.never_owned {
            set = set.difference(never_owned);
        }
        match self.excluded {
            Some(excluded) => set.recursive_difference(excluded),
            None => set,
        }
    }
}

pub(super) fn fields_v1(
    of: ValueType<'_>,
    empty: &Members,
    new: &Members,
    never_owned: &FieldSet,
    excluded: Option<&FieldSet>,
) -> String {
    let mut text = String::with_capacity(2048);
    let left_out = LeftOut {
        never_owned: Some(never_owned),
        excluded,
    };
    text.push('{');
    write_members(of, Some(empty), new, left_out, &mut text);
    close(&mut text);
    text
}

/// Closes a brace. Each child before it ends with a comma.
fn close(text: &mut String) {
    if text.ends_with(',') {
        text.pop();
    }
    text.push('}');
}

fn write_members(
    of: ValueType<'_>,
    empty: Option<&Members>,
    new: &Members,
    left_out: LeftOut<'_>,
    text: &mut String,
) {
    for (name, value) in new {
        let old = empty.and_then(|empty| empty.get(name));
        if old == Some(value) {
            continue;
        }
        let element = PathElement::field(name);
        let found = match left_out.is_nothing() {
            true => Some((false, LeftOut::default())),
            false => left_out.at(&element),
        };
        if let Some((is_never_owned, below)) = found {
            let member = of.member(name).unwrap_or(of.at(Kind::Deduced));
            write_child(&element, text, |text| match old {
                Some(old) => write_changed(member, old, value, is_never_owned, below, text),
                None => {
                    write_new(member, value, below, text);
                    !is_never_owned
                }
            });
        }
    }
}

/// Writes the name of a child, and the fields that `below` writes between braces. Leaves the child
/// out if `below` writes nothing and returns that the child is not a member of the set.
fn write_child(element: &PathElement, text: &mut String, below: impl FnOnce(&mut String) -> bool) {
    let begin = text.len();
    write_name(element, text);
    text.push_str(":{");
    let inside = text.len();
    let is_member = below(text);
    match (is_member, text.len() > inside) {
        (false, false) => {
            text.truncate(begin);
            return;
        }
        (true, true) => text.insert_str(inside, "\".\":{},"),
        _ => {}
    }
    close(text);
    text.push(',');
}

/// Writes the fields below a value that the empty object lacks. The value itself is owned.
fn write_new(of: ValueType<'_>, value: &Value, left_out: LeftOut<'_>, text: &mut String) {
    match (of.kind.form(Some(value)), value) {
        (Form::Map { is_atomic: false }, Value::Object(members)) => {
            write_members(of, None, members, left_out, text);
        }
        (Form::List { of: item, items }, Value::Array(values))
            if !matches!(items, Items::Atomic) =>
        {
            write_items(of, item, items, values, left_out, text);
        }
        _ => {}
    }
}

/// Items with the same key are one field with nothing below it.
fn write_items(
    of: ValueType<'_>,
    item: Item<'_>,
    items: Items<'_>,
    values: &[Value],
    left_out: LeftOut<'_>,
    text: &mut String,
) {
    let kind = item.kind(of.schema);
    let found = compare::sorted(of, item, items, values);
    for same in found.chunk_by(|(one, _), (other, _)| one == other) {
        let Some((element, value)) = same.first() else {
            continue;
        };
        let Some((is_never_owned, below)) = left_out.at(element) else {
            continue;
        };
        write_child(element, text, |text| {
            if same.len() == 1 {
                write_new(of.at(kind), value, below, text);
            }
            !is_never_owned
        });
    }
}

/// Writes the fields below a value that differs from that in the empty object. Returns whether the
/// value itself is owned.
fn write_changed(
    of: ValueType<'_>,
    old: &Value,
    new: &Value,
    is_never_owned: bool,
    left_out: LeftOut<'_>,
    text: &mut String,
) -> bool {
    // Of a value that both objects have, only the parts are owned.
    match of.kind.form(Some(new)) {
        _ if of.kind.is_deduced() => {}
        Form::Map { is_atomic: false } => {
            let (olds, news) = (compare::members(old), compare::members(new));
            if let Some(news) = news {
                write_members(of, olds, news, left_out, text);
            }
            return olds.is_none() && news.is_none() && !equal(old, new) && !is_never_owned;
        }
        Form::List { of: item, items }
            if !matches!(items, Items::Atomic) && compare::list(old).is_empty() =>
        {
            let news = compare::list(new);
            write_items(of, item, items, news, left_out, text);
            return news.is_empty() && !equal(old, new) && !is_never_owned;
        }
        _ => {}
    }
    let mut below = Comparison::default();
    let mark = compare::value(of, Some(old), Some(new), &mut below);
    let mut set = below.added;
    set.add(&below.modified);
    let set = left_out.rest_of(set);
    if !set.is_empty() {
        // Write the set without its braces.
        let begin = text.len();
        write_set(&set, false, text);
        text.remove(begin);
        text.pop();
    }
    (mark.added || mark.modified) && !is_never_owned
}
