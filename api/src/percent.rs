//! Percent-encoding of URLs (API-11, API-78).

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Decodes `%XX` escapes once. Returns `None` for a broken escape. Bytes that are not UTF-8 become
/// replacement characters, which no name contains, so a look-up of such a name finds nothing.
pub fn decoded(text: &str) -> Option<Cow<'_, str>> {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        // linear: there are two digits.
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let is_whole = text.split('%').skip(1).all(is_escape);
    is_whole.then(|| percent_decode_str(text).decode_utf8_lossy())
}
