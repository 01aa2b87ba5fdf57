//! Quantities: `500m`, `1Gi`, `1e3` (API-254).
//!
//! A quantity is a whole number of billionths, the smallest unit that Kubernetes distinguishes;
//! smaller parts are rounded away from zero. Sums and comparisons are therefore exact. Quantities
//! beyond 10^29 are kept as decimal digits.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde_json::Value;

mod large;
mod wrapped;

use large::Large;

pub use wrapped::seems_whole;

/// The notation of a quantity, in which it is also printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `1Ki`.
    BinarySi,
    /// `1k`, `1m` and plain numbers.
    DecimalSi,
    /// `1e3`.
    DecimalExponent,
}

/// An amount of a resource.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: Format,
}

/// A number.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Amount {
    /// A number of billionths, at most [`MAX`] from zero.
    Nanos(i128),
    /// A number further from zero.
    Large(Arc<Large>),
}

impl Amount {
    fn of(large: Large) -> Amount {
        match large.nanos() {
            Some(nanos) => Amount::Nanos(nanos),
            None => Amount::Large(Arc::new(large)),
        }
    }

    fn to_large(&self) -> Large {
        match self {
            Amount::Nanos(nanos) => Large::from(*nanos),
            Amount::Large(large) => (**large).clone(),
        }
    }

    fn negated(self) -> Amount {
        match self {
            Amount::Nanos(nanos) => Amount::Nanos(-nanos),
            Amount::Large(large) => Amount::Large(Arc::new(Arc::unwrap_or_clone(large).negated())),
        }
    }

    /// Rounds away from zero to a multiple of a power of ten of billionths.
    fn rounded_to(self, power: u32) -> Amount {
        match self {
            Amount::Nanos(nanos) => {
                let nanos = rounded(nanos, 10_i128.pow(power));
                if nanos.abs() <= MAX {
                    return Amount::Nanos(nanos);
                }
                Amount::of(Large::from(nanos))
            }
            Amount::Large(large) => {
                let exponent = i64::from(power) - NANO_DIGITS;
                Amount::of(Arc::unwrap_or_clone(large).rounded_to(exponent))
            }
        }
    }

    /// Returns the number in units of a power of ten of billionths, rounded away from zero.
    /// Truncates numbers beyond 64 bits.
    fn units(&self, power: u32) -> i64 {
        let unit = 10_i128.pow(power);
        match self {
            Amount::Nanos(nanos) => saturated(rounded(*nanos, unit) / unit),
            Amount::Large(large) if large.is_negative() => i64::MIN,
            Amount::Large(_) => i64::MAX,
        }
    }
}

/// Kubernetes' error for a text that is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not match the regular expression.
    #[error(
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Form,
    /// Its suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO_DIGITS: i64 = 9;
const ONE: i128 = 1_000_000_000;
const MAX: i128 = 100_000_000_000_000_000_000_000_000_000_000_000_000;
/// The limit on binary quantities.
const MAX_BINARY: i128 = i64::MAX as i128 * ONE;

/// The suffixes of powers of 1000, in ascending order.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The suffixes of powers of 1024, in ascending order.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The factor of a suffix.
struct Scale {
    format: Format,
    power_of_ten: i64,
    power_of_1024: usize,
}

