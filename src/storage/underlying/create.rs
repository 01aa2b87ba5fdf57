//! Creates (ST-30).

use std::sync::Arc;

use actors::engine::{Expect, Origin, Outcome};
use actors::object::CachedObject;
use bytes::Bytes;

use super::{PutRequest, Underlying};
use crate::storage::{NewObject, StorageError, StorageErrorKind};

impl Underlying {
    /// Stores an object that must be absent (ST-30).
    pub(super) async fn create_object(
        &self,
        key: &str,
        mut new: NewObject,
        origin: Origin,
    ) -> Result<Arc<CachedObject>, StorageError> {
        let key = self.keys.object(key)?;
        if new
            .object
            .resource_version()
            .parse::<u64>()
            .is_ok_and(|version| version != 0)
        {
            return Err(self.fault(&key.to_text(), StorageErrorKind::VersionOnCreate));
        }
        loop {
            let plain = Bytes::from(self.decoder.codec.encode(&new.object));
            let prepared = self.prepare(&key, &new.object, &plain)?;
            let put = PutRequest {
                expect: Expect::Absent,
                plain,
                prepared: prepared.clone(),
                ttl: new.ttl,
            };
            match self.put("create", &key, put, &origin).await {
                Err(error) if error.is_too_large() && new.lighten() => {}
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
