//! Comparison of two values by type.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::ValueType;
use super::elements::element;
use super::forms::Items;
use super::kind::{Form, Item, Kind};
use crate::field_set::{FieldSet, Node, PathElement, equal};

type Members = Map<String, Value>;

/// The fields in which two values differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the new value has.
    pub added: FieldSet,
    /// Fields that both have with different values.
    pub modified: FieldSet,
    /// Fields that only the old value has.
    pub removed: FieldSet,
}

impl Comparison {
    /// Returns whether the values are equal.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Applies a function to each of the sets.
    pub fn map(&self, change: impl Fn(&FieldSet) -> FieldSet) -> Comparison {
        Comparison {
            added: change(&self.added),
            modified: change(&self.modified),
            removed: change(&self.removed),
        }
    }

    /// Adds the results for a child, and for the fields below it, to the sets.
    fn push(&mut self, element: PathElement, mark: Mark, below: Comparison) {
        let parts = [
            (&mut self.added, mark.added, below.added),
            (&mut self.modified, mark.modified, below.modified),
            (&mut self.removed, mark.removed, below.removed),
        ];
        for (set, is_member, below) in parts {
            if is_member || !below.is_empty() {
                set.push(Node {
                    element: element.clone(),
                    is_member,
                    below,
                });
            }
        }
    }
}

/// The result for a field itself.
#[derive(Clone, Copy, Default)]
pub(super) struct Mark {
    pub(super) added: bool,
    pub(super) modified: bool,
    pub(super) removed: bool,
}

pub(super) fn compare(of: ValueType<'_>, old: &Members, new: &Members) -> Comparison {
    let mut found = Comparison::default();
    map(of, Some(old), Some(new), &mut found);
    found
}

/// Compares two values, one of which may be absent. Adds the differences below them to `below`.
pub(super) fn value(
    of: ValueType<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    below: &mut Comparison,
) -> Mark {
    let mut mark = Mark::default();
    let form = of.kind.form(new.or(old));
    if old.is_some() && new.is_some() && of.kind.is_deduced() {
        let old_form = of.kind.form(old);
        if std::mem::discriminant(&old_form) != std::mem::discriminant(&form) {
            // Fields that the old form loses and those that the new form adds both count.
            mark = of_form(of, &old_form, old, new, below).unwrap_or_default();
        }
    }
    match of_form(of, &form, old, new, below) {
        Some(leaf) => Mark {
            added: mark.added || leaf.added,
            modified: mark.modified || leaf.modified,
            removed: mark.removed || leaf.removed,
        },
        None => Mark {
            added: mark.added || old.is_none(),
            removed: mark.removed || new.is_none(),
            ..mark
        },
    }
}

/// Compares two values in this form. Returns `None` for a value that is not a leaf.
fn of_form(
    of: ValueType<'_>,
    form: &Form<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    below: &mut Comparison,
) -> Option<Mark> {
    match form {
        Form::Map { is_atomic: false } => {
            let (old_members, new_members) = (old.and_then(members), new.and_then(members));
            // Between two values without members, `{}` and null differ.
            if old_members.is_none() && new_members.is_none() {
                return Some(leaf(old, new));
            }
            map(of, old_members, new_members, below);
            None
        }
        Form::List { of: item, items } if !matches!(items, Items::Atomic) => {
            let (old_items, new_items) = (old.map_or(&[][..], list), new.map_or(&[][..], list));
            if old_items.is_empty() && new_items.is_empty() {
                return Some(leaf(old, new));
            }
            compare_items(of, *item, *items, old_items, new_items, below);
            None
        }
        Form::Scalar | Form::Map { .. } | Form::List { .. } => Some(leaf(old, new)),
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Mark {
    let modified = match (old, new) {
        (Some(old), Some(new)) => !equal(old, new),
        _ => false,
    };
    Mark {
        added: old.is_none(),
        modified,
        removed: old.is_some() && new.is_none(),
    }
}

/// Returns the members of a map, unless it is empty.
pub(super) fn members(value: &Value) -> Option<&Members> {
    value.as_object().filter(|members| !members.is_empty())
}

/// Returns the items of a list, empty for other values.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn map(of: ValueType<'_>, old: Option<&Members>, new: Option<&Members>, found: &mut Comparison) {
    let mut olds = old.into_iter().flatten().peekable();
    let mut news = new.into_iter().flatten().peekable();
    loop {
        let order = match (olds.peek(), news.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        let old = (order != Ordering::Greater).then(|| olds.next()).flatten();
        let new = (order != Ordering::Less).then(|| news.next()).flatten();
        let Some((name, _)) = old.or(new) else {
            return;
        };
        let (old, new) = (old.map(|(_, old)| old), new.map(|(_, new)| new));
        if is_same_scalar(old, new) {
            continue;
        }
        let member = of.member(name).unwrap_or(of.at(Kind::Deduced));
        let mut below = Comparison::default();
        let mark = value(member, old, new, &mut below);
        if mark.added || mark.modified || mark.removed || !below.is_same() {
            found.push(PathElement::field(name), mark, below);
        }
    }
}

/// Returns whether a member is an unchanged scalar, which needs no look-up of a type. Most members
/// are.
fn is_same_scalar(old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old, new) {
        (Some(Value::String(old)), Some(Value::String(new))) => old == new,
        (Some(Value::Number(old)), Some(Value::Number(new))) => old == new,
        (Some(Value::Bool(old)), Some(Value::Bool(new))) => old == new,
        _ => false,
    }
}

pub(super) type Found<'v> = Vec<(PathElement, &'v Value)>;

