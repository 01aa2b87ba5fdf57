//! The grammar of label selectors (API-87): `a`, `!a`, `a=b`, `a==b`, `a!=b`, `a in (b,c)`,
//! `a notin (b,c)`, `a>1`, `a<1`, joined by commas.

use std::cmp::Ordering;

use crate::field_error::{FieldError, bounded, joined};
use crate::names;

/// A parsed requirement on a label. Requirements are stored as [`Marks`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LabelRequirement<'t> {
    key: &'t str,
    rule: Rule<'t>,
}

/// The rule for a label's value. Sets are sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule<'t> {
    In(Vec<&'t str>),
    /// The label is absent or has none of these values.
    NotIn(Vec<&'t str>),
    Exists,
    Absent,
    /// An integer above this one.
    Above(i64),
    /// An integer below this one.
    Below(i64),
}

/// The position of a requirement in the identity text of its selection. A watch may have thousands
/// of requirements, and keeps that text anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// The start of the key.
    start: u32,
    /// The end of the values.
    end: u32,
    key_bytes: u16,
    kind: Kind,
}

/// The kind of [`Rule`] of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    In,
    NotIn,
    Exists,
    Absent,
    Above,
    Below,
}

impl Kind {
    /// Returns the text before the key, and the text between key and values.
    fn around(self) -> (&'static str, &'static str) {
        match self {
            Kind::In => ("", " in ("),
            Kind::NotIn => ("", " notin ("),
            Kind::Exists => ("", ""),
            Kind::Absent => ("!", ""),
            Kind::Above => ("", ">"),
            Kind::Below => ("", "<"),
        }
    }
}

/// A requirement as reviews show it: key, operator and values.
pub(super) struct Listed<'r>(
    pub(super) &'r str,
    pub(super) &'static str,
    pub(super) &'r [&'r str],
);

impl LabelRequirement<'_> {
    /// Returns the requirement as reviews show it. They have no comparisons with numbers.
    pub(super) fn listed(&self) -> Option<Listed<'_>> {
        match &self.rule {
            Rule::In(values) => Some(Listed(self.key, "In", values)),
            Rule::NotIn(values) => Some(Listed(self.key, "NotIn", values)),
            Rule::Exists => Some(Listed(self.key, "Exists", &[])),
            Rule::Absent => Some(Listed(self.key, "DoesNotExist", &[])),
            Rule::Above(_) | Rule::Below(_) => None,
        }
    }

    /// Appends the requirement to an identity, in a form that can be parsed again.
    pub(super) fn describe(&self, text: &mut String) -> Marks {
        if !text.is_empty() {
            text.push(',');
        }
        let (kind, values) = match &self.rule {
            Rule::In(set) => (Kind::In, set.join(",")),
            Rule::NotIn(set) => (Kind::NotIn, set.join(",")),
            Rule::Exists => (Kind::Exists, String::new()),
            Rule::Absent => (Kind::Absent, String::new()),
            Rule::Above(bound) => (Kind::Above, bound.to_string()),
            Rule::Below(bound) => (Kind::Below, bound.to_string()),
        };
        let (before, between) = kind.around();
        text.push_str(before);
        let start = text.len();
        for part in [self.key, between, &values] {
            text.push_str(part);
        }
        let end = text.len();
        if matches!(kind, Kind::In | Kind::NotIn) {
            text.push(')');
        }
        // These casts fit: a request's header is shorter than 4 GiB, and a key is shorter than 64
        // KiB.
        Marks {
            start: start as u32,
            end: end as u32,
            key_bytes: self.key.len() as u16,
            kind,
        }
    }
}

impl Marks {
    /// Returns the label's key.
    pub(super) fn key(self, text: &str) -> &str {
        let start = self.start as usize;
        text.get(start..start + usize::from(self.key_bytes))
            .unwrap_or_default()
    }

    /// Returns whether a label with this value, or an absent label, satisfies the requirement.
    pub(super) fn selects(self, text: &str, value: Option<&str>) -> bool {
        let start = self.start as usize + usize::from(self.key_bytes) + self.kind.around().1.len();
        let given = text.get(start..self.end as usize).unwrap_or_default();
        let compared = || Some((value?.parse::<i64>().ok()?, given.parse::<i64>().ok()?));
        match self.kind {
            Kind::In => value.is_some_and(|value| is_among(given, value)),
            Kind::NotIn => !value.is_some_and(|value| is_among(given, value)),
            Kind::Exists => value.is_some(),
            Kind::Absent => value.is_none(),
            Kind::Above => compared().is_some_and(|(number, bound)| number > bound),
            Kind::Below => compared().is_some_and(|(number, bound)| number < bound),
        }
    }
}

/// Returns whether a sorted set contains a value. The set is a text with commas between its values.
fn is_among(mut set: &str, value: &str) -> bool {
    loop {
        let (before, following) = set.split_at(set.floor_char_boundary(set.len() / 2));
        let start = before.rfind(',').map_or(0, |comma| comma + 1);
        let end = following
            .find(',')
            .map_or(set.len(), |comma| before.len() + comma);
        let middle = set.get(start..end).unwrap_or_default();
        let rest = match value.cmp(middle) {
            Ordering::Equal => return true,
            Ordering::Less => start.checked_sub(1).and_then(|end| set.get(..end)),
            Ordering::Greater => set.get(end + 1..),
        };
        match rest {
            Some(rest) => set = rest,
            None => return false,
        }
    }
}

