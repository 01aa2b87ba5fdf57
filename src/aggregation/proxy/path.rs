//! The path and query that an extension gets (CN-31). Pure.

use std::fmt::Write;

use percent_encoding::percent_decode_str;

/// Characters other than letters and digits that Go leaves as they are in a path.
const PLAIN_IN_PATH: &[u8] = b"-_.~$&+,/:;=@";
/// Those that Go leaves as they are in a query.
const PLAIN_IN_QUERY: &[u8] = b"-_.~";

/// Returns the group and version whose path this is or is below. Core has the whole of `/api`.
pub fn group_version(path: &str) -> Option<(&str, &str)> {
    if path == "/api" || path.starts_with("/api/") {
        return Some(("", "v1"));
    }
    let mut parts = path.strip_prefix("/apis/")?.split('/');
    let group = parts.next().filter(|group| !group.is_empty())?;
    let version = parts.next().filter(|version| !version.is_empty())?;
    Some((group, version))
}

/// Encodes a decoded path as Go does. Nothing is cleaned.
pub fn encoded_path(path: &[u8]) -> String {
    encoded(path, PLAIN_IN_PATH)
}

fn encoded(bytes: &[u8], plain: &[u8]) -> String {
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

/// Decodes a path or a part of a query. `None` for a `%` without two digits.
pub fn decoded(text: &str) -> Option<Vec<u8>> {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        // linear: two digits.
        digits.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    };
    let is_whole = text.split('%').skip(1).all(is_escape);
    is_whole.then(|| percent_decode_str(text).collect())
}

/// Writes a query again, sorted by key. Pairs that Go cannot parse are left out.
pub fn rewritten_query(query: &str) -> String {
    let pairs = query.split('&').filter_map(|pair| {
        if pair.is_empty() || pair.contains(';') {
            return None;
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let unescaped = |text: &str| decoded(&text.replace('+', " "));
        Some((unescaped(key)?, unescaped(value)?))
    });
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = pairs.collect();
    // Values of one key keep their order.
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    let mut text = String::with_capacity(query.len());
    for (key, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        let [key, value] = [key, value].map(|part| {
            let part = encoded(&part, PLAIN_IN_QUERY);
            part.replace("%20", "+")
        });
        text.push_str(&key);
        text.push('=');
        text.push_str(&value);
    }
    text
}

/// Returns the path of the header `X-Forwarded-Uri`: without `//`, `.` and `..`, and with the slash
/// at its end, if there is one.
pub fn forwarded_uri(encoded_path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in encoded_path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let mut text = format!("/{}", segments.join("/"));
    if encoded_path.ends_with('/') && !text.ends_with('/') {
        text.push('/');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_below_a_group_version_belongs_to_it_cn_28() {
        for (path, expected) in [
            ("/apis/g/v1", Some(("g", "v1"))),
            ("/apis/g/v1/", Some(("g", "v1"))),
            ("/apis/g/v1/a/../b", Some(("g", "v1"))),
            ("/apis/g/v1beta1//x", Some(("g", "v1beta1"))),
            ("/apis/g", None),
            ("/apis/g/", None),
            ("/apis//v1", None),
            ("//apis/g/v1", None),
            ("/apis", None),
            ("/api", Some(("", "v1"))),
            ("/api/v1/pods", Some(("", "v1"))),
            ("/apix", None),
            ("/openapi/v2", None),
        ] {
            assert_eq!(group_version(path), expected, "{path}");
        }
    }

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
            assert_eq!(encoded_path(&decoded(raw).unwrap()), expected, "{raw}");
        }
        assert_eq!(decoded("/a%2"), None);
        assert_eq!(decoded("/a%zz"), None);
    }

    #[test]
    fn a_query_is_sorted_and_loses_what_go_cannot_parse_cn_31() {
        for (raw, expected) in [
            ("b=2&a=1&a=%20x", "a=1&a=+x&b=2"),
            ("watch", "watch="),
            ("", ""),
            ("&&a=1&", "a=1"),
            ("a=%zz&b=1", "b=1"),
            ("a=1;b=2&c=3", "c=3"),
            ("=x", "=x"),
            ("a=b=c&a=*()'!~", "a=b%3Dc&a=%2A%28%29%27%21~"),
            ("a+b=c+d", "a+b=c+d"),
            ("labelSelector=a%3Db%2Cc", "labelSelector=a%3Db%2Cc"),
        ] {
            assert_eq!(rewritten_query(raw), expected, "{raw}");
        }
    }

    #[test]
    fn the_forwarded_uri_is_clean_cn_30() {
        for (path, expected) in [
            ("/apis/g/v1", "/apis/g/v1"),
            ("/apis/g/v1/", "/apis/g/v1/"),
            ("/apis/g/v1//x/./y/../z/", "/apis/g/v1/x/z/"),
            ("/../..", "/"),
            ("/", "/"),
        ] {
            assert_eq!(forwarded_uri(path), expected, "{path}");
        }
    }
}
