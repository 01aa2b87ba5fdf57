//! Lists are merged by what identifies their items, and put in order (API-164, API-167).
//!
//! Every step takes time in proportion to the lists, but for sorting.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::lookup::{Identity, ListRule, Of};
use super::maps::{self, DIRECTIVE, ELEMENT_ORDER};
use super::order::{Index, arrange, partition};
use super::refusal::Refusal;
use crate::document_paths::go_kind;

/// A merged list.
pub(super) struct Merged {
    /// Its items.
    pub items: Vec<Value>,
    /// What identifies the items in the places of the list before. Kubernetes changes that list
    /// while it merges, and asks it afterwards for the order of items: those that were deleted
    /// have made way for others.
    places: Vec<Identity>,
}

/// The kind of the items of lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Items {
    Objects,
    Scalars,
}

/// Merges the list of a patch into a list, or deletes its values from it.
pub(super) fn merge(
    current: Vec<Value>,
    patch: &mut [Value],
    rule: ListRule<'_>,
    is_deletion: bool,
) -> Result<Merged, Refusal> {
    if !rule.merges && !is_deletion {
        return Ok(Merged {
            items: patch.to_vec(),
            places: places(&current, rule.key),
        });
    }
    if current.is_empty() && patch.is_empty() {
        return Ok(Merged {
            items: current,
            places: Vec::new(),
        });
    }
    match kind_of_items(&current, patch)? {
        Items::Scalars => merge_scalars(current, patch, rule, is_deletion),
        Items::Objects => match rule.key {
            Some(key) => merge_objects(current, patch, key, rule.items),
            None => {
                let kind = rule.items.kind();
                Err(Refusal::Other(format!(
                    "cannot merge lists without merge key for {kind}"
                )))
            }
        },
    }
}

/// What identifies items as far as they have something that does.
fn places(items: &[Value], key: Option<&str>) -> Vec<Identity> {
    let identity = |item| Identity::of_item(item, key).unwrap_or(Identity::Compound);
    items.iter().map(identity).collect()
}

/// The kind of the items of two lists, which must have one type.
fn kind_of_items(current: &[Value], patch: &[Value]) -> Result<Items, Refusal> {
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

fn merge_scalars(
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

/// Merges lists of objects.
fn merge_objects(
    current: Vec<Value>,
    patch: &mut [Value],
    key: &str,
    of: Of<'_>,
) -> Result<Merged, Refusal> {
    let mut live = Live::new(current, key);
    let mut is_replaced = false;
    let mut plain: Vec<&mut Map<String, Value>> = Vec::with_capacity(patch.len());
    for item in patch {
        let Value::Object(members) = item else {
            return Err(Refusal::not_a("map[string]interface {}", item));
        };
        let Some(directive) = members.get(DIRECTIVE) else {
            plain.push(members);
            continue;
        };
        match directive.as_str() {
            Some("delete") => match members.get(key) {
                Some(value) => live.delete(&Identity::of(value)),
                None => return Err(Refusal::no_key(members, key)),
            },
            Some("replace") => is_replaced = true,
            Some("merge") => {
                let why = "merging lists cannot yet be specified in the patch";
                return Err(Refusal::Other(why.to_owned()));
            }
            _ => return Err(Refusal::directive(directive, members)),
        }
    }
    let (mut items, mut places) = live.finish();
    if is_replaced {
        let items: Vec<Value> = plain
            .into_iter()
            .map(|members| Value::Object(members.clone()))
            .collect();
        let by = Index::default();
        let parts = partition(items, &by, Some(key))?;
        let order = Index::new(parts.others.iter().map(|item| item.identity.clone()));
        let items = arrange(parts, &by, &order);
        return Ok(Merged { items, places });
    }
    let kept = items.len();
    // The items that were there, by what identifies them; the first one of equal ones counts.
    let mut found: HashMap<Identity, usize> = HashMap::with_capacity(kept + plain.len());
    for (place, item) in items.iter().enumerate() {
        if let Ok(identity) = Identity::of_item(item, Some(key)) {
            found.entry(identity).or_insert(place);
        }
    }
    let order = Index::new(
        items
            .iter()
            .map(|item| Identity::of_item(item, Some(key)).unwrap_or(Identity::Compound)),
    );
    let mut named = Vec::with_capacity(plain.len());
    for members in plain {
        let Some(value) = members.get(key) else {
            return Err(Refusal::no_key(members, key));
        };
        let identity = Identity::of(value);
        if identity == Identity::Compound {
            return Err(Refusal::incomparable());
        }
        named.push(identity.clone());
        let place = found.get(&identity).copied();
        match place.and_then(|place| items.get_mut(place)) {
            Some(Value::Object(current)) => maps::merge(current, members, of)?,
            _ => {
                if let Some(place) = places.get_mut(items.len()) {
                    *place = identity.clone();
                }
                found.insert(identity, items.len());
                items.push(Value::Object(members.clone()));
            }
        }
    }
    let by = Index::new(named.into_iter());
    let parts = partition(items, &by, Some(key))?;
    let items = arrange(parts, &by, &order);
    Ok(Merged { items, places })
}

/// A list from which items are deleted, with the places as Kubernetes leaves them: those behind a
/// deleted item move up, and the last one stays in its place too.
struct Live {
    items: Vec<Option<(Identity, Value)>>,
    /// The places of the items, by what identifies them. It is made for the first deletion.
    by_identity: Option<HashMap<Identity, Vec<usize>>>,
    /// How many items there are.
    count: usize,
    /// Behind the last one.
    end: usize,
    /// What stays in places behind the items, the hindmost first.
    behind: Vec<Identity>,
}

impl Live {
    fn new(items: Vec<Value>, key: &str) -> Live {
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
            behind: Vec::new(),
        }
    }

    /// Deletes all items of an identity.
    fn delete(&mut self, identity: &Identity) {
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
                self.behind.push(identity.clone());
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

    /// The items that are left, and all places.
    fn finish(self) -> (Vec<Value>, Vec<Identity>) {
        let left = self.items.into_iter().flatten();
        let (mut places, items): (Vec<Identity>, Vec<Value>) = left.unzip();
        debug_assert_eq!(items.len(), self.count);
        places.extend(self.behind.into_iter().rev());
        (items, places)
    }
}

/// Merges the lists whose order the patch gives, and puts them in that order.
pub(super) fn put_in_order(
    current: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    of: Of<'_>,
) -> Result<(), Refusal> {
    let names = patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER));
    let names: Vec<String> = names.cloned().collect();
    for directive in names {
        let Some(order) = patch.remove(&directive) else {
            continue;
        };
        let Value::Array(_) = &order else {
            return Err(Refusal::not_a("[]interface {}", &order));
        };
        let name = directive.strip_prefix(ELEMENT_ORDER);
        let name = name.and_then(|rest| rest.strip_prefix('/'));
        let name = name.ok_or(Refusal::ELEMENT_ORDER)?;
        put_list_in_order(current, patch, name, &order, of)?;
    }
    Ok(())
}

