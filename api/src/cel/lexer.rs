//! The lexer.

use super::Faults;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// An operator, a bracket or a keyword.
    Mark(&'static str),
    Name,
    EscapedName,
    Int,
    Uint,
    Float,
    /// A string, by the index of its value in [`Words::values`].
    Text(usize),
    /// Bytes, by the index of their value in [`Words::bytes`].
    Bytes(usize),
    End,
}

/// A token: the indexes of its first character and of the one after it, and its kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub at: usize,
    pub end: usize,
    pub kind: Kind,
}

impl Token {
    pub(super) fn is(&self, mark: &str) -> bool {
        matches!(&self.kind, Kind::Mark(found) if *found == mark)
    }
}

/// Marks of two characters come first, so that they win over those of one.
const MARKS: [&str; 23] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/",
];
const WORDS: [&str; 4] = ["in", "true", "false", "null"];

/// The tokens of an expression. The last one is the end.
#[derive(Default)]
pub(super) struct Words {
    pub tokens: Vec<Token>,
    /// The values of strings.
    pub values: Vec<String>,
    /// The values of bytes.
    pub bytes: Vec<Vec<u8>>,
    /// Lexical errors.
    pub faults: Faults,
}

pub(super) fn words(text: &[char]) -> Words {
    let mut lexer = Lexer {
        text,
        at: 0,
        words: Words::default(),
    };
    while lexer.at < text.len() {
        lexer.token();
    }
    lexer.push(Kind::End, text.len());
    lexer.words
}

