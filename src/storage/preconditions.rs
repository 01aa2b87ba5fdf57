//! Checks the preconditions of a write against the current object (ST-41, ST-52, API-100).

use actors::object::CachedObject;

use super::codec::metadata_of;
use super::{Preconditions, StorageErrorKind};
use crate::api::version::uid_mismatch;

/// Checks that the object is the one that the caller means.
pub(super) fn check(
    preconditions: &Preconditions,
    object: &CachedObject,
) -> Result<(), StorageErrorKind> {
    if let Some(wanted) = &preconditions.uid {
        let uid = uid_of(object);
        if *wanted != uid {
            let why = uid_mismatch(wanted, &uid);
            return Err(StorageErrorKind::InvalidObject(why));
        }
    }
    if let Some(wanted) = &preconditions.resource_version {
        let version = object.revision.to_string();
        if *wanted != version {
            return Err(StorageErrorKind::InvalidObject(format!(
                "Precondition failed: ResourceVersion in precondition: {wanted}, \
                 ResourceVersion in object meta: {version}"
            )));
        }
    }
    Ok(())
}

/// Returns `metadata.uid` of a cached object, or an empty text.
fn uid_of(object: &CachedObject) -> String {
    #[derive(Default, serde::Deserialize)]
    struct Metadata {
        #[serde(default)]
        uid: String,
    }
    metadata_of::<Metadata>(object).unwrap_or_default().uid
}
