//! Prints queries of URLs as Go does.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that Go escapes in a query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Prints parameters, sorted by name. Those of one name keep their order.
pub fn query_text(mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)>) -> String {
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    let escaped = |text: &str| {
        let escaped = utf8_percent_encode(text, ESCAPED).to_string();
        escaped.replace("%20", "+")
    };
    let pairs = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", escaped(name), escaped(value)));
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_sorted_and_escaped_as_in_go() {
        let pairs = [("b", "2 3"), ("a", "x+y"), ("b", "1"), ("a&", "é-_.~/")];
        let pairs = pairs.map(|(name, value)| (name.into(), value.into()));
        let text = query_text(pairs.into());
        assert_eq!(text, "a=x%2By&a%26=%C3%A9-_.~%2F&b=2+3&b=1");
        assert_eq!(query_text(Vec::new()), "");
    }
}
