//! The ciphers that values can be encrypted with (EN-7). Each has a file of its own around a
//! library.
//!
//! A cipher owns one key. It converts between plain bytes and the payload that follows the prefixes
//! of EN-2. It must not know prefixes or names of keys. Some ciphers bind the payload to the
//! physical key (EN-1).

mod aescbc;
mod aesgcm;
mod secretbox;

#[cfg(test)]
mod tests;

use std::sync::Arc;

/// One key, ready for use. Implementations wipe it from memory when dropped and cannot be printed.
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

    /// Decrypts a payload that [`Cipher::encrypt`] has written.
    ///
    /// # Errors
    /// [`CipherError`] if another key wrote the payload, or wrote it for another physical key, or
    /// if it is damaged.
    fn decrypt(&self, authenticated: &[u8], payload: &[u8]) -> Result<Vec<u8>, CipherError>;

    /// Returns whether [`Cipher::decrypt`] proves that this key wrote the value. Otherwise the
    /// caller must check that the result looks like a stored object.
    fn authenticates(&self) -> bool;
}

/// The reason why a payload cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CipherError {
    /// It is shorter than any payload.
    #[error("the value is too short to have been encrypted")]
    TooShort,
    /// It is not a whole number of blocks.
    #[error("the value is not a whole number of blocks")]
    NotInBlocks,
    /// The key, the physical key or the content differs.
    #[error("the key is not the one it was encrypted with, or the value was {0}")]
    Unauthentic(&'static str),
    /// A failure that does not depend on the value.
    #[error("the cipher failed; is the system out of random bytes?")]
    Failed,
}

/// The ciphers by their names in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// AES in Galois/counter mode: authenticated, bound to the physical key.
    AesGcm,
    /// AES in cipher block chaining mode with PKCS#7: not authenticated.
    AesCbc,
    /// XSalsa20 and Poly1305: authenticated, not bound to the physical key.
    Secretbox,
}

impl Algorithm {
    /// All ciphers, in the order in which messages list them.
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

    /// The prefix of the values of all its keys (EN-2).
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Algorithm::AesGcm => "k8s:enc:aesgcm:v1:",
            Algorithm::AesCbc => "k8s:enc:aescbc:v1:",
            Algorithm::Secretbox => "k8s:enc:secretbox:v1:",
        }
    }

    /// The valid lengths of a key, in bytes.
    pub(super) fn key_lengths(self) -> &'static [usize] {
        match self {
            Algorithm::AesGcm | Algorithm::AesCbc => &[16, 24, 32],
            Algorithm::Secretbox => &[32],
        }
    }

    /// The cipher with a key. `None` for a key of wrong length.
    pub(super) fn with_key(self, key: &[u8]) -> Option<Arc<dyn Cipher>> {
        Some(match self {
            Algorithm::AesGcm => Arc::new(aesgcm::AesGcm::new(key)?),
            Algorithm::AesCbc => Arc::new(aescbc::AesCbc::new(key)?),
            Algorithm::Secretbox => Arc::new(secretbox::Secretbox::new(key)?),
        })
    }
}
