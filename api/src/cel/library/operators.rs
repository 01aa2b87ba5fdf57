//! Equality, order and arithmetic.

use std::cmp::Ordering;

use serde_json::Value as Json;

use super::super::shape::{ObjectShape, Order};
use super::super::values::value::{
    Failure, JsonMap, List, Map, MapOf, Message, Opaque, Outcome, Value, error, no_overload,
};
use super::super::values::work_limit::Work;
use std::collections::HashMap;
use std::sync::Arc;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// Returns whether two values are equal, as the operator `==`.
pub(in super::super) fn equal(one: &Value<'_>, other: &Value<'_>, work: &Work) -> Outcome<bool> {
    match (one, other) {
        (Value::Null, Value::Null) => Ok(true),
        (Value::Null, _) | (_, Value::Null) => Ok(false),
        _ => equal_to(one, other, work),
    }
}

/// Returns whether a value equals another one, as the first one decides.
fn equal_to(one: &Value<'_>, other: &Value<'_>, work: &Work) -> Outcome<bool> {
    work.take(1)?;
    Ok(match (one, other) {
        (Value::Null, other) => matches!(other, Value::Null),
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::String(one), Value::String(other)) => {
            work.take_bytes(one.len().min(other.len()))?;
            **one == **other
        }
        (Value::Bytes(one), Value::Bytes(other)) => {
            work.take_bytes(one.len().min(other.len()))?;
            one == other
        }
        (Value::Type(one), Value::Type(other)) => **one == **other,
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => {
            compared_numbers(one, other) == Some(Ordering::Equal)
        }
        (Value::Timestamp(one), Value::Timestamp(other)) => one == other,
        (Value::Duration(one), Value::Duration(other)) => one == other,
        (Value::Optional(Some(one)), Value::Optional(Some(other))) => {
            return deeper(|| equal_to(one, other, work));
        }
        (Value::Optional(one), Value::Optional(other)) => one.is_none() && other.is_none(),
        (Value::List(one), other) => return deeper(|| equal_lists(one, other, work)),
        (Value::Map(one), other) => return deeper(|| equal_maps(one, other, work)),
        (Value::Message(one), Value::Message(other)) => {
            return deeper(|| equal_messages(one, other, work));
        }
        (Value::Opaque(one), other) => return equal_opaque(one, other),
        (Value::Preserved(one), Value::Preserved(other)) => {
            return deeper(|| equal_json(one, other, work));
        }
        _ => false,
    })
}

fn deeper<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, MORE_STACK, step)
}

fn equal_opaque(one: &Opaque, other: &Value<'_>) -> Outcome<bool> {
    Ok(match (one, other) {
        // Kubernetes does not compare with a sum, which it keeps in another form.
        (Opaque::Quantity(one), Value::Opaque(Opaque::Quantity(other))) if !other.is_computed => {
            one == other
        }
        (Opaque::Ip(one), Value::Opaque(Opaque::Ip(other))) => one == other,
        (Opaque::Cidr(one, bits), Value::Opaque(Opaque::Cidr(other, others))) => {
            one == other && bits == others
        }
        (Opaque::Url(one), Value::Opaque(Opaque::Url(other))) => one == other,
        (Opaque::Semver(one), Value::Opaque(Opaque::Semver(other))) => {
            one.compared(other) == Ordering::Equal
        }
        (Opaque::Format(one), Value::Opaque(Opaque::Format(other))) => one.name == other.name,
        (Opaque::Authorized(one), Value::Opaque(Opaque::Authorized(other))) => {
            Arc::ptr_eq(one, other)
        }
        (Opaque::Decision(one), Value::Opaque(Opaque::Decision(other))) => one == other,
        _ => return no_overload(),
    })
}