impl Scale {
    fn read(suffix: &str) -> Option<Scale> {
        if let Some(place) = DECIMAL.iter().position(|known| *known == suffix) {
            return Some(Scale {
                format: Format::DecimalSi,
                power_of_ten: (place as i64 - 3) * 3,
                power_of_1024: 0,
            });
        }
        if let Some(place) = BINARY.iter().position(|known| *known == suffix) {
            return Some(Scale {
                format: Format::BinarySi,
                power_of_ten: 0,
                power_of_1024: place,
            });
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // A larger exponent would not change the result, which is too small or too large anyway.
        let power = digits.parse().unwrap_or(i64::from(i32::MAX));
        let power = power.min(i64::from(i32::MAX));
        Some(Scale {
            format: Format::DecimalExponent,
            power_of_ten: if exponent.starts_with('-') {
                -power
            } else {
                power
            },
            power_of_1024: 0,
        })
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    /// # Errors
    /// The text is not a quantity.
    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        let (is_negative, number, scale) = parts(text)?;
        let small = small_nanos(number, &scale).map(Amount::Nanos);
        let mut amount = small.unwrap_or_else(|| amount(number, &scale));
        let mut format = scale.format;
        if format == Format::BinarySi {
            match &amount {
                Amount::Nanos(nanos) if *nanos > 0 && *nanos < ONE => format = Format::DecimalSi,
                Amount::Nanos(nanos) => amount = Amount::Nanos((*nanos).min(MAX_BINARY)),
                Amount::Large(_) => amount = Amount::Nanos(MAX_BINARY),
            }
        }
        let amount = if is_negative {
            amount.negated()
        } else {
            amount
        };
        Ok(Quantity { amount, format })
    }
}

/// Splits a text into sign, number and scale. Without digits the number is zero, as in Go.
fn parts(text: &str) -> Result<(bool, &str, Scale), QuantityError> {
    let text = text.trim();
    let (is_negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let is_numeric = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let end = rest.bytes().position(|byte| !is_numeric(byte));
    let (number, suffix) = rest.split_at(end.unwrap_or(rest.len()));
    if text.is_empty() || number.bytes().filter(|byte| *byte == b'.').count() > 1 {
        return Err(QuantityError::Form);
    }
    check_suffix(suffix)?;
    let scale = Scale::read(suffix).ok_or(QuantityError::Suffix)?;
    Ok((is_negative, number, scale))
}

/// Returns a quantity as Kubernetes prints it after parsing: in canonical form, or unchanged if its
/// number looks canonical (`+5`, `05`, `1E3`).
///
/// # Errors
/// The text is not a quantity.
pub fn printed(text: &str) -> Result<String, QuantityError> {
    let (_, number, scale) = parts(text)?;
    match looks_canonical(number, &scale) {
        true => Ok(text.trim().to_owned()),
        false => text
            .parse::<Quantity>()
            .map(|quantity| quantity.to_string()),
    }
}

/// Returns whether a text is a quantity in the most common form: an integer with or without suffix,
/// at least a thousandth. [`printed`] returns such a text unchanged.
pub fn is_usual(text: &str) -> bool {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit());
    let (digits, suffix) = text.split_at(end.unwrap_or(text.len()));
    if digits == "0" {
        return suffix.is_empty();
    }
    let is_number = !digits.is_empty() && digits.len() <= 12 && !digits.starts_with('0');
    let is_kept = match suffix {
        "" | "m" | "k" | "M" | "G" => !digits.ends_with("000"),
        "Ki" | "Mi" | "Gi" => {
            digits.len() <= 6 && digits.parse::<u32>().is_ok_and(|n| n % 1024 != 0)
        }
        _ => false,
    };
    is_number && is_kept
}

/// Returns the text of a quantity in a tree. For a number it is the text that Go prints.
pub fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            match (1e-6..1e21).contains(&number.abs()) {
                true => format!("{number}"),
                false => format!("{number:e}"),
            }
        }
        other => other.to_string(),
    }
}

/// Returns whether Kubernetes takes a number for a canonical one.
fn looks_canonical(number: &str, scale: &Scale) -> bool {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.trim_start_matches('0');
    let digits = whole.len() + fraction.len();
    if whole.is_empty() {
        return false;
    }
    if scale.format == Format::BinarySi {
        // Kubernetes counts three decimal digits for each power of 1024.
        let is_eighth = whole.parse::<u64>().is_ok_and(|number| number % 8 == 0);
        return fraction.is_empty() && !is_eighth && digits + 3 * scale.power_of_1024 <= 14;
    }
    let power = scale.power_of_ten - fraction.len() as i64;
    let mut last = whole.bytes().chain(fraction.bytes()).rev();
    let ends_in_zeros = digits >= 3 && last.by_ref().take(3).all(|digit| digit == b'0');
    digits <= 18 && power >= -NANO_DIGITS && power % 3 == 0 && !ends_in_zeros
}

/// Checks that a suffix has the form of one: letters, a sign, digits.
fn check_suffix(suffix: &str) -> Result<(), QuantityError> {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    match rest.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(()),
        false => Err(QuantityError::Form),
    }
}

/// Returns an integer of few digits in billionths, as most quantities are. Returns `None` for
/// others.
fn small_nanos(number: &str, scale: &Scale) -> Option<i128> {
    if number.is_empty() || number.len() > 15 {
        return None;
    }
    let units: i128 = number.parse::<u64>().ok()?.into();
    let units = units << (10 * scale.power_of_1024);
    let power = u32::try_from(NANO_DIGITS + scale.power_of_ten).ok()?;
    let nanos = units.checked_mul(10_i128.checked_pow(power)?)?;
    (nanos <= MAX).then_some(nanos)
}

