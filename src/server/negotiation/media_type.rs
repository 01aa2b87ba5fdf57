//! Pure: the media type of a body, parsed like Go's `mime.ParseMediaType`.

use std::collections::BTreeMap;

/// Returns the media type in lower case. `None` if it or one of its parameters is malformed, which
/// makes the format of the body unknown (API-56).
pub fn of_content(text: &str) -> Option<String> {
    let (name, mut rest) = text.split_at(text.find(';').unwrap_or(text.len()));
    let name = name.trim().to_ascii_lowercase();
    if !is_media_type(&name) {
        return None;
    }
    let mut parameters = BTreeMap::new();
    loop {
        rest = rest.trim_start();
        // Go ignores a semicolon at the end.
        if rest.is_empty() || rest.trim() == ";" {
            return Some(name);
        }
        let (key, value, after) = parameter(rest)?;
        let before = parameters.insert(key, value.clone());
        if before.is_some_and(|before| before != value) {
            return None;
        }
        rest = after;
    }
}

fn is_media_type(name: &str) -> bool {
    let is_token = |text: &str| !text.is_empty() && text.chars().all(is_token_char);
    match name.split_once('/') {
        Some((of, kind)) => is_token(of) && is_token(kind),
        None => is_token(name),
    }
}

/// Parses a parameter. Returns its name, its value, and the rest of the text.
fn parameter(text: &str) -> Option<(String, String, &str)> {
    let (key, rest) = token(text.strip_prefix(';')?.trim_start())?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let (value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => quoted_text(quoted)?,
        None => {
            let (value, rest) = token(rest)?;
            (value.to_owned(), rest)
        }
    };
    Some((key.to_ascii_lowercase(), value, rest))
}

fn token(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c| !is_token_char(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Parses a string up to its closing quote. A backslash escapes only a special character; before
/// any other it is a part of the string, as in Go.
fn quoted_text(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match text.get(at + 1..)?.chars().next()? {
                special if SPECIAL.contains(special) => {
                    value.push(special);
                    letters.next();
                }
                _ => value.push(letter),
            },
            '\r' | '\n' => return None,
            other => value.push(other),
        }
    }
    None
}

/// The characters that a token cannot contain.
const SPECIAL: &str = "()<>@,;:\\\"/[]?=";

/// Whether a token of a header can contain a character (RFC 2045).
fn is_token_char(c: char) -> bool {
    c.is_ascii_graphic() && !SPECIAL.contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-56: accepted as by kube-apiserver 1.36.
    #[test]
    fn media_types_are_read_as_by_go() {
        for text in [
            "application/json",
            "Application/JSON",
            "application/json;",
            "application/json; charset=utf-8",
            "application/json;a=b;",
            "application/json;a=\"b;\\\" c\" ; A=\"b;\\\" c\"",
            "application/json;a*=utf-8''x",
        ] {
            assert_eq!(
                of_content(text).as_deref(),
                Some("application/json"),
                "{text}"
            );
        }
        for text in [
            "application/json;x",
            "application/json; charset=",
            "application/json;charset=utf-8;charset=latin1",
            "application/json, application/yaml",
            "application/json;x=\"a",
            "application/json;=b",
            "application/json;;",
            "application/",
            "/json",
            "application/json;a=b c",
            "application/json/x",
            "application/json x",
            "application/js\u{f6}n",
            "",
        ] {
            assert_eq!(of_content(text), None, "{text}");
        }
    }
}
