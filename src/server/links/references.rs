//! Character references in the attributes of HTML. Pure.

/// Replaces the references in the value of an attribute. A name without a semicolon is text, as
/// the parameters of a query have it. Returns `None` for a reference whose character is not known
/// here, which is every name but those of markup.
pub(super) fn decoded(written: &str) -> Option<String> {
    let mut parts = written.split('&');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name_end = part
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '#')
            .unwrap_or(part.len());
        let (name, rest) = part.split_at_checked(name_end)?;
        let Some(rest) = rest.strip_prefix(';').filter(|_| !name.is_empty()) else {
            text.push('&');
            text.push_str(part);
            continue;
        };
        text.push(character(name)?);
        text.push_str(rest);
    }
    Some(text)
}

fn character(name: &str) -> Option<char> {
    let number = name.strip_prefix('#').map(|number| {
        let hexadecimal = number.strip_prefix(['x', 'X']);
        match hexadecimal {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        }
    });
    match (number, name) {
        (Some(number), _) => char::from_u32(number.ok()?).filter(|letter| *letter != '\0'),
        (None, "amp") => Some('&'),
        (None, "lt") => Some('<'),
        (None, "gt") => Some('>'),
        (None, "quot") => Some('"'),
        (None, "apos") => Some('\''),
        _ => None,
    }
}

/// Writes a text as the value of an attribute between double quotes.
pub(super) fn encoded(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => written.push_str("&amp;"),
            '\'' => written.push_str("&#39;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '"' => written.push_str("&#34;"),
            '\r' => written.push_str("&#13;"),
            letter => written.push(letter),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_references_become_characters_and_back() {
        for (written, text) in [
            ("a", "a"),
            ("&amp;&lt;&gt;&#34;&#39;&#13;", "&<>\"'\r"),
            ("&amp;lt;", "&lt;"),
        ] {
            assert_eq!(decoded(written).unwrap(), text);
            assert_eq!(encoded(text), written);
        }
        for text in ["?a&b=1&&copy=2& &", "?a&copy", "&amp", ";&;"] {
            assert_eq!(decoded(text).unwrap(), text);
        }
        assert_eq!(decoded("&quot;&apos;&#x41;&#65;").unwrap(), "\"'AA");
        for unknown in ["&eacute;", "&#0;", "&#xd800;", "&#;", "&#x;"] {
            assert_eq!(decoded(unknown), None, "{unknown}");
        }
    }
}
