//! Objects are merged member by member, lists as their fields say (API-163, API-164).

use serde_json::{Map, Value};

use super::lists;
use super::lookup::Of;
use super::refusal::Refusal;

/// The member that says what is done with the object it is in.
pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const ELEMENT_ORDER: &str = "$setElementOrder";
const PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Merges the members of a patch into those of an object. What Kubernetes takes out of the patch
/// on the way is taken out here too, because refusals show what is left.
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
    lists::put_in_order(current, patch, of)?;
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
            let merged = lists::merge(std::mem::take(current), patch, rule, is_deletion)?;
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

/// Removes the members that `$retainKeys` does not list.
fn retain_keys(
    current: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), Refusal> {
    let Some(kept) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(kept) = &kept else {
        return Err(Refusal::RETAIN_KEYS);
    };
    if kept.iter().any(|name| name.is_array() || name.is_object()) {
        return Err(Refusal::incomparable());
    }
    let kept: std::collections::HashSet<&str> = kept.iter().filter_map(Value::as_str).collect();
    let is_listed = |(name, value): (&String, &Value)| {
        value.is_null()
            || name.starts_with(PRIMITIVE_LIST)
            || name.starts_with(ELEMENT_ORDER)
            || kept.contains(name.as_str())
    };
    if !patch.iter().all(is_listed) {
        return Err(Refusal::RETAIN_KEYS);
    }
    current.retain(|name, _| kept.contains(name.as_str()));
    Ok(())
}

/// Removes all members that are null, in items of lists too. Items that are null stay.
pub(super) fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => members.retain(|_, value| {
            discard_nulls(value);
            !value.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// The value without the objects that have a directive. `None` if it is one itself.
pub(super) fn without_directives(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => return None,
        Value::Object(members) => members
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), without_directives(value)?)))
            .collect(),
        Value::Array(items) => items.iter().filter_map(without_directives).collect(),
        scalar => scalar.clone(),
    })
}
