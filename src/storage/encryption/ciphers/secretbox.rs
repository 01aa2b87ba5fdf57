//! secretbox: a random nonce of 24 bytes, then NaCl's box of XSalsa20 and Poly1305, which begins
//! with its tag of 16 bytes (EN-7). The physical key is not authenticated.

use aws_lc_rs::rand;
use crypto_secretbox::aead::{AeadInPlace, KeyInit};
use crypto_secretbox::{Nonce, Tag, XSalsa20Poly1305};

use super::{Cipher, CipherError};

/// Bytes of the nonce.
const NONCE: usize = 24;
/// Bytes of the tag.
const TAG: usize = 16;

/// A secretbox key. The library wipes it when it is dropped.
pub(super) struct Secretbox(XSalsa20Poly1305);

impl Secretbox {
    /// `None` for a key that does not have 32 bytes.
    pub(super) fn new(key: &[u8]) -> Option<Secretbox> {
        XSalsa20Poly1305::new_from_slice(key).ok().map(Secretbox)
    }
}

impl Cipher for Secretbox {
    fn encrypt(&self, _: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), CipherError> {
        let mut nonce = [0; NONCE];
        rand::fill(&mut nonce).map_err(|_| CipherError::Failed)?;
        out.extend_from_slice(&nonce);
        let at = out.len();
        out.extend_from_slice(&[0; TAG]);
        out.extend_from_slice(plain);
        let boxed = out.get_mut(at..).and_then(|b| b.split_at_mut_checked(TAG));
        let (tag, text) = boxed.ok_or(CipherError::Failed)?;
        let made = self
            .0
            .encrypt_in_place_detached(Nonce::from_slice(&nonce), b"", text)
            .map_err(|_| CipherError::Failed)?;
        tag.copy_from_slice(&made);
        Ok(())
    }

    fn decrypt(&self, _: &[u8], payload: &[u8]) -> Result<Vec<u8>, CipherError> {
        let parts = payload
            .split_at_checked(NONCE)
            .and_then(|(nonce, boxed)| Some((nonce, boxed.split_at_checked(TAG)?)));
        let (nonce, (tag, text)) = parts.ok_or(CipherError::TooShort)?;
        let mut text = text.to_vec();
        self.0
            .decrypt_in_place_detached(
                Nonce::from_slice(nonce),
                b"",
                &mut text,
                Tag::from_slice(tag),
            )
            .map_err(|_| CipherError::Unauthentic("changed"))?;
        Ok(text)
    }

    fn authenticates(&self) -> bool {
        true
    }
}