/// Multiplies a decimal number by a scale, rounded up to whole billionths.
fn amount(number: &str, scale: &Scale) -> Amount {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // The digits, most significant first.
    let mut digits: Vec<u8> = whole
        .bytes()
        .chain(fraction.bytes())
        .map(|d| d - b'0')
        .collect();
    for _ in 0..scale.power_of_1024 {
        multiply_by_1024(&mut digits);
    }
    if digits.iter().all(|digit| *digit == 0) {
        return Amount::Nanos(0);
    }
    let exponent = scale.power_of_ten - fraction.len() as i64;
    Amount::of(Large::new(false, digits, exponent))
}

fn multiply_by_1024(digits: &mut Vec<u8>) {
    let mut carry = 0_u32;
    for digit in digits.iter_mut().rev() {
        let product = u32::from(*digit) * 1024 + carry;
        *digit = (product % 10) as u8;
        carry = product / 10;
    }
    let mut more = Vec::new();
    while carry > 0 {
        more.push((carry % 10) as u8);
        carry /= 10;
    }
    more.reverse();
    digits.splice(0..0, more);
}

impl Quantity {
    /// Returns an integer as a quantity.
    pub fn whole(number: i64) -> Quantity {
        Quantity {
            amount: Amount::Nanos(i128::from(number) * ONE),
            format: Format::DecimalSi,
        }
    }

    /// Returns -1, 0 or 1 for a negative quantity, zero, or a positive one.
    pub fn sign(&self) -> i128 {
        match &self.amount {
            Amount::Nanos(nanos) => nanos.signum(),
            Amount::Large(large) if large.is_negative() => -1,
            Amount::Large(_) => 1,
        }
    }

    /// Returns whether the quantity is an integer.
    pub fn is_whole(&self) -> bool {
        match &self.amount {
            Amount::Nanos(nanos) => nanos % ONE == 0,
            Amount::Large(large) => large.is_whole(),
        }
    }

    /// Returns the integer, rounded away from zero. Truncates numbers beyond 64 bits.
    pub fn value(&self) -> i64 {
        self.amount.units(9)
    }

    /// Returns the number of thousandths, rounded away from zero.
    pub fn milli_value(&self) -> i64 {
        self.amount.units(6)
    }

    /// Returns the quantity rounded away from zero to an integer.
    #[must_use]
    pub fn rounded(self) -> Quantity {
        Quantity {
            amount: self.amount.rounded_to(9),
            ..self
        }
    }

    /// Returns the quantity rounded away from zero to whole thousandths.
    #[must_use]
    pub fn rounded_to_milli(self) -> Quantity {
        Quantity {
            amount: self.amount.rounded_to(6),
            ..self
        }
    }

    /// Returns the sum, in the notation of this quantity, or of the other one if this is zero.
    #[must_use]
    pub fn plus(&self, other: &Quantity) -> Quantity {
        let format = if self.sign() == 0 {
            other.format
        } else {
            self.format
        };
        let amount = match (&self.amount, &other.amount) {
            // Both are far from the limits of 128 bits.
            (Amount::Nanos(one), Amount::Nanos(other)) if (one + other).abs() <= MAX => {
                Amount::Nanos(one + other)
            }
            (one, other) => Amount::of(one.to_large().plus(&other.to_large())),
        };
        Quantity { amount, format }
    }

    /// Returns the difference, in the notation of this quantity, or of the other one if this is
    /// zero.
    #[must_use]
    pub fn minus(&self, other: &Quantity) -> Quantity {
        self.plus(&Quantity {
            amount: other.amount.clone().negated(),
            format: other.format,
        })
    }
}

/// Rounds away from zero to a multiple of `unit`.
fn rounded(nanos: i128, unit: i128) -> i128 {
    match nanos % unit {
        0 => nanos,
        rest => nanos - rest + nanos.signum() * unit,
    }
}

