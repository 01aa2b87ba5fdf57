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
            metrics: Metrics::new(group, resource),
        }
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
        self.codec.decode_stored(key, revision, &plain)
    }
}