struct Lexer<'t> {
    text: &'t [char],
    at: usize,
    words: Words,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn push(&mut self, kind: Kind, end: usize) {
        let at = self.at;
        self.words.tokens.push(Token { at, end, kind });
        self.at = end;
    }

    /// Records an invalid token that ends at the character where the error became clear.
    fn fault(&mut self, end: usize) {
        let end = end.min(self.text.len());
        let (at, text) = (self.at, self.text);
        self.words.faults.add(at, || {
            let piece: String = text.get(at..end).unwrap_or_default().iter().collect();
            format!("Syntax error: token recognition error at: '{piece}'")
        });
        self.at = end;
    }

    fn token(&mut self) {
        let Some(first) = self.peek(0) else { return };
        if matches!(first, ' ' | '\t' | '\n' | '\r' | '\x0c') {
            self.at += 1;
            return;
        }
        if first == '/' && self.peek(1) == Some('/') {
            let rest = self.text.iter().skip(self.at);
            self.at += rest.take_while(|c| **c != '\n').count();
            return;
        }
        let next_is_digit = self.peek(1).is_some_and(|c| c.is_ascii_digit());
        if first.is_ascii_digit() || first == '.' && next_is_digit {
            self.number();
        } else if let Some((prefix, is_raw, is_bytes)) = self.string_prefix() {
            self.string(prefix, is_raw, is_bytes);
        } else if first == '_' || first.is_ascii_alphabetic() {
            self.name();
        } else if first == '`' {
            self.escaped_name();
        } else {
            self.mark(first);
        }
    }

    fn mark(&mut self, first: char) {
        if first == '%' {
            return self.push(Kind::Mark("%"), self.at + 1);
        }
        let second = self.peek(1);
        let found = MARKS.into_iter().find(|mark| {
            let mut letters = mark.chars();
            letters.next() == Some(first) && letters.next().is_none_or(|c| Some(c) == second)
        });
        match found {
            Some(mark) => self.push(Kind::Mark(mark), self.at + mark.len()),
            // The start of a mark of two characters, and the character that should be its second
            // one.
            None if matches!(first, '=' | '&' | '|') => self.fault(self.at + 2),
            None => self.fault(self.at + 1),
        }
    }

    fn name(&mut self) {
        let rest = self.text.iter().skip(self.at);
        let length = rest
            .take_while(|c| **c == '_' || c.is_ascii_alphanumeric())
            .count();
        let end = self.at + length;
        let text = self.text.get(self.at..end).unwrap_or_default();
        let is = |word: &&str| word.len() == text.len() && word.chars().eq(text.iter().copied());
        let word = WORDS.into_iter().find(is);
        self.push(word.map_or(Kind::Name, Kind::Mark), end);
    }

    fn escaped_name(&mut self) {
        let mut end = self.at + 1;
        loop {
            match self.text.get(end) {
                Some('`') if end > self.at + 1 => return self.push(Kind::EscapedName, end + 1),
                Some('_' | '.' | '-' | '/' | ' ') => end += 1,
                Some(letter) if letter.is_ascii_alphanumeric() => end += 1,
                _ => return self.fault(end + 1),
            }
        }
    }

    fn digits(&self, from: usize, is_digit: fn(&char) -> bool) -> usize {
        let rest = self.text.iter().skip(from);
        from + rest.take_while(|c| is_digit(c)).count()
    }

    fn number(&mut self) {
        if self.peek(0) == Some('0') && self.peek(1) == Some('x') {
            let end = self.digits(self.at + 2, char::is_ascii_hexdigit);
            if end > self.at + 2 {
                return match self.text.get(end) {
                    Some('u' | 'U') => self.push(Kind::Uint, end + 1),
                    _ => self.push(Kind::Int, end),
                };
            }
        }
        let whole = self.digits(self.at, char::is_ascii_digit);
        let mut end = whole;
        if self.text.get(whole) == Some(&'.') {
            let fraction = self.digits(whole + 1, char::is_ascii_digit);
            if fraction > whole + 1 {
                end = fraction;
            }
        }
        if matches!(self.text.get(end), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.text.get(end + 1), Some('+' | '-')));
            let exponent = self.digits(end + 1 + sign, char::is_ascii_digit);
            if exponent > end + 1 + sign {
                return self.push(Kind::Float, exponent);
            }
        }
        if end > whole {
            self.push(Kind::Float, end);
        } else if matches!(self.text.get(end), Some('u' | 'U')) {
            self.push(Kind::Uint, end + 1);
        } else {
            self.push(Kind::Int, end);
        }
    }

    /// Returns the length of a prefix before a quote, whether the string is raw, and whether it is
    /// bytes.
    fn string_prefix(&self) -> Option<(usize, bool, bool)> {
        let is_quote = |ahead: usize| matches!(self.peek(ahead), Some('"' | '\''));
        let is_raw = |ahead: usize| matches!(self.peek(ahead), Some('r' | 'R'));
        let is_bytes = |ahead: usize| matches!(self.peek(ahead), Some('b' | 'B'));
        if is_quote(0) {
            Some((0, false, false))
        } else if is_raw(0) && is_quote(1) {
            Some((1, true, false))
        } else if is_bytes(0) && is_quote(1) {
            Some((1, false, true))
        } else if is_bytes(0) && is_raw(1) && is_quote(2) {
            Some((2, true, true))
        } else {
            None
        }
    }

    fn string(&mut self, prefix: usize, is_raw: bool, is_bytes: bool) {
        let start = self.at + prefix;
        let quote = self.text.get(start).copied().unwrap_or('"');
        let is_long =
            self.text.get(start + 1) == Some(&quote) && self.text.get(start + 2) == Some(&quote);
        let read = match is_long {
            // A text that is not a valid long string may begin with an empty short one.
            true => self
                .quoted(start + 3, quote, 3, is_raw)
                .or_else(|_| self.quoted(start + 1, quote, 1, is_raw)),
            false => self.quoted(start + 1, quote, 1, is_raw),
        };
        if let Ok((end, _)) = read
            && !is_raw
            && let Some(what) = self.escape_fault(start, end, is_bytes)
        {
            self.words.faults.add(self.at, || what.to_owned());
        }
        match read {
            Ok((end, _)) if is_bytes => {
                let value = self.bytes(start, end, is_raw);
                self.push(Kind::Bytes(self.words.bytes.len()), end);
                self.words.bytes.push(value);
            }
            Ok((end, value)) => {
                self.push(Kind::Text(self.words.values.len()), end);
                self.words.values.push(value);
            }
            Err(end) if prefix == 0 => self.fault(end),
            // The prefix counts as a name then.
            Err(_) => self.push(Kind::Name, self.at + prefix),
        }
    }

    /// Returns the end of a quoted text and its value, or the position at which it turned out
    /// invalid.
    fn quoted(
        &self,
        from: usize,
        quote: char,
        quotes: usize,
        is_raw: bool,
    ) -> Result<(usize, String), usize> {
        let mut at = from;
        let mut value = String::new();
        loop {
            let letter = self.text.get(at).copied().ok_or(at)?;
            let closing = self.text.iter().skip(at).take(quotes);
            if letter == quote && closing.filter(|c| **c == quote).count() == quotes {
                return Ok((at + quotes, value));
            }
            match letter {
                '\n' | '\r' if quotes == 1 => return Err(at + 1),
                '\\' if !is_raw => at = self.escape(at + 1, &mut value)?,
                letter => {
                    value.push(letter);
                    at += 1;
                }
            }
        }
    }

    /// Returns the value of quoted bytes. An escaped number is one byte there, not a character.
    fn bytes(&self, start: usize, end: usize, is_raw: bool) -> Vec<u8> {
        let quote = self.text.get(start).copied();
        let opening = self.text.iter().skip(start).take(3);
        let is_long = end >= start + 6 && opening.filter(|c| Some(**c) == quote).count() == 3;
        let quotes = if is_long { 3 } else { 1 };
        let (mut at, end) = (start + quotes, end - quotes);
        let (mut value, mut letters) = (Vec::new(), String::new());
        while at < end {
            let letter = self.text.get(at).copied().unwrap_or_default();
            letters.clear();
            if letter != '\\' || is_raw {
                letters.push(letter);
                at += 1;
            } else {
                let kind = self.text.get(at + 1).copied();
                at = self.escape(at + 1, &mut letters).unwrap_or(end);
                let code = letters.chars().next().map_or(0, u32::from);
                if matches!(kind, Some('x' | 'X' | '0'..='3')) {
                    value.extend(u8::try_from(code).ok());
                    continue;
                }
            }
            value.extend_from_slice(letters.as_bytes());
        }
        value
    }

    /// Returns the error about characters that are escaped by number, if any.
    fn escape_fault(&self, from: usize, end: usize, is_bytes: bool) -> Option<&'static str> {
        let mut at = from;
        while at < end {
            if self.text.get(at) != Some(&'\\') {
                at += 1;
                continue;
            }
            let digits = match self.text.get(at + 1) {
                Some('u') => 4,
                Some('U') => 8,
                _ => 0,
            };
            let number = self.text.get(at + 2..at + 2 + digits).unwrap_or_default();
            let number: String = number.iter().collect();
            let code = u32::from_str_radix(&number, 16).ok();
            match digits {
                0 => {}
                _ if is_bytes => return Some("unable to unescape string"),
                _ if code.and_then(char::from_u32).is_none() => {
                    return Some("invalid unicode code point");
                }
                _ => {}
            }
            at += 2;
        }
        None
    }

    /// Reads an escape after a backslash. Returns its end.
    fn escape(&self, at: usize, value: &mut String) -> Result<usize, usize> {
        let letter = self.text.get(at).copied().ok_or(at)?;
        let (digits, radix) = match letter {
            'x' | 'X' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            '0'..='3' => (2, 8),
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => {
                value.push(control(letter).unwrap_or(letter));
                return Ok(at + 1);
            }
            _ => return Err(at + 1),
        };
        let mut code = letter.to_digit(4).filter(|_| radix == 8).unwrap_or(0);
        for place in 1..=digits {
            let digit = self.text.get(at + place).copied().ok_or(at + place)?;
            let digit = digit.to_digit(radix).ok_or(at + place + 1)?;
            code = code.wrapping_mul(radix).wrapping_add(digit);
        }
        value.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        Ok(at + digits + 1)
    }
}

/// Returns the control character that a letter after a backslash stands for.
pub(super) fn control(letter: char) -> Option<char> {
    Some(match letter {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        _ => return None,
    })
}
