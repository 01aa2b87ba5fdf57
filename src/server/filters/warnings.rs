//! `Warning` response headers (API-140).

use http::header::{HeaderMap, HeaderValue, WARNING};

use crate::api::warnings::{SHORT_WARNING_CHARACTERS, WARNING_CHARACTERS};

/// Adds one header per warning, up to the total size limit.
pub fn add(headers: &mut HeaderMap, warnings: Vec<String>) {
    let total: usize = warnings.iter().map(|text| text.chars().count()).sum();
    let each = if total > WARNING_CHARACTERS {
        SHORT_WARNING_CHARACTERS
    } else {
        WARNING_CHARACTERS
    };
    let mut room = WARNING_CHARACTERS;
    for text in warnings {
        let text: String = text.chars().take(each).collect();
        let Some(left) = room.checked_sub(text.chars().count()) else {
            return;
        };
        room = left;
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - {}", quoted(&text)).as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}

/// Returns the text as a quoted string for a header. Quotes and backslashes are escaped, control
/// characters replaced.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            _ if character.is_control() => quoted.push(' '),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(warnings: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        add(
            &mut headers,
            warnings.iter().map(|&text| text.to_owned()).collect(),
        );
        let all = headers.get_all(WARNING);
        all.iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    }

    #[test]
    fn a_warning_is_quoted_and_escaped_api_140() {
        assert_eq!(
            written(&["duplicate field \"a\\b\"", "line\nbreak"]),
            [
                r#"299 - "duplicate field \"a\\b\"""#,
                r#"299 - "line break""#
            ]
        );
    }

    #[test]
    fn long_warnings_are_cut_and_counted_api_140() {
        let long = "x".repeat(3000);
        assert_eq!(written(&[&long]).len(), 1);
        let cut = written(&[&long, &long]);
        assert_eq!(cut.len(), 2);
        assert!(
            cut.iter()
                .all(|text| text.len() == 256 + "299 - \"\"".len())
        );
        let many: Vec<&str> = std::iter::repeat_n(long.as_str(), 40).collect();
        assert_eq!(written(&many).len(), 16, "4096 characters hold 16 of 256");
    }
}
