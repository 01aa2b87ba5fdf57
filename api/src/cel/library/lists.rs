//! Functions of lists and sets.

use std::cmp::Ordering;
use std::sync::Arc;

use super::super::values::value::{
    BuiltMap, Failure, List, Map, Outcome, Value, error, no_overload,
};
use super::super::values::work_limit::Work;
use super::operators::{compared, equal, is_ordered, sum};

/// Returns the result of a function of lists.
pub(in super::super) fn call<'v>(
    name: &'static str,
    arguments: &[Value<'v>],
    work: &Work,
) -> Outcome<Value<'v>> {
    if name == "lists.range" {
        let [Value::Int(end)] = arguments else {
            return no_overload();
        };
        work.make_bytes(usize::try_from(*end).unwrap_or(0))?;
        return Ok(Value::list((0..*end).map(Value::Int).collect()));
    }
    let [Value::List(list), rest @ ..] = arguments else {
        return no_overload();
    };
    work.take(list.len())?;
    match (name, rest) {
        ("isSorted", []) => is_sorted(list),
        ("min", []) => extreme(list, Ordering::Greater, "min"),
        ("max", []) => extreme(list, Ordering::Less, "max"),
        ("indexOf", [item]) => position(list, item, false, work),
        ("lastIndexOf", [item]) => position(list, item, true, work),
        ("join", []) => join(list, "", work),
        ("join", [Value::String(separator)]) => join(list, separator, work),
        ("slice", [Value::Int(start), Value::Int(end)]) => slice(list, *start, *end),
        ("flatten", []) => flatten(list, 1, work),
        ("flatten", [Value::Int(depth)]) => flatten(list, *depth, work),
        ("distinct", []) => distinct(list, work),
        ("reverse", []) => {
            let mut items: Vec<Value<'v>> = list.iter().collect::<Outcome<_>>()?;
            items.reverse();
            Ok(Value::list(items))
        }
        ("first", []) => optional_item(list, 0),
        ("last", []) => optional_item(list, list.len().wrapping_sub(1)),
        ("sort", []) => sorted(list, list),
        ("@sortByAssociatedKeys", [Value::List(keys)]) => sorted(list, keys),
        ("optional.unwrap" | "unwrapOpt", []) => unwrapped(list),
        ("sets.contains", [Value::List(other)]) => contains_all(list, other, work).map(Value::Bool),
        ("sets.equivalent", [Value::List(other)]) => Ok(Value::Bool(
            contains_all(list, other, work)? && contains_all(other, list, work)?,
        )),
        ("sets.intersects", [Value::List(other)]) => {
            for item in list.iter() {
                if contains(other, &item?, work)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        _ => no_overload(),
    }
}

/// Returns the sum of a list's items, which begins with the zero of their type.
pub(in super::super) fn total<'v>(
    zero: Option<&Value<'v>>,
    arguments: &[Value<'v>],
    work: &Work,
) -> Outcome<Value<'v>> {
    let [Value::List(list)] = arguments else {
        return no_overload();
    };
    work.take(list.len())?;
    let mut total = match (zero, list.get(0).transpose()?) {
        (Some(zero), _) => zero.clone(),
        (None, None | Some(Value::Int(_))) => Value::Int(0),
        (None, Some(Value::Uint(_))) => Value::Uint(0),
        (None, Some(Value::Double(_))) => Value::Double(0.0),
        (None, Some(Value::Duration(_))) => Value::Duration(0),
        _ => return error("no such overload: sum(list)"),
    };
    for item in list.iter() {
        total = sum(&total, &item?, work)?;
    }
    Ok(total)
}

