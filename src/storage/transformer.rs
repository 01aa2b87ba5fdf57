//! Plain bytes to stored bytes and back: where encryption at rest has its place.

use std::sync::Arc;

use actors::engine::Key;
use bytes::Bytes;

use super::Hold;

/// Transforms values on their way to and from the engine. The physical key is authenticated data:
/// a value moved to another key may become unreadable (EN-1).
pub trait Transformer: Send + Sync + 'static {
    /// The plain bytes of a stored value, and whether they should be written anew although
    /// nothing changed (another key or provider than today's, ST-56).
    ///
    /// # Errors
    /// [`TransformError`] when the value can't be read.
    fn transform_from_storage(
        &self,
        key: &Key,
        stored: &Bytes,
    ) -> Result<(Bytes, bool), TransformError>;

    /// The bytes to store.
    ///
    /// # Errors
    /// [`TransformError`] when the value can't be transformed.
    fn transform_to_storage(&self, key: &Key, plain: Vec<u8>) -> Result<Bytes, TransformError>;

    /// To be taken before [`Transformer::transform_to_storage`], and kept until it is certain
    /// what became of the write, by whoever writes: keys must not be parted with before.
    fn hold(&self) -> Option<Hold> {
        None
    }
}

/// Knows which transformer each resource's values go through.
pub trait TransformerSource {
    /// That of the resource with this plural in this group, which is empty for the core group.
    fn transformer_for(&self, group: &str, resource: &str) -> Arc<dyn Transformer>;
}

/// A value that can't be transformed (500 InternalError, ST-22, ST-33).
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the value of {key} can't be transformed: {reason}")]
pub struct TransformError {
    /// The physical key.
    pub key: String,
    /// What is wrong.
    pub reason: String,
}

/// Stores values as they are. It refuses to read what an encrypting transformer has written
/// (EN-3): such a value would otherwise be taken for a damaged object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl TransformerSource for Identity {
    fn transformer_for(&self, _: &str, _: &str) -> Arc<dyn Transformer> {
        Arc::new(Identity)
    }
}

/// What every encrypted value begins with (EN-2).
pub(super) const ENCRYPTED: &[u8] = b"k8s:enc:";

impl Transformer for Identity {
    fn transform_from_storage(
        &self,
        key: &Key,
        stored: &Bytes,
    ) -> Result<(Bytes, bool), TransformError> {
        if stored.starts_with(ENCRYPTED) {
            return Err(TransformError {
                key: key.to_string(),
                reason: "it is encrypted, and no key for it is configured".to_owned(),
            });
        }
        Ok((stored.clone(), false))
    }

    fn transform_to_storage(&self, _: &Key, plain: Vec<u8>) -> Result<Bytes, TransformError> {
        Ok(Bytes::from(plain))
    }
}
