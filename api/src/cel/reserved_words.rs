//! The words that can't be names.

/// The keywords and reserved words of the language, which cannot be names.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Returns whether a word can't be a name in expressions.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}
