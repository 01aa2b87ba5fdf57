//! A bearer token.

use std::fmt;

/// A secret bearer token. It has no `Display` and its `Debug` hides it, so that it cannot appear in
/// a log.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Wraps a token unchanged. Returns `None` when it is empty or cannot be sent in a header.
    pub fn new(secret: &str) -> Option<Token> {
        let sendable = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
        sendable.then(|| Token(secret.to_owned()))
    }

    /// Returns the secret, for writing it to files.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(hidden)")
    }
}
