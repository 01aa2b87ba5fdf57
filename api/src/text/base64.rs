//! Base64 as Go reads and prints it (API-89).

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, PAD};

/// Base64 as Go decodes it: padding is required, unused bits may have any value.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(&ALPHABET, PAD_ALLOWING_TRAILING_BITS);
const PAD_ALLOWING_TRAILING_BITS: GeneralPurposeConfig = PAD.with_decode_allow_trailing_bits(true);

/// Returns base64 in its canonical form.
///
/// # Errors
/// Go's error, with the place of the fault.
pub fn canonical(mut text: String) -> Result<String, String> {
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

/// Returns the byte at which Go reports the fault in base64: the start of a group that is too
/// short, the first invalid byte, or the end if padding is missing.
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
                    // The byte after the padding.
                    Some((_, '=')) => characters.next().map_or(text.len(), |(at, _)| at),
                    // Go reports the byte before.
                    Some((at, _)) => at - 1,
                };
            }
            ('=', 3) => return characters.next().map_or(text.len(), |(at, _)| at),
            _ => return at,
        }
    }
    text.len() - in_group
}
