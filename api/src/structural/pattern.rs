//! Patterns as Go reads them (RE2), in front of a library whose syntax differs in details. A
//! pattern is read once: its faults are told in Go's words, and it is written anew for the library.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use regex::Regex;

/// The most repetitions of anything, those of what it is in included.
const MAX_REPEAT: usize = 1000;

/// How deep groups may be in each other. The library allows no more.
const MAX_DEPTH: usize = 200;

/// The memory of a compiled pattern.
const MAX_SIZE: usize = 1 << 20;

/// The classes with names in brackets.
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// How many names of classes are remembered.
const MAX_NAMES: usize = 1024;

/// Whether the library knows classes of Unicode by these names.
static NAMES: Mutex<Option<HashMap<String, bool>>> = Mutex::new(None);

/// A pattern that texts are matched with. It is compiled when the first text comes.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    translated: String,
    cost: usize,
    regex: Arc<OnceLock<Option<Regex>>>,
}

impl Pattern {
    /// A pattern.
    ///
    /// # Errors
    /// Why Go can't read it: ``missing closing ]: `[` ``.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let (translated, repeats) = translated(text)?;
        Ok(Pattern {
            text: text.to_owned(),
            cost: translated.len().saturating_mul(repeats.max(1)),
            translated,
            regex: Arc::default(),
        })
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How long it takes to match a byte, at most, as a number of comparisons.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Whether a part of a text matches. No text matches a pattern that is too large to compile.
    pub fn matches(&self, text: &str) -> bool {
        let regex = self.regex.get_or_init(|| {
            let mut builder = regex::RegexBuilder::new(&self.translated);
            let builder = builder.size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE);
            builder.build().ok()
        });
        regex.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

/// Whether the library knows a class of Unicode.
fn is_class(class: &str) -> bool {
    let mut names = NAMES.lock();
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(class) {
        return *known;
    }
    let is_known = Regex::new(class).is_ok();
    if names.len() >= MAX_NAMES {
        names.clear();
    }
    names.insert(class.to_owned(), is_known);
    is_known
}

/// The pattern in the library's syntax, and how often its parts are repeated.
fn translated(text: &str) -> Result<(String, usize), String> {
    let mut reader = Reader {
        whole: text,
        rest: text,
        out: String::with_capacity(text.len() + 8),
        groups: vec![Group::default()],
    };
    reader.read()?;
    let repeats = reader.groups.first().map_or(1, |group| group.repeats);
    Ok((reader.out, repeats))
}

/// A group that is read, or the whole pattern.
#[derive(Default)]
struct Group {
    /// The repetitions in it.
    repeats: usize,
    /// The repetitions in what was read last; none if there is nothing to repeat.
    last: Option<usize>,
}

struct Reader<'p> {
    whole: &'p str,
    rest: &'p str,
    out: String,
    groups: Vec<Group>,
}

type Read<T = ()> = Result<T, String>;

impl<'p> Reader<'p> {
    fn next(&mut self) -> Option<char> {
        let mut letters = self.rest.chars();
        let first = letters.next();
        self.rest = letters.as_str();
        first
    }

