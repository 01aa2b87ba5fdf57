//! Creates (ST-30).

use std::sync::Arc;

use actors::engine::{Expect, Origin, Outcome};
use actors::object::CachedObject;
use bytes::Bytes;

use super::{PutRequest, Underlying};
use crate::api::object::Object;
use crate::storage::{StorageError, StorageErrorKind};

impl Underlying {
    /// Stores an object that must be absent (ST-30).
    pub(super) async fn create_object(
        &self,
        key: &str,
        mut object: Object,
        ttl: Option<u64>,
        origin: Origin,
    ) -> Result<Arc<CachedObject>, StorageError> {
        let key = self.keys.object(key)?;
        if object
            .resource_version()
            .parse::<u64>()
            .is_ok_and(|version| version != 0)
        {
            return Err(self.fault(&key.to_text(), StorageErrorKind::VersionOnCreate));
        }
        loop {
            let plain = Bytes::from(self.decoder.codec.encode(&object));
            let prepared = self.prepare(&key, &object, &plain)?;
            let put = PutRequest {
                expect: Expect::Absent,
                plain,
                prepared: prepared.clone(),
                ttl,
            };
            match self.put("create", &key, put, &origin).await {
                // It is tried once more without what it can do without (API-93).
                Err(error) if error.is_too_large() && object.managed_fields().is_some() => {
                    object.set_managed_fields(None);
                }
                Err(error) => return Err(error),
                Ok(Outcome::Committed(event)) => return Ok(prepared.stored_at(event.revision)),
                // Any value counts as existing, readable or not.
                Ok(Outcome::Refused { .. }) => {
                    return Err(self.fault(&key.to_text(), StorageErrorKind::KeyExists));
                }
            }
        }
    }
}
