//! aescbc: a random IV of 16 bytes, then blocks with PKCS#7 padding (EN-7).
//!
//! Values are not authenticated. A wrong key mostly shows in the padding. One wrong key in 256
//! yields a valid padding, and then a text that is not an object.

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;

use super::{Cipher, CipherError};

/// The bytes of a block and of the IV.
const BLOCK: usize = 16;

/// An AES-CBC key for both directions. The library wipes both when they are dropped.
pub(super) struct AesCbc {
    encrypting: PaddedBlockEncryptingKey,
    decrypting: PaddedBlockDecryptingKey,
}

impl AesCbc {
    /// `None` for a key that does not have 16, 24 or 32 bytes.
    pub(super) fn new(key: &[u8]) -> Option<AesCbc> {
        let algorithm = match key.len() {
            16 => &AES_128,
            24 => &AES_192,
            32 => &AES_256,
            _ => return None,
        };
        let unbound = || UnboundCipherKey::new(algorithm, key).ok();
        Some(AesCbc {
            encrypting: PaddedBlockEncryptingKey::cbc_pkcs7(unbound()?).ok()?,
            decrypting: PaddedBlockDecryptingKey::cbc_pkcs7(unbound()?).ok()?,
        })
    }
}

impl Cipher for AesCbc {
    fn encrypt(&self, _: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), CipherError> {
        let mut text = Vec::with_capacity(plain.len() + BLOCK);
        text.extend_from_slice(plain);
        let context = self.encrypting.encrypt(&mut text);
        match context.map_err(|_| CipherError::Failed)? {
            DecryptionContext::Iv128(iv) => out.extend_from_slice(iv.as_ref()),
            _ => return Err(CipherError::Failed),
        }
        out.append(&mut text);
        Ok(())
    }

    fn decrypt(&self, _: &[u8], payload: &[u8]) -> Result<Vec<u8>, CipherError> {
        let (iv, text) = payload
            .split_first_chunk::<BLOCK>()
            .filter(|(_, text)| !text.is_empty())
            .ok_or(CipherError::TooShort)?;
        if !text.len().is_multiple_of(BLOCK) {
            return Err(CipherError::NotInBlocks);
        }
        let mut text = text.to_vec();
        let context = DecryptionContext::Iv128(FixedLength::from(iv));
        let plain = self.decrypting.decrypt(&mut text, context);
        let length = plain
            .map_err(|_| CipherError::Unauthentic("changed"))?
            .len();
        text.truncate(length);
        Ok(text)
    }

    fn authenticates(&self) -> bool {
        false
    }
}