fn put_list_in_order(
    current: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    name: &str,
    order: &Value,
    of: Of<'_>,
) -> Result<(), Refusal> {
    let wanted = order.as_array().map(Vec::as_slice).unwrap_or_default();
    let was = list_in(current.get_mut(name))?;
    let given = list_in(patch.get_mut(name))?;
    let rule = of.list(name)?;
    check_order(given.as_deref().map(Vec::as_slice), order, wanted, rule.key)?;
    let (kind, merged) = match (was, given) {
        (None, None) => return Ok(()),
        (Some(was), None) => {
            let kind = kind_of_items(was, &[]);
            let items = std::mem::take(was);
            let places = places(&items, rule.key);
            (kind, Merged { items, places })
        }
        (None, Some(given)) => {
            let kind = kind_of_items(&[], given);
            given.iter_mut().for_each(maps::discard_nulls);
            let items = given.iter().filter_map(maps::without_directives);
            let merged = Merged {
                items: items.collect(),
                places: Vec::new(),
            };
            (kind, merged)
        }
        (Some(was), Some(given)) => {
            let kind = kind_of_items(was, given);
            (kind, merge(std::mem::take(was), given, rule, false)?)
        }
    };
    let by = Index::of_order(wanted, rule.key, merged.items.is_empty())?;
    let parts = partition(merged.items, &by, rule.key)?;
    if kind? == Items::Objects {
        for item in wanted {
            Identity::of_item(item, Some(rule.key.unwrap_or_default()))?;
        }
    }
    let items = arrange(parts, &by, &Index::new(merged.places.into_iter()));
    current.insert(name.to_owned(), Value::Array(items));
    patch.remove(name);
    Ok(())
}

/// The list in a member, if there is the member.
fn list_in(value: Option<&mut Value>) -> Result<Option<&mut Vec<Value>>, Refusal> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(Refusal::not_a("[]interface {}", other)),
    }
}

/// Checks that the items of a patch are in the order that it gives, and that the order names all
/// of them. Those with a directive don't count.
fn check_order(
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
