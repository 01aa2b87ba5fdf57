//! Reading an expression, with the faults that the parser of the reference implementation tells.

mod collections;
mod numbers;

use super::lexer::{Kind, Token, Words, words};
use super::macros;
use super::tree::{Expression, Literal, Node};
use super::{Faults, is_reserved};

/// How deep expressions may be in each other.
const MAX_DEPTH: usize = 250;

/// The stack that a level takes, and what is added when it is short.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// Why a text is no expression.
pub(super) enum Refused {
    Faults(Faults),
    TooDeep(String),
}

/// Reads an expression.
pub(super) fn parse(text: &[char]) -> Result<Node, Refused> {
    let mut words = words(text);
    let mut parser = Parser {
        text,
        faults: std::mem::take(&mut words.faults),
        words,
        next: 0,
        depth: 0,
        too_deep: None,
    };
    let read = parser.whole();
    if let Some(why) = parser.too_deep {
        return Err(Refused::TooDeep(why));
    }
    match read {
        Some(node) if parser.faults.is_empty() => Ok(node),
        _ => Err(Refused::Faults(parser.faults)),
    }
}

struct Parser<'t> {
    text: &'t [char],
    words: Words,
    next: usize,
    faults: Faults,
    depth: usize,
    /// Why the expression is too deep.
    too_deep: Option<String>,
}

/// Nothing is read behind a fault that can't be mended.
type Read<T = Node> = Option<T>;

/// What an expression begins with, as faults list it. Other marks that may stand there come at
/// their places.
fn expected_start(also: &[&str]) -> String {
    let all = [
        "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", "true", "false", "null",
    ];
    let never = ["]", "}", ")", ",", "?"];
    let marks = all
        .into_iter()
        // linear: both are written here.
        .filter(|mark| !never.contains(mark) || also.contains(mark));
    let marks: Vec<String> = marks.map(|mark| format!("'{mark}'")).collect();
    format!(
        "{{{}, NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}}",
        marks.join(", ")
    )
}

