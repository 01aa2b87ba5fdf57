//! Percent-encoding of URLs (API-11, API-78).

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The text with `%XX` replaced once. `None` when an escape is broken. Bytes that are not UTF-8 are
/// replaced. No name contains the replacement, so the lookup finds nothing.
pub fn decoded(text: &str) -> Option<Cow<'_, str>> {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        // linear: two digits.
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let is_whole = text.split('%').skip(1).all(is_escape);
    is_whole.then(|| percent_decode_str(text).decode_utf8_lossy())
}
