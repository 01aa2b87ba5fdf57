//! Parsing of numbers.

use super::super::lexer::{Kind, Token};
use super::super::tree::{Expression, Literal, Node};
use super::Parser;

fn may_have_sign(token: &Token) -> bool {
    matches!(token.kind, Kind::Int | Kind::Float)
}

impl Parser<'_> {
    /// Returns whether a number with a sign is next.
    pub(super) fn is_signed_number(&self) -> bool {
        self.is("-") && self.lookahead().is_some_and(may_have_sign)
    }

    /// Reads a number with a sign, which is part of it. Errors are reported at the sign.
    pub(super) fn signed_number(&mut self) -> Node {
        let sign = self.token().at;
        self.next += 1;
        let token = self.token();
        self.next += 1;
        self.number(&token, Some(sign))
    }

    pub(super) fn number(&mut self, token: &Token, sign: Option<usize>) -> Node {
        let at = sign.unwrap_or(token.at);
        let text = self.written(token);
        let text = text.as_str();
        let (literal, name) = match token.kind {
            Kind::Int => (int(text, sign.is_some()).map(Literal::Int), "int"),
            Kind::Uint => (uint(text).map(Literal::Uint), "uint"),
            _ => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                let signed = number.map(|number| if sign.is_some() { -number } else { number });
                (signed.map(Literal::Double), "double")
            }
        };
        if literal.is_none() {
            self.faults.add(at, || format!("invalid {name} literal"));
        }
        let literal = literal.unwrap_or(Literal::Null);
        Node::new(at, Expression::Literal(literal))
    }
}

fn int(text: &str, is_negative: bool) -> Option<i64> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse::<u64>(),
    };
    let number = i128::from(number.ok()?);
    i64::try_from(if is_negative { -number } else { number }).ok()
}

fn uint(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['u', 'U']);
    match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => digits.parse::<u64>().ok(),
    }
}
