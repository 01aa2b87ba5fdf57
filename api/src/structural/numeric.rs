//! Validation of numbers by their ranges and limits.

use super::check::Check;
use super::faults::Shown;
use super::kind::SchemaKind;
use super::node::Node;
use super::numbers::{GoNumber, cut, is_multiple, out_of_range};
use super::view::Path;
use crate::text::quoting::go_number;

/// Checks a number as kube-apiserver does: its range, the factor, the minimum, the maximum.
pub(super) fn check<'v>(
    check: &mut Check<'_, 'v>,
    number: GoNumber,
    schema: Node<'v>,
    path: &Path<'_>,
) {
    let mut numeric = Numeric {
        check,
        number,
        schema,
        path,
    };
    let rules = schema.rules();
    numeric.is_outside(number, "Checked");
    if let Some(factor) = rules.multiple_of {
        numeric.multiple(factor);
    }
    if let Some(limit) = rules.minimum {
        let words = match rules.is_minimum_exclusive {
            true => "greater than",
            false => "greater than or equal to",
        };
        let is_exclusive = rules.is_minimum_exclusive;
        numeric.limit(limit, "Minimum boundary", words, |number, limit| {
            number < limit || is_exclusive && number == limit
        });
    }
    if let Some(limit) = rules.maximum {
        let words = match rules.is_maximum_exclusive {
            true => "less than",
            false => "less than or equal to",
        };
        let is_exclusive = rules.is_maximum_exclusive;
        numeric.limit(limit, "Maximum boundary", words, |number, limit| {
            number > limit || is_exclusive && number == limit
        });
    }
}

struct Numeric<'n, 'c, 'v> {
    check: &'n mut Check<'c, 'v>,
    number: GoNumber,
    schema: Node<'v>,
    path: &'n Path<'n>,
}

impl Numeric<'_, '_, '_> {
    /// Reports a number that is not in the range of the type and format. Returns whether it is not.
    fn is_outside(&mut self, number: GoNumber, name: &str) -> bool {
        let kind = match self.schema.kind() {
            SchemaKind::IntOrString => "",
            kind => kind.name(),
        };
        let found = out_of_range(number, kind, self.schema.rules().format());
        if let Some(range) = &found {
            let path = self.path;
            let detail = format_args!("{name} value must be of type {kind} {range} in {path}");
            self.check.general(path, detail);
        }
        found.is_some()
    }

    /// Returns the number to compare with a limit, and the limit. An integer is compared with the
    /// integral part of the limit, unless the limit is out of range for the type.
    fn compared(&mut self, limit: f64, name: &str) -> (GoNumber, GoNumber) {
        let is_outside = self.is_outside(GoNumber::Float(limit), name);
        match self.number {
            GoNumber::Int(whole) if !is_outside => {
                (GoNumber::Int(whole), GoNumber::Int(cut(limit)))
            }
            number => (GoNumber::Float(number.float()), GoNumber::Float(limit)),
        }
    }

    /// Returns the value as an error shows it after the conversion for a comparison.
    fn shown(&self, compared: GoNumber) -> Shown<'static> {
        Shown::Other(match compared {
            GoNumber::Int(whole) => whole.into(),
            GoNumber::Float(float) => float.into(),
        })
    }

    fn multiple(&mut self, factor: f64) {
        let (number, factor) = self.compared(factor, "MultipleOf");
        let (path, shown) = (self.path, printed(factor));
        if factor.float() <= 0.0 {
            let detail =
                format_args!("factor MultipleOf declared for {path} must be positive: {shown}");
            let value = self.shown(factor);
            self.check.invalid(path, value, detail);
            return;
        }
        let is_multiple = match (number, factor) {
            (GoNumber::Int(number), GoNumber::Int(factor)) => number.checked_rem(factor) == Some(0),
            (number, factor) => is_multiple(number.float(), factor.float()),
        };
        if !is_multiple {
            let value = self.shown(number);
            let detail = format_args!("{path} in body should be a multiple of {shown}");
            self.check.invalid(path, value, detail);
        }
    }

    fn limit(&mut self, limit: f64, name: &str, words: &str, is_beyond: impl Fn(f64, f64) -> bool) {
        let (number, limit) = self.compared(limit, name);
        let is_beyond = match (number, limit) {
            (GoNumber::Int(number), GoNumber::Int(limit)) => {
                // The difference decides, because large integers are not exact as floats.
                let difference = i128::from(number) - i128::from(limit);
                is_beyond(difference.signum() as f64, 0.0)
            }
            (number, limit) => is_beyond(number.float(), limit.float()),
        };
        if is_beyond {
            let (path, shown) = (self.path, printed(limit));
            let value = self.shown(number);
            let detail = format_args!("{path} in body should be {words} {shown}");
            self.check.invalid(path, value, detail);
        }
    }
}

fn printed(number: GoNumber) -> String {
    match number {
        GoNumber::Int(whole) => whole.to_string(),
        GoNumber::Float(float) => go_number(float),
    }
}
