//! Two facts about YAML text that the parser does not report: the lines of values, and byte order
//! marks inside a document, which Kubernetes' reader takes for letters. Pure.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

const MARK: char = '\u{feff}';

/// Returns a text without byte order marks after its start, and the letter that replaces them.
///
/// Kubernetes' reader skips a mark at the start of a line, and takes all others for letters. The
/// parser refuses them.
pub(super) fn without_marks(text: &str) -> (Cow<'_, str>, Option<char>) {
    let start = text.len() - text.trim_start_matches(MARK).len();
    if !text.get(start..).is_some_and(|text| text.contains(MARK)) {
        return (Cow::Borrowed(text), None);
    }
    // Unicode's private use area, of which documents have no letters as a rule.
    const PRIVATE: RangeInclusive<char> = '\u{e000}'..='\u{f8ff}';
    let written: HashSet<char> = text.chars().filter(|one| PRIVATE.contains(one)).collect();
    let Some(stand_in) = PRIVATE.into_iter().find(|letter| !written.contains(letter)) else {
        return (Cow::Borrowed(text), None);
    };
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let rest = match line.strip_prefix(MARK) {
            // Nothing but a comment may follow, so the column does not matter.
            Some(rest) if rest.trim_start().is_empty() || rest.trim_start().starts_with('#') => {
                out.push(' ');
                rest
            }
            // The mark begins the text, or is not allowed at this place.
            Some(rest) => {
                out.push(MARK);
                rest
            }
            None => line,
        };
        out.extend(rest.chars().map(|letter| match letter {
            MARK => stand_in,
            letter => letter,
        }));
    }
    (Cow::Owned(out), Some(stand_in))
}

/// Replaces the stand-in letter by the byte order mark again.
pub(super) fn put_marks_back(value: &mut Value, stand_in: char) {
    let replaced = |text: &str| text.replace(stand_in, "\u{feff}");
    match value {
        Value::String(text) if text.contains(stand_in) => *text = replaced(text),
        Value::Array(items) => {
            for item in items {
                put_marks_back(item, stand_in);
            }
        }
        Value::Object(members) => {
            for member in members.values_mut() {
                put_marks_back(member, stand_in);
            }
            if members.keys().any(|name| name.contains(stand_in)) {
                let all = std::mem::take(members).into_iter();
                *members = all
                    .map(|(name, value)| (replaced(&name), value))
                    .collect::<Map<_, _>>();
            }
        }
        _ => {}
    }
}

/// Replaces the place of a duplicate name by the line of its value, which Kubernetes reports.
pub(super) fn report_line_of_value(fault: &mut String, text: &str) {
    let place = fault.split_once(' ').and_then(|(place, rest)| {
        let mut numbers = place.split(':').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        Some(((next()?, next()?), next()? == 1, rest))
    });
    if let Some((at, is_null, rest)) = place {
        let line = line_of_value(text, at, is_null);
        *fault = format!("line {line}: {rest}");
    }
}

/// Returns the line of a value, from the line and column of its name, which count from 1: the line
/// of its first letter, or of the mark before it. `is_null` means that the value may be absent.
pub(super) fn line_of_value(text: &str, place: (u64, u64), is_null: bool) -> u64 {
    let (line, column) = place;
    let mut at = At::new(text, line, column);
    let name_column = at.column;
    at.name();
    at.space();
    if !at.rest.starts_with(':') {
        // `? a` has no value.
        return at.line;
    }
    let colon = at.line;
    at.skip(1);
    at.space();
    let next = at.rest.chars().next();
    let begins_list = at.rest.starts_with("- ") || at.rest.starts_with("-\n");
    let is_below = at.line == colon || at.column > name_column;
    match next {
        // In braces the value would be before these.
        Some(',' | '}' | ']') if is_null => at.line,
        Some(_) if !is_null || is_below || begins_list => at.line,
        _ => colon,
    }
}

/// A position in a text.
struct At<'t> {
    rest: &'t str,
    line: u64,
    column: u64,
}

