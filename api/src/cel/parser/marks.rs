//! The tokens that may stand in a place.

use super::super::lexer::{Kind, Token};

/// Returns the tokens that may begin an expression, as errors list them. `also` has further marks
/// that are possible at the position.
pub(super) fn expected_start(also: &[&str]) -> String {
    let all = [
        "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", "true", "false", "null",
    ];
    let never = ["]", "}", ")", ",", "?"];
    let marks = all
        .into_iter()
        // linear: both lists are short constants.
        .filter(|mark| !never.contains(mark) || also.contains(mark));
    let marks: Vec<String> = marks.map(|mark| format!("'{mark}'")).collect();
    format!(
        "{{{}, NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}}",
        marks.join(", ")
    )
}

/// Returns the strength of a binary operator.
pub(super) fn strength(mark: &str) -> Option<usize> {
    match mark {
        "<" | "<=" | ">=" | ">" | "==" | "!=" | "in" => Some(0),
        "+" | "-" => Some(1),
        "*" | "/" | "%" => Some(2),
        _ => None,
    }
}

/// Returns whether a token can begin a primary expression.
pub(super) fn starts_primary(token: &Token) -> bool {
    match token.kind {
        Kind::Mark(mark) => matches!(mark, "[" | "{" | "(" | "." | "true" | "false" | "null"),
        Kind::EscapedName | Kind::End => false,
        _ => true,
    }
}

/// Returns whether a token can begin an expression.
pub(super) fn starts_expression(token: &Token) -> bool {
    starts_primary(token) || token.is("-") || token.is("!")
}
