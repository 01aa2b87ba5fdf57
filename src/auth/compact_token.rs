//! Signed tokens in compact form (RFC 7515, RFC 7519). Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::api::deep;

/// The bounds of tokens that are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenLimits {
    /// The most bytes of a token.
    pub(super) bytes: usize,
    /// The most levels of its claims.
    pub(super) levels: usize,
}

/// A parsed token, which proves nothing until a key has verified it. The claims are read once, so
/// everybody sees the same of members that are repeated.
pub(super) struct CompactToken<'t> {
    /// The algorithm that it names.
    pub(super) algorithm: String,
    /// The id of the key that it names, or empty.
    pub(super) key_id: String,
    /// Its claims, an object.
    pub(super) claims: Value,
    /// The bytes that are signed.
    pub(super) signed: &'t [u8],
    /// The signature.
    pub(super) signature: Vec<u8>,
}

impl<'t> CompactToken<'t> {
    /// Parses a token. Returns `None` if it is not a signed one in compact form, or exceeds the
    /// limits.
    pub(super) fn parse(token: &'t [u8], limits: TokenLimits) -> Option<CompactToken<'t>> {
        if token.len() > limits.bytes {
            return None;
        }
        let mut parts = token.split(|byte| *byte == b'.');
        let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let read = |part: &[u8]| -> Option<Map<String, Value>> {
            let text = URL_SAFE_NO_PAD.decode(part).ok()?;
            match deep::is_deeper_than(&text, limits.levels) {
                true => None,
                false => serde_json::from_slice(&text).ok(),
            }
        };
        let fields = read(header)?;
        let text = |name| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        // Critical header parameters must be understood, and this reader understands none (RFC 7515
        // section 4.1.11).
        if fields.contains_key("crit") {
            return None;
        }
        Some(CompactToken {
            algorithm: text("alg").to_owned(),
            key_id: text("kid").to_owned(),
            claims: Value::Object(read(claims)?),
            signed: token.get(..header.len() + 1 + claims.len())?,
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }

    /// Returns the claimed issuer, or an empty text.
    pub(super) fn issuer(&self) -> &str {
        let issuer = self.claims.get("iss").and_then(Value::as_str);
        issuer.unwrap_or_default()
    }
}
