//! Constants that a function can't read: patterns, times, and texts with places for values.

use super::super::tree::{Expression, Item, Literal, Node};
use super::super::types::Type;
use super::{Checker, MORE_STACK, RED_ZONE};
use crate::structural::pattern::Pattern;

impl Checker<'_> {
    /// Looks at the constant arguments of a function. They are told of if all types fit.
    pub(super) fn constants(&mut self, name: &str, arguments: &[Node]) {
        let Some(last) = arguments.last() else { return };
        let Expression::Literal(Literal::String(text)) = &last.what else {
            return;
        };
        let is_valid = match name {
            // If the budget is spent, the expression is refused for that.
            "matches" => !self.budget.take(Pattern::read_steps(text)) || Pattern::new(text).is_ok(),
            "duration" => is_duration(text),
            "timestamp" => text.parse::<jiff::Timestamp>().is_ok(),
            _ => true,
        };
        if !is_valid {
            self.wrong_later(last.at, format_args!("invalid {name} argument"));
        }
    }

    /// Looks at a constant text with places, if the values for them are listed.
    pub(super) fn format(&mut self, at: usize, target: &Node, arguments: &[Node]) {
        let (Expression::Literal(Literal::String(text)), [values]) = (&target.what, arguments)
        else {
            return;
        };
        if let Expression::List(values) = &values.what
            && let Err((place, what)) = self.formatted(text, values)
        {
            self.wrong_later(place.unwrap_or(at), what);
        }
    }

    /// Whether the values fit the places. What is wrong is told of a value or of the whole.
    fn formatted(&self, text: &str, values: &[Item]) -> Result<(), (Option<usize>, String)> {
        let bytes = text.as_bytes();
        let (mut at, mut count) = (0, 0);
        while let Some(byte) = bytes.get(at) {
            at += 1;
            if *byte != b'%' {
                continue;
            }
            let Some(next) = bytes.get(at) else {
                return Err((None, "unexpected end of string".to_owned()));
            };
            if *next == b'%' {
                at += 1;
                continue;
            }
            let Some(value) = values.get(count) else {
                return Err((None, format!("index {count} out of range")));
            };
            count += 1;
            let (clause, end) = clause(bytes, at).map_err(|why| {
                let why = format!("could not parse formatting clause: {why}");
                (None, why)
            })?;
            at = end;
            self.fits_clause(clause, &value.node).map_err(|node| {
                let of = self.format_types.get(&key(node)).map(plain_name);
                let of = of.unwrap_or_default();
                let what = format!("error during formatting: {}, was given {of}", asked(clause));
                (Some(node.at), what)
            })?;
        }
        if values.len() > count {
            let given = values.len();
            let what = format!(
                "too many arguments supplied to string.format (expected {count}, got {given})"
            );
            return Err((None, what));
        }
        Ok(())
    }

    /// The part of a value that a clause can't show, if there is one.
    fn fits_clause<'n>(&self, clause: u8, node: &'n Node) -> Result<(), &'n Node> {
        let Some(of) = self.format_types.get(&key(node)) else {
            return Ok(());
        };
        if !takes(clause, of) {
            return Err(node);
        }
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || match &node.what {
            Expression::List(items) => items
                .iter()
                .try_for_each(|item| self.fits_clause(clause, &item.node)),
            Expression::Map(entries) => entries.iter().try_for_each(|(key, value)| {
                self.fits_clause(clause, &key.node)?;
                self.fits_clause(clause, value)
            }),
            _ => Ok(()),
        })
    }
}

/// What tells a part of an expression from the others.
pub(super) fn key(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}

/// The clause that begins behind a `%`, and where it ends.
fn clause(bytes: &[u8], from: usize) -> Result<(u8, usize), String> {
    let mut at = from;
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        let rest = bytes.get(at..).unwrap_or_default();
        let digits: String = rest
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .map(|byte| char::from(*byte))
            .collect();
        at += digits.len();
        let wrong = |what: &str| format!("error while parsing precision: {what}");
        if at >= bytes.len() {
            return Err(wrong("could not find end of precision specifier"));
        }
        if digits.parse::<i64>().is_err() {
            let why = match digits.is_empty() {
                true => "invalid syntax",
                false => "value out of range",
            };
            return Err(wrong(&format!(
                "error while converting precision to integer: strconv.Atoi: parsing \
                 \"{digits}\": {why}"
            )));
        }
    }
    let byte = bytes.get(at).copied().unwrap_or_default();
    match asked(byte).is_empty() {
        true => Err(format!(
            "unrecognized formatting clause \"{}\"",
            char::from(byte)
        )),
        false => Ok((byte, at + 1)),
    }
}

/// What a clause asks of a value. There is none for what is no clause.
fn asked(clause: u8) -> &'static str {
    match clause {
        b's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
             types, durations, and timestamps"
        }
        b'd' => "decimal clause can only be used on integers",
        b'f' => "fixed-point clause can only be used on doubles",
        b'e' => "scientific clause can only be used on doubles",
        b'b' => "only integers and bools can be formatted as binary",
        b'x' | b'X' => "only integers, byte buffers, and strings can be formatted as hex",
        b'o' => "octal clause can only be used on integers",
        _ => "",
    }
}

/// Whether a clause may show values of a type.
fn takes(clause: u8, of: &Type) -> bool {
    match of {
        Type::Dyn | Type::Wrong | Type::Parameter(_) => true,
        Type::Int | Type::Uint => !matches!(clause, b'f' | b'e'),
        Type::Double => matches!(clause, b's' | b'f' | b'e'),
        Type::Bool => matches!(clause, b's' | b'b'),
        Type::Bytes => matches!(clause, b's' | b'x' | b'X'),
        Type::String => matches!(clause, b's' | b'f' | b'e' | b'x' | b'X'),
        Type::Null
        | Type::Duration
        | Type::Timestamp
        | Type::List(_)
        | Type::Map(_)
        | Type::Type(_) => clause == b's',
        Type::Any | Type::Optional(_) | Type::Object(_) | Type::Opaque(_) => false,
    }
}

/// The name of a type without the types that it is made of.
fn plain_name(of: &Type) -> String {
    let name = of.to_string();
    match name.split_once('(') {
        Some((plain, _)) => plain.to_owned(),
        None => name,
    }
}

fn is_duration(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut rest = rest;
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let (number, behind) = rest
            .split_at_checked(rest.len() - behind.len())
            .unwrap_or((rest, ""));
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let unit = units.into_iter().find(|unit| behind.starts_with(unit));
        let Some(unit) = unit.filter(|_| number.parse::<f64>().is_ok()) else {
            return false;
        };
        rest = behind.get(unit.len()..).unwrap_or_default();
    }
    true
}