/// Parses a label selector.
///
/// # Errors
/// The fault in the selector, in kube-apiserver's words.
pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement<'_>>, String> {
    let mut parser = Parser { rest: text };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::Operator("!") => {}
            other => {
                let found = other.text();
                return Err(format!(
                    "found '{found}', expected: !, identifier, or 'end of string'"
                ));
            }
        }
        let requirement = parser
            .requirement()
            .map_err(|why| format!("unable to parse requirement: {why}"))?;
        requirements.push(requirement);
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Operator(",") => match parser.peek() {
                Token::Word(_) | Token::Operator("!") => {}
                other => {
                    let found = other.text();
                    return Err(format!("found '{found}', expected: identifier after ','"));
                }
            },
            other => {
                let found = other.text();
                return Err(format!("found '{found}', expected: ',' or 'end of string'"));
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    End,
    /// A key or value, or one of the operators `in` and `notin`.
    Word(&'t str),
    Operator(&'static str),
}

impl<'t> Token<'t> {
    fn text(self) -> &'t str {
        match self {
            Token::End => "",
            Token::Word(word) => word,
            Token::Operator(operator) => operator,
        }
    }
}

/// The operators and punctuation marks. Longer ones come before their prefixes.
const OPERATORS: [&str; 9] = ["==", "!=", "=", "!", ">", "<", "(", ")", ","];

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        Parser { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'t> {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        if let Some(operator) = OPERATORS.iter().find(|op| text.starts_with(**op)) {
            self.rest = text.get(operator.len()..).unwrap_or_default();
            return Token::Operator(operator);
        }
        let special = [' ', '\t', '\r', '\n', '=', '!', '(', ')', ',', '>', '<'];
        let (word, rest) = text.split_at(text.find(special).unwrap_or(text.len()));
        self.rest = rest;
        if word.is_empty() {
            Token::End
        } else {
            Token::Word(word)
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement<'t>, String> {
        let mut token = self.next();
        let negated = token == Token::Operator("!");
        if negated {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        check_key(key)?;
        let rule = if negated {
            Rule::Absent
        } else if matches!(self.peek(), Token::End | Token::Operator(",")) {
            Rule::Exists
        } else {
            self.rule(key)?
        };
        Ok(LabelRequirement { key, rule })
    }

    fn rule(&mut self, key: &str) -> Result<Rule<'t>, String> {
        match self.next() {
            Token::Word("in") => Ok(Rule::In(self.set(key)?)),
            Token::Word("notin") => Ok(Rule::NotIn(self.set(key)?)),
            Token::Operator("=" | "==") => Ok(Rule::In(vec![self.value(key)?])),
            Token::Operator("!=") => Ok(Rule::NotIn(vec![self.value(key)?])),
            Token::Operator(">") => Ok(Rule::Above(self.bound(key)?)),
            Token::Operator("<") => Ok(Rule::Below(self.bound(key)?)),
            other => Err(format!(
                "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                other.text()
            )),
        }
    }

    /// Reads a value. A missing value is empty.
    fn word(&mut self) -> Result<&'t str, String> {
        match self.peek() {
            Token::End | Token::Operator(",") => Ok(""),
            Token::Word(word) => {
                self.next();
                Ok(word)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn value(&mut self, key: &str) -> Result<&'t str, String> {
        let word = self.word()?;
        check_values(key, &[word])?;
        Ok(word)
    }

    fn bound(&mut self, key: &str) -> Result<i64, String> {
        let word = self.word()?;
        let Ok(bound) = word.parse() else {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            return Err(FieldError::invalid("values[0]", word, detail).to_string());
        };
        check_values(key, &[word])?;
        Ok(bound)
    }

    /// Reads values in parentheses. A missing value, as in `(,a)` and `()`, is empty.
    fn set(&mut self, key: &str) -> Result<Vec<&'t str>, String> {
        let open = self.next();
        if open != Token::Operator("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        if !matches!(self.peek(), Token::Word(_) | Token::Operator("," | ")")) {
            let found = self.peek().text();
            return Err(format!("found '{found}', expected: ',', ')' or identifier"));
        }
        let mut values = Vec::new();
        loop {
            values.push(match self.peek() {
                Token::Word(word) => {
                    self.next();
                    word
                }
                _ => "",
            });
            match self.next() {
                Token::Operator(",") => {}
                Token::Operator(")") => break,
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
        values.sort_unstable();
        values.dedup();
        check_values(key, &values)?;
        Ok(values)
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let errors: Vec<FieldError> = names::qualified_name(key)
        .into_iter()
        .map(|wrong| FieldError::invalid("<nil>", key, wrong))
        .collect();
    refuse(&errors)
}

fn check_values(key: &str, values: &[&str]) -> Result<(), String> {
    let errors = values.iter().enumerate().flat_map(|(index, value)| {
        let wrong = names::label_value(value).into_iter();
        wrong
            .map(move |wrong| FieldError::invalid(format!("values[{index}][{key}]"), *value, wrong))
    });
    refuse(&bounded(errors))
}

fn refuse(errors: &[FieldError]) -> Result<(), String> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(joined(errors))
    }
}
