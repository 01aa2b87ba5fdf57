//! Reading numbers.

use super::super::lexer::{Kind, Token};
use super::super::tree::{Expression, Literal, Node};
use super::Parser;

fn may_have_sign(token: &Token) -> bool {
    matches!(token.kind, Kind::Int | Kind::Float)
}

impl Parser<'_> {
    /// Whether a number with a sign is next.
    pub(super) fn is_signed_number(&self) -> bool {
        self.is("-") && self.behind().is_some_and(may_have_sign)
    }

    /// A number with a sign. The sign is part of it, and the number is told of there.
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
        let (literal, name, fits) = match token.kind {
            Kind::Int => (Literal::Int, "int", fits_int(text, sign.is_some())),
            Kind::Uint => (Literal::Uint, "uint", fits_uint(text)),
            _ => {
                let fits = text.parse::<f64>().is_ok_and(f64::is_finite);
                (Literal::Double, "double", fits)
            }
        };
        if !fits {
            self.faults.add(at, || format!("invalid {name} literal"));
        }
        Node::new(at, Expression::Literal(literal))
    }
}

fn fits_int(text: &str, is_negative: bool) -> bool {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse::<u64>(),
    };
    let most = i64::MIN.unsigned_abs() - u64::from(!is_negative);
    parsed.is_ok_and(|number| number <= most)
}

fn fits_uint(text: &str) -> bool {
    let digits = text.trim_end_matches(['u', 'U']);
    match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).is_ok(),
        None => digits.parse::<u64>().is_ok(),
    }
}
