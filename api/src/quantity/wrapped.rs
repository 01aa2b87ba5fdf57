//! The thousandths of a quantity in 64 bits, as Kubernetes computes them: if there are too many,
//! they wrap around or become zero.

use super::{Amount, Format, ONE, Quantity, QuantityError, Scale, parts, rounded};

/// Kubernetes does not keep numbers of more digits in 64 bits.
const MOST_DIGITS: usize = 18;

/// Returns whether Kubernetes takes a quantity for an integer.
///
/// # Errors
/// The text is not a quantity.
pub fn seems_whole(text: &str) -> Result<bool, QuantityError> {
    let (_, number, scale) = parts(text)?;
    let thousandths = match small_thousandths(number, &scale) {
        Some(thousandths) => thousandths,
        None => {
            // Truncated to the lowest 64 bits, as in Kubernetes.
            match text.parse::<Quantity>()?.amount {
                Amount::Nanos(nanos) => (rounded(nanos, ONE / 1000) / (ONE / 1000)) as i64,
                Amount::Large(large) => large.low_thousandths(),
            }
        }
    };
    Ok(thousandths % 1000 == 0)
}

/// Returns the thousandths of a number that Kubernetes keeps in 64 bits with a power of ten.
/// Returns `None` for other numbers.
fn small_thousandths(number: &str, scale: &Scale) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.trim_start_matches('0');
    if scale.format == Format::BinarySi || whole.len() + fraction.len() > MOST_DIGITS {
        return None;
    }
    let digits: i64 = format!("{whole}{fraction}").parse().unwrap_or_default();
    let power = scale.power_of_ten - fraction.len() as i64 + 3;
    let factor = u32::try_from(power).ok()?;
    match factor {
        0 | 1 | 2 | 3 | 6 | 9 => Some(digits.wrapping_mul(10_i64.pow(factor))),
        _ => {
            let factor = 10_i64.checked_pow(factor);
            let all = factor.and_then(|factor| digits.checked_mul(factor));
            Some(all.unwrap_or(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The responses of kube-apiserver 1.36.
    #[test]
    fn huge_numbers_seem_whole_or_not() {
        let whole = [
            "0",
            "1",
            "1.000",
            "10P",
            "1E",
            "8Ei",
            "1e30",
            "1Pi",
            "9300P",
            "1.1e21",
            "1e40",
            "9223372036854775807",
            "9007199254740993",
            "9223372036854776k",
            "1234567890123456G",
            "12345678901234567e4",
            "9007199254740993Ki",
            "8191Ti",
            "16Ei",
        ];
        for text in whole {
            assert!(seems_whole(text).unwrap(), "{text}");
        }
        let parts = [
            "0.5",
            "1001m",
            "1n",
            "1Ei",
            "7Ei",
            "100Pi",
            "1.5Ei",
            "9000Ti",
            "123456789012345678901",
            "12345678901234567890",
            "999999999999999999",
            "99223372036854776k",
            "12345678901234567M",
            "12345678901234567.5",
            "123456789012345678e6",
            "0.9Ei",
        ];
        for text in parts {
            assert!(!seems_whole(text).unwrap(), "{text}");
        }
        assert!(seems_whole("x").is_err());
    }
}