    /// What was read since the rest was this.
    fn since(&self, before: &'p str) -> &'p str {
        let length = before.len() - self.rest.len();
        before.get(..length).unwrap_or(before)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn literal(&mut self, letter: char) {
        if letter.is_alphanumeric() {
            self.out.push(letter);
        } else {
            let _ = write!(self.out, "\\x{{{:x}}}", u32::from(letter));
        }
    }

    /// Something that can be repeated was read.
    fn atom(&mut self, repeats: usize) {
        if let Some(group) = self.groups.last_mut() {
            group.last = Some(repeats);
            group.repeats = group.repeats.max(repeats);
        }
    }

    fn read(&mut self) -> Read {
        // Where the operator began that was read last, if nothing is behind it.
        let mut operator: Option<&'p str> = None;
        while let Some(first) = self.rest.chars().next() {
            let before = self.rest;
            let mut is_operator = false;
            match first {
                '(' => self.group()?,
                ')' => self.end_of_group()?,
                '|' => {
                    self.skip(1);
                    self.out.push('|');
                    if let Some(group) = self.groups.last_mut() {
                        group.last = None;
                    }
                }
                '[' => self.class()?,
                '.' | '^' | '$' => {
                    self.skip(1);
                    self.out.push(first);
                    self.atom(1);
                }
                '\\' => self.escape()?,
                '*' | '+' | '?' | '{' => is_operator = self.repeat(first, operator)?,
                letter => {
                    self.skip(letter.len_utf8());
                    self.literal(letter);
                    self.atom(1);
                }
            }
            operator = is_operator.then_some(before);
        }
        match self.groups.len() {
            1 => Ok(()),
            _ => Err(format!("missing closing ): `{}`", self.whole)),
        }
    }

    fn end_of_group(&mut self) -> Read {
        let inner = self.groups.pop().filter(|_| !self.groups.is_empty());
        let inner = inner.ok_or_else(|| format!("unexpected ): `{}`", self.whole))?;
        self.skip(1);
        self.out.push(')');
        self.atom(inner.repeats.max(1));
        Ok(())
    }

    /// A repetition. Braces that are none are letters; then the answer is false.
    fn repeat(&mut self, first: char, operator: Option<&'p str>) -> Read<bool> {
        let before = self.rest;
        let mut times = 1;
        if first == '{' {
            let Some((low, high, length)) = counts(self.rest) else {
                self.skip(1);
                self.literal('{');
                self.atom(1);
                return Ok(false);
            };
            self.skip(length);
            let limit = high.unwrap_or(low);
            if low > MAX_REPEAT || limit > MAX_REPEAT || high.is_some_and(|high| high < low) {
                return Err(format!("invalid repeat count: `{}`", self.since(before)));
            }
            times = limit.max(1);
        } else {
            self.skip(1);
        }
        let last = self.groups.last().and_then(|group| group.last);
        let Some(last) = last else {
            let what = self.since(before);
            return Err(format!("missing argument to repetition operator: `{what}`"));
        };
        let is_lazy = self.rest.starts_with('?');
        if is_lazy {
            self.skip(1);
        }
        if let Some(operator) = operator {
            let what = self.since(operator);
            return Err(format!("invalid nested repetition operator: `{what}`"));
        }
        self.out.push_str(self.since(before));
        if last.saturating_mul(times) > MAX_REPEAT {
            return Err(format!("invalid repeat count: `{}`", self.since(before)));
        }
        self.atom(last.saturating_mul(times));
        Ok(true)
    }

    fn group(&mut self) -> Read {
        if self.groups.len() > MAX_DEPTH {
            return Err(format!("expression nests too deeply: `{}`", self.whole));
        }
        let before = self.rest;
        self.skip(1);
        if !self.rest.starts_with('?') {
            self.out.push_str("(?:");
            self.groups.push(Group::default());
            return Ok(());
        }
        self.skip(1);
        let name = self.rest.strip_prefix("P<").or(self.rest.strip_prefix('<'));
        if let Some(name) = name.filter(|name| !name.starts_with(['=', '!'])) {
            let Some((name, rest)) = name.split_once('>') else {
                return Err(format!("invalid named capture: `{before}`"));
            };
            self.rest = rest;
            let is_word = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(is_word) {
                return Err(format!("invalid named capture: `{}`", self.since(before)));
            }
            self.out.push_str("(?:");
            self.groups.push(Group::default());
            return Ok(());
        }
        self.flags(before)
    }

    /// Flags for the rest of a group, or for a group of their own.
    fn flags(&mut self, before: &'p str) -> Read {
        let (mut is_negated, mut has_flag) = (false, false);
        loop {
            let letter = self.next();
            match letter {
                Some('i' | 'm' | 's' | 'U') => has_flag = true,
                Some('-') if !is_negated => (is_negated, has_flag) = (true, false),
                Some(':' | ')') if !is_negated || has_flag => {
                    let written = self.since(before);
                    if letter == Some(':') {
                        self.out.push_str(written);
                        self.groups.push(Group::default());
                    } else if written != "(?)" {
                        self.out.push_str(written);
                    }
                    return Ok(());
                }
                _ => {
                    let what = self.since(before);
                    return Err(format!("invalid or unsupported Perl syntax: `{what}`"));
                }
            }
        }
    }

    fn escape(&mut self) -> Read {
        let rest = self.rest.get(1..).unwrap_or_default();
        match rest.chars().next() {
            Some('A' | 'z') => self.out.push_str(self.rest.get(..2).unwrap_or_default()),
            Some('b') => self.out.push_str(r"(?-u:\b)"),
            Some('B') => self.out.push_str(r"(?-u:\B)"),
            Some('Q') => {
                let rest = rest.get(1..).unwrap_or_default();
                let (letters, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
                for letter in letters.chars() {
                    self.literal(letter);
                    self.atom(1);
                }
                self.rest = rest;
                return Ok(());
            }
            _ => {
                if !self.known_class()? {
                    let letter = self.escaped_letter()?;
                    self.literal(letter);
                }
                self.atom(1);
                return Ok(());
            }
        }
        self.skip(2);
        self.atom(1);
        Ok(())
    }

    /// A class with a name: `\d`, `\pL`. The answer is false if there is none.
    fn known_class(&mut self) -> Read<bool> {
        let before = self.rest;
        let class = match before.get(1..2) {
            Some("d") => "[0-9]",
            Some("D") => "[^0-9]",
            Some("s") => r"[\t\n\x0c\r ]",
            Some("S") => r"[^\t\n\x0c\r ]",
            Some("w") => "[0-9A-Za-z_]",
            Some("W") => "[^0-9A-Za-z_]",
            Some("p" | "P") => return self.unicode_class().map(|()| true),
            _ => return Ok(false),
        };
        self.skip(2);
        self.out.push_str(class);
        Ok(true)
    }

    fn unicode_class(&mut self) -> Read {
        let before = self.rest;
        let mut is_negated = before.starts_with("\\P");
        self.skip(2);
        let name = if self.rest.starts_with('{') {
            let Some(end) = self.rest.find('}') else {
                return Err(format!("invalid character class range: `{before}`"));
            };
            let name = self.rest.get(1..end).unwrap_or_default();
            self.skip(end + 1);
            name
        } else {
            let start = self.rest;
            self.next();
            self.since(start)
        };
        let plain = name.strip_prefix('^');
        is_negated ^= plain.is_some();
        let name = plain.unwrap_or(name);
        let letter = if is_negated { 'P' } else { 'p' };
        let class = match name {
            "Any" if is_negated => "[^\\x{0}-\\x{10FFFF}]".to_owned(),
            "Any" => "[\\x{0}-\\x{10FFFF}]".to_owned(),
            name => format!("\\{letter}{{{name}}}"),
        };
        let is_name = name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        // Categories have one or two letters; the others are scripts.
        let is_short = name.len() <= 2 || name.starts_with(|c: char| c.is_ascii_uppercase());
        if name.is_empty() || name.len() > 40 || !is_name || !is_short || !is_class(&class) {
            let what = self.since(before);
            return Err(format!("invalid character class range: `{what}`"));
        }
        self.out.push_str(&class);
        Ok(())
    }

    /// A letter that is written with a backslash.
    fn escaped_letter(&mut self) -> Read<char> {
        let before = self.rest;
        self.skip(1);
        let Some(letter) = self.next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        let code = match letter {
            '1'..='7' if !self.rest.starts_with(|c| matches!(c, '0'..='7')) => None,
            '0'..='7' => {
                let mut code = letter.to_digit(8);
                for _ in 0..2 {
                    let digit = self.rest.chars().next().and_then(|c| c.to_digit(8));
                    let Some(digit) = digit else { break };
                    self.skip(1);
                    code = code.map(|code| code * 8 + digit);
                }
                code
            }
            'x' => self.hexadecimal(),
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            other if other.is_ascii() && !other.is_ascii_alphanumeric() => Some(u32::from(other)),
            _ => None,
        };
        code.and_then(char::from_u32)
            .ok_or_else(|| format!("invalid escape sequence: `{}`", self.since(before)))
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        let mut code = 0_u32;
        if self.rest.starts_with('{') {
            self.skip(1);
            let mut digits = 0;
            loop {
                let letter = self.next()?;
                if letter == '}' {
                    return Some(code).filter(|_| digits > 0);
                }
                code = code.checked_mul(16)?.checked_add(letter.to_digit(16)?)?;
                digits += 1;
            }
        }
        for _ in 0..2 {
            code = code * 16 + self.next()?.to_digit(16)?;
        }
        Some(code)
    }

    /// Letters in brackets.
    fn class(&mut self) -> Read {
        let before = self.rest;
        let missing = || format!("missing closing ]: `{before}`");
        self.skip(1);
        self.out.push('[');
        if self.rest.starts_with('^') {
            self.skip(1);
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let Some(first) = self.rest.chars().next() else {
                return Err(missing());
            };
            if first == ']' && !is_first {
                self.skip(1);
                break;
            }
            is_first = false;
            if self.rest.starts_with("[:")
                && let Some(end) = self.rest.find(":]")
            {
                let start = self.rest;
                let name = self.rest.get(2..end).unwrap_or_default();
                self.skip(end + 2);
                if !CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    let what = self.since(start);
                    return Err(format!("invalid character class range: `{what}`"));
                }
                self.out.push_str(self.since(start));
                continue;
            }
            if first == '\\' && self.known_class()? {
                continue;
            }
            self.range()
                .map_err(|wrong| wrong.unwrap_or_else(missing))?;
        }
        self.out.push(']');
        self.atom(1);
        Ok(())
    }

    /// A letter in brackets, or a range of them. An error without a text is a missing bracket.
    fn range(&mut self) -> Result<(), Option<String>> {
        let start = self.rest;
        let low = self.class_letter()?;
        let mut high = low;
        let behind = self.rest.strip_prefix('-');
        if let Some(behind) = behind.filter(|behind| !behind.is_empty() && !behind.starts_with(']'))
        {
            self.rest = behind;
            high = self.class_letter()?;
            if high < low {
                let what = self.since(start);
                return Err(Some(format!("invalid character class range: `{what}`")));
            }
        }
        let (low, high) = (u32::from(low), u32::from(high));
        let _ = write!(self.out, "\\x{{{low:x}}}-\\x{{{high:x}}}");
        Ok(())
    }

    fn class_letter(&mut self) -> Result<char, Option<String>> {
        if self.rest.starts_with('\\') {
            return self.escaped_letter().map_err(Some);
        }
        self.next().ok_or(None)
    }
}

/// The counts of a repetition in braces, and its length: `{2,5}`.
fn counts(text: &str) -> Option<(usize, Option<usize>, usize)> {
    let end = text.find('}')?;
    let inside = text.get(1..end)?;
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let has_zero = digits.len() > 1 && digits.starts_with('0');
        // More digits than a limit has are beyond each limit.
        (is_number && !has_zero).then(|| digits.parse().unwrap_or(usize::MAX))
    };
    let (low, high) = match inside.split_once(',') {
        None => (number(inside)?, Some(number(inside)?)),
        Some((low, "")) => (number(low)?, None),
        Some((low, high)) => (number(low)?, Some(number(high)?)),
    };
    Some((low, high, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go says of such patterns (CRD-38).
    #[test]
    fn faults_are_told_in_the_words_of_go() {
        for (pattern, why) in [
            ("[", "missing closing ]: `[`"),
            ("a[b", "missing closing ]: `[b`"),
            ("(", "missing closing ): `(`"),
            (")", "unexpected ): `)`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a*?+", "invalid nested repetition operator: `*?+`"),
            ("\\", "trailing backslash at end of expression: ``"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(a{1000}){1000}", "invalid repeat count: `{1000}`"),
            ("[b-a]", "invalid character class range: `b-a`"),
            ("\\x{zz}", "invalid escape sequence: `\\x{z`"),
            ("|*", "missing argument to repetition operator: `*`"),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap_err(), why, "{pattern}");
        }
        assert!(Pattern::new(&"(".repeat(100_000)).is_err());
        assert!(Pattern::new(&"((((((((a{30}){30}){30}".repeat(3)).is_err());
    }

    #[test]
    fn texts_match_as_in_go() {
        for (pattern, text, matches) in [
            ("^\\d+$", "12", true),
            // Digits are those of ASCII.
            ("^\\d+$", "١", false),
            ("[a&&b]", "&", true),
            ("[[a]", "[", true),
            ("a{,2}", "a{,2}", true),
            ("\\Qa.b\\E", "a.b", true),
            ("\\Qa.b\\E", "axb", false),
            ("(?P<n>a)(?P<n>b)", "ab", true),
            ("(?i)ABC", "abc", true),
            ("^(a|b)*?c$", "abbac", true),
            ("^[\\w-]+$", "a-b", true),
            ("\\bfoo\\b", "a foo", true),
            ("^[^\\s]+$", "a b", false),
            ("#x ", "#x ", true),
        ] {
            let found = Pattern::new(pattern).unwrap().matches(text);
            assert_eq!(found, matches, "{pattern} {text}");
        }
    }
}
