//! Numbers that don't fit into 128 bits of billionths: decimal digits and a power of ten.
//!
//! All operations are linear in the number of digits.

use std::cmp::Ordering;
use std::fmt;

use super::{DECIMAL, Format, MAX, NANO_DIGITS};

/// The number of digits that a sum may have beyond those of its parts. If the parts are further
/// apart, the greater one is the sum.
const GAP_MAX: i64 = 1000;

/// A number whose absolute value exceeds [`MAX`] billionths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Large {
    is_negative: bool,
    /// The digits, most significant first. The first and the last one are not zero.
    digits: Vec<u8>,
    /// The power of ten of the last digit, at least that of a billionth.
    exponent: i64,
}

impl Large {
    /// Returns the number with these digits. `exponent` is the power of ten of the last one.
    pub(super) fn new(is_negative: bool, digits: Vec<u8>, exponent: i64) -> Large {
        let large = Large {
            is_negative,
            digits,
            exponent,
        };
        large.rounded_to(-NANO_DIGITS).trimmed()
    }

    /// Returns a number of billionths.
    fn of(nanos: i128) -> Large {
        let digits = nanos.unsigned_abs().to_string().into_bytes();
        let digits = digits.into_iter().map(|digit| digit - b'0').collect();
        Large::new(nanos < 0, digits, -NANO_DIGITS)
    }

    fn trimmed(mut self) -> Large {
        let first = self.digits.iter().position(|digit| *digit != 0);
        self.digits.drain(..first.unwrap_or(self.digits.len()));
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exponent += 1;
        }
        self
    }

    /// Returns the number in billionths, if it is small enough.
    pub(super) fn nanos(&self) -> Option<i128> {
        if self.top() > 30 {
            return None;
        }
        // The greatest numbers below that bound don't fit into 128 bits.
        let zeros = usize::try_from(self.exponent + NANO_DIGITS).ok()?;
        let digits = self.digits.iter().copied();
        let nanos = digits
            .chain(std::iter::repeat_n(0, zeros))
            .try_fold(0_i128, |nanos, digit| {
                nanos.checked_mul(10)?.checked_add(i128::from(digit))
            })?;
        let nanos = if self.is_negative { -nanos } else { nanos };
        (nanos.abs() <= MAX).then_some(nanos)
    }

    /// Returns the power of ten above the first digit.
    fn top(&self) -> i64 {
        self.digits.len() as i64 + self.exponent
    }

    pub(super) fn is_negative(&self) -> bool {
        self.is_negative
    }

    pub(super) fn negated(self) -> Large {
        Large {
            is_negative: !self.is_negative,
            ..self
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.exponent >= 0
    }

    /// Rounds away from zero to a multiple of a power of ten.
    pub(super) fn rounded_to(mut self, exponent: i64) -> Large {
        let Some(drop) = usize::try_from(exponent - self.exponent)
            .ok()
            .filter(|drop| *drop > 0)
        else {
            return self;
        };
        let keep = self.digits.len().saturating_sub(drop);
        let is_more = self.digits.drain(keep..).any(|digit| digit != 0);
        self.exponent = exponent;
        if is_more {
            let mut place = self.digits.len();
            loop {
                match place.checked_sub(1).and_then(|at| self.digits.get_mut(at)) {
                    Some(digit) if *digit == 9 => *digit = 0,
                    Some(digit) => {
                        *digit += 1;
                        break;
                    }
                    None => {
                        self.digits.insert(0, 1);
                        break;
                    }
                }
                place -= 1;
            }
        }
        self.trimmed()
    }

    /// Returns the lowest 64 bits of the number of thousandths, because Kubernetes truncates it to
    /// them.
    pub(super) fn low_thousandths(&self) -> i64 {
        let number = self.clone().rounded_to(-3);
        let digits = number.digits.iter();
        let units = digits.fold(0_i64, |sum, digit| {
            sum.wrapping_mul(10).wrapping_add(i64::from(*digit))
        });
        // From the 64th power of ten on, these bits are all zero.
        let power = (number.exponent + 3).clamp(0, 64) as u32;
        let thousandths = units.wrapping_mul(10_i64.wrapping_pow(power));
        match self.is_negative {
            true => thousandths.wrapping_neg(),
            false => thousandths,
        }
    }

    /// Returns the digit for a power of ten.
    fn digit(&self, power: i64) -> u8 {
        let at = usize::try_from(self.top() - 1 - power).ok();
        at.and_then(|at| self.digits.get(at)).copied().unwrap_or(0)
    }

    /// Compares absolute values.
    fn compare_size(&self, other: &Large) -> Ordering {
        let tops = self.top().cmp(&other.top());
        tops.then_with(|| self.digits.cmp(&other.digits))
    }

    pub(super) fn compare(&self, other: &Large) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.compare_size(other),
            (true, true) => other.compare_size(self),
        }
    }

    pub(super) fn plus(&self, other: &Large) -> Large {
        let is_greater = self.compare_size(other) != Ordering::Less;
        let (great, small) = if is_greater {
            (self, other)
        } else {
            (other, self)
        };
        let bottom = great.exponent.min(small.exponent);
        let top = great.top();
        let longest = (great.digits.len() + small.digits.len()) as i64;
        if small.digits.is_empty() || top - bottom > longest + GAP_MAX {
            return great.clone();
        }
        let subtracts = great.is_negative != small.is_negative;
        let mut digits = Vec::new();
        let mut carry = 0_i8;
        for power in bottom..=top {
            let (one, other) = (great.digit(power) as i8, small.digit(power) as i8);
            let sum = if subtracts { one - other } else { one + other } + carry;
            carry = sum.div_euclid(10);
            digits.push(sum.rem_euclid(10) as u8);
        }
        digits.reverse();
        Large::new(great.is_negative, digits, bottom)
    }

    /// Writes the canonical text.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, format: Format) -> fmt::Result {
        if self.is_negative {
            f.write_str("-")?;
        }
        // The suffix is the greatest one with which the number is whole.
        let power = self.exponent.div_euclid(3) * 3;
        let greatest = (DECIMAL.len() as i64 - 1) * 3 - NANO_DIGITS;
        let power = match format {
            Format::DecimalExponent => power,
            _ => power.min(greatest),
        };
        for digit in &self.digits {
            write!(f, "{digit}")?;
        }
        for _ in power..self.exponent {
            f.write_str("0")?;
        }
        match (format, power) {
            (Format::DecimalExponent, 0) => Ok(()),
            (Format::DecimalExponent, _) => write!(f, "e{power}"),
            _ => {
                let place = usize::try_from((power + NANO_DIGITS) / 3).unwrap_or_default();
                f.write_str(DECIMAL.get(place).unwrap_or(&""))
            }
        }
    }
}

impl From<i128> for Large {
    fn from(nanos: i128) -> Large {
        Large::of(nanos)
    }
}
