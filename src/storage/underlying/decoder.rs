//! Decodes stored bytes into cached objects, for the store, feeds, history and watches.

use std::sync::Arc;

use actors::engine::{Event, Key, Revision};
use actors::object::{CachedObject, Decode, DecodeError};
use bytes::Bytes;
use jiff::Timestamp;

use super::prepared::prepared_object;
use crate::api::object::Object;
use crate::storage::codec::Codec;
use crate::storage::metrics::Metrics;
use crate::storage::transformer::Transformer;

/// Decodes stored bytes: first the transformer, then the codec.
pub struct StoredDecoder {
    /// The codec of the resource.
    pub codec: Codec,
    /// Its transformer.
    pub transformer: Arc<dyn Transformer>,
    /// Whether other servers write to the store, so that the types of values must be checked.
    is_shared: bool,
    /// Whether a value of this revision may lack defaults.
    lacks_defaults: Arc<dyn Fn(Revision) -> bool + Send + Sync>,
    /// Returns the time for objects that lack one.
    pub(in crate::storage) clock: fn() -> Timestamp,
    pub(super) metrics: Metrics,
}

impl StoredDecoder {
    /// Creates the decoder of a resource. Its metrics have the resource's own name.
    pub fn new(codec: Codec, transformer: Arc<dyn Transformer>) -> StoredDecoder {
        let definition = codec.definition().clone();
        StoredDecoder::measured_as(&definition.group, &definition.plural, codec, transformer)
    }

    /// Creates a decoder whose metrics have this group and plural (SF-42).
    pub fn measured_as(
        group: &str,
        resource: &str,
        codec: Codec,
        transformer: Arc<dyn Transformer>,
    ) -> StoredDecoder {
        StoredDecoder {
            codec,
            transformer,
            is_shared: false,
            lacks_defaults: Arc::new(|_| false),
            clock: || Timestamp::UNIX_EPOCH,
            metrics: Metrics::new(group, resource),
        }
    }

    /// Sets whether other servers write to the store. If so, a value whose fields have other types
    /// than those of its kind cannot be read.
    #[must_use]
    pub fn shared(self, is_shared: bool) -> StoredDecoder {
        StoredDecoder { is_shared, ..self }
    }

    /// Sets the function that says, for a revision, whether values may lack defaults (KV-31).
    #[must_use]
    pub fn lacking_defaults(
        self,
        lacks_defaults: impl Fn(Revision) -> bool + Send + Sync + 'static,
    ) -> StoredDecoder {
        StoredDecoder {
            lacks_defaults: Arc::new(lacks_defaults),
            ..self
        }
    }

    /// Sets the clock, whose time objects get that lack one.
    #[must_use]
    pub fn with_clock(self, clock: fn() -> Timestamp) -> StoredDecoder {
        StoredDecoder { clock, ..self }
    }

    fn transformed(
        &self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
    ) -> Result<Bytes, DecodeError> {
        let transformed = self.transformer.transform_from_storage(key, value);
        transformed
            .map(|(plain, _)| plain)
            .map_err(|error| DecodeError {
                key: key.to_string(),
                revision,
                reason: error.reason,
            })
    }

    /// Returns the object in a value of another version of its kind, with its `apiVersion`.
    ///
    /// # Errors
    /// The value can't be decrypted.
    pub(in crate::storage) fn other_version(
        &self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
    ) -> Result<Option<(String, Object)>, DecodeError> {
        let plain = self.transformed(key, revision, value)?;
        Ok(self.codec.other_version(&plain))
    }

    /// Decodes the object in a value's plain bytes. Counts failures.
    pub(super) fn decode_plain(
        &self,
        key: &Key,
        revision: Revision,
        plain: &[u8],
    ) -> Result<CachedObject, DecodeError> {
        let decoded = self.decode_quietly(key, revision, plain);
        decoded.inspect_err(|_| self.metrics.decode_error())
    }

    /// Decodes an object without counting failures.
    fn decode_quietly(
        &self,
        key: &Key,
        revision: Revision,
        plain: &[u8],
    ) -> Result<CachedObject, DecodeError> {
        let codec = &self.codec;
        match self.is_shared || (self.lacks_defaults)(revision) {
            true => codec.decode_foreign(key, revision, plain, self.is_shared, self.clock),
            false => codec.decode_stored(key, revision, plain),
        }
    }
}

impl Decode for StoredDecoder {
    fn decode(
        &self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
    ) -> Result<CachedObject, DecodeError> {
        let plain = self.transformed(key, revision, value)?;
        self.decode_plain(key, revision, &plain)
    }

    fn decode_event(&self, event: &Event) -> Result<Arc<CachedObject>, DecodeError> {
        match prepared_object(event, self.codec.definition()) {
            Some(object) => Ok(object),
            None => {
                let decoded = self.decode(&event.key, event.revision, &event.value);
                decoded.map(Arc::new)
            }
        }
    }

    fn decode_again(
        &self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
    ) -> Result<CachedObject, DecodeError> {
        let plain = self.transformed(key, revision, value)?;
        self.decode_quietly(key, revision, &plain)
    }
}
