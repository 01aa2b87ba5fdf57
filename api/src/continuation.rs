//! Continue tokens: where the next page of a list begins (LI-41 to LI-43).

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use serde::{Deserialize, Serialize};

use crate::go_json::{Expected, document_error};

/// The only token version (LI-41).
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// Longer tokens are refused before they are decoded. No key is that long.
const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// The content of a continue token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The revision that all pages show. A negative number continues at the newest state (LI-43,
    /// LI-51).
    pub revision: i64,
    /// The first key of the page, relative to the list's prefix and without a leading slash:
    /// the last key returned and a NUL byte.
    pub start: String,
}

#[derive(Serialize, Deserialize)]
struct Token {
    #[serde(rename = "v", default)]
    version: String,
    #[serde(rename = "rv", default)]
    revision: i64,
    #[serde(default)]
    start: String,
}

impl Continuation {
    /// Returns a token for the page after the object with the key `last_key`, which is relative to
    /// the list's prefix.
    pub fn after(revision: i64, last_key: &str) -> Continuation {
        Continuation {
            revision,
            start: format!("{}\0", last_key.trim_start_matches('/')),
        }
    }

    /// Encodes the token as unpadded URL-safe base64 of a JSON object, which other replicas can
    /// read (LI-41).
    pub fn encode(&self) -> String {
        let token = Token {
            version: TOKEN_VERSION.to_owned(),
            revision: self.revision,
            start: self.start.clone(),
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    /// Decodes a token of this or another replica. Removes a leading slash of `start`, which tokens
    /// from a cache have (LI-42).
    ///
    /// # Errors
    /// The message of the 400 for an invalid token (LI-43).
    pub fn decode(token: &str) -> Result<Continuation, String> {
        let bad = |why: &str| {
            Err(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        if token.len() > MAX_TOKEN_BYTES {
            return bad("token too long");
        }
        let bytes = match URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')) {
            Ok(bytes) => bytes,
            Err(error) => {
                let at = match error {
                    DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                    _ => token.len().saturating_sub(1),
                };
                return bad(&format!("illegal base64 data at input byte {at}"));
            }
        };
        let Ok(token) = serde_json::from_slice::<Token>(&bytes) else {
            let why = document_error(&bytes, Expected::Object, "storage.continueToken");
            return bad(&why.unwrap_or_else(|| "not a token's JSON".to_owned()));
        };
        if token.version != TOKEN_VERSION {
            return bad(&format!(
                "server does not recognize this encoded version {}",
                token.version
            ));
        }
        if token.revision == 0 {
            return bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)");
        }
        if token.start.is_empty() {
            return bad("encoded start key empty (version meta.k8s.io/v1)");
        }
        let start = token.start.strip_prefix('/').unwrap_or(&token.start);
        if !is_clean(start) {
            return bad(&token.start);
        }
        Ok(Continuation {
            revision: token.revision,
            start: start.to_owned(),
        })
    }
}

/// Returns whether a relative path is already clean: without empty, `.` or `..` elements.
fn is_clean(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// LI-41: other replicas can read the format.
    #[test]
    fn tokens_are_json_in_url_safe_base64() {
        let token = Continuation::after(12, "/default/b").encode();
        let json = URL_SAFE_NO_PAD.decode(&token).unwrap();
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{"v":"meta.k8s.io/v1","rv":12,"start":"default/b\u0000"}"#
        );
        let read = Continuation::decode(&token).unwrap();
        assert_eq!((read.revision, read.start.as_str()), (12, "default/b\0"));
    }

    fn decode(json: &str) -> Result<Continuation, String> {
        Continuation::decode(&URL_SAFE_NO_PAD.encode(json))
    }

    /// LI-42: a start from a cache has a slash, one from a store does not.
    #[test]
    fn a_leading_slash_makes_no_difference() {
        let plain = decode(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"d/a\u0000"}"#);
        let slashed = decode(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"/d/a\u0000"}"#);
        assert!(plain.is_ok());
        assert_eq!(plain, slashed);
    }

    /// LI-43.
    #[test]
    fn invalid_tokens_are_refused() {
        let whys = [
            (
                decode("x"),
                "invalid character 'x' looking for beginning of value",
            ),
            (
                decode("5"),
                "json: cannot unmarshal number into Go value of type storage.continueToken",
            ),
            (
                decode("{}"),
                "server does not recognize this encoded version ",
            ),
            (
                decode(r#"{"v":"x","rv":1,"start":"a"}"#),
                "encoded version x",
            ),
            (
                decode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
                "incorrect encoded start resourceVersion",
            ),
            (
                decode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#),
                "encoded start key empty",
            ),
            (
                Continuation::decode("{}"),
                "illegal base64 data at input byte 0",
            ),
            (Continuation::decode(&"A".repeat(100_000)), "token too long"),
        ];
        for (result, why) in whys {
            let message = result.unwrap_err();
            assert!(message.starts_with("invalid continue token: continue key is not valid: "));
            assert!(message.contains(why), "{message}");
        }
        for unclean in ["../a", "a/../b", "a//b", "//a", "a/./b", "a/"] {
            let json = format!(r#"{{"v":"meta.k8s.io/v1","rv":1,"start":"{unclean}"}}"#);
            assert!(decode(&json).is_err(), "{unclean}");
        }
    }

    /// LI-43, LI-51: a negative revision means the newest state.
    #[test]
    fn a_negative_revision_is_legal() {
        let token = decode(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"a\u0000"}"#);
        assert_eq!(token.map(|t| t.revision), Ok(-1));
    }

    proptest! {
        /// LI-41: decoding an encoded token returns the same page.
        #[test]
        fn tokens_survive_the_way_through_a_client(
            revision in prop_oneof![Just(-1_i64), 1..i64::MAX],
            key in "[a-z0-9.:ä-]{1,20}(/[a-z0-9:-]{1,20})?",
        ) {
            prop_assume!(key.split('/').all(|part| part != "." && part != ".."));
            let continuation = Continuation::after(revision, &key);
            prop_assert_eq!(Continuation::decode(&continuation.encode()), Ok(continuation));
        }

        /// LI-43: no text causes a panic.
        #[test]
        fn any_text_is_a_token_or_refused(text in ".{0,80}", json in "\\PC{0,60}") {
            let _ = Continuation::decode(&text);
            let _ = decode(&json);
        }
    }
}
