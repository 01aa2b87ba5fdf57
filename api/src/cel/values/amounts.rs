//! Quantities of resources, as Kubernetes keeps them.

use crate::quantity::{Quantity, QuantityError};

/// The most digits that Kubernetes keeps in 64 bits.
const MOST_DIGITS: usize = 18;

/// A quantity of an expression.
#[derive(Clone, Debug)]
pub struct Amount {
    pub(in super::super) quantity: Quantity,
    /// Whether Kubernetes keeps it as an integer. It takes `1000m` for a fraction.
    pub(in super::super) is_integer: bool,
    /// Whether it is a sum or a difference.
    pub(in super::super) is_computed: bool,
    /// The number in floating point, as Kubernetes computes it from the text.
    pub(in super::super) float: f64,
}

impl PartialEq for Amount {
    fn eq(&self, other: &Amount) -> bool {
        self.quantity == other.quantity
    }
}

impl Amount {
    /// Parses a quantity.
    pub(in super::super) fn read(text: &str) -> Result<Amount, QuantityError> {
        Ok(Amount {
            quantity: text.parse()?,
            is_integer: is_integer(text),
            is_computed: false,
            float: float(text),
        })
    }

    /// Returns an integer.
    #[expect(clippy::cast_precision_loss, reason = "it is an approximation")]
    pub(in super::super) fn whole(number: i64) -> Amount {
        Amount {
            quantity: Quantity::whole(number),
            is_integer: true,
            is_computed: false,
            float: number as f64,
        }
    }

    /// Returns a sum or difference with this quantity. It is an integer if both parts are, or one
    /// of them is zero.
    pub(in super::super) fn combined(&self, other: &Amount, quantity: Quantity) -> Amount {
        let is_integer = match (self.quantity.sign(), other.quantity.sign()) {
            (_, 0) => self.is_integer,
            (0, _) => other.is_integer,
            _ => self.is_integer && other.is_integer,
        };
        let float = float(&quantity.to_string());
        Amount {
            quantity,
            is_integer,
            is_computed: true,
            float,
        }
    }
}

/// The parts of a quantity's text: the digits before and after the point, and the suffix.
fn parts(text: &str) -> (bool, &str, &str, &str) {
    let is_negative = text.starts_with('-');
    let rest = text.trim_start_matches(['-', '+']);
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    (is_negative, whole.trim_start_matches('0'), fraction, suffix)
}

/// Returns the power of ten of a suffix, or the power of two of a binary one.
fn scale(suffix: &str) -> (i32, Option<i32>) {
    let decimal = |power: i32| (power, None);
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => (0, Some(10)),
        "Mi" => (0, Some(20)),
        "Gi" => (0, Some(30)),
        "Ti" => (0, Some(40)),
        "Pi" => (0, Some(50)),
        "Ei" => (0, Some(60)),
        other => decimal(other.trim_start_matches(['e', 'E']).parse().unwrap_or(0)),
    }
}

/// Returns whether Kubernetes keeps a quantity as an integer of 64 bits.
fn is_integer(text: &str) -> bool {
    let (_, whole, fraction, suffix) = parts(text);
    let digits = whole.len() + fraction.len();
    let number = format!("{whole}{fraction}").parse::<i64>().unwrap_or(0);
    if digits > MOST_DIGITS {
        return false;
    }
    match scale(suffix) {
        (_, Some(power)) => {
            fraction.is_empty() && i128::from(number) << power <= i128::from(i64::MAX)
        }
        (power, None) => {
            let power = power - i32::try_from(fraction.len()).unwrap_or(0);
            let factor = u32::try_from(power)
                .ok()
                .and_then(|power| 10_i64.checked_pow(power));
            number == 0 && power >= 0 || factor.is_some_and(|of| number.checked_mul(of).is_some())
        }
    }
}

/// Returns a quantity in floating point: its digits multiplied by a power of ten.
#[expect(clippy::cast_precision_loss, reason = "it is an approximation")]
fn float(text: &str) -> f64 {
    let (is_negative, whole, fraction, suffix) = parts(text);
    let number: f64 = match format!("{whole}{fraction}").parse::<i64>() {
        Ok(number) => number as f64,
        Err(_) => format!("{whole}{fraction}").parse().unwrap_or(0.0),
    };
    let decimals = i32::try_from(fraction.len()).unwrap_or(0);
    let power = |exponent: i32| format!("1e{exponent}").parse::<f64>().unwrap_or(1.0);
    let value = match scale(suffix) {
        (_, Some(binary)) => number * 2_f64.powi(binary) * power(-decimals),
        (exponent, None) if exponent == decimals => number,
        (exponent, None) => number * power(exponent - decimals),
    };
    if is_negative { -value } else { value }
}
