//! Lists of patches and objects: their items, identities and order (API-164, API-167).
//!
//! Every step takes time proportional to the lists, except for sorting.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::directives::DIRECTIVE;
use super::lookup::{Identity, ListRule};
use super::order::{Index, arrange, partition};
use super::refusal::Refusal;
use crate::text::go_kind;

/// A merged list.
pub(super) struct Merged {
    /// The merged items.
    pub items: Vec<Value>,
    /// The identities at the places of the former list, which decide the order. Kubernetes changes
    /// that list while it merges and reads it afterwards, so the places of deleted items have later
    /// ones.
    pub places: Vec<Identity>,
}

/// The kind of a list's items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    Objects,
    Scalars,
}

/// Returns the identities of items. Those without one count as compound.
pub(super) fn places(items: &[Value], key: Option<&str>) -> Vec<Identity> {
    let identity = |item| Identity::of_item(item, key).unwrap_or(Identity::Compound);
    items.iter().map(identity).collect()
}

/// Returns the kind of the items of two lists, which must agree.
pub(super) fn kind_of_items(current: &[Value], patch: &[Value]) -> Result<Items, Refusal> {
    let mut items = current.iter().chain(patch);
    let Some(first) = items.next() else {
        return Err(Refusal::Other(
            "no elements in any of the given slices".to_owned(),
        ));
    };
    match first {
        Value::Array(_) => return Err(Refusal::ListOfLists),
        Value::Null => return Err(Refusal::incomparable()),
        _ => {}
    }
    let kind = go_kind(first);
    if items.any(|item| go_kind(item) != kind) {
        return Err(Refusal::mixed([current, patch]));
    }
    Ok(if first.is_object() {
        Items::Objects
    } else {
        Items::Scalars
    })
}

pub(super) fn merge_scalars(
    current: Vec<Value>,
    patch: &[Value],
    rule: ListRule<'_>,
    is_deletion: bool,
) -> Result<Merged, Refusal> {
    let places = places(&current, None);
    if is_deletion {
        let deleted: HashSet<Identity> = patch.iter().map(Identity::of).collect();
        let kept = current.into_iter();
        let items = kept.filter(|item| !deleted.contains(&Identity::of(item)));
        return Ok(Merged {
            items: items.collect(),
            places,
        });
    }
    let mut seen = HashSet::new();
    let both = current.into_iter().chain(patch.iter().cloned());
    let items: Vec<Value> = both
        .filter(|item| seen.insert(Identity::of(item)))
        .collect();
    let by = Index::new(patch.iter().map(Identity::of));
    let parts = partition(items, &by, rule.key)?;
    let items = arrange(parts, &by, &Index::new(places.iter().cloned()));
    Ok(Merged { items, places })
}

/// A list from which items are deleted. Its places change as in Kubernetes, which shifts the items
/// after a deleted one and keeps the last one in its old place, too.
pub(super) struct Live {
    items: Vec<Option<(Identity, Value)>>,
    /// The places of the items by identity. Built for the first deletion.
    by_identity: Option<HashMap<Identity, Vec<usize>>>,
    /// The number of remaining items.
    count: usize,
    /// The end of the remaining items.
    end: usize,
    /// The identities that remain in places after the items, last one first.
    trailing: Vec<Identity>,
}

impl Live {
    pub fn new(items: Vec<Value>, key: &str) -> Live {
        let identified = |item: Value| {
            let identity = Identity::of_item(&item, Some(key));
            Some((identity.unwrap_or(Identity::Compound), item))
        };
        let items: Vec<_> = items.into_iter().map(identified).collect();
        Live {
            count: items.len(),
            end: items.len(),
            items,
            by_identity: None,
            trailing: Vec::new(),
        }
    }

    /// Deletes all items with an identity.
    pub fn delete(&mut self, identity: &Identity) {
        let items = &self.items;
        let by_identity = self.by_identity.get_or_insert_with(|| {
            let mut places: HashMap<Identity, Vec<usize>> = HashMap::new();
            for (place, item) in items.iter().enumerate() {
                if let Some((identity, _)) = item
                    && *identity != Identity::Compound
                {
                    places.entry(identity.clone()).or_default().push(place);
                }
            }
            places
        });
        for place in by_identity.remove(identity).unwrap_or_default() {
            let last = self
                .end
                .checked_sub(1)
                .and_then(|last| self.items.get(last));
            if let Some(Some((identity, _))) = last {
                self.trailing.push(identity.clone());
            }
            if let Some(item) = self.items.get_mut(place) {
                *item = None;
            }
            self.count -= 1;
            while self.end > 0 && matches!(self.items.get(self.end - 1), Some(None)) {
                self.end -= 1;
            }
        }
    }

    /// Returns the remaining items and all places.
    pub fn finish(self) -> (Vec<Value>, Vec<Identity>) {
        let left = self.items.into_iter().flatten();
        let (mut places, items): (Vec<Identity>, Vec<Value>) = left.unzip();
        debug_assert_eq!(items.len(), self.count);
        places.extend(self.trailing.into_iter().rev());
        (items, places)
    }
}

/// Returns the list in a member, `None` if the member is absent.
pub(super) fn list_in(value: Option<&mut Value>) -> Result<Option<&mut Vec<Value>>, Refusal> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(Refusal::not_a("[]interface {}", other)),
    }
}

/// Checks that the items of a patch are in the order that the patch gives, and that the order names
/// all of them. Items with a directive are ignored.
pub(super) fn check_order(
    patch: Option<&[Value]>,
    order: &Value,
    wanted: &[Value],
    key: Option<&str>,
) -> Result<(), Refusal> {
    let patch = patch.unwrap_or_default();
    if patch.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    if key.is_some()
        && let Some(other) = patch.iter().find(|item| !item.is_object())
    {
        return Err(Refusal::not_a("map[string]interface {}", other));
    }
    let is_deletion = |item: &&Value| {
        key.is_some()
            && item
                .get(DIRECTIVE)
                .is_some_and(|directive| directive == "delete")
    };
    let has_directive = |item: &Value| item.get(DIRECTIVE).is_some();
    let mut left = patch.iter().filter(|item| !is_deletion(item)).peekable();
    let mut places = wanted.iter().peekable();
    while let (Some(item), Some(place)) = (left.peek(), places.peek()) {
        if has_directive(item) {
            left.next();
            continue;
        }
        let (own, other) = (
            identity_in_order(item, key)?,
            identity_in_order(place, key)?,
        );
        if own == Identity::Compound && other == Identity::Compound {
            return Err(Refusal::incomparable());
        }
        if own == other {
            left.next();
        }
        places.next();
    }
    if left.peek().is_some() && places.peek().is_none() {
        return Err(Refusal::order(patch, order));
    }
    Ok(())
}

fn identity_in_order(item: &Value, key: Option<&str>) -> Result<Identity, Refusal> {
    match key {
        None => Ok(Identity::of(item)),
        key => Identity::of_item(item, key),
    }
}
