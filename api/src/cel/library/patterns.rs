//! Searches with regular expressions.

use super::super::values::patterns::Compiled;
use super::super::values::value::{Outcome, Value, error, no_overload};
use super::super::values::work_limit::Work;
use crate::structural::pattern::Pattern;

/// The comparisons of a pattern's parts with bytes of a text that take one step of work.
const COMPARISONS_IN_STEP: usize = 256;

/// Returns the result of `matches`, `find` and `findAll`. `known` is the compiled pattern, if it is
/// a constant.
pub(in super::super) fn call<'v>(
    name: &'static str,
    known: Option<&Compiled>,
    arguments: &[Value<'v>],
    work: &Work,
) -> Outcome<Value<'v>> {
    let (Some(Value::String(text)), Some(pattern)) = (arguments.first(), arguments.get(1)) else {
        return no_overload();
    };
    let Value::String(pattern) = pattern else {
        return no_overload();
    };
    let compiled;
    let found = match known {
        Some(known) => known,
        None => {
            let steps = Pattern::read_steps(pattern) * 4;
            work.take(steps)?;
            compiled = match work.compiled(pattern) {
                Ok(compiled) => compiled,
                Err(why) if name == "matches" => return error(why),
                Err(why) => return error(format!("Illegal regex: {why}")),
            };
            &compiled
        }
    };
    work.take(1 + text.len().saturating_mul(found.cost) / COMPARISONS_IN_STEP)?;
    let regex = &found.regex;
    match (name, arguments.get(2)) {
        ("matches", None) => Ok(Value::Bool(regex.is_match(text))),
        ("find", None) => {
            let part = regex.find(text).map(|part| part.as_str().to_owned());
            Ok(Value::text(part.unwrap_or_default()))
        }
        ("findAll", most) => {
            let most = match most {
                None => usize::MAX,
                Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
                Some(_) => return no_overload(),
            };
            let mut parts = Vec::new();
            for part in regex.find_iter(text).take(most) {
                work.make_bytes(part.len())?;
                parts.push(Value::text(part.as_str().to_owned()));
            }
            Ok(Value::list(parts))
        }
        _ => no_overload(),
    }
}
