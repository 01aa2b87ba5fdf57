//! The ciphers that values can be encrypted with (EN-7): one file each, around an implementation
//! of somebody whose trade it is.
//!
//! A cipher holds one key. What it writes is the payload behind the prefixes of EN-2; what is
//! bound to the physical key is bound by it (EN-1).

mod aescbc;
mod aesgcm;
mod secretbox;

#[cfg(test)]
mod tests;

use std::sync::Arc;

/// One key, ready for use. Implementations wipe it from memory when they are dropped, and none of
/// them can be printed.
pub(super) trait Cipher: Send + Sync {
    /// Appends the encrypted form of `plain` to `out`. `authenticated` is the physical key.
    ///
    /// # Errors
    /// [`CipherError`] when the system has no random bytes, or the library refuses.
    fn encrypt(
        &self,
        authenticated: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CipherError>;

    /// What [`Cipher::encrypt`] was given.
    ///
    /// # Errors
    /// [`CipherError`] when the payload was not written with this key, or not for this place, or
    /// was damaged.
    fn decrypt(&self, authenticated: &[u8], payload: &[u8]) -> Result<Vec<u8>, CipherError>;

    /// Whether [`Cipher::decrypt`] proves that this key wrote what it returns. Where it does not,
    /// that may be anything: whoever reads must see from it whether it is what was stored.
    fn authenticates(&self) -> bool;
}

/// Why a payload can't be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CipherError {
    /// It lacks bytes that every payload has.
    #[error("the value is too short to have been encrypted")]
    TooShort,
    /// It is no whole number of blocks.
    #[error("the value is not a whole number of blocks")]
    NotInBlocks,
    /// Key, place or content are not what they were.
    #[error("the key is not the one it was encrypted with, or the value was {0}")]
    Unauthentic(&'static str),
    /// Nothing that the value has to do with.
    #[error("the cipher failed; is the system out of random bytes?")]
    Failed,
}

/// The ciphers by their names in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// AES in Galois/counter mode: authenticated, bound to the place.
    AesGcm,
    /// AES in cipher block chaining mode with PKCS#7: not authenticated.
    AesCbc,
    /// XSalsa20 and Poly1305: authenticated, not bound to the place.
    Secretbox,
}

impl Algorithm {
    /// All of them, in the order that messages list them in.
    pub(super) const ALL: [Algorithm; 3] =
        [Algorithm::AesGcm, Algorithm::AesCbc, Algorithm::Secretbox];

    /// The member of a provider that configures it.
    pub(super) fn member(self) -> &'static str {
        match self {
            Algorithm::AesGcm => "aesgcm",
            Algorithm::AesCbc => "aescbc",
            Algorithm::Secretbox => "secretbox",
        }
    }

    /// What values of every key of it begin with (EN-2).
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Algorithm::AesGcm => "k8s:enc:aesgcm:v1:",
            Algorithm::AesCbc => "k8s:enc:aescbc:v1:",
            Algorithm::Secretbox => "k8s:enc:secretbox:v1:",
        }
    }

    /// How many bytes a key may have.
    pub(super) fn key_lengths(self) -> &'static [usize] {
        match self {
            Algorithm::AesGcm | Algorithm::AesCbc => &[16, 24, 32],
            Algorithm::Secretbox => &[32],
        }
    }

    /// The cipher with a key; `None` when that has a wrong length.
    pub(super) fn with_key(self, key: &[u8]) -> Option<Arc<dyn Cipher>> {
        Some(match self {
            Algorithm::AesGcm => Arc::new(aesgcm::AesGcm::new(key)?),
            Algorithm::AesCbc => Arc::new(aescbc::AesCbc::new(key)?),
            Algorithm::Secretbox => Arc::new(secretbox::Secretbox::new(key)?),
        })
    }
}
