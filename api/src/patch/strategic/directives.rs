//! The directives in patches (API-163).

use serde_json::{Map, Value};

use super::refusal::Refusal;

/// The member with the directive for its object.
pub(super) const DIRECTIVE: &str = "$patch";
/// The member that lists the members to keep.
const RETAIN_KEYS: &str = "$retainKeys";
/// The prefix of the members that give the order of a list.
pub(super) const ELEMENT_ORDER: &str = "$setElementOrder";
/// The prefix of the members that name the deleted values of a list.
pub(super) const PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Removes the members that `$retainKeys` does not list.
pub(super) fn retain_keys(
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

/// Removes all null members, also in items of lists. Null items stay.
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

/// Returns a value without the objects that have a directive. `None` if it is one itself.
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
