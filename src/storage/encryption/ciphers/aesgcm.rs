//! aesgcm: a random nonce of 12 bytes, the ciphertext, a tag of 16 bytes; the physical key is
//! authenticated with it (EN-1, EN-7).
//!
//! Nonces are random, so a key should be replaced after some hundred thousand values (Kubernetes
//! says 200,000).

use aws_lc_rs::aead::{self, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;

use super::{Cipher, CipherError};

/// An AES-GCM key. The library wipes it when it is dropped.
pub(super) struct AesGcm(LessSafeKey);

impl AesGcm {
    /// `None` for a key that does not have 16, 24 or 32 bytes.
    pub(super) fn new(key: &[u8]) -> Option<AesGcm> {
        let algorithm = match key.len() {
            16 => &aead::AES_128_GCM,
            24 => &aead::AES_192_GCM,
            32 => &aead::AES_256_GCM,
            _ => return None,
        };
        let key = UnboundKey::new(algorithm, key).ok()?;
        Some(AesGcm(LessSafeKey::new(key)))
    }
}

impl Cipher for AesGcm {
    fn encrypt(
        &self,
        authenticated: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CipherError> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| CipherError::Failed)?;
        out.extend_from_slice(&nonce);
        let start = out.len();
        out.extend_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let text = out.get_mut(start..).unwrap_or_default();
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(authenticated), text)
            .map_err(|_| CipherError::Failed)?;
        out.extend_from_slice(tag.as_ref());
        Ok(())
    }

    fn decrypt(&self, authenticated: &[u8], payload: &[u8]) -> Result<Vec<u8>, CipherError> {
        let (nonce, text) = payload
            .split_at_checked(NONCE_LEN)
            .filter(|(_, text)| text.len() >= self.0.algorithm().tag_len())
            .ok_or(CipherError::TooShort)?;
        let unauthentic = CipherError::Unauthentic("changed or moved here from another key");
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| unauthentic)?;
        let mut text = text.to_vec();
        let plain = self
            .0
            .open_in_place(nonce, Aad::from(authenticated), &mut text)
            .map_err(|_| unauthentic)?;
        let length = plain.len();
        text.truncate(length);
        Ok(text)
    }

    fn authenticates(&self) -> bool {
        true
    }
}
