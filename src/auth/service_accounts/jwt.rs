//! The signatures of service account tokens. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::super::compact_token::{CompactToken, TokenLimits};
use super::keys::{PublicKey, SigningKey};

/// The longest token that is issued or accepted. Names, uids and audiences fit into it.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

/// The bounds of tokens that are read. The depth is that of the JSON library.
pub(super) const LIMITS: TokenLimits = TokenLimits {
    bytes: TOKEN_BYTES_MAX,
    levels: 128,
};

/// Whether this key has signed the token, by the algorithm of the key.
pub(super) fn is_signed_by(token: &CompactToken<'_>, key: &PublicKey) -> bool {
    token.algorithm == key.algorithm.name() && key.verifies(token.signed, &token.signature)
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
