//! The interface between storage and encryption at rest: plain bytes to stored bytes and back.

use std::sync::Arc;

use actors::engine::Key;
use bytes::Bytes;

use super::Hold;

/// Transforms values on their way to and from the engine. The physical key is authenticated data: a
/// value that is moved to another key may become unreadable (EN-1).
pub trait Transformer: Send + Sync + 'static {
    /// Returns the plain bytes of a stored value, and whether the value is stale: written by
    /// another key or provider than the current first one, so that it should be rewritten even
    /// without a change (ST-56).
    ///
    /// # Errors
    /// [`TransformError`] if the value cannot be read.
    fn transform_from_storage(
        &self,
        key: &Key,
        stored: &Bytes,
    ) -> Result<(Bytes, bool), TransformError>;

    /// Returns the bytes to store.
    ///
    /// # Errors
    /// [`TransformError`] if the value cannot be transformed.
    fn transform_to_storage(&self, key: &Key, plain: Vec<u8>) -> Result<Bytes, TransformError>;

    /// Returns a guard for one write. Take it before [`Transformer::transform_to_storage`] and keep
    /// it until the outcome of the write is certain. Meanwhile no key that the write may have used
    /// is released.
    fn hold(&self) -> Option<Hold> {
        None
    }
}

/// Provides the transformer of each resource.
pub trait TransformerSource {
    /// Returns the transformer of the resource with this plural in this group. The core group is
    /// empty.
    fn transformer_for(&self, group: &str, resource: &str) -> Arc<dyn Transformer>;
}

/// A value that cannot be transformed (500 InternalError, ST-22, ST-33).
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the value of {key} can't be transformed: {reason}")]
pub struct TransformError {
    /// The physical key.
    pub key: String,
    /// The problem.
    pub reason: String,
}

/// Stores values as they are. Refuses to read values that an encrypting transformer has written
/// (EN-3), which would otherwise look like damaged objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl TransformerSource for Identity {
    fn transformer_for(&self, _: &str, _: &str) -> Arc<dyn Transformer> {
        Arc::new(Identity)
    }
}

/// The prefix of every encrypted value (EN-2).
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
