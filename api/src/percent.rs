//! Paths in URLs: percent-encoding (API-11, API-78), and the form without detours.

use std::borrow::Cow;
use std::fmt::Write as _;

use percent_encoding::percent_decode_str;

/// Decodes `%XX` escapes once. Returns `None` for a broken escape. Bytes that are not UTF-8 become
/// replacement characters, which no name contains, so a look-up of such a name finds nothing.
pub fn decoded(text: &str) -> Option<Cow<'_, str>> {
    is_whole(text).then(|| percent_decode_str(text).decode_utf8_lossy())
}

/// Decodes `%XX` escapes once, into bytes of any kind. Returns `None` for a broken escape.
pub fn decoded_bytes(text: &str) -> Option<Vec<u8>> {
    is_whole(text).then(|| percent_decode_str(text).collect())
}

/// Returns whether two digits follow each `%`.
fn is_whole(text: &str) -> bool {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        // linear: there are two digits.
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    text.split('%').skip(1).all(is_escape)
}

/// Characters other than letters and digits that Go leaves as they are in a path.
const PLAIN_IN_PATH: &[u8] = b"-_.~$&+,/:;=@";

/// Encodes a decoded path as Go does. Nothing is cleaned.
pub fn encoded_path(path: &[u8]) -> String {
    encoded(path, PLAIN_IN_PATH)
}

/// Encodes all bytes but letters, digits and those that are plain.
pub fn encoded(bytes: &[u8], plain: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            // linear: a dozen characters.
            byte if byte.is_ascii_alphanumeric() || plain.contains(byte) => {
                text.push(char::from(*byte));
            }
            byte => {
                // Writing to a String does not fail.
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

/// Returns a path without `//`, `.` and `..`, and with the slash at its end, if there is one. It
/// begins with a slash.
pub fn cleaned_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let mut text = format!("/{}", segments.join("/"));
    if path.ends_with('/') && !text.ends_with('/') {
        text.push('/');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once_and_encoded_again_cn_31() {
        for (raw, expected) in [
            ("/apis/g/v1/a%2Fb", "/apis/g/v1/a/b"),
            ("/apis/g/v1//x/../y", "/apis/g/v1//x/../y"),
            ("/apis/g/v1/a%20b?", "/apis/g/v1/a%20b%3F"),
            ("/apis/g/v1/(x)'!*[]", "/apis/g/v1/%28x%29%27%21%2A%5B%5D"),
            ("/apis/g/v1/%C3%A9", "/apis/g/v1/%C3%A9"),
            ("/apis/g/v1/%252e%252E", "/apis/g/v1/%252e%252E"),
            ("/apis/g/v1/a:b=c@d;e,f+g&h$", "/apis/g/v1/a:b=c@d;e,f+g&h$"),
            ("/apis/g/v1/%0d%0aX:%20y", "/apis/g/v1/%0D%0AX:%20y"),
        ] {
            assert_eq!(
                encoded_path(&decoded_bytes(raw).unwrap()),
                expected,
                "{raw}"
            );
        }
        assert_eq!(decoded_bytes("/a%2"), None);
        assert_eq!(decoded_bytes("/a%zz"), None);
    }

    #[test]
    fn a_cleaned_path_has_no_detours_cn_30() {
        for (path, expected) in [
            ("/apis/g/v1", "/apis/g/v1"),
            ("/apis/g/v1/", "/apis/g/v1/"),
            ("/apis/g/v1//x/./y/../z/", "/apis/g/v1/x/z/"),
            ("/../..", "/"),
            ("/", "/"),
        ] {
            assert_eq!(cleaned_path(path), expected, "{path}");
        }
    }
}
