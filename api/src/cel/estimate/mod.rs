//! Estimates of what expressions may cost, by the bounds of the schemas over which they run
//! (CRD-51). They follow cel-go and Kubernetes to the unit, because they decide which definitions
//! are accepted.

mod calls;
mod expression;
mod functions;
pub mod limits;
mod macros;
mod paths;

use super::Checked;
use super::shape::Shape;
use crate::structural::Budget;

/// A range of sizes or costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least one.
    pub min: u64,
    /// The greatest one.
    pub max: u64,
}

/// 2^64.
const TOO_MUCH: f64 = 18_446_744_073_709_551_616.0;

/// The cost of reading a character.
const CHARACTER: f64 = 0.1;
/// The cost of a pattern's character for each text of unit cost.
const PATTERN_CHARACTER: f64 = 0.25;

#[expect(clippy::cast_precision_loss, reason = "as cel-go computes it")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is in range"
)]
fn scaled(size: u64, factor: f64) -> u64 {
    let size = size as f64;
    if size > 0.0 && factor > 0.0 && size > u64::MAX as f64 / factor {
        return u64::MAX;
    }
    let product = (size * factor).ceil();
    if product >= TOO_MUCH {
        u64::MAX
    } else {
        product as u64
    }
}

impl Range {
    /// Any size.
    const UNKNOWN: Range = Range {
        min: 0,
        max: u64::MAX,
    };

    const fn of(number: u64) -> Range {
        Range {
            min: number,
            max: number,
        }
    }

    #[must_use]
    fn plus(self, other: Range) -> Range {
        Range {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    #[must_use]
    fn times(self, other: Range) -> Range {
        Range {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Returns the range multiplied by a factor, rounded up.
    #[must_use]
    fn scaled(self, factor: f64) -> Range {
        Range {
            min: scaled(self.min, factor),
            max: scaled(self.max, factor),
        }
    }

    /// Returns the smallest range that has both.
    #[must_use]
    fn or(self, other: Range) -> Range {
        Range {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

impl Checked {
    /// Returns an estimate of what the expression costs over values of a shape, or `None` if the
    /// budget is spent.
    pub fn estimate(&self, shape: &Shape, budget: &Budget) -> Option<Range> {
        expression::estimate(&self.tree, &self.notes, shape, budget)
    }
}

#[cfg(test)]
mod tests;
