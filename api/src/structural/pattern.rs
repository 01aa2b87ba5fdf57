//! Regular expressions in Go's syntax (RE2), translated for the `regex` crate, whose syntax differs
//! in details. A pattern is parsed once: errors are in Go's words, and the crate gets the pattern
//! in its own syntax.

use std::fmt::Write as _;

use regex::Regex;

use super::classes;

/// Go's limit on repetitions of any part, multiplied by those of its enclosing groups.
const MAX_REPEAT: usize = 1000;

/// The limit on nested groups, which is that of the `regex` crate.
const MAX_DEPTH: usize = 200;

/// The limit on the memory of a compiled pattern, in bytes.
const MAX_SIZE: usize = 1 << 20;

/// The limit on the parts of a compiled pattern. A pattern with more would exceed [`MAX_SIZE`], and
/// parsing it would take many times that memory.
const MAX_PARTS: usize = 1 << 15;

/// The most parts of any Unicode class, and of one that ignores case.
const CLASS_PARTS: usize = 700;
const FOLDED_CLASS_PARTS: usize = 3000;

/// The steps to compile the smallest pattern, and those for each part.
const COMPILE_STEPS: usize = 200;
const STEPS_FOR_PART: usize = 4;

/// The POSIX classes, for use inside brackets.
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// The most ranges in a Perl class such as `\w`.
const SHORT_CLASS_PARTS: usize = 6;

/// The bytes of a pattern that are parsed in one step of a budget.
const BYTES_READ_IN_STEP: usize = 4;

/// A regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    translated: String,
    /// The number of letters and ranges of letters.
    parts: usize,
    /// The maximum number of repetitions of any part.
    repeats: usize,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Go's error: ``missing closing ]: `[` ``.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let mut reader = Reader {
            whole: text,
            rest: text,
            out: String::with_capacity(text.len() + 8),
            parts: 0,
            is_folded: false,
            has_no_class_end: false,
            groups: vec![Group::default()],
        };
        reader.read()?;
        let repeats = reader.groups.first().map_or(1, |group| group.repeats);
        Ok(Pattern {
            translated: reader.out,
            parts: reader.parts,
            repeats: repeats.max(1),
        })
    }

    /// Returns the cost of parsing a pattern, in steps of a budget.
    pub fn read_steps(text: &str) -> usize {
        text.len().div_ceil(BYTES_READ_IN_STEP)
    }

    /// Returns the maximum cost of matching one byte, in comparisons.
    pub fn cost(&self) -> usize {
        self.parts.saturating_mul(self.repeats).min(MAX_PARTS)
    }

    /// Returns the cost of compiling the pattern, in steps of a budget.
    pub fn compile_steps(&self) -> usize {
        COMPILE_STEPS + STEPS_FOR_PART * self.parts.min(MAX_PARTS) + self.cost()
    }

    /// Compiles the pattern. Returns `None` if it is too large.
    pub fn compiled(&self) -> Option<Regex> {
        if self.parts > MAX_PARTS {
            return None;
        }
        let mut builder = regex::RegexBuilder::new(&self.translated);
        let builder = builder.size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE);
        builder.build().ok()
    }
}

/// An open group, or the whole pattern.
#[derive(Default)]
struct Group {
    /// The most repetitions of any part in it.
    repeats: usize,
    /// The repetitions of the preceding part; `None` if there is nothing to repeat.
    last: Option<usize>,
}

