//! Merging of an applied value over the live one (API-172).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ValueType;
use super::elements::element;
use super::forms::Items;
use super::kind::{Form, Item, Kind};
use crate::field_set::PathElement;

fn merge(of: ValueType<'_>, live: &Value, applied: &Value) -> Value {
    match of.kind.form(Some(applied)) {
        Form::Map { is_atomic: false } => match (non_empty(live), non_empty(applied)) {
            (Some(live), Some(applied)) => Value::Object(merge_members(of, live, applied)),
            // Empty values and null remove nothing.
            (Some(_), None) => live.clone(),
            (None, _) => applied.clone(),
        },
        Form::List { of: item, items } if !matches!(items, Items::Atomic) => {
            match (live, applied) {
                (Value::Array(live), Value::Array(applied))
                    if !live.is_empty() && !applied.is_empty() =>
                {
                    Value::Array(merge_items(of, item, items, live, applied))
                }
                (Value::Array(items), Value::Array(_) | Value::Null) if !items.is_empty() => {
                    live.clone()
                }
                _ => applied.clone(),
            }
        }
        Form::Scalar | Form::Map { .. } | Form::List { .. } => applied.clone(),
    }
}

fn non_empty(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object().filter(|members| !members.is_empty())
}

pub(super) fn merge_members(
    of: ValueType<'_>,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = Map::new();
    for (name, value) in live {
        let value = match applied.get(name) {
            Some(applied) => {
                let member = of.member(name).unwrap_or(of.at(Kind::Deduced));
                merge(member, value, applied)
            }
            None => value.clone(),
        };
        merged.insert(name.clone(), value);
    }
    for (name, value) in applied {
        if !live.contains_key(name) {
            merged.insert(name.clone(), value.clone());
        }
    }
    merged
}

/// The live counterpart of an applied item.
#[derive(Clone, Copy)]
enum Live {
    One(usize),
    /// Several live items have the key: they are replaced as a whole.
    Several,
}

/// Merges items in the applied order. Items that are only live follow the ones that they follow in
/// the live list, as far as both orders allow.
fn merge_items(
    of: ValueType<'_>,
    item: Item<'_>,
    items: Items<'_>,
    live: &[Value],
    applied: &[Value],
) -> Vec<Value> {
    let kind = item.kind(of.schema);
    let key = |value| element(of.schema, item, items, value).ok();
    let live = keyed(live, key);
    let applied = keyed(applied, key);
    let places: BTreeMap<&PathElement, usize> = applied
        .iter()
        .enumerate()
        .map(|(place, (key, _))| (key, place))
        .collect();
    // For each live item the applied one with its key, and vice versa.
    let mut of_live = Vec::with_capacity(live.len());
    let mut of_applied: Vec<Option<Live>> = vec![None; applied.len()];
    for (place, (key, _)) in live.iter().enumerate() {
        let found = places.get(key).copied();
        of_live.push(found);
        if let Some(slot) = found.and_then(|found| of_applied.get_mut(found)) {
            *slot = Some(match slot {
                None => Live::One(place),
                Some(_) => Live::Several,
            });
        }
    }
    let merged = |place: usize| -> Option<Value> {
        let (_, value) = applied.get(place)?;
        match of_applied.get(place)? {
            Some(Live::One(place)) => Some(merge(of.at(kind), live.get(*place)?.1, value)),
            Some(Live::Several) | None => Some((*value).clone()),
        }
    };
    let only_live = |place: usize| live.get(place).map(|(_, value)| (*value).clone());
    let order = interleave(&of_live, &of_applied);
    let values = order.into_iter().filter_map(|taken| match taken {
        Taken::Live(place) => only_live(place),
        Taken::Applied(place) => merged(place),
    });
    values.collect()
}

fn keyed<'v>(
    values: &'v [Value],
    key: impl Fn(&'v Value) -> Option<PathElement>,
) -> Vec<(PathElement, &'v Value)> {
    let keyed = values.iter().filter_map(|value| Some((key(value)?, value)));
    keyed.collect()
}

/// An item of a merged list, by its index among the live or the applied items.
#[derive(Debug, PartialEq, Eq)]
enum Taken {
    Live(usize),
    Applied(usize),
}

/// Returns the order of the merged items, which is that of structured-merge-diff. Walks both lists
/// at once. `next` is the next applied item that is also live. Live items that have to wait for
/// another one are skipped and taken at their turn.
fn interleave(of_live: &[Option<usize>], of_applied: &[Option<Live>]) -> Vec<Taken> {
    let mut order = Vec::with_capacity(of_live.len() + of_applied.len());
    let shared = of_applied.iter().enumerate();
    let mut shared = shared.filter_map(|(place, live)| live.map(|_| place));
    let mut next = shared.next();
    let mut is_taken = vec![false; of_applied.len()];
    let (mut at_live, mut at_applied) = (0, 0);
    while at_live < of_live.len() || at_applied < of_applied.len() {
        let live = of_live.get(at_live).copied();
        let has_applied = at_applied < of_applied.len();
        if let (Some(Some(found)), true) = (live, has_applied) {
            if found == at_applied {
                take(&mut is_taken, at_applied);
                order.push(Taken::Applied(at_applied));
                at_live += 1;
                at_applied += 1;
                next = shared.next();
                continue;
            }
            if next.is_some_and(|next| next != found) {
                at_live += 1;
                continue;
            }
        }
        match live {
            Some(None) => {
                order.push(Taken::Live(at_live));
                at_live += 1;
                continue;
            }
            Some(Some(found)) if !has_applied || is_taken.get(found) == Some(&true) => {
                at_live += 1;
            }
            _ => {}
        }
        if has_applied {
            take(&mut is_taken, at_applied);
            order.push(Taken::Applied(at_applied));
            if next == Some(at_applied) {
                next = shared.next();
            }
            at_applied += 1;
        }
    }
    order
}

fn take(is_taken: &mut [bool], place: usize) {
    if let Some(slot) = is_taken.get_mut(place) {
        *slot = true;
    }
}