fn equal_messages(one: &Message<'_>, other: &Message<'_>, work: &Work) -> Outcome<bool> {
    if one.name() != other.name() || one.fields().len() != other.fields().len() {
        return Ok(false);
    }
    for ((name, value), (other_name, other_value)) in one.fields().zip(other.fields()) {
        if name != other_name || !equal(value, other_value, work)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether two lists are equal. The first one decides whether the order counts.
fn equal_lists(one: &List<'_>, other: &Value<'_>, work: &Work) -> Outcome<bool> {
    let is_json = matches!(one, List::Json(_) | List::Merged(..));
    let Value::List(other) = other else {
        return if is_json { no_overload() } else { Ok(false) };
    };
    if one.len() != other.len() {
        return Ok(false);
    }
    match one.order() {
        Order::Atomic => {}
        Order::Set => return equal_sets(one, other, work),
        Order::Map(keys) => return equal_keyed(one, other, keys, work),
    }
    let mut fault = None;
    for (one_item, other_item) in one.iter().zip(other.iter()) {
        let (one_item, other_item) = (one_item?, other_item?);
        let found = match is_json {
            true => Ok(equal_to(&one_item, &other_item, work)?),
            false => equal(&one_item, &other_item, work),
        };
        match found {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            // Only the sum of two lists reports the error; a plain list takes it for equality.
            Err(Failure::Error(what)) => fault = fault.or(Some(what)),
            Err(other) => return Err(other),
        }
    }
    match fault.filter(|_| matches!(one, List::Joined(_))) {
        Some(what) => Err(Failure::Error(what)),
        None => Ok(true),
    }
}

/// The value of an item of a set, or of the key of an item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    Text(String),
    Other(usize),
}

/// Returns the value of a scalar, and nothing that equals anything for others.
pub(in super::super) fn scalar(value: &Value<'_>) -> Scalar {
    match value {
        Value::Null => Scalar::Null,
        Value::Bool(of) => Scalar::Bool(*of),
        Value::Int(of) | Value::Duration(of) => Scalar::Int(*of),
        Value::Uint(of) => Scalar::Uint(*of),
        Value::Double(of) => Scalar::Double(of.to_bits()),
        Value::String(of) | Value::Type(of) => Scalar::Text((**of).to_owned()),
        Value::Timestamp(of) => Scalar::Text(of.printed()),
        other => Scalar::Other(std::ptr::from_ref(other).addr()),
    }
}

fn equal_sets(one: &List<'_>, other: &List<'_>, work: &Work) -> Outcome<bool> {
    work.take(one.len() + other.len())?;
    let known: Outcome<std::collections::HashSet<Scalar>> =
        one.iter().map(|item| Ok(scalar(&item?))).collect();
    let known = known?;
    for item in other.iter() {
        if !known.contains(&scalar(&item?)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the key of an item of a keyed list.
pub(in super::super) fn key_of(item: &Value<'_>, keys: &[Arc<str>]) -> Outcome<Vec<Scalar>> {
    let Value::Map(item) = item else {
        return error(
            "unexpected data format for element of array with x-kubernetes-list-type=map",
        );
    };
    let parts = keys.iter().map(|key| {
        let escaped = super::super::shape::escaped(key);
        let name = escaped.as_deref().unwrap_or(key);
        let part = item.find(&Value::text(name))?;
        Ok(part.map_or(Scalar::Null, |part| scalar(&part)))
    });
    parts.collect()
}

fn equal_keyed(one: &List<'_>, other: &List<'_>, keys: &[Arc<str>], work: &Work) -> Outcome<bool> {
    work.take(one.len() + other.len())?;
    let mut known = HashMap::new();
    for item in one.iter() {
        let item = item?;
        known.insert(key_of(&item, keys)?, item);
    }
    for item in other.iter() {
        let item = item?;
        let Some(found) = known.get(&key_of(&item, keys)?) else {
            return Ok(false);
        };
        if !equal_to(found, &item, work)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_maps(one: &Map<'_>, other: &Value<'_>, work: &Work) -> Outcome<bool> {
    let Value::Map(other) = other else {
        return match one {
            Map::Json(_) => no_overload(),
            Map::Built(_) => Ok(false),
        };
    };
    if one.len() != other.len() {
        return Ok(false);
    }
    work.take(one.len())?;
    if let Map::Json(JsonMap {
        members,
        of: MapOf::Fields(of),
    }) = one
    {
        return equal_objects(members, of, one, other, work);
    }
    let is_json = matches!(one, Map::Json(_));
    for (key, value) in one.entries() {
        let value = value?;
        let Some(found) = other.find(&key)? else {
            return Ok(false);
        };
        let is_equal = match is_json {
            true => equal_to(&value, &found, work)?,
            false => match equal(&value, &found, work) {
                Err(Failure::Error(_)) => true,
                found => found?,
            },
        };
        if !is_equal {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Compares objects by their named members. Members without a schema are compared as JSON.
fn equal_objects(
    members: &serde_json::Map<String, Json>,
    of: &ObjectShape,
    one: &Map<'_>,
    other: &Map<'_>,
    work: &Work,
) -> Outcome<bool> {
    for (name, value) in members {
        if of.property(name).is_none() {
            let Map::Json(other) = other else {
                return no_overload();
            };
            match other.members.get(name) {
                Some(found) if !equal_json(value, found, work)? => return Ok(false),
                _ => continue,
            }
        }
        let key = Value::text(name.as_str());
        match (one.find(&key)?, other.find(&key)?) {
            (None, None) => {}
            (Some(value), Some(found)) => {
                if !equal_to(&value, &found, work)? {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Returns whether two JSON values are equal.
pub(in super::super) fn equal_json(one: &Json, other: &Json, work: &Work) -> Outcome<bool> {
    work.take(1)?;
    match (one, other) {
        (Json::Array(one), Json::Array(other)) => {
            let mut pairs = one.iter().zip(other);
            Ok(one.len() == other.len()
                && pairs.try_fold(true, |so_far, (one, other)| {
                    let is_equal = so_far && deeper(|| equal_json(one, other, work))?;
                    Ok(is_equal)
                })?)
        }
        (Json::Object(one), Json::Object(other)) => {
            if one.len() != other.len() {
                return Ok(false);
            }
            for (name, value) in one {
                let Some(found) = other.get(name) else {
                    return Ok(false);
                };
                if !deeper(|| equal_json(value, found, work))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Json::String(one), Json::String(other)) => {
            work.take_bytes(one.len().min(other.len()))?;
            Ok(one == other)
        }
        _ => Ok(one == other),
    }
}

/// Returns the order of two numbers, or `None` for other values and for those without one.
fn compared_numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    Some(match (one, other) {
        (Value::Int(one), Value::Int(other)) => one.cmp(other),
        (Value::Uint(one), Value::Uint(other)) => one.cmp(other),
        (Value::Int(one), Value::Uint(other)) => i128::from(*one).cmp(&i128::from(*other)),
        (Value::Uint(one), Value::Int(other)) => i128::from(*one).cmp(&i128::from(*other)),
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other)?,
        (Value::Double(one), Value::Int(other)) => double_and_int(*one, *other)?,
        (Value::Int(one), Value::Double(other)) => double_and_int(*other, *one)?.reverse(),
        (Value::Double(one), Value::Uint(other)) => double_and_uint(*one, *other)?,
        (Value::Uint(one), Value::Double(other)) => double_and_uint(*other, *one)?.reverse(),
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "cel-go compares floats")]
fn double_and_int(double: f64, int: i64) -> Option<Ordering> {
    if double < i64::MIN as f64 {
        return Some(Ordering::Less);
    }
    if double > i64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    double.partial_cmp(&(int as f64))
}

#[expect(clippy::cast_precision_loss, reason = "cel-go compares floats")]
fn double_and_uint(double: f64, uint: u64) -> Option<Ordering> {
    if double < 0.0 {
        return Some(Ordering::Less);
    }
    if double > u64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    double.partial_cmp(&(uint as f64))
}

/// Returns the order of two values, as the operators `<` and so on.
pub(in super::super) fn compared(one: &Value<'_>, other: &Value<'_>) -> Outcome<Ordering> {
    Ok(match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::String(one), Value::String(other)) => (**one).cmp(&**other),
        (Value::Bytes(one), Value::Bytes(other)) => one.cmp(other),
        (Value::Timestamp(one), Value::Timestamp(other)) => one.cmp(other),
        (Value::Duration(one), Value::Duration(other)) => one.cmp(other),
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => match compared_numbers(one, other) {
            Some(order) => order,
            None => return error("NaN values cannot be ordered"),
        },
        _ => return no_overload(),
    })
}

/// Returns whether values of a type have an order.
pub(in super::super) fn is_ordered(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Timestamp(_)
            | Value::Duration(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
    )
}

fn int<'v>(result: Option<i64>) -> Outcome<Value<'v>> {
    result
        .map(Value::Int)
        .ok_or(Failure::Error("integer overflow".into()))
}

fn uint<'v>(result: Option<u64>) -> Outcome<Value<'v>> {
    result
        .map(Value::Uint)
        .ok_or(Failure::Error("unsigned integer overflow".into()))
}

fn duration<'v>(result: Option<i64>) -> Outcome<Value<'v>> {
    result
        .map(Value::Duration)
        .ok_or(Failure::Error("integer overflow".into()))
}

/// Returns the sum of two values.
pub(in super::super) fn sum<'v>(
    one: &Value<'v>,
    other: &Value<'v>,
    work: &Work,
) -> Outcome<Value<'v>> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => int(one.checked_add(*other)),
        (Value::Uint(one), Value::Uint(other)) => uint(one.checked_add(*other)),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one + other)),
        (Value::String(one), Value::String(other)) => {
            work.make_bytes(one.len() + other.len())?;
            let mut text = String::with_capacity(one.len() + other.len());
            text.push_str(one);
            text.push_str(other);
            Ok(Value::text(text))
        }
        (Value::Bytes(one), Value::Bytes(other)) => {
            work.make_bytes(one.len() + other.len())?;
            Ok(Value::Bytes([&**one, &**other].concat().into()))
        }
        (Value::Duration(one), Value::Duration(other)) => duration(one.checked_add(*other)),
        (Value::Timestamp(time), Value::Duration(span))
        | (Value::Duration(span), Value::Timestamp(time)) => {
            time.after(*span).map(Value::Timestamp)
        }
        (Value::List(one), Value::List(other)) => sum_of_lists(one, other, work).map(Value::List),
        _ => missing("_+_", one),
    }
}

/// Returns the error for an operator. If values of the first type have none, it is named, but for
/// those that take calls of any name.
fn missing<T>(name: &str, one: &Value<'_>) -> Outcome<T> {
    let has_operator = match (name, one) {
        (_, Value::Int(_) | Value::Uint(_)) => true,
        (_, Value::String(_) | Value::Duration(_) | Value::Timestamp(_)) => true,
        ("_%_", _) => false,
        (_, Value::Double(_)) => true,
        ("_+_", Value::Bytes(_) | Value::List(_)) => true,
        _ => false,
    };
    match has_operator {
        true => no_overload(),
        false => error(format!("no such overload: {name}")),
    }
}

fn sum_of_lists<'v>(one: &List<'v>, other: &List<'v>, work: &Work) -> Outcome<List<'v>> {
    let of = match one {
        List::Json(json) => json.of,
        List::Merged(_, of) => Some(*of),
        _ => None,
    };
    let Some(of) = of.filter(|_| *one.order() != Order::Atomic) else {
        return one.joined(other);
    };
    work.take(one.len() + other.len())?;
    let mut items: Vec<Value<'v>> = one.iter().collect::<Outcome<_>>()?;
    let mut places = HashMap::new();
    let key = |item: &Value<'v>| match one.order() {
        Order::Map(keys) => key_of(item, keys),
        _ => Ok(vec![scalar(item)]),
    };
    for (at, item) in items.iter().enumerate() {
        places.insert(key(item)?, at);
    }
    let replaces = matches!(one.order(), Order::Map(_));
    for item in other.iter() {
        let item = item?;
        let key = key(&item)?;
        match places.get(&key).and_then(|at| items.get_mut(*at)) {
            Some(place) if replaces => *place = item,
            Some(_) => {}
            None => {
                // Items of a keyed list that the second one repeats are all appended, as in Go.
                if !replaces {
                    places.insert(key, items.len());
                }
                items.push(item);
            }
        }
    }
    Ok(List::Merged(Arc::new(items), of))
}

/// Returns the result of a binary operator other than a comparison.
pub(in super::super) fn arithmetic<'v>(
    name: &str,
    one: &Value<'v>,
    other: &Value<'v>,
    work: &Work,
) -> Outcome<Value<'v>> {
    if name == "_+_" {
        return sum(one, other, work);
    }
    match (name, one, other) {
        ("_-_", Value::Int(one), Value::Int(other)) => int(one.checked_sub(*other)),
        ("_-_", Value::Uint(one), Value::Uint(other)) => uint(one.checked_sub(*other)),
        ("_-_", Value::Double(one), Value::Double(other)) => Ok(Value::Double(one - other)),
        ("_-_", Value::Duration(one), Value::Duration(other)) => duration(one.checked_sub(*other)),
        ("_-_", Value::Timestamp(time), Value::Duration(span)) => match span.checked_neg() {
            Some(span) => time.after(span).map(Value::Timestamp),
            None => error("integer overflow"),
        },
        ("_-_", Value::Timestamp(one), Value::Timestamp(other)) => {
            one.since(*other).map(Value::Duration)
        }
        ("_*_", Value::Int(one), Value::Int(other)) => int(one.checked_mul(*other)),
        ("_*_", Value::Uint(one), Value::Uint(other)) => uint(one.checked_mul(*other)),
        ("_*_", Value::Double(one), Value::Double(other)) => Ok(Value::Double(one * other)),
        ("_/_", Value::Int(_), Value::Int(0)) | ("_/_", Value::Uint(_), Value::Uint(0)) => {
            error("division by zero")
        }
        ("_%_", Value::Int(_), Value::Int(0)) | ("_%_", Value::Uint(_), Value::Uint(0)) => {
            error("modulus by zero")
        }
        ("_/_", Value::Int(one), Value::Int(other)) => int(one.checked_div(*other)),
        ("_/_", Value::Uint(one), Value::Uint(other)) => uint(one.checked_div(*other)),
        ("_/_", Value::Double(one), Value::Double(other)) => Ok(Value::Double(one / other)),
        ("_%_", Value::Int(one), Value::Int(other)) => int(one.checked_rem(*other)),
        ("_%_", Value::Uint(one), Value::Uint(other)) => uint(one.checked_rem(*other)),
        _ => missing(name, one),
    }
}

/// Returns the result of the operators `-` and `!` before a value.
pub(in super::super) fn negated<'v>(name: &str, value: &Value<'v>) -> Outcome<Value<'v>> {
    match (name, value) {
        ("!_", Value::Bool(of)) => Ok(Value::Bool(!of)),
        ("!_", _) => no_overload(),
        (_, Value::Int(of)) => int(of.checked_neg()),
        (_, Value::Double(of)) => Ok(Value::Double(-of)),
        (_, Value::Duration(of)) => duration(of.checked_neg()),
        (_, Value::String(_) | Value::Bool(_) | Value::Timestamp(_)) => no_overload(),
        _ => error("no such overload: -_"),
    }
}