impl<'t> At<'t> {
    fn new(text: &'t str, line: u64, column: u64) -> At<'t> {
        let mut at = At {
            rest: text.strip_prefix(MARK).unwrap_or(text),
            line: 1,
            column: 1,
        };
        while at.line < line && !at.rest.is_empty() {
            let end = memchr::memchr(b'\n', at.rest.as_bytes());
            at.rest = at
                .rest
                .get(end.map_or(at.rest.len(), |end| end + 1)..)
                .unwrap_or_default();
            at.line += 1;
        }
        let letters = usize::try_from(column)
            .unwrap_or(usize::MAX)
            .saturating_sub(1);
        at.skip(letters);
        at
    }

    /// Advances by a number of letters.
    fn skip(&mut self, letters: usize) {
        let mut rest = self.rest.chars();
        for letter in rest.by_ref().take(letters) {
            self.column += 1;
            if letter == '\n' {
                (self.line, self.column) = (self.line + 1, 1);
            }
        }
        self.rest = rest.as_str();
    }

    /// Advances as long as letters satisfy the predicate.
    fn skip_while(&mut self, is_so: impl Fn(char) -> bool) {
        let letters = self
            .rest
            .chars()
            .take_while(|letter| is_so(*letter))
            .count();
        self.skip(letters);
    }

    /// Advances past a name.
    fn name(&mut self) {
        // An anchor and a tag may come first.
        while self.rest.starts_with(['&', '!']) {
            self.skip_while(|letter| !letter.is_whitespace());
            self.space();
        }
        match self.rest.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                self.skip(1);
                while let Some(letter) = self.rest.chars().next() {
                    let is_escape = quote == '"' && letter == '\\';
                    let is_pair = quote == '\'' && self.rest.starts_with("''");
                    self.skip(if is_escape || is_pair { 2 } else { 1 });
                    if letter == quote && !is_pair {
                        break;
                    }
                }
            }
            _ => {
                while let Some(letter) = self.rest.chars().next() {
                    let following = self.rest.chars().nth(1);
                    let ends = matches!(
                        following,
                        None | Some(' ' | '\t' | '\r' | '\n' | ',' | '}' | ']')
                    );
                    if letter == '\n' || matches!(letter, ',' | '}' | ']') || letter == ':' && ends
                    {
                        break;
                    }
                    self.skip(1);
                }
            }
        }
    }

    /// Advances past spaces, line ends and comments.
    fn space(&mut self) {
        loop {
            self.skip_while(|letter| matches!(letter, ' ' | '\t' | '\r' | '\n'));
            if !self.rest.starts_with('#') {
                return;
            }
            self.skip_while(|letter| letter != '\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines are those of Kubernetes' reader: an absent value is at the colon, or in braces at
    /// the next mark.
    #[test]
    fn lines_are_those_of_values() {
        for (text, place, is_null, line) in [
            ("k: 1\nk:\n  a: 1\n", (2, 1), false, 3),
            ("k: 1\nk:\n- a\n", (2, 1), false, 3),
            ("? k\n: 1\n? k\n: 2\n", (3, 3), false, 4),
            ("k: 1\nk:\n  2\n", (2, 1), false, 3),
            ("k: 1\nk: 2\n", (2, 1), false, 2),
            ("k: 1\nk:\n", (2, 1), true, 2),
            ("k: 1\nk:\nl: 1\n", (2, 1), true, 2),
            ("k: 1\nk:\n  ~\n", (2, 1), true, 3),
            ("k: 1\nk: &x\n  a: 1\n", (2, 1), false, 2),
            ("k: 1\nk: {\n a: 1}\n", (2, 1), false, 2),
            ("k: 1\nk: # c\n\n  a: 1\n", (2, 1), false, 4),
            ("{k: 1,\nk:\n2}", (2, 1), false, 3),
            ("{k: 1,\nk:\n}", (2, 1), true, 3),
            ("k: 1\n? k\n? l\n", (2, 3), true, 3),
            ("'k: ''': 1\n'k: ''':\n  2\n", (2, 1), false, 3),
            ("\"k\\\"\": 1\n\"k\\\"\":\n  2\n", (2, 1), false, 3),
            ("\u{feff}k: 1\nk: é\n", (2, 1), false, 2),
        ] {
            assert_eq!(line_of_value(text, place, is_null), line, "{text:?}");
        }
    }

    #[test]
    fn marks_are_letters_or_nothing() {
        let (text, stand_in) = without_marks("\u{feff}a: \u{feff}x\n\u{feff}# c\n\u{feff}\nb: 1");
        let letter = stand_in.unwrap();
        assert_eq!(text, format!("\u{feff}a: {letter}x\n # c\n \nb: 1"));
        let mut value = serde_json::json!({format!("a{letter}"): [format!("{letter}x")]});
        put_marks_back(&mut value, letter);
        assert_eq!(value, serde_json::json!({"a\u{feff}": ["\u{feff}x"]}));
        assert_eq!(without_marks("\u{feff}a: 1").1, None);
    }
}
