//! Functions of quantities.

use std::sync::Arc;

use super::super::values::amounts::Amount;
use super::super::values::value::{Opaque, Outcome, Value, error, no_overload};
use super::super::values::work_limit::Work;

fn value<'v>(amount: Amount) -> Value<'v> {
    Value::Opaque(Opaque::Quantity(Arc::new(amount)))
}

/// Returns the result of a function of quantities.
pub(in super::super) fn call<'v>(
    name: &'static str,
    arguments: &[Value<'v>],
    _: &Work,
) -> Outcome<Value<'v>> {
    let amount = match arguments {
        [Value::String(text)] => {
            return match (name, Amount::read(text)) {
                ("isQuantity", read) => Ok(Value::Bool(read.is_ok())),
                ("quantity", Ok(amount)) => Ok(value(amount)),
                ("quantity", Err(why)) => error(why.to_string()),
                _ => no_overload(),
            };
        }
        [Value::Opaque(Opaque::Quantity(amount)), ..] => amount,
        _ => return no_overload(),
    };
    let other = match arguments.get(1) {
        None => return property(name, amount),
        Some(Value::Opaque(Opaque::Quantity(other))) => Arc::clone(other),
        Some(Value::Int(number)) => Arc::new(Amount::whole(*number)),
        _ => return no_overload(),
    };
    let order = amount.quantity.cmp(&other.quantity);
    Ok(match name {
        "isLessThan" => Value::Bool(order.is_lt()),
        "isGreaterThan" => Value::Bool(order.is_gt()),
        "compareTo" => Value::Int(order as i64),
        "add" => value(amount.combined(&other, amount.quantity.plus(&other.quantity))),
        "sub" => value(amount.combined(&other, amount.quantity.minus(&other.quantity))),
        _ => return no_overload(),
    })
}

fn property<'v>(name: &str, amount: &Amount) -> Outcome<Value<'v>> {
    let quantity = &amount.quantity;
    match name {
        "sign" => Ok(Value::Int(i64::try_from(quantity.sign()).unwrap_or(0))),
        "isInteger" => Ok(Value::Bool(amount.is_integer)),
        "asInteger" if amount.is_integer => Ok(Value::Int(quantity.value())),
        "asInteger" => error("cannot convert value to integer"),
        "asApproximateFloat" => Ok(Value::Double(amount.float)),
        _ => no_overload(),
    }
}
