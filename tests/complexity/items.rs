//! Long lists and maps for a place in a type.

use std::net::IpAddr;

use serde_json::{Map, Value, json};
use taffrail::schema::{ListType, Scalar, Shape};

use crate::places::Place;

/// Members that tell items apart, beside those that the types name.
const NAMES: &[&str] = &[
    "name",
    "key",
    "uid",
    "ip",
    "cidr",
    "path",
    "hostname",
    "mountPath",
    "devicePath",
    "type",
    "topologyKey",
    "driver",
    "port",
    "containerPort",
    "resourceName",
    "containerID",
    "claimName",
    "portName",
    "namespace",
    "manager",
    "host",
    "value",
    "expression",
    "jsonPath",
    "uniqueName",
];

/// What a list or map consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    /// Empty values.
    Empty,
    /// One valid item, again and again.
    Equal,
    /// Valid items with names of their own, from this number on.
    Distinct(usize),
    /// The same in reversed order.
    Reversed,
}

/// A list or map of this many items. `None` for a map of equal items.
pub fn items(place: &Place, kind: Items, n: usize) -> Option<Value> {
    let value = |number: usize| match kind {
        Items::Empty => empty(place),
        Items::Equal => place.item.clone(),
        Items::Distinct(first) => distinct(place, first + number),
        Items::Reversed => distinct(place, n - 1 - number),
    };
    if !place.is_map() {
        return Some((0..n).map(value).collect());
    }
    let key = |number: usize| match kind {
        Items::Distinct(first) => numbered_text(&place.key, first + number),
        _ => numbered_text(&place.key, number),
    };
    // The members of objects have no order here.
    let has_order = !matches!(kind, Items::Equal | Items::Reversed);
    let members = || (0..n).map(|number| (key(number), value(number)));
    has_order.then(|| Value::Object(members().collect::<Map<_, _>>()))
}

fn empty(place: &Place) -> Value {
    match &place.item_type().shape {
        Shape::Scalar(Scalar::Bool) => false.into(),
        Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float64) => 0.into(),
        Shape::Scalar(Scalar::Time | Scalar::MicroTime | Scalar::Duration | Scalar::Quantity) => {
            Value::Null
        }
        Shape::Scalar(_) => "".into(),
        Shape::List(_) => json!([]),
        Shape::Map(_) | Shape::Struct(_) | Shape::Object | Shape::Any => json!({}),
    }
}

/// The item with a name of its own.
fn distinct(place: &Place, number: usize) -> Value {
    let mut item = place.item.clone();
    if place.is_map() {
        return item;
    }
    let Value::Object(members) = &mut item else {
        return numbered(&item, number);
    };
    let keys = match &place.field.list {
        Some(ListType::Map(keys)) => keys.as_slice(),
        _ => &[],
    };
    let patch = place
        .field
        .patch
        .as_ref()
        .and_then(|patch| patch.key.as_deref());
    // Names below are the item's own where it has no others: `metadata.name` of a template.
    let is_name = |name: &String| {
        keys.contains(name) || patch == Some(name) || NAMES.contains(&name.as_str())
    };
    let named: Vec<String> = members
        .keys()
        .filter(|name| is_name(name))
        .cloned()
        .collect();
    let others = members
        .keys()
        .filter(|name| !members[*name].is_boolean())
        .cloned();
    let named = match named.is_empty() {
        true => others.take(1).collect(),
        false => named,
    };
    for name in named {
        members[&name] = numbered(&members[&name], number);
    }
    if let Some(name) = members
        .get_mut("metadata")
        .and_then(|of| of.get_mut("name"))
    {
        *name = numbered(name, number);
    }
    item
}

fn numbered(value: &Value, number: usize) -> Value {
    match value {
        Value::String(text) => numbered_text(text, number).into(),
        Value::Number(first) if first.is_i64() => {
            (first.as_i64().unwrap_or_default() + number as i64).into()
        }
        Value::Object(members) => {
            let mut members = members.clone();
            let first = members
                .values_mut()
                .find(|value| value.is_string() || value.is_object());
            if let Some(first) = first {
                *first = numbered(first, number);
            }
            members.into()
        }
        other => other.clone(),
    }
}

fn numbered_text(text: &str, number: usize) -> String {
    if let Ok(at) = text.parse::<IpAddr>() {
        return address(at, number).to_string();
    }
    if let Some((at, bits)) = text.split_once('/')
        && let (Ok(at), Ok(_)) = (at.parse::<IpAddr>(), bits.parse::<u8>())
    {
        let bits = if at.is_ipv4() { 32 } else { 128 };
        return format!("{}/{bits}", address(at, number));
    }
    match text.parse::<u64>() {
        Ok(first) => (first + number as u64).to_string(),
        Err(_) => format!("{text}{number}"),
    }
}

fn address(first: IpAddr, number: usize) -> IpAddr {
    match first {
        IpAddr::V4(at) => IpAddr::V4((u32::from(at).wrapping_add(number as u32)).into()),
        IpAddr::V6(at) => IpAddr::V6((u128::from(at).wrapping_add(number as u128)).into()),
    }
}
