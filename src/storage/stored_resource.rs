//! The identity and the storages of a resource below one key prefix.

use std::sync::Arc;

use actors::cacher::CacherHandle;

use super::Storage;
use super::codec::TypeName;
use crate::api::resource::{Converter, ResourceDefinition};

/// A resource below one key prefix: in all its versions, and in all groups that share its keys
/// (SF-41). It has one cache, one series of metrics and one storage.
#[derive(Clone, Debug)]
pub struct StoredResource {
    /// The name of the resource that decides where it is stored: `deployments.apps`.
    pub name: String,
    /// Its group; empty for the core group.
    pub group: String,
    /// Its plural.
    pub plural: String,
    /// The version that caches hold.
    pub hub: Arc<ResourceDefinition>,
    /// All its versions.
    pub versions: Vec<Arc<ResourceDefinition>>,
    /// The type that objects are stored as.
    pub stored_as: TypeName,
    /// Whether the version that objects are stored in is served, or its resource is built in.
    /// Otherwise discovery hides its hash (CRD-101).
    pub shows_hash: bool,
}

impl StoredResource {
    /// Returns a resource that is stored and cached in this version.
    pub fn of(hub: Arc<ResourceDefinition>) -> StoredResource {
        StoredResource {
            name: hub.qualified(),
            group: hub.group.clone(),
            plural: hub.plural.clone(),
            stored_as: TypeName::of(&hub),
            versions: vec![hub.clone()],
            shows_hash: true,
            hub,
        }
    }
}

/// The storages of a resource, which its versions share.
#[derive(Clone)]
pub struct ResourceStorage {
    /// The resource.
    pub resource: Arc<StoredResource>,
    /// For reads and writes.
    pub storage: Arc<dyn Storage>,
    /// For `dryRun=All`: returns the result that a write would have.
    pub dry_run: Arc<dyn Storage>,
    /// The cache that the daemon itself obeys, for resources whose writes count at once: a write is
    /// acknowledged when the cache shows it ([`Effect::FullAtOnce`](crate::api::resource::Effect)).
    pub obeyed: Option<CacherHandle>,
    /// Converts between the versions of the resource, if that must be waited for.
    pub converter: Option<Arc<dyn Converter>>,
    /// The storages of the stored version, if these are of another one into which objects are
    /// converted by the converter.
    pub base: Option<Arc<ResourceStorage>>,
}
