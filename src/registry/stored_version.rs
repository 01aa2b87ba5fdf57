//! A version of a resource with its storage.

use std::sync::Arc;

use crate::api::resource::ResourceDefinition;
use crate::storage::ResourceStorage;

/// A version of a resource, and the storage of its objects.
pub type StoredVersion = (Arc<ResourceDefinition>, ResourceStorage);
