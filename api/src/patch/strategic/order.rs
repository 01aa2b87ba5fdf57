//! The order of items in a merged list (API-167).
//!
//! Items that the patch orders keep its order, and items that only the object has keep theirs. Both
//! are then joined by the places that the items had before.

use std::collections::HashMap;

use serde_json::Value;

use super::lookup::Identity;
use super::refusal::Refusal;

/// The places of items by identity. The first of equal ones counts.
#[derive(Default)]
pub(super) struct Index {
    places: HashMap<Identity, usize>,
    /// The place of the first item of an order that is not an object although objects are expected.
    first_scalar: Option<usize>,
}

impl Index {
    /// Returns the places of items in this order.
    pub fn new(identities: impl Iterator<Item = Identity>) -> Index {
        let mut places = HashMap::with_capacity(identities.size_hint().0);
        for (place, identity) in identities.enumerate() {
            places.entry(identity).or_insert(place);
        }
        Index {
            places,
            first_scalar: None,
        }
    }

    /// Returns the places of the items in an order. Items without the key have none.
    ///
    /// # Errors
    /// Items that can't be compared, unless there is nothing to sort.
    pub fn of_order(order: &[Value], key: Option<&str>, is_idle: bool) -> Result<Index, Refusal> {
        let Some(key) = key else {
            let is_compound = |item: &Value| item.is_array() || item.is_object();
            if order.iter().any(is_compound) && !is_idle {
                return Err(Refusal::incomparable());
            }
            return Ok(Index::new(order.iter().map(Identity::of)));
        };
        let named = |item: &Value| item.get(key).map_or(Identity::Compound, Identity::of);
        Ok(Index {
            first_scalar: order.iter().position(|item| !item.is_object()),
            ..Index::new(order.iter().map(named))
        })
    }

    fn get(&self, identity: &Identity) -> Option<usize> {
        match identity {
            Identity::Compound => None,
            identity => self.places.get(identity).copied(),
        }
    }

    /// Returns the place of an item, to decide which part it belongs to. Like Kubernetes' linear
    /// search, fails at an item that is not an object.
    fn find(&self, identity: &Identity) -> Result<Option<usize>, Refusal> {
        let place = self.get(identity);
        match (place, self.first_scalar) {
            (Some(place), Some(scalar)) if place < scalar => Ok(Some(place)),
            (_, Some(scalar)) => Err(Refusal::Other(format!(
                "value for key {scalar} is not a map"
            ))),
            (place, None) => Ok(place),
        }
    }
}

/// An item with its identity.
pub(super) struct Item {
    /// The identity.
    pub identity: Identity,
    value: Value,
}

/// The items of a merged list.
pub(super) struct Parts {
    /// Items with a place in the order of the patch.
    ordered: Vec<Item>,
    /// All others.
    pub others: Vec<Item>,
}

/// Separates the items that have a place in an order from the others.
///
/// # Errors
/// An item without identity.
pub(super) fn partition(
    items: Vec<Value>,
    by: &Index,
    key: Option<&str>,
) -> Result<Parts, Refusal> {
    let (mut ordered, mut others) = (Vec::with_capacity(items.len()), Vec::new());
    for value in items {
        let identity = Identity::of_item(&value, key)?;
        let part = match by.find(&identity)? {
            Some(_) => &mut ordered,
            None => &mut others,
        };
        part.push(Item { identity, value });
    }
    Ok(Parts { ordered, others })
}

/// Sorts both parts and joins them: an item that only the object has comes first if it was before
/// the other one in the former list.
pub(super) fn arrange(parts: Parts, by: &Index, before: &Index) -> Vec<Value> {
    let mut ordered = parts.ordered;
    ordered.sort_by_key(|item| by.get(&item.identity));
    let others = sorted(parts.others, before);
    let mut joined = Vec::with_capacity(ordered.len() + others.len());
    let (mut ordered, mut others) = (
        ordered.into_iter().peekable(),
        others.into_iter().peekable(),
    );
    loop {
        let other_is_next = match (others.peek(), ordered.peek()) {
            (None, None) => return joined,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(next)) => {
                match (before.get(&other.identity), before.get(&next.identity)) {
                    (Some(other), Some(next)) => other < next,
                    _ => false,
                }
            }
        };
        let next = if other_is_next {
            others.next()
        } else {
            ordered.next()
        };
        joined.extend(next.map(|item| item.value));
    }
}

/// The size of the blocks that Go sorts by insertion.
const BLOCK: usize = 20;

/// Sorts items by their places. Go takes an item without a place for less than its predecessor; the
/// result here is the same up to one block.
fn sorted(mut items: Vec<Item>, before: &Index) -> Vec<Item> {
    let places: Vec<Option<usize>> = items
        .iter()
        .map(|item| before.get(&item.identity))
        .collect();
    if places.iter().all(Option::is_some) {
        items.sort_by_key(|item| before.get(&item.identity));
        return items;
    }
    if places.iter().all(Option::is_none) {
        items.reverse();
        return items;
    }
    let mut placed: Vec<(Option<usize>, Item)> = places.into_iter().zip(items).collect();
    for block in placed.chunks_mut(BLOCK) {
        for end in 1..block.len() {
            for at in (1..=end).rev() {
                let is_less = match (block.get(at), block.get(at - 1)) {
                    (Some((Some(own), _)), Some((Some(other), _))) => own < other,
                    _ => true,
                };
                if !is_less {
                    break;
                }
                block.swap(at, at - 1);
            }
        }
    }
    placed.into_iter().map(|(_, item)| item).collect()
}
