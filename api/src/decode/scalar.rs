//! Single values of a type, read as Go reads them: checked, and in the form in which they are
//! printed (API-62, API-89).

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, PAD};
use jiff::Timestamp;

use crate::field_error::go_quote;

/// Base64 as Go reads it: padding is required, unused bits may have any value.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(&ALPHABET, PAD_ALLOWING_TRAILING_BITS);
const PAD_ALLOWING_TRAILING_BITS: GeneralPurposeConfig = PAD.with_decode_allow_trailing_bits(true);

/// Base64 in its canonical form.
///
/// # Errors
/// Where it is none, in the words of Go.
pub(super) fn base64(mut text: String) -> Result<String, String> {
    // Go ignores line breaks anywhere in base64.
    let written = text.contains(['\r', '\n']).then(|| text.clone());
    if written.is_some() {
        text.retain(|c| !is_line_break(&c));
    }
    let bytes = LENIENT_BASE64.decode(text.as_bytes()).map_err(|_| {
        let at = base64_fault(written.as_deref().unwrap_or(&text));
        format!("illegal base64 data at input byte {at}")
    })?;
    let canonical = LENIENT_BASE64.encode(bytes);
    Ok(if text == canonical { text } else { canonical })
}

fn is_line_break(c: &char) -> bool {
    matches!(c, '\r' | '\n')
}

/// The byte at which Go finds the fault in base64: where a group that is too short begins, the
/// first byte that can't be there, or the end where padding lacks.
fn base64_fault(text: &str) -> usize {
    let is_symbol = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    let mut characters = text.char_indices().filter(|(_, c)| !is_line_break(c));
    let mut in_group = 0;
    while let Some((at, c)) = characters.next() {
        match (c, in_group) {
            (c, _) if is_symbol(c) => in_group = (in_group + 1) % 4,
            ('=', 2) => {
                return match characters.next() {
                    None => text.len(),
                    // What follows the padding.
                    Some((_, '=')) => characters.next().map_or(text.len(), |(at, _)| at),
                    // Go names the byte before.
                    Some((at, _)) => at - 1,
                };
            }
            ('=', 3) => return characters.next().map_or(text.len(), |(at, _)| at),
            _ => return at,
        }
    }
    text.len() - in_group
}

/// The number of decimals that a time must have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Decimals {
    /// Any; whole seconds are kept.
    Any,
    /// Six.
    Six,
}

impl Decimals {
    /// The layout of the form in Go.
    fn layout(self) -> &'static str {
        match self {
            Decimals::Any => "2006-01-02T15:04:05Z07:00",
            Decimals::Six => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// A time in UTC with whole seconds or six decimals (API-62).
///
/// # Errors
/// What can't be read, in the words of Go.
pub(super) fn time(text: &str, decimals: Decimals) -> Result<String, String> {
    let refuse = |what: String| {
        let (text, layout) = (go_quote(text), decimals.layout());
        match what.starts_with(|c: char| c.is_ascii_lowercase()) {
            true => format!("parsing time {text}: {what}"),
            false => format!("parsing time {text} as \"{layout}\": cannot parse {what}"),
        }
    };
    check_form(text, decimals).map_err(refuse)?;
    let time: Timestamp = text
        .parse()
        .map_err(|_| refuse("day out of range".to_owned()))?;
    let canonical = match decimals {
        Decimals::Any => time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        Decimals::Six => time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ"),
    };
    Ok(canonical.to_string())
}

/// Checks the form of RFC 3339, because the library accepts many more. The fault is either what is
/// out of range, or the rest of the text and the part of the layout that it does not begin with.
fn check_form(text: &str, decimals: Decimals) -> Result<(), String> {
    const PARTS: [(&str, usize, u32, &str); 6] = [
        ("2006", 4, 9999, ""),
        ("01", 2, 12, "month out of range"),
        ("02", 2, 31, "day out of range"),
        ("15", 2, 23, "hour out of range"),
        ("04", 2, 59, "minute out of range"),
        ("05", 2, 59, "second out of range"),
    ];
    const SEPARATORS: [&str; 6] = ["-", "-", "T", ":", ":", ""];
    let mut rest = text;
    for ((layout, digits, most, out_of_range), separator) in PARTS.into_iter().zip(SEPARATORS) {
        let wrong =
            |rest: &str, layout: &str| format!("{} as {}", go_quote(rest), go_quote(layout));
        let number = rest.get(..digits);
        let number = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        let number: u32 = number
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| wrong(rest, layout))?;
        let least = u32::from(matches!(layout, "01" | "02"));
        if number > most || number < least {
            return Err(out_of_range.to_owned());
        }
        rest = rest.get(digits..).unwrap_or_default();
        rest = rest
            .strip_prefix(separator)
            .ok_or_else(|| wrong(rest, separator))?;
    }
    let fraction = rest.strip_prefix('.').map_or(0, |after| {
        let digits = after.bytes().take_while(u8::is_ascii_digit);
        digits.count()
    });
    if decimals == Decimals::Six && fraction != 6 {
        return Err(format!("{} as \".000000\"", go_quote(rest)));
    }
    let zone = rest.get(if fraction > 0 { fraction + 1 } else { 0 }..);
    let zone = zone.unwrap_or_default();
    let is_zone = match zone.as_bytes() {
        b"Z" => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    match (is_zone, zone.strip_prefix('Z')) {
        (true, _) => Ok(()),
        (false, Some(more)) => Err(format!("extra text: {}", go_quote(more))),
        (false, None) => Err(format!("{} as \"Z07:00\"", go_quote(zone))),
    }
}
