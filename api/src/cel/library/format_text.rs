//! The method `format` of texts: `'%s is %d'.format([name, age])`.

use std::fmt::Write as _;

use super::super::format_clauses::{clause, requirement};
use super::super::values::times::printed_duration;
use super::super::values::value::{List, Map, Outcome, Value, error, no_overload};
use super::super::values::work_limit::Work;
use super::conversions::convert;
use crate::text::quoting::{GoQuoted, go_double};

/// The decimals without a precision.
const DECIMALS: usize = 6;

/// The greatest precision that Go reads.
const MOST_PRECISION: usize = 10_000_009;

/// Returns the result of `format`.
pub(in super::super) fn call<'v>(
    _: &'static str,
    arguments: &[Value<'v>],
    work: &Work,
) -> Outcome<Value<'v>> {
    let [Value::String(text), Value::List(values)] = arguments else {
        return no_overload();
    };
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut at, mut count, mut plain) = (0, 0, 0);
    while let Some(found) = memchr::memchr(b'%', bytes.get(at..).unwrap_or_default()) {
        at += found;
        out.push_str(text.get(plain..at).unwrap_or_default());
        at += 1;
        if bytes.get(at) == Some(&b'%') {
            out.push('%');
            at += 1;
            plain = at;
            continue;
        }
        let Some(value) = values.get(count) else {
            return error(format!("index {count} out of range"));
        };
        if at >= bytes.len() {
            return error("unexpected end of string");
        }
        count += 1;
        let read = match clause(bytes, at) {
            Ok(read) => read,
            Err(why) => return error(format!("could not parse formatting clause: {why}")),
        };
        (at, plain) = (read.end, read.end);
        let value = value?;
        match formatted(read.letter, read.precision, &value, work) {
            Ok(text) => out.push_str(&text),
            Err(Why::Failure(fault)) => return Err(fault),
            Err(Why::Type(name)) => {
                let wanted = requirement(read.letter);
                return error(format!(
                    "error during formatting: {wanted}, was given {name}"
                ));
            }
            Err(Why::Other(why)) => return error(format!("error during formatting: {why}")),
        }
        work.make_bytes(out.len())?;
    }
    out.push_str(text.get(plain..).unwrap_or_default());
    Ok(Value::text(out))
}

/// The reason why a value can't be formatted.
enum Why {
    Failure(super::super::values::value::Failure),
    /// The clause does not take values of this type.
    Type(&'static str),
    Other(String),
}

impl From<super::super::values::value::Failure> for Why {
    fn from(fault: super::super::values::value::Failure) -> Why {
        Why::Failure(fault)
    }
}

fn formatted(
    letter: u8,
    precision: Option<usize>,
    value: &Value<'_>,
    work: &Work,
) -> Result<String, Why> {
    let wrong = || Err(Why::Type(value.type_name()));
    match (letter, value) {
        (b's', value) => string(value, work),
        (b'd', Value::Int(_) | Value::Uint(_)) => Ok(value.to_string()),
        (b'b', Value::Bool(of)) => Ok(u8::from(*of).to_string()),
        (b'b' | b'o' | b'x' | b'X', Value::Int(of)) => {
            let sign = if *of < 0 { "-" } else { "" };
            Ok(format!("{sign}{}", in_base(letter, of.unsigned_abs())))
        }
        (b'b' | b'o' | b'x' | b'X', Value::Uint(of)) => Ok(in_base(letter, *of)),
        (b'x' | b'X', Value::String(text)) => hex(letter, text.as_bytes(), work),
        (b'x' | b'X', Value::Bytes(bytes)) => hex(letter, bytes, work),
        (b'f' | b'e', value) => {
            let number = match value {
                Value::Double(of) => *of,
                Value::String(text) => match &**text {
                    "NaN" => f64::NAN,
                    "Infinity" => f64::INFINITY,
                    "-Infinity" => f64::NEG_INFINITY,
                    _ => return wrong(),
                },
                _ => return wrong(),
            };
            let precision = precision.unwrap_or(DECIMALS);
            if precision > MOST_PRECISION {
                return Ok("%!(NOVERB)".to_owned());
            }
            Ok(match letter {
                // Go keeps the lowest 8 bits of the precision, and ignores a precision whose bits
                // are zero.
                b'f' if precision > 0 && precision & 0xff == 0 => in_full(number),
                b'f' => fixed(number, precision & 0xff),
                // The precision is taken for the width, in 16 bits.
                _ => format!("{:>1$}", scientific(number), precision & 0xffff),
            })
        }
        _ => wrong(),
    }
}

fn in_base(letter: u8, number: u64) -> String {
    match letter {
        b'b' => format!("{number:b}"),
        b'o' => format!("{number:o}"),
        b'x' => format!("{number:x}"),
        _ => format!("{number:X}"),
    }
}

fn hex(letter: u8, bytes: &[u8], work: &Work) -> Result<String, Why> {
    work.make_bytes(2 * bytes.len())?;
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = match letter {
            b'x' => write!(out, "{byte:02x}"),
            _ => write!(out, "{byte:02X}"),
        };
    }
    Ok(out)
}

