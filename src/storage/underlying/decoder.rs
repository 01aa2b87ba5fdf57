//! Decodes stored bytes into cached objects, for the store, feeds, history and watches.

use std::sync::Arc;

use actors::engine::{Event, Key, Revision};
use actors::object::{CachedObject, Decode, DecodeError};
use bytes::Bytes;

use super::prepared::prepared_object;
use crate::storage::codec::Codec;
use crate::storage::metrics::Metrics;
use crate::storage::transformer::Transformer;

/// Decodes stored bytes: first the transformer, then the codec.
pub struct StoredDecoder {
    /// The codec of the resource.
    pub codec: Codec,
    /// Its transformer.
    pub transformer: Arc<dyn Transformer>,
    /// Whether others write to the store, so that the types of values must be checked.
    is_shared: bool,
    pub(super) metrics: Metrics,
}

impl StoredDecoder {
    /// The decoder of a resource. Its metrics bear the resource's own name.
    pub fn new(codec: Codec, transformer: Arc<dyn Transformer>) -> StoredDecoder {
        let definition = codec.definition().clone();
        let measured_as = (definition.group.as_str(), definition.plural.as_str());
        StoredDecoder::measured_as(measured_as, codec, transformer)
    }

    /// The same, with metrics under this group and plural (SF-42).
    pub fn measured_as(
        (group, resource): (&str, &str),
        codec: Codec,
        transformer: Arc<dyn Transformer>,
    ) -> StoredDecoder {
        StoredDecoder {
            codec,
            transformer,
            is_shared: false,
            metrics: Metrics::new(group, resource),
        }
    }

    /// The same decoder for a store that others write to. A value of the right kind whose fields
    /// have other types can't be read there.
    #[must_use]
    pub fn shared(self, is_shared: bool) -> StoredDecoder {
        StoredDecoder { is_shared, ..self }
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

    /// The object of a value's plain bytes. Counts failures.
    pub(super) fn decode_plain(
        &self,
        key: &Key,
        revision: Revision,
        plain: &[u8],
    ) -> Result<CachedObject, DecodeError> {
        let decoded = self.codec.decode_stored(key, revision, plain);
        let decoded = decoded.and_then(|object| match self.is_shared {
            true => self.codec.check_types(key, &object).map(|()| object),
            false => Ok(object),
        });
        decoded.inspect_err(|_| self.metrics.decode_error())
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
        let object = self.codec.decode_stored(key, revision, &plain)?;
        if self.is_shared {
            self.codec.check_types(key, &object)?;
        }
        Ok(object)
    }
}