impl Parser<'_> {
    fn token(&self) -> Token {
        let tokens = &self.words.tokens;
        let found = tokens.get(self.next).or(tokens.last());
        found.copied().unwrap_or(Token {
            at: 0,
            end: 0,
            kind: Kind::End,
        })
    }

    fn behind(&self) -> Option<&Token> {
        self.words.tokens.get(self.next + 1)
    }

    fn is(&self, mark: &str) -> bool {
        let token = self.words.tokens.get(self.next);
        token.is_some_and(|token| token.is(mark))
    }

    fn accept(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        if found {
            self.next += 1;
        }
        found
    }

    fn written(&self, token: &Token) -> String {
        written(self.text, token)
    }

    /// A fault at a word. What is wrong is told of the word as it was written.
    fn fault(&mut self, token: &Token, what: impl FnOnce(&str) -> String) {
        let text = self.text;
        self.faults.add(token.at, || {
            let what = what(&written(text, token));
            format!("Syntax error: {what}")
        });
    }

    /// A mark that must be here. One that lacks in front of what may follow it is added, one word
    /// in front of it is left out.
    fn expect(&mut self, mark: &str, follows: fn(&Token) -> bool) -> Read<()> {
        if self.accept(mark) {
            return Some(());
        }
        let token = self.token();
        if self.behind().is_some_and(|behind| behind.is(mark)) {
            self.fault(&token, |text| {
                format!("extraneous input '{text}' expecting '{mark}'")
            });
            self.next += 2;
            return Some(());
        }
        if follows(&token) {
            self.fault(&token, |text| format!("missing '{mark}' at '{text}'"));
            return Some(());
        }
        self.fault(&token, |text| {
            format!("mismatched input '{text}' expecting '{mark}'")
        });
        None
    }

    fn whole(&mut self) -> Read {
        let node = self.expression(&[])?;
        let token = self.token();
        if token.kind == Kind::End {
            return Some(node);
        }
        let is_last = self.behind().is_none_or(|behind| behind.kind == Kind::End);
        let how = if is_last { "extraneous" } else { "mismatched" };
        self.fault(&token, |text| {
            format!("{how} input '{text}' expecting <EOF>")
        });
        None
    }

    /// An expression. `also` has the other marks that may stand where it begins.
    fn expression(&mut self, also: &[&str]) -> Read {
        self.inside(|parser| parser.conditional(also))
    }

    /// Reads what is a level deeper. Everything that reads what it is part of comes by here, so
    /// this is where the depth is bounded.
    fn inside(&mut self, read: impl FnOnce(&mut Self) -> Read) -> Read {
        if self.depth >= MAX_DEPTH {
            let why = format!("expression recursion limit exceeded: {MAX_DEPTH}");
            self.too_deep = Some(why);
            return None;
        }
        self.depth += 1;
        let node = stacker::maybe_grow(RED_ZONE, MORE_STACK, || read(self));
        self.depth -= 1;
        self.bounded(node?)
    }

    /// A part that is not too deep. Chains of operators are deep too.
    fn bounded(&mut self, node: Node) -> Read {
        if node.depth > MAX_DEPTH {
            self.too_deep = Some("max recursion depth exceeded".to_owned());
            return None;
        }
        Some(node)
    }

    fn conditional(&mut self, also: &[&str]) -> Read {
        let condition = self.or(also)?;
        let at = self.token().at;
        if !self.accept("?") {
            return Some(condition);
        }
        let yes = self.or(&[])?;
        self.expect(":", starts_expression)?;
        let no = self.expression(&[])?;
        let parts = Box::new([condition, yes, no]);
        Some(Node::new(at, Expression::Conditional(parts)))
    }

    fn or(&mut self, also: &[&str]) -> Read {
        let first = self.and(also)?;
        let at = self.token().at;
        let mut terms = vec![first];
        while self.accept("||") {
            terms.push(self.and(&[])?);
        }
        joined(terms, at, Expression::Or)
    }

    fn and(&mut self, also: &[&str]) -> Read {
        let first = self.binary(0, also)?;
        let at = self.token().at;
        let mut terms = vec![first];
        while self.accept("&&") {
            terms.push(self.binary(0, &[])?);
        }
        joined(terms, at, Expression::And)
    }

    /// Operators that bind at least as strongly as this.
    fn binary(&mut self, least: usize, also: &[&str]) -> Read {
        let mut left = self.unary(also)?;
        loop {
            let token = self.token();
            let Kind::Mark(mark) = token.kind else {
                return Some(left);
            };
            let strength = match mark {
                "<" | "<=" | ">=" | ">" | "==" | "!=" | "in" => 0,
                "+" | "-" => 1,
                "*" | "/" | "%" => 2,
                _ => return Some(left),
            };
            if strength < least {
                return Some(left);
            }
            self.next += 1;
            let name = match mark {
                "in" => "@in".to_owned(),
                mark => format!("_{mark}_"),
            };
            // No deeper than there are strengths.
            let right = self.binary(strength + 1, &[])?;
            left = self.bounded(call(token.at, &name, vec![left, right]))?;
        }
    }

    fn unary(&mut self, also: &[&str]) -> Read {
        if self.is_signed_number() {
            return self.member(also);
        }
        let token = self.token();
        let (mark, name) = match token.kind {
            Kind::Mark("!") => ("!", "!_"),
            Kind::Mark("-") => ("-", "-_"),
            _ => return self.member(also),
        };
        let mut count = 0;
        while self.accept(mark) {
            count += 1;
        }
        let is_end = self.token().kind == Kind::End;
        if is_end && mark == "!" {
            let end = self.token();
            self.fault(&end, |text| {
                let expected = expected_start(&[]);
                format!("extraneous input '{text}' expecting {expected}")
            });
            return None;
        }
        let of = self.member(&[])?;
        // Two cancel each other.
        match count % 2 == 0 {
            true => Some(of),
            false => Some(call(token.at, name, vec![of])),
        }
    }

    fn member(&mut self, also: &[&str]) -> Read {
        let mut node = self.primary(also)?;
        loop {
            node = self.bounded(node)?;
            let token = self.token();
            if self.accept(".") {
                node = self.select(node, &token)?;
            } else if self.accept("[") {
                let is_optional = self.accept("?");
                let key = self.expression(if is_optional { &[] } else { &["?"] })?;
                self.expect("]", follows_value)?;
                node = Node::new(
                    token.at,
                    Expression::Index {
                        of: Box::new(node),
                        key: Box::new(key),
                        is_optional,
                    },
                );
            } else if self.is("{")
                && let Some(name) = node.qualified()
            {
                self.next += 1;
                node = self.message(name, token.at)?;
            } else {
                return Some(node);
            }
        }
    }

    /// A name in backticks, which clients can't write.
    fn escaped(&mut self, at: usize) {
        self.faults.add(at, || "unsupported syntax: '`'".to_owned());
    }

    fn select(&mut self, of: Node, dot: &Token) -> Read {
        let is_optional = self.accept("?");
        let token = self.token();
        match token.kind {
            Kind::Name => {}
            Kind::EscapedName => self.escaped(token.at),
            Kind::Mark("true" | "false" | "null") => {
                self.fault(&token, |text| {
                    format!("mismatched input '{text}' expecting IDENTIFIER")
                });
                return None;
            }
            kind => {
                self.fault(&token, |text| {
                    let found = if kind == Kind::End { "" } else { text };
                    format!("no viable alternative at input '.{found}'")
                });
                return None;
            }
        }
        let name = self.written(&token);
        self.next += 1;
        let open = self.token();
        if !is_optional && token.kind == Kind::Name && self.accept("(") {
            let arguments = self.arguments()?;
            return Some(self.called(open.at, name, Some(of), arguments));
        }
        let of = Box::new(of);
        Some(Node::new(
            dot.at,
            Expression::Select {
                of,
                name,
                is_optional,
            },
        ))
    }

    /// A function, or what a macro makes of it.
    fn called(&mut self, at: usize, name: String, of: Option<Node>, arguments: Vec<Node>) -> Node {
        if let Some(fault) = macros::fault(&name, of.as_ref(), &arguments) {
            self.faults.add(fault.at, || fault.what);
        }
        let target = of.map(Box::new);
        Node::new(
            at,
            Expression::Call {
                name,
                target,
                arguments,
            },
        )
    }

    /// The arguments behind an opening bracket.
    fn arguments(&mut self) -> Read<Vec<Node>> {
        let mut arguments = Vec::new();
        if self.accept(")") {
            return Some(arguments);
        }
        arguments.push(self.expression(&[")"])?);
        while self.accept(",") {
            arguments.push(self.expression(&[])?);
        }
        self.expect(")", follows_value)?;
        Some(arguments)
    }

    fn primary(&mut self, also: &[&str]) -> Read {
        if self.is_signed_number() {
            return Some(self.signed_number());
        }
        let mut token = self.token();
        if !starts_primary(&token) {
            self.start_fault(&token, also)?;
            token = self.token();
            if !starts_primary(&token) {
                // An operator in front of an operand.
                return self.inside(|parser| parser.unary(&[]));
            }
        }
        self.next += 1;
        let literal = |literal| Some(Node::new(token.at, Expression::Literal(literal)));
        match token.kind {
            Kind::Name => {
                let name = self.written(&token);
                self.name(token.at, name)
            }
            Kind::Int | Kind::Uint | Kind::Float => Some(self.number(&token, None)),
            Kind::Text(value) => {
                let value = self.words.values.get_mut(value);
                literal(Literal::String(
                    value.map(std::mem::take).unwrap_or_default(),
                ))
            }
            Kind::Bytes => literal(Literal::Bytes),
            Kind::Mark("true" | "false") => literal(Literal::Bool),
            Kind::Mark("null") => literal(Literal::Null),
            Kind::Mark(".") => {
                let name = self.token();
                if name.kind != Kind::Name {
                    self.fault(&name, |text| {
                        format!("mismatched input '{text}' expecting IDENTIFIER")
                    });
                    return None;
                }
                self.next += 1;
                let written = self.written(&name);
                self.name(name.at, format!(".{written}"))
            }
            Kind::Mark("(") => {
                let inner = self.expression(&[])?;
                self.expect(")", follows_value)?;
                Some(inner)
            }
            Kind::Mark("[") => self.list(token.at),
            _ => self.map(token.at),
        }
    }

    /// A word with which no expression begins. One word is left out.
    fn start_fault(&mut self, token: &Token, also: &[&str]) -> Read<()> {
        let is_mended = token.kind != Kind::End
            && self.behind().is_some_and(|behind| {
                starts_expression(behind)
                    || matches!(behind.kind, Kind::Mark(mark) if also.contains(&mark))
            });
        let how = if is_mended {
            "extraneous"
        } else {
            "mismatched"
        };
        self.fault(token, |text| {
            let expected = expected_start(also);
            format!("{how} input '{text}' expecting {expected}")
        });
        if !is_mended {
            return None;
        }
        self.next += 1;
        starts_expression(&self.token()).then_some(())
    }

    fn name(&mut self, at: usize, name: String) -> Read {
        if is_reserved(&name) {
            let what = || format!("reserved identifier: {name}");
            self.faults.add(at, what);
        }
        let open = self.token();
        if self.accept("(") {
            let arguments = self.arguments()?;
            return Some(self.called(open.at, name, None, arguments));
        }
        Some(Node::new(at, Expression::Name(name)))
    }
}