struct Reader<'p> {
    whole: &'p str,
    rest: &'p str,
    out: String,
    parts: usize,
    /// Whether case is ignored anywhere.
    is_folded: bool,
    /// Whether no `:]` follows, so that no POSIX class can end.
    has_no_class_end: bool,
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

    /// Returns the text that was read since `before` was the rest.
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

    /// Records a part that can be repeated.
    fn atom(&mut self, repeats: usize) {
        self.parts += 1;
        if let Some(group) = self.groups.last_mut() {
            group.last = Some(repeats);
            group.repeats = group.repeats.max(repeats);
        }
    }

    fn read(&mut self) -> Read {
        // The start of the preceding repetition operator, if nothing follows it.
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

    /// Reads a repetition. Returns false for braces that are letters.
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

    /// Reads flags, for the rest of a group or for a new group.
    fn flags(&mut self, before: &'p str) -> Read {
        let (mut is_negated, mut has_flag) = (false, false);
        loop {
            let letter = self.next();
            self.is_folded |= letter == Some('i');
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

    /// Reads a class with a name: `\d`, `\pL`. Returns false if none follows.
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
        self.parts += SHORT_CLASS_PARTS;
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
        // UTF-8 texts do not contain surrogates.
        let class = match (classes::is_of_surrogates(name), is_negated) {
            (true, false) => "[^\\x{0}-\\x{10FFFF}]".to_owned(),
            (true, true) => "[\\x{0}-\\x{10FFFF}]".to_owned(),
            (false, _) => format!("\\{letter}{{{name}}}"),
        };
        if !classes::is_class(name) {
            let what = self.since(before);
            return Err(format!("invalid character class range: `{what}`"));
        }
        self.out.push_str(&class);
        self.class_parts();
        Ok(())
    }

    fn class_parts(&mut self) {
        self.parts += match self.is_folded {
            true => FOLDED_CLASS_PARTS,
            false => CLASS_PARTS,
        };
    }

    /// Reads a letter after a backslash.
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

    /// Reads a class in brackets.
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
                && let Some(end) = self.class_name_end()
            {
                let start = self.rest;
                let name = self.rest.get(2..end).unwrap_or_default();
                self.skip(end + 2);
                if !CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    let what = self.since(start);
                    return Err(format!("invalid character class range: `{what}`"));
                }
                self.out.push_str(self.since(start));
                self.parts += SHORT_CLASS_PARTS;
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

    /// Returns the end of the POSIX class that begins here: `[:alpha:]`. If no `:]` follows, later
    /// calls do not search again, so that reading stays linear.
    fn class_name_end(&mut self) -> Option<usize> {
        if self.has_no_class_end {
            return None;
        }
        let end = self.rest.find(":]");
        self.has_no_class_end = end.is_none();
        end
    }

    /// Reads a letter in brackets, or a range of them. `Err(None)` means a missing bracket.
    fn range(&mut self) -> Result<(), Option<String>> {
        let start = self.rest;
        let low = self.class_letter()?;
        let mut high = low;
        let following = self.rest.strip_prefix('-');
        if let Some(following) =
            following.filter(|following| !following.is_empty() && !following.starts_with(']'))
        {
            self.rest = following;
            high = self.class_letter()?;
            if high < low {
                let what = self.since(start);
                return Err(Some(format!("invalid character class range: `{what}`")));
            }
        }
        if low < high {
            let (low, high) = (u32::from(low), u32::from(high));
            let _ = write!(self.out, "\\x{{{low:x}}}-\\x{{{high:x}}}");
        } else {
            self.literal(low);
        }
        self.parts += 1;
        if self.is_folded && u32::from(high) - u32::from(low) > LETTERS_OF_A_CASE {
            self.class_parts();
        }
        Ok(())
    }

    fn class_letter(&mut self) -> Result<char, Option<String>> {
        if self.rest.starts_with('\\') {
            return self.escaped_letter().map_err(Some);
        }
        self.next().ok_or(None)
    }
}

/// A range of more letters may contain letters with many case variants.
const LETTERS_OF_A_CASE: u32 = 128;

/// Parses the counts of a repetition in braces, such as `{2,5}`. Returns them with the length.
fn counts(text: &str) -> Option<(usize, Option<usize>, usize)> {
    let is_part = |byte: u8| byte == b',' || byte.is_ascii_digit();
    let end = 1 + text.bytes().skip(1).position(|byte| !is_part(byte))?;
    let inside = text
        .get(1..end)
        .filter(|_| text.as_bytes().get(end) == Some(&b'}'))?;
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let has_zero = digits.len() > 1 && digits.starts_with('0');
        // More digits than fit exceed any limit.
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

    /// The errors of Go for such patterns (CRD-38).
    #[test]
    fn errors_are_those_of_go() {
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
            ("\\pX", "invalid character class range: `\\pX`"),
            (
                "\\p{isGreek}",
                "invalid character class range: `\\p{isGreek}`",
            ),
            ("[\\P{^L_x}]", "invalid character class range: `\\P{^L_x}`"),
            ("|*", "missing argument to repetition operator: `*`"),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap_err(), why, "{pattern}");
        }
        assert!(Pattern::new(&"(".repeat(100_000)).is_err());
        assert!(Pattern::new(&"((((((((a{30}){30}){30}".repeat(3)).is_err());
    }

    /// A pattern that would take much memory is not compiled.
    #[test]
    fn large_patterns_are_not_compiled() {
        for part in [
            "\\pL",
            "[\\pL]",
            "(?i)\\pL",
            "(?i)[\u{e9}-\u{ffff}]",
            "a",
            ".",
            "\\S",
            "[a-z]",
        ] {
            let pattern = Pattern::new(&part.repeat(100_000)).unwrap();
            assert!(pattern.compiled().is_none(), "{part}");
            assert!(pattern.cost() <= MAX_PARTS);
        }
        assert!(
            Pattern::new(&"\\pL".repeat(4))
                .unwrap()
                .compiled()
                .is_some()
        );
    }

    /// A class has endless spellings, none of which are cached. Go 1.25 accepts them all.
    #[test]
    fn classes_have_many_spellings() {
        for spelling in 0..10_000 {
            let letters = "Greek".chars().enumerate();
            let loose = letters.map(|(at, letter)| match spelling >> (2 * at) & 3 {
                0 => letter.to_string(),
                1 => letter.to_ascii_uppercase().to_string(),
                2 => format!("_{letter}"),
                _ => format!("{letter}__"),
            });
            let text = format!("\\p{{{}}}", loose.collect::<String>());
            assert!(Pattern::new(&text).is_ok(), "{text}");
        }
        for (class, text) in [("\\p{Any}", "a"), ("\\P{cs}", "a"), ("\\p{Letter}", "a")] {
            let pattern = Pattern::new(class).unwrap();
            assert!(pattern.compiled().unwrap().is_match(text), "{class}");
        }
    }

    /// Brackets and braces that are never closed are searched once.
    #[test]
    fn patterns_are_read_in_linear_time() {
        assert!(Pattern::new(&format!("[{}", "[:".repeat(1_500_000))).is_err());
        assert!(Pattern::new(&format!("{}}}", "a{1".repeat(1_000_000))).is_ok());
    }

    #[test]
    fn texts_match_as_in_go() {
        for (pattern, text, matches) in [
            ("^\\d+$", "12", true),
            // `\d` matches only ASCII digits.
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
            ("\\p{Greek}", "α", true),
            ("\\P{^Lu}", "a", false),
            ("\\p{Cs}", "a", false),
            ("\\P{Cs}", "a", true),
            ("\\PZ", "a", true),
            ("\\p{Any}", "a", true),
            ("\\P{Any}", "a", false),
            ("\\bfoo\\b", "a foo", true),
            ("^[^\\s]+$", "a b", false),
            ("#x ", "#x ", true),
        ] {
            let found = Pattern::new(pattern)
                .unwrap()
                .compiled()
                .unwrap()
                .is_match(text);
            assert_eq!(found, matches, "{pattern} {text}");
        }
    }
}
