//! The keys of an issuer, and the signatures that they verify (RFC 7517, RFC 7518). Pure.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED,
    EcdsaVerificationAlgorithm, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::super::compact_token::{CompactToken, TokenLimits};

/// The most keys of an issuer that are tried.
const KEYS_MAX: usize = 256;

/// The bounds of tokens.
pub(super) const LIMITS: TokenLimits = TokenLimits {
    bytes: 64 << 10,
    levels: 64,
};

/// The algorithms of signatures. That of the token's header must fit the key, so a public key never
/// serves as a secret (`HS256`), and no token goes without a signature (`none`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// RSA by PKCS #1 v1.5, with this many bits of SHA.
    Rsa(u16),
    /// RSA by PSS.
    Pss(u16),
    /// ECDSA.
    Ec(u16),
}

impl Algorithm {
    /// Returns the algorithm of this name.
    pub(super) fn named(name: &str) -> Option<Algorithm> {
        let (family, bits) = name.split_at_checked(2)?;
        let bits = match bits {
            "256" => 256,
            "384" => 384,
            "512" => 512,
            _ => return None,
        };
        match family {
            "RS" => Some(Algorithm::Rsa(bits)),
            "PS" => Some(Algorithm::Pss(bits)),
            "ES" => Some(Algorithm::Ec(bits)),
            _ => None,
        }
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Algorithm::Rsa(256) => &RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rsa(384) => &RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rsa(512) => &RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Pss(256) => &RSA_PSS_2048_8192_SHA256,
            Algorithm::Pss(384) => &RSA_PSS_2048_8192_SHA384,
            Algorithm::Pss(512) => &RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }

    fn curve(self) -> Option<&'static EcdsaVerificationAlgorithm> {
        Some(match self {
            Algorithm::Ec(256) => &ECDSA_P256_SHA256_FIXED,
            Algorithm::Ec(384) => &ECDSA_P384_SHA384_FIXED,
            Algorithm::Ec(512) => &ECDSA_P521_SHA512_FIXED,
            _ => return None,
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Numbers {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point on a curve, with the algorithm of that curve.
    Point(Algorithm, Vec<u8>),
}

/// A key of an issuer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    id: String,
    numbers: Numbers,
}

/// The keys of an issuer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KeySet(Vec<Key>);

impl KeySet {
    /// Reads a JWK set. Keys of other kinds and for other uses are left out.
    ///
    /// # Errors
    /// It is not such a document.
    pub(super) fn read(document: &[u8]) -> Result<KeySet, String> {
        let document: Value = serde_json::from_slice(document).map_err(|why| why.to_string())?;
        let keys = document.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or("it has no keys")?;
        let keys = keys.iter().filter_map(Key::read).take(KEYS_MAX);
        Ok(KeySet(keys.collect()))
    }

    /// The number of keys.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether one of the keys has signed the token: the one that it names, or any if it
    /// names none.
    pub(super) fn verifies(&self, token: &CompactToken<'_>) -> bool {
        let is_named = |key: &&Key| token.key_id.is_empty() || key.id == token.key_id;
        // linear: an issuer has a few keys.
        self.0
            .iter()
            .filter(is_named)
            .any(|key| key.verifies(token))
    }
}

impl Key {
    fn read(key: &Value) -> Option<Key> {
        let text = |name| key.get(name).and_then(Value::as_str);
        if text("use").is_some_and(|of| !of.is_empty() && of != "sig") {
            return None;
        }
        let number = |name| {
            URL_SAFE_NO_PAD
                .decode(text(name)?.trim_end_matches('='))
                .ok()
        };
        let numbers = match text("kty")? {
            "RSA" => Numbers::Rsa {
                n: without_zeros(number("n")?),
                e: without_zeros(number("e")?),
            },
            "EC" => {
                let (algorithm, bytes) = match text("crv")? {
                    "P-256" => (Algorithm::Ec(256), 32),
                    "P-384" => (Algorithm::Ec(384), 48),
                    "P-521" => (Algorithm::Ec(512), 66),
                    _ => return None,
                };
                let (x, y) = (number("x")?, number("y")?);
                if x.len() != bytes || y.len() != bytes {
                    return None;
                }
                // The uncompressed form of a point.
                Numbers::Point(algorithm, [&[4], &*x, &*y].concat())
            }
            _ => return None,
        };
        let id = text("kid").unwrap_or_default().to_owned();
        Some(Key { id, numbers })
    }

    fn verifies(&self, token: &CompactToken<'_>) -> bool {
        let Some(algorithm) = Algorithm::named(&token.algorithm) else {
            return false;
        };
        let (signed, signature) = (token.signed, &*token.signature);
        match &self.numbers {
            Numbers::Rsa { n, e } => algorithm.rsa().is_some_and(|parameters| {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, signed, signature).is_ok()
            }),
            Numbers::Point(of, point) => algorithm.curve().is_some_and(|curve| {
                let key = UnparsedPublicKey::new(curve, point);
                algorithm == *of && key.verify(signed, signature).is_ok()
            }),
        }
    }
}

/// The library refuses numbers that begin with a zero.
fn without_zeros(number: Vec<u8>) -> Vec<u8> {
    let start = number.iter().position(|byte| *byte != 0).unwrap_or(0);
    number.get(start..).map(<[u8]>::to_vec).unwrap_or_default()
}
