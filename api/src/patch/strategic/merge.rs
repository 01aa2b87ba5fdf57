//! Merging of objects by member, and of lists by the rules of their fields (API-163, API-164).
//!
//! Every step takes time proportional to the lists, except for sorting.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::directives::{
    DIRECTIVE, ELEMENT_ORDER, PRIMITIVE_LIST, discard_nulls, retain_keys, without_directives,
};
use super::lists::{
    Items, Live, Merged, check_order, kind_of_items, list_in, merge_scalars, places,
};
use super::lookup::{Identity, ListRule, Of};
use super::order::{Index, arrange, partition};
use super::refusal::Refusal;

/// Merges the members of a patch into those of an object. Removes from the patch what Kubernetes
/// removes on the way, because errors show the rest.
pub(super) fn merge(
    current: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    of: Of<'_>,
) -> Result<(), Refusal> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                current.clone_from(patch);
            }
            Some("delete") => current.clear(),
            _ => return Err(Refusal::directive(directive, patch)),
        }
        return Ok(());
    }
    retain_keys(current, patch)?;
    put_in_order(current, patch, of)?;
    for (name, value) in patch.iter_mut() {
        let (name, is_deletion) = match name.strip_prefix(PRIMITIVE_LIST) {
            None => (name.as_str(), false),
            Some("/") => (name.as_str(), true),
            Some(rest) => (rest.strip_prefix('/').ok_or(Refusal::PRIMITIVE_LIST)?, true),
        };
        if value.is_null() {
            current.remove(name);
            continue;
        }
        merge_member(current, name, value, of, is_deletion)?;
    }
    Ok(())
}

/// Merges a value into a member, or deletes the values of a list from that of the member.
fn merge_member(
    current: &mut Map<String, Value>,
    name: &str,
    value: &mut Value,
    of: Of<'_>,
    is_deletion: bool,
) -> Result<(), Refusal> {
    match (current.get_mut(name), value) {
        (Some(Value::Object(current)), Value::Object(patch)) => {
            let (of, is_replaced) = of.object(name)?;
            if is_replaced {
                current.clone_from(patch);
                return Ok(());
            }
            merge(current, patch, of)
        }
        (Some(Value::Array(current)), Value::Array(patch)) => {
            let rule = of.list(name)?;
            let merged = merge_list(std::mem::take(current), patch, rule, is_deletion)?;
            *current = merged.items;
            Ok(())
        }
        (_, _) if is_deletion => Ok(()),
        (_, value) => {
            discard_nulls(value);
            match without_directives(value) {
                Some(value) => current.insert(name.to_owned(), value),
                None => current.remove(name),
            };
            Ok(())
        }
    }
}

/// Merges the list of a patch into a list, or deletes its values from it.
fn merge_list(
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
    // The earlier items by identity. The first of equal ones counts.
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
            Some(Value::Object(current)) => merge(current, members, of)?,
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

/// Merges the lists for which the patch gives an order, and sorts them by it.
fn put_in_order(
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
            given.iter_mut().for_each(discard_nulls);
            let items = given.iter().filter_map(without_directives);
            let merged = Merged {
                items: items.collect(),
                places: Vec::new(),
            };
            (kind, merged)
        }
        (Some(was), Some(given)) => {
            let kind = kind_of_items(was, given);
            (kind, merge_list(std::mem::take(was), given, rule, false)?)
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
