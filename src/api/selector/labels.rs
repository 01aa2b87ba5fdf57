//! The grammar of label selectors (API-87): `a`, `!a`, `a=b`, `a==b`, `a!=b`, `a in (b,c)`,
//! `a notin (b,c)`, `a>1`, `a<1`, joined by commas.

use crate::api::field_error::{FieldError, MAX_FIELD_ERRORS, joined};
use crate::api::names;

/// What a label must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LabelRequirement {
    /// The label's key.
    pub(super) key: String,
    rule: Rule,
}

/// The rule for a label's value. Sets are sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    In(Vec<String>),
    /// Absent, or none of these.
    NotIn(Vec<String>),
    Exists,
    Absent,
    /// A whole number above this one.
    Above(i64),
    /// A whole number below this one.
    Below(i64),
}

impl LabelRequirement {
    /// Whether a label with this value, or its absence, is selected.
    pub(super) fn selects(&self, value: Option<&str>) -> bool {
        let among = |set: &[String], value: &str| {
            set.binary_search_by(|candidate| candidate.as_str().cmp(value))
                .is_ok()
        };
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        match &self.rule {
            Rule::In(set) => value.is_some_and(|value| among(set, value)),
            Rule::NotIn(set) => !value.is_some_and(|value| among(set, value)),
            Rule::Exists => value.is_some(),
            Rule::Absent => value.is_none(),
            Rule::Above(bound) => number().is_some_and(|number| number > *bound),
            Rule::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }

    /// Adds the requirement to an identity, in one of the forms that can be parsed again.
    pub(super) fn describe(&self, text: &mut String) {
        if !text.is_empty() {
            text.push(',');
        }
        let key = &self.key;
        text.push_str(&match &self.rule {
            Rule::In(set) => format!("{key} in ({})", set.join(",")),
            Rule::NotIn(set) => format!("{key} notin ({})", set.join(",")),
            Rule::Exists => key.clone(),
            Rule::Absent => format!("!{key}"),
            Rule::Above(bound) => format!("{key}>{bound}"),
            Rule::Below(bound) => format!("{key}<{bound}"),
        });
    }
}

/// Parses a label selector.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, String> {
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

/// Operators and punctuation, longer ones before their beginnings.
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

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
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
        let key = key.to_owned();
        Ok(LabelRequirement { key, rule })
    }

    fn rule(&mut self, key: &str) -> Result<Rule, String> {
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

    /// One value; none at all is the empty one.
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

    fn value(&mut self, key: &str) -> Result<String, String> {
        let word = self.word()?;
        check_values(key, &[word.to_owned()])?;
        Ok(word.to_owned())
    }

    fn bound(&mut self, key: &str) -> Result<i64, String> {
        let word = self.word()?;
        let Ok(bound) = word.parse() else {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            return Err(FieldError::invalid("values[0]", word, detail).to_string());
        };
        check_values(key, &[word.to_owned()])?;
        Ok(bound)
    }

    /// Values in parentheses. A place without one, as in `(,a)` and `()`, is the empty value.
    fn set(&mut self, key: &str) -> Result<Vec<String>, String> {
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
                    word.to_owned()
                }
                _ => String::new(),
            });
            match self.next() {
                Token::Operator(",") => {}
                Token::Operator(")") => break,
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
        values.sort();
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

fn check_values(key: &str, values: &[String]) -> Result<(), String> {
    let errors: Vec<FieldError> = values
        .iter()
        .enumerate()
        .flat_map(|(index, value)| {
            let path = format!("values[{index}][{key}]");
            names::label_value(value)
                .into_iter()
                .map(move |wrong| FieldError::invalid(path.as_str(), value.as_str(), wrong))
        })
        .take(MAX_FIELD_ERRORS)
        .collect();
    refuse(&errors)
}

fn refuse(errors: &[FieldError]) -> Result<(), String> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(joined(errors))
    }
}
