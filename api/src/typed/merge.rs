//! What was applied over what is live (API-172).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ValueType;
use super::elements::element;
use super::kind::{Form, Items, Kind};
use crate::field_set::PathElement;
use crate::schema::Type;

fn merge(of: ValueType<'_>, live: &Value, applied: &Value) -> Value {
    match of.kind.form(Some(applied)) {
        Form::Map { is_atomic: false } => match (non_empty(live), non_empty(applied)) {
            (Some(live), Some(applied)) => Value::Object(merge_members(of, live, applied)),
            // Nothing is removed by what is empty or null.
            (Some(_), None) => live.clone(),
            (None, _) => applied.clone(),
        },
        Form::List { of: item, items } if !matches!(items, Items::Atomic) => {
            match (live, applied) {
                (Value::Array(live), Value::Array(applied))
                    if !live.is_empty() && !applied.is_empty() =>
                {
                    Value::Array(merge_items(of, (item, items), live, applied))
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

/// The live item with the key of an applied one.
#[derive(Clone, Copy)]
enum Live {
    One(usize),
    /// Several have the key: they are replaced as a whole.
    Several,
}

/// Items in the order that was applied. Those that are only live stay behind the ones that they
/// follow, as far as both orders allow.
fn merge_items(
    of: ValueType<'_>,
    (item, items): (Option<&Type>, Items<'_>),
    live: &[Value],
    applied: &[Value],
) -> Vec<Value> {
    let kind = item.map_or(Kind::Deduced, |item| Kind::of_type(of.schema, item));
    let key = |value| element(of.schema, item, items, value).ok();
    let live = keyed(live, key);
    let applied = keyed(applied, key);
    let places: BTreeMap<&PathElement, usize> = applied
        .iter()
        .enumerate()
        .map(|(place, (key, _))| (key, place))
        .collect();
    // For each live item the applied one with its key, and the other way round.
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

/// An item of a merged list, by its place among the live or the applied ones.
#[derive(Debug, PartialEq, Eq)]
enum Taken {
    Live(usize),
    Applied(usize),
}

/// The order in which items are taken, as structured-merge-diff takes them. Both lists are walked
/// at once. `next` is the next applied item that is live as well: live items that wait for another
/// one are passed over and taken when it is their turn.
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