/// A word as it was written.
fn written(text: &[char], token: &Token) -> String {
    match token.kind {
        Kind::End => "<EOF>".to_owned(),
        _ => {
            let letters = text.get(token.at..token.end);
            letters.unwrap_or_default().iter().collect()
        }
    }
}

fn joined(mut terms: Vec<Node>, at: usize, make: fn(Vec<Node>) -> Expression) -> Read {
    match terms.len() {
        1 => terms.pop(),
        _ => Some(Node::new(at, make(terms))),
    }
}

fn call(at: usize, name: &str, arguments: Vec<Node>) -> Node {
    let name = name.to_owned();
    let target = None;
    Node::new(
        at,
        Expression::Call {
            name,
            target,
            arguments,
        },
    )
}

/// Whether a value may begin with this.
fn starts_primary(token: &Token) -> bool {
    match token.kind {
        Kind::Mark(mark) => matches!(mark, "[" | "{" | "(" | "." | "true" | "false" | "null"),
        Kind::EscapedName | Kind::End => false,
        _ => true,
    }
}

fn starts_expression(token: &Token) -> bool {
    starts_primary(token) || token.is("-") || token.is("!")
}

/// Whether this may stand behind a whole value.
fn follows_value(token: &Token) -> bool {
    match token.kind {
        Kind::End => true,
        Kind::Mark(mark) => !matches!(mark, "(" | "!" | "true" | "false" | "null"),
        _ => false,
    }
}