fn is_sorted<'v>(list: &List<'v>) -> Outcome<Value<'v>> {
    let mut previous: Option<Value<'v>> = None;
    for item in list.iter() {
        let item = item?;
        if !is_ordered(&item) {
            return no_overload();
        }
        if let Some(previous) = &previous
            && compared(previous, &item).is_ok_and(|order| order == Ordering::Greater)
        {
            return Ok(Value::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Value::Bool(true))
}

/// Returns the first of the least or greatest items.
fn extreme<'v>(list: &List<'v>, worse: Ordering, name: &str) -> Outcome<Value<'v>> {
    let mut best: Option<Value<'v>> = None;
    for item in list.iter() {
        let item = item?;
        if !is_ordered(&item) {
            return no_overload();
        }
        let replaces = match &best {
            None => true,
            Some(best) => compared(best, &item).is_ok_and(|order| order == worse),
        };
        if replaces {
            best = Some(item);
        }
    }
    match best {
        Some(best) => Ok(best),
        None => error(format!("{name} called on empty list")),
    }
}

fn position<'v>(
    list: &List<'v>,
    item: &Value<'v>,
    is_last: bool,
    work: &Work,
) -> Outcome<Value<'v>> {
    let mut found = -1;
    for (at, known) in list.iter().enumerate() {
        if known
            .and_then(|known| equal(&known, item, work))
            .unwrap_or(false)
        {
            found = i64::try_from(at).unwrap_or(-1);
            if !is_last {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

fn join<'v>(list: &List<'v>, separator: &str, work: &Work) -> Outcome<Value<'v>> {
    let mut text = String::new();
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            text.push_str(separator);
        }
        match item? {
            Value::String(item) => text.push_str(&item),
            other => return error(format!("join: invalid input: {other}")),
        }
        if text.len() > 1 << 16 {
            work.make_bytes(text.len())?;
        }
    }
    work.make_bytes(text.len())?;
    Ok(Value::text(text))
}

fn slice<'v>(list: &List<'v>, start: i64, end: i64) -> Outcome<Value<'v>> {
    let wrong = |why: String| error(format!("cannot slice({start}, {end}), {why}"));
    if start < 0 || end < 0 {
        return wrong("negative indexes not supported".to_owned());
    }
    if start > end {
        return wrong("start index must be less than or equal to end index".to_owned());
    }
    let (from, until) = (usize::try_from(start), usize::try_from(end));
    let (from, until) = (from.unwrap_or(usize::MAX), until.unwrap_or(usize::MAX));
    if list.len() < until {
        return wrong(format!("list is length {}", list.len()));
    }
    let items = list.iter().skip(from).take(until - from);
    Ok(Value::list(items.collect::<Outcome<_>>()?))
}

fn flatten<'v>(list: &List<'v>, depth: i64, work: &Work) -> Outcome<Value<'v>> {
    if depth < 0 {
        return error("level must be non-negative");
    }
    let mut items = Vec::new();
    let mut open: Vec<(Vec<Value<'v>>, i64)> = Vec::new();
    let all = |list: &List<'v>| -> Outcome<Vec<Value<'v>>> {
        work.take(1 + list.len())?;
        let mut items: Vec<Value<'v>> = list.iter().collect::<Outcome<_>>()?;
        items.reverse();
        Ok(items)
    };
    open.push((all(list)?, depth));
    while let Some((rest, depth)) = open.last_mut() {
        let depth = *depth;
        match rest.pop() {
            None => {
                open.pop();
            }
            Some(Value::List(inner)) if depth > 0 => open.push((all(&inner)?, depth - 1)),
            Some(item) => items.push(item),
        }
    }
    Ok(Value::list(items))
}

fn distinct<'v>(list: &List<'v>, work: &Work) -> Outcome<Value<'v>> {
    let mut items: Vec<Value<'v>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        let mut is_known = false;
        for known in &items {
            is_known = match equal(&item, known, work) {
                Err(Failure::Error(_)) => false,
                found => found?,
            };
            if is_known {
                break;
            }
        }
        if !is_known {
            items.push(item);
        }
    }
    Ok(Value::list(items))
}

fn optional_item<'v>(list: &List<'v>, at: usize) -> Outcome<Value<'v>> {
    match list.get(at) {
        Some(item) => Ok(Value::some(item?)),
        None => Ok(Value::Optional(None)),
    }
}

