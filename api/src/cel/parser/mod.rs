//! The parser, with the errors of cel-go's parser.

mod collections;
mod marks;
mod numbers;

use self::marks::{expected_start, starts_expression, starts_primary, strength};
use super::Faults;
use super::lexer::{Kind, Token, Words, words};
use super::macros;
use super::reserved_words::is_reserved;
use super::tree::{Expression, Literal, Node};

/// The limit on nested expressions, cel-go's default.
const MAX_DEPTH: usize = 250;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// The reason why a text is not an expression.
pub(super) enum Refused {
    Faults(Faults),
    TooDeep(String),
}

/// Parses an expression.
pub(super) fn parse(text: &[char]) -> Result<Node, Refused> {
    let mut words = words(text);
    let mut parser = Parser {
        text,
        faults: std::mem::take(&mut words.faults),
        words,
        next: 0,
        depth: 0,
        open: Vec::new(),
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
    /// For each open bracket or conditional, the marks that may follow a value in it.
    open: Vec<&'static [&'static str]>,
    /// The error if the expression is too deep.
    too_deep: Option<String>,
}

/// `None` stops parsing after an error from which the parser cannot recover.
type Read<T = Node> = Option<T>;

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

    fn lookahead(&self) -> Option<&Token> {
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

    /// Returns the text between two positions.
    fn between(&self, from: usize, to: usize) -> String {
        let letters = self.text.get(from..to).unwrap_or_default();
        letters.iter().collect()
    }

    /// Returns the end of the token before the current one.
    fn last_end(&self) -> usize {
        let before = self.next.checked_sub(1);
        before
            .and_then(|at| self.words.tokens.get(at))
            .map_or(0, |token| token.end)
    }

    /// Records an error at a token. `what` formats it with the token's text.
    fn fault(&mut self, token: &Token, what: impl FnOnce(&str) -> String) {
        let text = self.text;
        self.faults.add(token.at, || {
            let what = what(&written(text, token));
            format!("Syntax error: {what}")
        });
    }

    /// Reads a mark that is required here. Recovers from an error as ANTLR does: inserts a missing
    /// mark before a token that may follow it, or skips one token before the mark.
    fn expect(&mut self, mark: &str) -> Read<()> {
        if self.accept(mark) {
            return Some(());
        }
        let token = self.token();
        if self.lookahead().is_some_and(|lookahead| lookahead.is(mark)) {
            self.fault(&token, |text| {
                format!("extraneous input '{text}' expecting '{mark}'")
            });
            self.next += 2;
            return Some(());
        }
        let is_missing = match mark {
            ":" => starts_expression(&token),
            _ => self.follows_value(&token),
        };
        if is_missing {
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
        let is_last = self
            .lookahead()
            .is_none_or(|lookahead| lookahead.kind == Kind::End);
        let how = if is_last { "extraneous" } else { "mismatched" };
        self.fault(&token, |text| {
            format!("{how} input '{text}' expecting <EOF>")
        });
        None
    }

    /// Reads an expression. `also` has the other marks that are possible at its start.
    fn expression(&mut self, also: &[&str]) -> Read {
        self.inside(|parser| parser.conditional(also))
    }

    /// Reads an expression that these marks may follow.
    fn enclosed(&mut self, marks: &'static [&'static str], also: &[&str]) -> Read {
        self.open.push(marks);
        let node = self.expression(also);
        self.open.pop();
        node
    }

    /// Returns whether a token can follow a complete value here.
    fn follows_value(&self, token: &Token) -> bool {
        match (token.kind, self.open.last()) {
            (Kind::End, open) => open.is_none(),
            (Kind::Mark(mark), open) => {
                let is_operator =
                    matches!(mark, "." | "[" | "?" | "&&" | "||") || strength(mark).is_some();
                // linear: at most two marks.
                is_operator || open.is_some_and(|open| open.contains(&mark))
            }
            _ => false,
        }
    }

    /// Reads a nested expression. All recursion passes through here, so the depth is limited here.
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

    /// Returns the node unless it is too deep. Chains of operators are deep, too.
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
        self.open.push(&[":"]);
        let yes = self.or(&[]);
        self.open.pop();
        let yes = yes?;
        self.expect(":")?;
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

    /// Reads operators of at least this precedence.
    fn binary(&mut self, least: usize, also: &[&str]) -> Read {
        let mut left = self.unary(also)?;
        loop {
            let token = self.token();
            let Kind::Mark(mark) = token.kind else {
                return Some(left);
            };
            let Some(strength) = strength(mark).filter(|strength| *strength >= least) else {
                return Some(left);
            };
            self.next += 1;
            let name = match mark {
                "in" => "@in".to_owned(),
                mark => format!("_{mark}_"),
            };
            // This recursion is at most as deep as there are precedences.
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
        let operand = self.token();
        if mark == "-" && !starts_primary(&operand) {
            let end = if is_end { self.last_end() } else { operand.end };
            let input = self.between(token.at, end);
            self.fault(&operand, |_| {
                format!("no viable alternative at input '{input}'")
            });
            if operand.is("!") {
                return None;
            }
        }
        let of = self.member(&[])?;
        // Two negations cancel each other.
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
                let key = self.enclosed(&["]"], if is_optional { &[] } else { &["?"] })?;
                self.expect("]")?;
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

    /// Records an error about a name in backticks, which cannot be used here.
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
            _ if is_optional => {
                self.fault(&token, |text| {
                    format!("mismatched input '{text}' expecting {{IDENTIFIER, ESC_IDENTIFIER}}")
                });
                self.faults
                    .add(token.at, || "unsupported ident kind".to_owned());
                return None;
            }
            kind => {
                let end = if kind == Kind::End {
                    dot.end
                } else {
                    token.end
                };
                let input = self.between(dot.at, end);
                self.fault(&token, |_| {
                    format!("no viable alternative at input '{input}'")
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

    /// Returns the node for a call, or for the expansion of a macro.
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

    /// Reads the arguments after an opening bracket.
    fn arguments(&mut self) -> Read<Vec<Node>> {
        let mut arguments = Vec::new();
        if self.accept(")") {
            return Some(arguments);
        }
        arguments.push(self.enclosed(&[")", ","], &[")"])?);
        while self.accept(",") {
            arguments.push(self.enclosed(&[")", ","], &[])?);
        }
        self.expect(")")?;
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
                // A unary operator before an operand.
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
            Kind::Bytes(value) => {
                let value = self.words.bytes.get_mut(value);
                literal(Literal::Bytes(
                    value.map(std::mem::take).unwrap_or_default(),
                ))
            }
            Kind::Mark(mark @ ("true" | "false")) => literal(Literal::Bool(mark == "true")),
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
                let inner = self.enclosed(&[")"], &[])?;
                self.expect(")")?;
                Some(inner)
            }
            Kind::Mark("[") => self.list(token.at),
            _ => self.map(token.at),
        }
    }

    /// Records an error about a token that cannot begin an expression. Skips it if an expression
    /// follows.
    fn start_fault(&mut self, token: &Token, also: &[&str]) -> Read<()> {
        let recovers = token.kind != Kind::End
            && self.lookahead().is_some_and(|lookahead| {
                starts_expression(lookahead)
                    || matches!(lookahead.kind, Kind::Mark(mark) if also.contains(&mark))
            });
        let how = if recovers { "extraneous" } else { "mismatched" };
        self.fault(token, |text| {
            let expected = expected_start(also);
            format!("{how} input '{text}' expecting {expected}")
        });
        if !recovers {
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

/// Returns a token as it is written in the text.
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
