//! Continue tokens: where the next page of a list begins (LI-41 to LI-43).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// The only version of tokens there is (LI-41).
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// Longer tokens are refused before they are decoded: no key is that long.
const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// What a continue token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The revision that all pages show; negative to go on at the newest state (LI-43, LI-51).
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
    /// The page after the object whose key, relative to the list's prefix, is `last_key`.
    pub fn after(revision: i64, last_key: &str) -> Continuation {
        Continuation {
            revision,
            start: format!("{}\0", last_key.trim_start_matches('/')),
        }
    }

    /// The token: URL-safe base64 without padding of a JSON object (LI-41).
    pub fn encode(&self) -> String {
        let token = Token {
            version: TOKEN_VERSION.to_owned(),
            revision: self.revision,
            start: self.start.clone(),
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    /// Reads a token of this or another replica; a leading slash of `start` is taken off (LI-42).
    ///
    /// # Errors
    /// The message of a 400 when it is no token (LI-43).
    pub fn decode(token: &str) -> Result<Continuation, String> {
        let bad = |why: &str| {
            Err(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        if token.len() > MAX_TOKEN_BYTES {
            return bad("token too long");
        }
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')) else {
            return bad("not base64");
        };
        let Ok(token) = serde_json::from_slice::<Token>(&bytes) else {
            return bad("not a token's JSON");
        };
        if token.version != TOKEN_VERSION {
            return bad(&format!(
                "server does not recognize this encoded version {:?}",
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

/// Whether a relative path is what cleaning would make of it: no empty, `.` or `..` element.
fn is_clean(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