fn sorted<'v>(list: &List<'v>, keys: &List<'v>) -> Outcome<Value<'v>> {
    if list.len() != keys.len() {
        return error(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys \
             list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        ));
    }
    let keys: Vec<Value<'v>> = keys.iter().collect::<Outcome<_>>()?;
    let items: Vec<Value<'v>> = list.iter().collect::<Outcome<_>>()?;
    let Some(first) = keys.first() else {
        return Ok(Value::List(list.clone()));
    };
    if !is_ordered(first) {
        return error("list elements must be comparable");
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return error("list elements must have the same type");
    }
    let mut pairs: Vec<(Value<'v>, Value<'v>)> = keys.into_iter().zip(items).collect();
    pairs.sort_by(|(one, _), (other, _)| compared(one, other).unwrap_or(Ordering::Equal));
    Ok(Value::list(
        pairs.into_iter().map(|(_, item)| item).collect(),
    ))
}

fn unwrapped<'v>(list: &List<'v>) -> Outcome<Value<'v>> {
    let mut items = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(value)) => items.push((*value).clone()),
            Value::Optional(None) => {}
            other => return error(format!("value {other} is not optional")),
        }
    }
    Ok(Value::list(items))
}

/// Returns whether a list contains an item, as the operator `in`.
pub(in super::super) fn contains(list: &List<'_>, item: &Value<'_>, work: &Work) -> Outcome<bool> {
    let mut fault = None;
    for known in list.iter() {
        work.take(1)?;
        let found = known.and_then(|known| match list {
            // The items of an object's list compare themselves.
            List::Json(_) | List::Merged(..) => equal(&known, item, work),
            _ => equal(item, &known, work),
        });
        match found {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(Failure::Error(what)) => fault = fault.or(Some(what)),
            Err(other) => return Err(other),
        }
    }
    match fault.filter(|_| matches!(list, List::Json(_))) {
        Some(what) => Err(Failure::Error(what)),
        None => Ok(false),
    }
}

fn contains_all(list: &List<'_>, part: &List<'_>, work: &Work) -> Outcome<bool> {
    for item in part.iter() {
        if !contains(list, &item?, work)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the result of the operator `in`.
pub(in super::super) fn is_in<'v>(arguments: &[Value<'v>], work: &Work) -> Outcome<Value<'v>> {
    match arguments {
        [item, Value::List(list)] => contains(list, item, work).map(Value::Bool),
        [key, Value::Map(map)] => map.find(key).map(|found| Value::Bool(found.is_some())),
        _ => no_overload(),
    }
}

/// Returns the result of a function of optional values.
pub(in super::super) fn optional<'v>(
    name: &'static str,
    arguments: &[Value<'v>],
    _: &Work,
) -> Outcome<Value<'v>> {
    match (name, arguments) {
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("optional.ofNonZeroValue", [value]) => Ok(match is_zero(value) {
            true => Value::Optional(None),
            false => Value::some(value.clone()),
        }),
        ("hasValue", [Value::Optional(of)]) => Ok(Value::Bool(of.is_some())),
        ("value", [Value::Optional(Some(of))]) => Ok((**of).clone()),
        ("value", [Value::Optional(None)]) => error("optional.none() dereference"),
        _ => no_overload(),
    }
}

/// Returns whether a value is the zero of its type. Lists and maps of an object never are.
fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(of) => !of,
        Value::Int(of) | Value::Duration(of) => *of == 0,
        Value::Uint(of) => *of == 0,
        Value::Double(of) => *of == 0.0,
        Value::String(of) => of.is_empty(),
        Value::Bytes(of) => of.is_empty(),
        Value::List(List::Items(of)) => of.is_empty(),
        Value::Map(Map::Built(of)) => Map::Built(Arc::clone(of)).is_empty(),
        Value::Timestamp(of) => of.is_zero(),
        _ => false,
    }
}

/// Inserts an entry into the result of a macro.
pub(in super::super) fn insert<'v>(
    into: &mut BuiltMap<'v>,
    key: Value<'v>,
    value: Value<'v>,
) -> Outcome<()> {
    if into.find(&key).is_some() {
        return error(format!("insert failed: key {key} already exists"));
    }
    match into.insert(key, value) {
        true => Ok(()),
        false => error("unsupported key type"),
    }
}