/// Returns how numbers that have no digits are printed.
fn special(number: f64) -> Option<String> {
    if number.is_nan() {
        return Some("NaN".to_owned());
    }
    let text = if number > 0.0 { "∞" } else { "-∞" };
    number.is_infinite().then(|| text.to_owned())
}

/// Returns a number without the sign of a zero.
fn unsigned_zero(number: f64) -> f64 {
    if number == 0.0 { 0.0 } else { number }
}

/// Formats a number as in English: with commas between groups of three digits.
fn fixed(number: f64, decimals: usize) -> String {
    if let Some(text) = special(number) {
        return text;
    }
    grouped(&format!("{:.decimals$}", unsigned_zero(number)))
}

/// Formats a number as [`fixed`], with as many decimals as it has.
fn in_full(number: f64) -> String {
    special(number).unwrap_or_else(|| grouped(&unsigned_zero(number).to_string()))
}

/// Puts commas between groups of three digits before the point.
fn grouped(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut out = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Formats a number with a power of ten as in English: `1.5×10⁰³`.
fn scientific(number: f64) -> String {
    if let Some(text) = special(number) {
        return text;
    }
    let text = format!("{:.DECIMALS$e}", unsigned_zero(number));
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ("⁻", exponent),
        None => ("", exponent),
    };
    let mut out = format!("{digits}×10{sign}");
    for digit in format!("{exponent:0>2}").chars() {
        let raised = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
        let at = digit
            .to_digit(10)
            .and_then(|digit| usize::try_from(digit).ok());
        out.extend(at.and_then(|at| raised.get(at)));
    }
    out
}

/// Formats a value for `%s`.
fn string(value: &Value<'_>, work: &Work) -> Result<String, Why> {
    match value {
        Value::List(list) => items(list, work),
        Value::Map(map) => members(map, work),
        Value::Null => Ok("null".to_owned()),
        Value::Type(name) => Ok((**name).to_owned()),
        Value::String(text) => Ok((**text).to_owned()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Why::Other(
                "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" \
                 to string"
                    .to_owned(),
            )),
        },
        Value::Optional(_) | Value::Opaque(_) | Value::Preserved(_) => {
            Err(Why::Type(value.type_name()))
        }
        Value::Double(of) => Ok(go_double(*of)),
        other => match convert("string", std::slice::from_ref(other), work)? {
            Value::String(text) => Ok((*text).to_owned()),
            _ => Err(Why::Type(value.type_name())),
        },
    }
}

/// Formats a value inside of a list or a map, as expressions write it.
fn inner(value: &Value<'_>, work: &Work) -> Result<String, Why> {
    work.take(1)?;
    Ok(match value {
        Value::Int(_) | Value::Uint(_) => value.to_string(),
        Value::String(text) => GoQuoted(text).to_string(),
        Value::Bytes(bytes) => format!("b{}", GoQuoted(&String::from_utf8_lossy(bytes))),
        Value::Bool(of) => of.to_string(),
        Value::Null => "null".to_owned(),
        Value::Type(name) => (**name).to_owned(),
        Value::Timestamp(of) => format!("timestamp({})", GoQuoted(&of.printed())),
        Value::Duration(of) => format!("duration({})", GoQuoted(&printed_duration(*of))),
        Value::Double(of) if of.is_finite() => format!("{of:.DECIMALS$}"),
        Value::Double(of) => GoQuoted(&go_double(*of)).to_string(),
        Value::List(list) => deeper(|| items(list, work))?,
        Value::Map(map) => deeper(|| members(map, work))?,
        other => {
            let name = other.type_name();
            return Err(Why::Other(format!("no formatting function for {name}")));
        }
    })
}

fn deeper<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(64 * 1024, 1024 * 1024, step)
}

fn items(list: &List<'_>, work: &Work) -> Result<String, Why> {
    let mut out = "[".to_owned();
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(&inner(&item?, work)?);
    }
    out.push(']');
    work.make_bytes(out.len())?;
    Ok(out)
}

fn members(map: &Map<'_>, work: &Work) -> Result<String, Why> {
    let mut pairs = Vec::with_capacity(map.len());
    for (key, value) in map.entries() {
        let key = match &key {
            Value::String(text) => GoQuoted(text).to_string(),
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) => key.to_string(),
            other => {
                let name = other.type_name();
                return Err(Why::Other(format!(
                    "no formatting function for map key of type {name}"
                )));
            }
        };
        pairs.push((key, inner(&value?, work)?));
    }
    pairs.sort();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    let out = format!("{{{}}}", pairs.join(", "));
    work.make_bytes(out.len())?;
    Ok(out)
}
