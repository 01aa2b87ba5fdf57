//! Clients' text that responses repeat, cut to a length. The length is that of the JSON encoding,
//! in which a quote or a control character takes up to six bytes.

use std::fmt::{self, Write as _};

/// Replaces the part that is cut off.
const REST: &str = " ...";

/// Returns the text, cut if its JSON is longer than `json_bytes`.
pub fn truncated(mut text: String, json_bytes: usize) -> String {
    if let Some(end) = overrun(&text, json_bytes) {
        text.truncate(end);
        text.push_str(REST);
        text.shrink_to_fit();
    }
    text
}

/// As [`truncated`], for a value that is formatted only up to that length.
pub fn truncated_display(text: impl fmt::Display, json_bytes: usize) -> String {
    let mut beginning = Beginning {
        text: String::new(),
        left: json_bytes,
    };
    if write!(beginning, "{text}").is_err() {
        beginning.text.push_str(REST);
    }
    beginning.text
}

/// Returns the length of a text's JSON, without its quotes.
pub fn json_length(text: &str) -> usize {
    text.chars().map(json_bytes_of).sum()
}

fn json_bytes_of(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\x08' | '\x0c' => 2,
        '\0'..='\x1f' => 6,
        other => other.len_utf8(),
    }
}

/// Returns the byte at which the JSON of a text exceeds `json_bytes`.
fn overrun(text: &str, json_bytes: usize) -> Option<usize> {
    let mut left = json_bytes;
    text.char_indices()
        .find_map(|(at, c)| match left.checked_sub(json_bytes_of(c)) {
            Some(less) => {
                left = less;
                None
            }
            None => Some(at),
        })
}

/// Collects written text up to a length; further writes fail.
struct Beginning {
    text: String,
    left: usize,
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = overrun(more, self.left);
        let fits = more.get(..end.unwrap_or(more.len())).unwrap_or_default();
        self.text.push_str(fits);
        self.left -= json_length(fits);
        match end {
            None => Ok(()),
            Some(_) => Err(fmt::Error),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_cut_where_its_json_gets_too_long() {
        for (text, limit, wanted) in [
            ("", 0, ""),
            ("abc", 3, "abc"),
            ("abc", 2, "ab ..."),
            ("a\"\"", 5, "a\"\""),
            ("a\"\"", 4, "a\" ..."),
            ("\u{1}\u{1}", 11, "\u{1} ..."),
            ("ää", 3, "ä ..."),
        ] {
            assert_eq!(truncated(text.to_owned(), limit), wanted);
            assert_eq!(truncated_display(text, limit), wanted);
        }
        let pieces = format_args!("{}{}{}", "ab", 12, "c").to_string();
        assert_eq!(
            truncated_display(format_args!("{pieces}{}", 7), 5),
            "ab12c ..."
        );
    }

    proptest! {
        #[test]
        fn the_length_is_that_of_json(text in "[\\x00-\\x7f]{0,40}|.{0,40}", limit in 0..60_usize) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(json_length(&text), json.len() - 2);
            let cut = truncated(text.clone(), limit);
            if json.len() - 2 <= limit {
                prop_assert_eq!(&cut, &text);
            } else {
                prop_assert!(text.starts_with(cut.strip_suffix(REST).unwrap()));
            }
            prop_assert!(json_length(&cut) <= limit + REST.len());
            prop_assert_eq!(truncated_display(&text, limit), cut);
        }
    }
}
