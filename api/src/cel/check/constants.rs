//! Checks of constant arguments: patterns, times, and format strings.

use super::super::format_clauses::{clause, requirement};
use super::super::notes::key;
use super::super::tree::{Expression, Item, Literal, Node};
use super::super::types::Type;
use super::super::values::times::{RANGE, read_time};
use super::{Checker, MORE_STACK, RED_ZONE};
use crate::structural::pattern::Pattern;
use crate::text::go_duration;

impl Checker<'_> {
    /// Checks the constant arguments of a function. Errors are reported only without type
    /// errors.
    pub(super) fn constants(&mut self, name: &str, arguments: &[Node]) {
        let Some(first) = arguments.first() else {
            return;
        };
        let Expression::Literal(literal) = &first.what else {
            return;
        };
        let is_valid = match (name, literal) {
            // A spent budget refuses the expression anyway.
            ("matches", Literal::String(text)) => {
                !self.budget.take(Pattern::read_steps(text)) || Pattern::new(text).is_ok()
            }
            ("duration", Literal::String(text)) => go_duration::parse(text).is_ok(),
            ("duration", Literal::Int(_)) => false,
            ("timestamp", Literal::String(text)) => read_time(text).is_ok(),
            ("timestamp", Literal::Int(seconds)) => RANGE.contains(seconds),
            _ => true,
        };
        if !is_valid {
            self.wrong_later(first.at, format_args!("invalid {name} argument"));
        }
    }

    /// Checks a constant format string, if its values are a list literal.
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

    /// Checks the values of a format string. Returns an error with the position of a value, or
    /// without a position about the whole call.
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
            let read = clause(bytes, at).map_err(|why| {
                let why = format!("could not parse formatting clause: {why}");
                (None, why)
            })?;
            let clause = read.letter;
            at = read.end;
            self.fits_clause(clause, &value.node).map_err(|node| {
                let of = self.format_types.get(&key(node)).map(plain_name);
                let of = of.unwrap_or_default();
                let what = format!(
                    "error during formatting: {}, was given {of}",
                    requirement(clause)
                );
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

    /// Checks whether a clause can format a value. Returns the part that it can't format.
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

/// Returns whether a clause can format values of a type.
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

/// Returns the name of a type without its parameters.
fn plain_name(of: &Type) -> String {
    let name = of.to_string();
    match name.split_once('(') {
        Some((plain, _)) => plain.to_owned(),
        None => name,
    }
}
