//! The implementation of each function.

use std::cmp::Ordering;
use std::fmt::Write as _;

use super::super::values::value::{Failure, Opaque, Outcome, Value, error, no_overload};
use super::super::values::work_limit::Work;
use super::{
    authorizer, conversions, format_text, formats, lists, networks, operators, quantities, semver,
    strings, times, urls,
};

/// The implementation of a function.
pub(in super::super) type Implementation =
    for<'v> fn(&'static str, &[Value<'v>], &Work) -> Outcome<Value<'v>>;

/// Returns the implementation of a function.
pub(in super::super) fn find(name: &str) -> Implementation {
    match name {
        "!_" | "-_" => |name, arguments, _| match arguments {
            [value] => operators::negated(name, value),
            _ => no_overload(),
        },
        "_+_" | "_-_" | "_*_" | "_/_" | "_%_" => |name, arguments, work| match arguments {
            [one, other] => operators::arithmetic(name, one, other, work),
            _ => no_overload(),
        },
        "_<_" | "_<=_" | "_>_" | "_>=_" => comparison,
        "@in" => |_, arguments, work| lists::is_in(arguments, work),
        "size" => size,
        "int" | "uint" | "double" | "string" | "bool" | "bytes" | "duration" | "timestamp"
        | "dyn" | "type" => conversions::convert,
        "contains"
        | "startsWith"
        | "endsWith"
        | "charAt"
        | "lowerAscii"
        | "upperAscii"
        | "trim"
        | "replace"
        | "split"
        | "substring"
        | "strings.quote"
        | "jsonpatch.escapeKey" => strings::call,
        "indexOf" | "lastIndexOf" => |name, arguments, work| match arguments.first() {
            Some(Value::List(_)) => lists::call(name, arguments, work),
            _ => strings::call(name, arguments, work),
        },
        "format" => format_text::call,
        "optional.of" | "optional.none" | "optional.ofNonZeroValue" | "hasValue" | "value" => {
            lists::optional
        }
        "url" | "isURL" | "getScheme" | "getHost" | "getHostname" | "getPort"
        | "getEscapedPath" | "getQuery" => urls::call,
        "ip"
        | "isIP"
        | "ip.isCanonical"
        | "cidr"
        | "isCIDR"
        | "containsIP"
        | "containsCIDR"
        | "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast" => networks::call,
        "quantity" | "isQuantity" | "sign" | "add" | "sub" | "isInteger" | "asInteger"
        | "asApproximateFloat" => quantities::call,
        "isLessThan" | "isGreaterThan" | "compareTo" => {
            |name, arguments, work| match arguments.first() {
                Some(Value::Opaque(Opaque::Semver(_))) => semver::call(name, arguments, work),
                _ => quantities::call(name, arguments, work),
            }
        }
        "semver" | "isSemver" | "major" | "minor" | "patch" => semver::call,
        "validate" => formats::call,
        name if name.starts_with("format.") => formats::call,
        name if name.starts_with("get") => |name, arguments, _| times::method(name, arguments),
        "path" | "group" | "serviceAccount" | "resource" | "subresource" | "namespace" | "name"
        | "fieldSelector" | "labelSelector" | "check" | "allowed" | "reason" | "error"
        | "errored" => authorizer::call,
        _ => lists::call,
    }
}

/// Returns the result of a function, or the error for arguments that it can't take.
pub(in super::super) fn call<'v>(
    implementation: Implementation,
    name: &'static str,
    arguments: &[Value<'v>],
    work: &Work,
) -> Outcome<Value<'v>> {
    match implementation(name, arguments, work) {
        Err(Failure::Error(what))
            if what == "no such overload" && !is_unguarded(name, arguments) =>
        {
            let mut types = String::new();
            for (at, argument) in arguments.iter().enumerate() {
                let separator = if at > 0 { ", " } else { "" };
                let _ = write!(types, "{separator}{}", argument.type_name());
            }
            error(format!("no such overload: {name}({types})"))
        }
        other => other,
    }
}

/// Returns whether a function looks at the types of its arguments itself, so that its error does
/// not list them.
fn is_unguarded(name: &str, arguments: &[Value<'_>]) -> bool {
    let is_network = matches!(name, "containsIP" | "containsCIDR")
        && matches!(arguments.first(), Some(Value::Opaque(Opaque::Cidr(..))));
    is_network
        || name.starts_with(['_', '!', '-', '@'])
        || matches!(
            name,
            "contains" | "startsWith" | "endsWith" | "matches" | "dyn" | "type" | "size"
        )
}

fn comparison<'v>(name: &'static str, arguments: &[Value<'v>], _: &Work) -> Outcome<Value<'v>> {
    let [one, other] = arguments else {
        return no_overload();
    };
    if !operators::is_ordered(one) {
        return error(format!("no such overload: {name}"));
    }
    let order = operators::compared(one, other)?;
    Ok(Value::Bool(match name {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn size<'v>(_: &'static str, arguments: &[Value<'v>], work: &Work) -> Outcome<Value<'v>> {
    match arguments {
        [value] => {
            if let Value::String(text) = value {
                work.take_bytes(text.len())?;
            }
            match (value, value.measured()) {
                // Addresses have a size only for the cost.
                (Value::Opaque(_), _) => error("no such overload: size"),
                (_, Some(size)) => Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
                (Value::Duration(_) | Value::Timestamp(_), None) => no_overload(),
                (_, None) => error("no such overload: size"),
            }
        }
        _ => no_overload(),
    }
}
