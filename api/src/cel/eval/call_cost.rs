//! The costs of calls, as cel-go and Kubernetes count them.

use super::super::functions::Overload;
use super::super::types::Type;
use super::super::values::value::{List, Map, Opaque, Outcome, Value};
use super::super::values::work_limit::Work;

/// The cost of reading a character.
const CHARACTER: f64 = 0.1;
/// The cost of a pattern's character for each text of unit cost.
const PATTERN_CHARACTER: f64 = 0.25;
/// The cost of a new list, beyond those of its items.
pub(in super::super) const LIST: u64 = 10;
/// The cost of a new map.
pub(in super::super) const MAP: u64 = 30;
/// The cost of a new message.
pub(in super::super) const MESSAGE: u64 = 40;
/// The cost of a question about permissions.
pub(in super::super) const AUTHORIZATION: u64 = 350_000;
/// The cost of each requirement of a selector: a new list and a new structure.
pub(in super::super) const REQUIREMENT: f64 = 50.0;

/// How the cost of a call is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Price {
    Fixed(u64),
    /// Reading the first argument so many times.
    First(u64),
    /// As [`Price::First`], but an optional value counts as the value in it.
    FirstInside,
    /// Visiting all values in the first argument.
    Traversal,
    /// Writing and reading the result.
    Join,
    Find,
    Matches,
    Contains,
    /// The items of the second argument.
    InList,
    /// The shorter of two texts.
    Shorter,
    /// Both texts.
    Both,
    Selector,
    ContainsIp {
        is_text: bool,
    },
    ContainsCidr {
        is_text: bool,
    },
    Validate,
    /// The items of the result.
    NewList,
    Flatten,
    /// Comparing all items of an argument with each other.
    SelfComparison(usize),
    /// Comparing all items of two lists so many times.
    Sets(f64),
}

/// Returns the price of a function. `overload` is the only one that matches, if there is only one.
pub(in super::super) fn price(name: &str, overload: Option<&Overload>) -> Price {
    let argument = |at: usize| overload.and_then(|overload| overload.arguments.get(at));
    let is_text = |at: usize| argument(at) == Some(&Type::String);
    let has_length = matches!(argument(0), Some(Type::String | Type::Bytes));
    match name {
        "check" => Price::Fixed(AUTHORIZATION),
        "fieldSelector" | "labelSelector" => Price::Selector,
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Price::Traversal,
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => Price::First(1),
        "ip" if matches!(argument(0), Some(Type::Opaque(_))) => Price::Fixed(1),
        "ip" => Price::First(1),
        "replace" | "split" | "ip.isCanonical" => Price::First(2),
        "join" => Price::Join,
        "find" | "findAll" => Price::Find,
        "containsIP" => Price::ContainsIp {
            is_text: is_text(1),
        },
        "containsCIDR" => Price::ContainsCidr {
            is_text: is_text(1),
        },
        "validate" => Price::Validate,
        // All of the following depend on the overload, or cost one unit if it is not known.
        _ if overload.is_none() => Price::Fixed(1),
        "startsWith" | "endsWith" | "strings.quote" | "format" => Price::FirstInside,
        "bytes" if is_text(0) => Price::FirstInside,
        "string" if argument(0) == Some(&Type::Bytes) => Price::FirstInside,
        "@in" if matches!(argument(1), Some(Type::List(_))) => Price::InList,
        "_<_" | "_<=_" | "_>_" | "_>=_" if has_length => Price::Shorter,
        "_+_" if has_length => Price::Both,
        "matches" if overload.is_some_and(|overload| overload.is_method) => Price::Matches,
        "contains" => Price::Contains,
        "slice" | "lists.range" | "reverse" => Price::NewList,
        "flatten" => Price::Flatten,
        "distinct" | "sort" => Price::SelfComparison(0),
        "@sortByAssociatedKeys" => Price::SelfComparison(1),
        "sets.contains" | "sets.intersects" => Price::Sets(1.0),
        "sets.equivalent" => Price::Sets(2.0),
        _ => Price::Fixed(1),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as cel-go computes it")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates"
)]
fn times(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

#[expect(clippy::cast_precision_loss, reason = "as cel-go computes it")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates"
)]
fn times_down(size: u64, factor: f64) -> u64 {
    (size as f64 * factor) as u64
}

/// Returns the cost of comparing two values with `==`.
pub(super) fn equality(one: &Outcome<Value<'_>>, other: &Outcome<Value<'_>>) -> u64 {
    if matches!(one, Ok(Value::Opaque(_))) {
        return 1;
    }
    inequality(one, other)
}

/// Returns the cost of comparing two values with `!=`.
pub(super) fn inequality(one: &Outcome<Value<'_>>, other: &Outcome<Value<'_>>) -> u64 {
    times(inside(Some(one)).min(inside(Some(other))), CHARACTER)
}

/// Returns the size of an argument. An error counts as one.
fn inside(value: Option<&Outcome<Value<'_>>>) -> u64 {
    value
        .and_then(|value| value.as_ref().ok())
        .map_or(1, Value::size)
}

