//! The path and query that an extension gets (CN-31). Pure.

use crate::api::percent;

/// Characters other than letters and digits that Go leaves as they are in a query.
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

/// Writes a query again, sorted by key. Pairs that Go cannot parse are left out.
pub fn rewritten_query(query: &str) -> String {
    let pairs = query.split('&').filter_map(|pair| {
        if pair.is_empty() || pair.contains(';') {
            return None;
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let unescaped = |text: &str| percent::decoded_bytes(&text.replace('+', " "));
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
            let part = percent::encoded(&part, PLAIN_IN_QUERY);
            part.replace("%20", "+")
        });
        text.push_str(&key);
        text.push('=');
        text.push_str(&value);
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
}
