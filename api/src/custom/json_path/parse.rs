//! The parser of paths.

use serde_json::{Number, Value};

use super::Step;

/// The limit on nested unions and filters.
const MAX_DEPTH: usize = 32;

pub(super) fn steps(text: &str) -> Result<Vec<Step>, String> {
    action(text, 0)
}

fn action(text: &str, depth: usize) -> Result<Vec<Step>, String> {
    if depth > MAX_DEPTH {
        return Err("too many nested filters".to_owned());
    }
    let mut parser = Parser {
        rest: text,
        steps: Vec::new(),
        depth,
    };
    parser.read()?;
    Ok(parser.steps)
}

struct Parser<'p> {
    rest: &'p str,
    steps: Vec<Step>,
    depth: usize,
}

/// Returns whether a letter ends a name.
fn is_terminator(letter: char) -> bool {
    matches!(
        letter,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

impl<'p> Parser<'p> {
    fn next(&mut self) -> Option<char> {
        let mut letters = self.rest.chars();
        let next = letters.next();
        self.rest = letters.as_str();
        next
    }

    /// Takes the text before an index.
    fn take(&mut self, end: usize) -> &'p str {
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn read(&mut self) -> Result<(), String> {
        while let Some(first) = self.rest.chars().next() {
            if first == '}' {
                // Text after an action does not change its results.
                return Ok(());
            }
            if self.rest.starts_with("[?(") {
                self.filter()?;
                continue;
            }
            if self.rest.starts_with("..") {
                self.recursive()?;
                continue;
            }
            match first {
                '\r' | '\n' => return Err("unclosed action".to_owned()),
                ' ' | '@' | '$' => {
                    self.next();
                }
                '[' => self.list()?,
                '"' | '\'' => self.quoted(first)?,
                '.' => {
                    self.next();
                    self.field();
                }
                '+' | '-' => self.number()?,
                letter if letter.is_numeric() => self.number()?,
                letter if letter == '_' || letter.is_alphabetic() => self.word(),
                letter => {
                    let code = u32::from(letter);
                    return Err(format!("unrecognized character in action: U+{code:04X}"));
                }
            }
        }
        Ok(())
    }

    fn recursive(&mut self) -> Result<(), String> {
        if let Some(Step::Recursive) = self.steps.last() {
            return Err("invalid multiple recursive descent".to_owned());
        }
        self.take(2);
        self.steps.push(Step::Recursive);
        let next = self.rest.chars().next();
        if next.is_some_and(|next| next == '_' || next.is_alphanumeric()) {
            self.field();
        }
        Ok(())
    }

    fn field(&mut self) {
        let mut is_escaped = false;
        let end = self.rest.find(|letter: char| {
            let ends = !is_escaped && is_terminator(letter);
            is_escaped = !is_escaped && letter == '\\';
            ends
        });
        let name = self.take(end.unwrap_or(self.rest.len()));
        self.steps.push(match name {
            "*" => Step::Wildcard,
            name => Step::Field(name.replace('\\', "")),
        });
    }

    fn word(&mut self) {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let step = match self.take(end) {
            "true" => Step::Literal(true.into()),
            "false" => Step::Literal(false.into()),
            _ => Step::Word,
        };
        self.steps.push(step);
    }

    fn number(&mut self) -> Result<(), String> {
        let signs = self.rest.len() - self.rest.trim_start_matches(['+', '-']).len();
        let is_part = |letter: char| letter == '.' || letter.is_ascii_digit();
        let digits = self.rest.get(signs.min(1)..).unwrap_or_default();
        let end = digits.find(|letter| !is_part(letter));
        let end = signs.min(1) + end.unwrap_or(digits.len());
        let text = self.take(end);
        let plain = text.strip_prefix('+').unwrap_or(text);
        let float = || plain.parse().ok().and_then(Number::from_f64);
        let number = plain.parse::<i64>().ok().map(Number::from).or_else(float);
        let number = number.ok_or_else(|| format!("cannot parse number {text}"))?;
        self.steps.push(Step::Literal(Value::Number(number)));
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), String> {
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some('\\') => text.push(match self.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some(letter) if letter == '\\' || letter == quote => letter,
                    _ => return Err("unquote string error invalid syntax".to_owned()),
                }),
                Some(letter) if letter == quote => break,
                Some(letter) => text.push(letter),
            }
        }
        self.steps.push(Step::Literal(text.into()));
        Ok(())
    }

    fn list(&mut self) -> Result<(), String> {
        let end = self.rest.find([']', '\n']);
        let end = end.filter(|end| self.rest[*end..].starts_with(']'));
        let end = end.ok_or("unterminated array")?;
        let text = self.take(end + 1);
        let text = text.get(1..end).unwrap_or_default();
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text.split(',');
            let parts =
                parts.map(|part| action(&format!("[{}]", part.trim_matches(' ')), self.depth + 1));
            let parts: Result<Vec<_>, String> = parts.collect();
            self.steps.push(Step::Union(parts?));
            return Ok(());
        }
        let quoted = text
            .strip_prefix('\'')
            .and_then(|text| text.strip_suffix('\''));
        if let Some(name) = quoted.filter(|name| !name.contains('\'')) {
            let steps = action(&format!(".{name}"), self.depth + 1)?;
            self.steps.extend(steps);
            return Ok(());
        }
        self.steps.push(slice(text)?);
        Ok(())
    }

    fn filter(&mut self) -> Result<(), String> {
        self.take(3);
        let (mut quote, mut is_closed, mut before) = (None, false, ' ');
        let mut end = None;
        for (at, letter) in self.rest.char_indices() {
            match letter {
                '\n' => break,
                '"' | '\'' if quote.is_none() => quote = Some(letter),
                '"' | '\'' => is_closed |= before != '\\' && quote == Some(letter),
                ')' if quote.is_some() == is_closed => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
            before = letter;
        }
        let text = self.take(end.ok_or("unterminated filter")?);
        if !self.take(2).ends_with(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        let is_sign = |letter: char| matches!(letter, '!' | '<' | '>' | '=');
        let (left, rest) = text.split_at(text.find(is_sign).unwrap_or(text.len()));
        let (operator, right) = rest.split_at(rest.find(|c| !is_sign(c)).unwrap_or(rest.len()));
        let step = if left.is_empty() || operator.is_empty() || right.is_empty() {
            Step::Filter {
                left: action(text, self.depth + 1)?,
                operator: "exists".to_owned(),
                right: Vec::new(),
            }
        } else {
            Step::Filter {
                left: action(left, self.depth + 1)?,
                operator: operator.to_owned(),
                right: action(right, self.depth + 1)?,
            }
        };
        self.steps.push(step);
        Ok(())
    }
}

/// Reads the inside of brackets: an index, or a slice with up to three numbers.
fn slice(text: &str) -> Result<Step, String> {
    let invalid = || format!("invalid array index {text}");
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return Err(invalid());
    }
    let number = |place: usize| match parts.get(place) {
        None | Some(&"") => Ok(None),
        Some(part) => {
            let digits = part.strip_prefix('-').unwrap_or(part);
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = part.parse::<i64>();
            match is_number {
                true => number
                    .map(Some)
                    .map_err(|_| format!("array index {part} is not a number")),
                false => Err(invalid()),
            }
        }
    };
    let (begin, end, step) = (number(0)?, number(1)?, number(2)?);
    let is_single = parts.len() == 1;
    Ok(Step::Slice {
        begin,
        end: if is_single {
            Some(begin.unwrap_or(0).saturating_add(1))
        } else {
            end
        },
        is_single,
        step,
    })
}