/// As [`inside`], but an optional value counts as one.
fn outside(value: Option<&Outcome<Value<'_>>>) -> u64 {
    let measured = value
        .and_then(|value| value.as_ref().ok())
        .and_then(Value::measured);
    measured.unwrap_or(1)
}

impl Price {
    /// Returns whether the cost depends on the result.
    pub(super) fn is_of_result(self) -> bool {
        matches!(self, Price::Join | Price::NewList)
    }

    /// Returns the cost of a call with these arguments.
    pub(super) fn of(
        self,
        arguments: &[Outcome<Value<'_>>],
        result: Option<&Outcome<Value<'_>>>,
        work: &Work,
    ) -> Outcome<u64> {
        let size = |at: usize| outside(arguments.get(at));
        let size_inside = |at: usize| inside(arguments.get(at));
        Ok(match self {
            Price::Fixed(cost) => cost,
            Price::First(count) => times(size(0).saturating_mul(count), CHARACTER),
            Price::FirstInside => times(size_inside(0), CHARACTER),
            Price::Traversal => match arguments.first() {
                Some(Ok(value)) => traversal(value, work)?,
                _ => 1,
            },
            Price::Join => times(outside(result).saturating_mul(2), CHARACTER),
            Price::Find => {
                times(1 + size(0), CHARACTER).saturating_mul(times(size(1), PATTERN_CHARACTER))
            }
            Price::Matches => times(1 + size_inside(0), CHARACTER)
                .saturating_mul(times(size_inside(1), PATTERN_CHARACTER)),
            Price::Contains => {
                times(size_inside(0), CHARACTER).saturating_mul(times(size_inside(1), CHARACTER))
            }
            Price::InList => size_inside(1),
            Price::Shorter => times(size_inside(0).min(size_inside(1)), CHARACTER),
            Price::Both => times(size_inside(0) + size_inside(1), CHARACTER),
            Price::Selector => {
                let length = size(1);
                LIST + times(length, CHARACTER) + times(times(length, 0.5), REQUIREMENT)
            }
            Price::ContainsIp { is_text } => {
                let text = if is_text {
                    times(size(1), CHARACTER)
                } else {
                    0
                };
                times(2 * size(0), CHARACTER) + text
            }
            Price::ContainsCidr { is_text } => {
                let text = if is_text {
                    times(size(1), CHARACTER)
                } else {
                    0
                };
                times(2 * size(0), CHARACTER) + times(size(0), CHARACTER) + 1 + text
            }
            Price::Validate => match arguments.first() {
                Some(Ok(Value::Opaque(Opaque::Format(format)))) => times(1 + size(1), CHARACTER)
                    .saturating_mul(times(format.size, PATTERN_CHARACTER)),
                _ => 1,
            },
            Price::NewList => outside(result).saturating_add(1 + LIST),
            Price::Flatten => {
                let depth = match arguments.get(1) {
                    Some(Ok(Value::Int(depth))) => u64::try_from(*depth).unwrap_or(0),
                    _ => 1,
                };
                depth.saturating_mul(size(0)).saturating_add(1 + LIST)
            }
            Price::SelfComparison(at) => {
                let first = match arguments.get(at) {
                    Some(Ok(Value::List(list))) => list.get(0),
                    _ => None,
                };
                let has_length = matches!(first, Some(Ok(Value::String(_) | Value::Bytes(_))));
                let factor = if has_length { 2.0 + CHARACTER } else { 2.0 };
                let pairs = match first.is_some() {
                    true => size(at).saturating_mul(size(at)),
                    false => 0,
                };
                times_down(pairs, factor).saturating_add(1 + LIST)
            }
            Price::Sets(factor) => {
                times_down(size(0).saturating_mul(size(1)), factor).saturating_add(1)
            }
        })
    }
}

/// Returns the cost of visiting all values in a value.
fn traversal(value: &Value<'_>, work: &Work) -> Outcome<u64> {
    work.take(1)?;
    Ok(match value {
        Value::String(text) => times_down(text.len() as u64, CHARACTER),
        Value::Bytes(bytes) => times_down(bytes.len() as u64, CHARACTER),
        Value::List(list) => stacker::maybe_grow(64 * 1024, 1024 * 1024, || items(list, work))?,
        Value::Map(map) => stacker::maybe_grow(64 * 1024, 1024 * 1024, || members(map, work))?,
        _ => 1,
    })
}

fn items(list: &List<'_>, work: &Work) -> Outcome<u64> {
    let mut cost = 0_u64;
    for item in list.iter() {
        cost = cost.saturating_add(item.map_or(Ok(1), |item| traversal(&item, work))?);
    }
    Ok(cost)
}

fn members(map: &Map<'_>, work: &Work) -> Outcome<u64> {
    let mut cost = 0_u64;
    for (key, value) in map.entries() {
        let value = value.map_or(Ok(1), |value| traversal(&value, work))?;
        cost = cost
            .saturating_add(traversal(&key, work)?)
            .saturating_add(value);
    }
    Ok(cost)
}
