//! Path elements: the steps from a value to one of its children.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::{Number, Value};
use smol_str::SmolStr;

use crate::text::quoting::GoQuoted;

/// A step of a field path (API-182). Sorted as in Kubernetes: fields, keys, values, indexes.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// The member of a map or struct with this name.
    Field(SmolStr),
    /// The item of a list whose key fields have these values, sorted by name.
    Key(Arc<[(SmolStr, Value)]>),
    /// The item of a set with this value.
    Value(Arc<Value>),
    /// The item of a list at this index.
    Index(i64),
}

impl PathElement {
    /// Returns the element for the member with this name.
    pub fn field(name: &str) -> PathElement {
        PathElement::Field(SmolStr::new(name))
    }

    /// Returns the element for the item with these key fields, given in any order.
    pub fn key(mut fields: Vec<(SmolStr, Value)>) -> PathElement {
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        PathElement::Key(fields.into())
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &PathElement) -> Ordering {
        use PathElement::{Field, Index, Key, Value};
        match (self, other) {
            (Field(one), Field(other)) => one.cmp(other),
            (Key(one), Key(other)) => compare_keys(one, other),
            (Value(one), Value(other)) => compare_values(one, other),
            (Index(one), Index(other)) => one.cmp(other),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &PathElement) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &PathElement) -> bool {
        match (self, other) {
            (PathElement::Field(one), PathElement::Field(other)) => one == other,
            _ => self.cmp(other) == Ordering::Equal,
        }
    }
}

impl Eq for PathElement {}

/// Formats an element as conflicts and errors show it: `.spec`, `[name="a"]`, `[="v"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(fields) => {
                f.write_str("[")?;
                for (place, (name, value)) in fields.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={}", Shown(value))?;
                }
                f.write_str("]")
            }
            PathElement::Value(value) => write!(f, "[={}]", Shown(value)),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value, formatted as in paths.
struct Shown<'v>(&'v Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => f.write_str(&shown_number(number)),
            Value::String(text) => write!(f, "{}", GoQuoted(text)),
            Value::Array(items) => {
                f.write_str("[")?;
                for (place, item) in items.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma}{}", Shown(item))?;
                }
                f.write_str("]")
            }
            Value::Object(members) => {
                let mut members = members.iter();
                members.try_for_each(|(name, value)| write!(f, "{name}={}", Shown(value)))
            }
        }
    }
}

/// Formats a number like Go's `%v`: floats below 0.0001 and from 1e+06 on have an exponent.
pub(crate) fn shown_number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => go_float(float),
        _ => number.to_string(),
    }
}

fn go_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or_default() {
        // Rust and Go print the same shortest digits, but Rust's exponents have no plus sign and
        // may have one digit.
        small @ ..-4 => format!("{digits}e-{:02}", small.unsigned_abs()),
        large @ 6.. => format!("{digits}e+{large:02}"),
        _ => float.to_string(),
    }
}

fn compare_keys(one: &[(SmolStr, Value)], other: &[(SmolStr, Value)]) -> Ordering {
    for ((name, value), (other_name, other_value)) in one.iter().zip(other) {
        let order = name.cmp(other_name);
        let order = order.then_with(|| compare_values(value, other_value));
        if order != Ordering::Equal {
            return order;
        }
    }
    one.len().cmp(&other.len())
}

/// Compares values: numbers, texts, booleans, lists, maps, null. The order is total, and compares
/// integers with floats by their numeric values.
pub(super) fn compare_values(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare_numbers(one, other),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Array(one), Value::Array(other)) => {
            let pairs = one.iter().zip(other);
            let mut orders = pairs.map(|(one, other)| compare_values(one, other));
            let first = orders.find(|order| *order != Ordering::Equal);
            first.unwrap_or_else(|| one.len().cmp(&other.len()))
        }
        (Value::Object(one), Value::Object(other)) => {
            let pairs = one.iter().zip(other);
            let mut orders = pairs.map(|((name, value), (other_name, other_value))| {
                let order = name.cmp(other_name);
                order.then_with(|| compare_values(value, other_value))
            });
            let first = orders.find(|order| *order != Ordering::Equal);
            first.unwrap_or_else(|| one.len().cmp(&other.len()))
        }
        _ => rank(one).cmp(&rank(other)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(one: &Number, other: &Number) -> Ordering {
    if let (Some(one), Some(other)) = (one.as_i64(), other.as_i64()) {
        return one.cmp(&other);
    }
    let floats = (
        one.as_f64().unwrap_or_default(),
        other.as_f64().unwrap_or_default(),
    );
    // Large integers may be equal as floats. Such floats have no fraction.
    let order = floats.0.total_cmp(&floats.1);
    if floats.0 == floats.1 {
        whole(one).cmp(&whole(other))
    } else {
        order
    }
}

fn whole(number: &Number) -> i128 {
    match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => whole.into(),
        (None, Some(whole)) => whole.into(),
        (None, None) => number.as_f64().unwrap_or_default() as i128,
    }
}

/// Returns whether values are equal. 1 equals 1.0.
pub(crate) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            compare_numbers(one, other) == Ordering::Equal
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len()
                && pairs.all(|((name, value), (other_name, other_value))| {
                    name == other_name && equal(value, other_value)
                })
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_formatted_as_in_go() {
        for (number, shown) in [
            (json!(80), "80"),
            (json!(-1), "-1"),
            (json!(1.5), "1.5"),
            (json!(1e21), "1e+21"),
            (json!(1000000.0), "1e+06"),
            (json!(123456.5), "123456.5"),
            (json!(1.5e-7), "1.5e-07"),
            (json!(0.0001), "0.0001"),
        ] {
            assert_eq!(Shown(&number).to_string(), shown);
        }
    }

    #[test]
    fn the_order_of_numbers_is_total() {
        let numbers = [
            json!(-1.5),
            json!(0),
            json!(0.5),
            json!(9_007_199_254_740_992_i64),
            json!(9_007_199_254_740_993_i64),
            json!(9_007_199_254_740_994.0),
            json!(u64::MAX),
            json!(1e300),
        ];
        for (place, one) in numbers.iter().enumerate() {
            for (other_place, other) in numbers.iter().enumerate() {
                assert_eq!(compare_values(one, other), place.cmp(&other_place));
                assert_eq!(equal(one, other), place == other_place);
            }
        }
        assert!(equal(&json!(1), &json!(1.0)) && equal(&json!(0.0), &json!(-0.0)));
    }

    #[test]
    fn elements_are_ordered_by_kind_and_value() {
        let ordered = [
            PathElement::field("a"),
            PathElement::field("b"),
            PathElement::key(vec![("port".into(), json!(80))]),
            PathElement::key(vec![("port".into(), json!(443))]),
            PathElement::Value(Arc::new(json!("x"))),
            PathElement::Index(2),
            PathElement::Index(10),
        ];
        assert!(ordered.is_sorted());
        let shown: Vec<String> = ordered.iter().map(PathElement::to_string).collect();
        let expected = [
            ".a",
            ".b",
            "[port=80]",
            "[port=443]",
            "[=\"x\"]",
            "[2]",
            "[10]",
        ];
        assert_eq!(shown, expected);
    }
}
