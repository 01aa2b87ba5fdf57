//! Functions of named formats.

use super::super::values::formats::named;
use super::super::values::value::{Opaque, Outcome, Value, no_overload};
use super::super::values::work_limit::Work;

/// Returns the result of a function of formats.
pub(in super::super) fn call<'v>(
    name: &'static str,
    arguments: &[Value<'v>],
    work: &Work,
) -> Outcome<Value<'v>> {
    match (name, arguments) {
        ("format.named", [Value::String(name)]) => Ok(match named(name) {
            Some(format) => Value::some(Value::Opaque(Opaque::Format(format))),
            None => Value::Optional(None),
        }),
        ("validate", [Value::Opaque(Opaque::Format(format)), Value::String(text)]) => {
            work.take_bytes(64 * text.len())?;
            let faults = (format.faults)(text);
            Ok(match faults.is_empty() {
                true => Value::Optional(None),
                false => {
                    let faults = faults.into_iter().map(Value::text).collect();
                    Value::some(Value::list(faults))
                }
            })
        }
        (name, []) => match name.strip_prefix("format.").and_then(named) {
            Some(format) => Ok(Value::Opaque(Opaque::Format(format))),
            None => no_overload(),
        },
        _ => no_overload(),
    }
}