fn saturated(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

impl PartialEq for Quantity {
    /// Compares amounts, regardless of notation.
    fn eq(&self, other: &Quantity) -> bool {
        self.amount == other.amount
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        match (&self.amount, &other.amount) {
            (Amount::Nanos(one), Amount::Nanos(other)) => one.cmp(other),
            (one, other) => one.to_large().compare(&other.to_large()),
        }
    }
}

impl fmt::Display for Quantity {
    /// Writes the canonical form: an integer with the greatest possible suffix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = match &self.amount {
            Amount::Nanos(0) => return f.write_char('0'),
            Amount::Nanos(nanos) => *nanos,
            Amount::Large(large) => return large.write(f, self.format),
        };
        let is_binary =
            self.format == Format::BinarySi && self.is_whole() && nanos.abs() >= 1024 * ONE;
        if is_binary {
            let (mut number, mut power) = (nanos / ONE, 0);
            while number % 1024 == 0 && power + 1 < BINARY.len() {
                number /= 1024;
                power += 1;
            }
            return write!(f, "{number}{}", BINARY.get(power).unwrap_or(&""));
        }
        let (mut number, mut power) = (nanos, 0);
        while number % 1000 == 0 && (power + 1 < DECIMAL.len() || self.is_exponential()) {
            number /= 1000;
            power += 1;
        }
        if !self.is_exponential() {
            return write!(f, "{number}{}", DECIMAL.get(power).unwrap_or(&""));
        }
        match power as i64 * 3 - NANO_DIGITS {
            0 => write!(f, "{number}"),
            exponent => write!(f, "{number}e{exponent}"),
        }
    }
}

