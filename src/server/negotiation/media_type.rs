//! Pure: the media type of a body, as Go reads the header Content-Type.

use std::collections::BTreeMap;

/// The media type in lower case. None if it or one of its parameters can't be read: then the form
/// of the body is unknown (API-56).
pub fn of_content(text: &str) -> Option<String> {
    let (name, mut rest) = text.split_at(text.find(';').unwrap_or(text.len()));
    let name = name.trim().to_ascii_lowercase();
    if !is_media_type(&name) {
        return None;
    }
    let mut parameters = BTreeMap::new();
    loop {
        rest = rest.trim_start();
        // A semicolon at the end is no parameter.
        if rest.is_empty() || rest.trim() == ";" {
            return Some(name);
        }
        let (key, value, behind) = parameter(rest)?;
        let before = parameters.insert(key, value.clone());
        if before.is_some_and(|before| before != value) {
            return None;
        }
        rest = behind;
    }
}

fn is_media_type(name: &str) -> bool {
    let is_token = |text: &str| !text.is_empty() && text.chars().all(is_token_char);
    match name.split_once('/') {
        Some((of, kind)) => is_token(of) && is_token(kind),
        None => is_token(name),
    }
}

/// A parameter with its value, and what is behind it.
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

/// A text up to its closing quote. In front of what can be in no word a backslash is no part of it.
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

/// What stands in no word.
const SPECIAL: &str = "()<>@,;:\\\"/[]?=";

/// Whether a character may be in a word of a header (RFC 2045).
fn is_token_char(c: char) -> bool {
    c.is_ascii_graphic() && !SPECIAL.contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-56: as kube-apiserver 1.36 takes them.
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
