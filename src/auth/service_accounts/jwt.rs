//! The compact form of signed tokens (RFC 7515, RFC 7519). Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::keys::{PublicKey, SigningKey};

/// The longest token that is issued or accepted. Names, uids and audiences fit into it.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

/// A parsed token. It proves nothing until a key has verified it.
pub struct Compact<'t> {
    algorithm: String,
    /// The id of the key that the token names, or empty.
    pub key_id: String,
    /// The claims of the token.
    pub claims: Map<String, Value>,
    signed: &'t [u8],
    signature: Vec<u8>,
}

impl<'t> Compact<'t> {
    /// Parses a token. Returns `None` if it is not a signed token in compact form.
    pub fn parse(token: &'t [u8]) -> Option<Compact<'t>> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let mut parts = token.split(|byte| *byte == b'.');
        let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let read = |part: &[u8]| -> Option<Map<String, Value>> {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
        };
        let fields = read(header)?;
        let text = |name| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        // Critical header parameters must be understood, and none is (RFC 7515 section 4.1.11).
        if fields.contains_key("crit") {
            return None;
        }
        Some(Compact {
            algorithm: text("alg").to_owned(),
            key_id: text("kid").to_owned(),
            claims: read(claims)?,
            signed: token.get(..header.len() + 1 + claims.len())?,
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }

    /// Returns the claimed issuer, or an empty text.
    pub fn issuer(&self) -> &str {
        let issuer = self.claims.get("iss").and_then(Value::as_str);
        issuer.unwrap_or_default()
    }

    /// Whether this key has signed the token, by the algorithm of the key.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        self.algorithm == key.algorithm.name() && key.verifies(self.signed, &self.signature)
    }
}

/// Signs claims. Returns `None` if the library fails.
pub fn sign(key: &SigningKey, claims: &Map<String, Value>) -> Option<String> {
    let header = serde_json::json!({"alg": key.algorithm().name(), "kid": key.id});
    let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(claims).ok()?, &mut token);
    let signature = key.sign(token.as_bytes())?;
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Some(token)
}