impl Quantity {
    fn is_exponential(&self) -> bool {
        self.format == Format::DecimalExponent
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> Result<String, QuantityError> {
        text.parse::<Quantity>()
            .map(|quantity| quantity.to_string())
    }

    /// As kube-apiserver 1.36 prints them.
    #[test]
    fn texts_that_look_canonical_are_kept() {
        for text in [
            "+5", "05", "5.", "1E3", "1e0", "1e99", "1.500", "+5Ki", "1500m", "-5.",
        ] {
            assert_eq!(printed(text).as_deref(), Ok(text));
        }
        for (text, shown) in [
            ("00", "0"),
            ("1e1", "10"),
            ("+1.5", "1500m"),
            ("05000", "5k"),
            ("+1024Mi", "1Gi"),
            ("1.0Ki", "1Ki"),
        ] {
            assert_eq!(printed(text).as_deref(), Ok(shown), "{text}");
        }
    }

    /// As kube-apiserver 1.36 prints them.
    #[test]
    fn quantities_have_a_canonical_form() {
        let cases = [
            ("1024Mi", "1Gi"),
            ("+1024Mi", "1Gi"),
            ("0.5Gi", "512Mi"),
            ("1e3", "1e3"),
            ("1", "1"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("100n", "100n"),
            ("0.1n", "1n"),
            ("0.0001", "100u"),
            ("1.0", "1"),
            ("1000Ki", "1000Ki"),
            ("1024Ki", "1Mi"),
            ("-1", "-1"),
            ("-1.5Ki", "-1536"),
            ("9223372036854775808", "9223372036854775808"),
            ("100E", "100E"),
            ("1e-1", "100e-3"),
            ("1.1Gi", "1181116006400m"),
            ("1023", "1023"),
            ("0.5Ki", "512"),
            ("1e20", "100e18"),
            (".", "0"),
            ("-", "0"),
            ("Ki", "0"),
            ("-e1", "0"),
            (".5", "500m"),
            (" 1 ", "1"),
            ("1000", "1k"),
            ("8Ei", "9223372036854775807"),
        ];
        for (text, shown) in cases {
            assert_eq!(canonical(text).as_deref(), Ok(shown), "{text}");
        }
        let milli = |text: &str| text.parse::<Quantity>().unwrap().rounded_to_milli();
        assert_eq!(milli("1n").to_string(), "1m");
        assert_eq!(milli("1.2345678912345").to_string(), "1235m");
        assert_eq!(milli("-1n").to_string(), "-1m");
    }

    proptest! {
        /// Both ways of parsing a number agree.
        #[test]
        fn short_numbers_are_read_as_long_ones(
            number in "[0-9]{0,16}",
            suffix in "([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?",
        ) {
            let scale = Scale::read(&suffix).unwrap();
            if let Some(small) = small_nanos(&number, &scale) {
                prop_assert_eq!(Amount::Nanos(small), amount(&number, &scale));
            }
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "abc", "true", "[1]", "1 Gi", "1.1.1"] {
            assert_eq!(canonical(text), Err(QuantityError::Form), "{text}");
        }
        for text in ["1i", "1Mii", "1e", "1e+", "1mm", "1K", "e", "--1"] {
            assert_eq!(canonical(text), Err(QuantityError::Suffix), "{text}");
        }
    }

    #[test]
    fn quantities_compare_and_add_by_amount() {
        let read = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(read("1Ki"), read("1024"));
        assert!(read("1k") < read("1Ki"));
        assert_eq!(read("1Gi").plus(&read("1Gi")).to_string(), "2Gi");
        assert_eq!(read("0").plus(&read("1Gi")).to_string(), "1Gi");
        assert_eq!(read("1").minus(&read("500m")).to_string(), "500m");
        assert_eq!((read("1500m").value(), read("-1500m").value()), (2, -2));
        assert_eq!(read("1u").milli_value(), 1);
        assert!(read("1e400") > read("1e30") && read("-1e400") < read("-1e30"));
    }

    /// Numbers that exceed 128 bits keep every digit.
    #[test]
    fn great_quantities_are_exact() {
        let read = |text: &str| text.parse::<Quantity>().unwrap();
        let digits = "123456789012345678901234567890";
        assert_eq!(canonical(digits).as_deref(), Ok(digits));
        for (text, shown) in [
            (
                "-123456789012345678901234567890",
                "-123456789012345678901234567890",
            ),
            (
                "1234567890123456789012345678901.5",
                "1234567890123456789012345678901500m",
            ),
            ("1000000000000000000000000000000", "1000000000000E"),
            ("1e31", "10e30"),
            ("12e1000000", "120e999999"),
            ("100000000000E", "100000000000E"),
            ("999999999999E", "999999999999E"),
            ("-170141183460E", "-170141183460E"),
            ("99999999999999999999999999999.9999999999", "100000000000E"),
            ("123456789012345678901234567890Ki", "9223372036854775807"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(shown), "{text}");
        }
        let great = read(digits);
        assert_eq!(
            great.plus(&read("10")).to_string(),
            "123456789012345678901234567900"
        );
        assert_eq!(great.minus(&great), read("0"));
        assert_eq!(great.minus(&read("1")).plus(&read("1")), great);
        assert!(great.minus(&read("1n")) < great);
        assert_eq!(
            great.minus(&read("123456789012345678901234567889")),
            read("1")
        );
        assert_eq!((great.value(), read("-1e99").value()), (i64::MAX, i64::MIN));
        assert!(great.is_whole() && !great.plus(&read("1m")).is_whole());
        assert_eq!(great.plus(&read("1m")).rounded(), great.plus(&read("1")));
        // If two parts are further apart than digits are kept, the sum is the greater one.
        assert_eq!(read("1e1000000000").plus(&read("1")), read("1e1000000000"));
    }

    proptest! {
        /// Sums of great quantities agree with those of their digits.
        #[test]
        fn great_sums_agree_with_small_ones(one in any::<i64>(), other in any::<i64>()) {
            let scaled = |number: i128| format!("{number}e20").parse::<Quantity>().unwrap();
            let (one, other) = (i128::from(one), i128::from(other));
            prop_assert_eq!(scaled(one).plus(&scaled(other)), scaled(one + other));
            prop_assert_eq!(scaled(one).cmp(&scaled(other)), one.cmp(&other));
        }
    }

    proptest! {
        /// The canonical form has the same value and is its own canonical form.
        #[test]
        fn the_canonical_form_is_stable(
            text in "[+-]?[0-9]{1,20}(\\.[0-9]{0,12})?(Ki|Mi|Gi|Ei|n|u|m|k|M|E|e[0-9]{1,2}|e-[0-9]{1,2})?"
        ) {
            let read: Quantity = text.parse().unwrap();
            let again: Quantity = read.to_string().parse().unwrap();
            prop_assert_eq!(read.to_string(), again.to_string());
            prop_assert_eq!(read, again);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = text.parse::<Quantity>();
        }
    }

    #[test]
    fn a_usual_quantity_is_printed_as_it_is() {
        let suffixes = [
            "", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "x",
        ];
        let numbers = (0..3000_u64).chain([4096, 10_000, 99_999, 1_048_576, 999_999_999_999]);
        let mut usual = 0;
        for number in numbers {
            for suffix in suffixes {
                for text in [format!("{number}{suffix}"), format!("0{number}{suffix}")] {
                    if is_usual(&text) {
                        let quantity: Quantity = text.parse().unwrap();
                        assert_eq!(printed(&text).unwrap(), text);
                        assert_eq!(quantity.to_string(), text);
                        assert_eq!(quantity.rounded_to_milli().to_string(), text);
                        usual += 1;
                    }
                }
            }
        }
        assert!(usual > 20_000, "{usual}");
        for text in ["", "-1", "+1", "1.5", " 1", "1 ", "1Kii", "Mi", "1e3"] {
            assert!(!is_usual(text), "{text}");
        }
    }
}
