//! Functions of semantic versions.

use std::sync::Arc;

use super::super::values::semver::Semver;
use super::super::values::value::{Opaque, Outcome, Value, error, no_overload};
use super::super::values::work_limit::Work;

/// Returns the result of a function of versions.
pub(in super::super) fn call<'v>(
    name: &'static str,
    arguments: &[Value<'v>],
    _: &Work,
) -> Outcome<Value<'v>> {
    let int = |number: u64| Value::Int(i64::from_ne_bytes(number.to_ne_bytes()));
    match (name, arguments) {
        ("semver" | "isSemver", [Value::String(text), rest @ ..]) => {
            let read = match rest {
                [] | [Value::Bool(false)] => Semver::read(text),
                [Value::Bool(true)] => Semver::read_tolerantly(text),
                _ => return no_overload(),
            };
            match (name, read) {
                ("isSemver", read) => Ok(Value::Bool(read.is_ok())),
                (_, Ok(of)) => Ok(Value::Opaque(Opaque::Semver(Arc::new(of)))),
                (_, Err(why)) => error(why),
            }
        }
        ("major", [Value::Opaque(Opaque::Semver(of))]) => Ok(int(of.numbers[0])),
        ("minor", [Value::Opaque(Opaque::Semver(of))]) => Ok(int(of.numbers[1])),
        ("patch", [Value::Opaque(Opaque::Semver(of))]) => Ok(int(of.numbers[2])),
        (
            name,
            [
                Value::Opaque(Opaque::Semver(one)),
                Value::Opaque(Opaque::Semver(other)),
            ],
        ) => {
            let order = one.compared(other);
            Ok(match name {
                "isLessThan" => Value::Bool(order.is_lt()),
                "isGreaterThan" => Value::Bool(order.is_gt()),
                "compareTo" => Value::Int(order as i64),
                _ => return no_overload(),
            })
        }
        _ => no_overload(),
    }
}