/// Compares items by key. Items with the same key are one atomic field.
fn compare_items(
    of: ValueType<'_>,
    item: Item<'_>,
    items: Items<'_>,
    old: &[Value],
    new: &[Value],
    found: &mut Comparison,
) {
    if old.len() == new.len() && old.iter().zip(new).all(|(old, new)| equal(old, new)) {
        return;
    }
    let sorted = |values| sorted(of, item, items, values);
    let (olds, news): (Found<'_>, Found<'_>) = (sorted(old), sorted(new));
    let mut olds = olds
        .chunk_by(|(one, _), (other, _)| one == other)
        .peekable();
    let mut news = news
        .chunk_by(|(one, _), (other, _)| one == other)
        .peekable();
    let kind = item.kind(of.schema);
    loop {
        let first = |same: &&[(PathElement, &Value)]| same.first().map(|(key, _)| key.clone());
        let old_key = olds.peek().and_then(first);
        let new_key = news.peek().and_then(first);
        let (key, order) = match (old_key, new_key) {
            (Some(old), Some(new)) => {
                let order = old.cmp(&new);
                (if order == Ordering::Greater { new } else { old }, order)
            }
            (Some(old), None) => (old, Ordering::Less),
            (None, Some(new)) => (new, Ordering::Greater),
            (None, None) => return,
        };
        let old = (order != Ordering::Greater).then(|| olds.next()).flatten();
        let new = (order != Ordering::Less).then(|| news.next()).flatten();
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let mut below = Comparison::default();
        let mark = same_key(of.at(kind), old, new, &mut below);
        found.push(key, mark, below);
    }
}

pub(super) fn sorted<'v>(
    of: ValueType<'_>,
    item: Item<'_>,
    items: Items<'_>,
    values: &'v [Value],
) -> Found<'v> {
    let found = values.iter().filter_map(|value| {
        let element = element(of.schema, item, items, value).ok()?;
        Some((element, value))
    });
    let mut found: Found<'v> = found.collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

/// Compares the items of one key.
fn same_key(
    of: ValueType<'_>,
    old: &[(PathElement, &Value)],
    new: &[(PathElement, &Value)],
    below: &mut Comparison,
) -> Mark {
    let old_first = old.first().map(|(_, value)| *value);
    let new_first = new.first().map(|(_, value)| *value);
    match (old.len() <= 1, new.len() <= 1) {
        (true, true) => value(of, old_first, new_first, below),
        (false, false) => {
            let mut pairs = old.iter().zip(new);
            let is_equal =
                old.len() == new.len() && pairs.all(|((_, old), (_, new))| equal(old, new));
            Mark {
                modified: !is_equal,
                ..Mark::default()
            }
        }
        // There were several items, and now there is at most one.
        (false, true) => {
            let mark = new_first.map(|new| value(of, None, Some(new), below));
            Mark {
                removed: true,
                ..mark.unwrap_or_default()
            }
        }
        (true, false) => {
            let mark = old_first.map(|old| value(of, Some(old), None, below));
            Mark {
                added: true,
                ..mark.unwrap_or_default()
            }
        }
    }
}
