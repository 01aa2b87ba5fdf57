//! The options of the storage factory: the operator's decisions about how resources are stored.

use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt;

use crate::api::resource::ResourceDefinition;
use crate::storage::Root;
use crate::storage::codec::MediaType;

/// The default root of all keys (KV-1, SF-3).
pub const DEFAULT_ROOT: &str = "/registry";

/// The wildcard for all resources of a group in a [`ResourceOverride`] (SF-40).
pub const ALL_OF_GROUP: &str = "*";

/// A resource by its group and plural.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupResource {
    /// The group; empty for the core group.
    pub group: String,
    /// The plural.
    pub resource: String,
}

impl GroupResource {
    /// A resource of a group.
    pub fn new(group: &str, resource: &str) -> GroupResource {
        GroupResource {
            group: group.to_owned(),
            resource: resource.to_owned(),
        }
    }

    /// The group and the plural of a definition.
    pub fn of(definition: &ResourceDefinition) -> GroupResource {
        GroupResource::new(&definition.group, &definition.plural)
    }
}

impl fmt::Display for GroupResource {
    /// The name in messages and metrics: `configmaps`, `deployments.apps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

/// A version of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupVersion {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
}

impl GroupVersion {
    /// The group and the version of a definition.
    pub fn of(definition: &ResourceDefinition) -> GroupVersion {
        GroupVersion {
            group: definition.group.clone(),
            version: definition.version.clone(),
        }
    }
}

impl fmt::Display for GroupVersion {
    /// The text of `apiVersion`: `v1`, `apps/v1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.version),
            group => write!(f, "{group}/{}", self.version),
        }
    }
}

/// The options of one resource or of all resources of a group. `None` keeps the general option.
#[derive(Clone, Debug)]
pub struct ResourceOverride {
    /// The resource. [`ALL_OF_GROUP`] as its plural means all of a group.
    pub resource: GroupResource,
    /// The servers that keep it.
    pub servers: Option<Vec<String>>,
    /// Its key prefix below the root.
    pub prefix: Option<String>,
    /// The form it is stored in.
    pub media_type: Option<MediaType>,
}

impl ResourceOverride {
    /// An override without options.
    pub fn of(resource: GroupResource) -> ResourceOverride {
        ResourceOverride {
            resource,
            servers: None,
            prefix: None,
            media_type: None,
        }
    }
}

/// The storage version of a group or of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionOverride {
    /// The group; empty for the core group.
    pub group: String,
    /// The resource. `None` means all of the group.
    pub resource: Option<String>,
    /// The version. It may be of another group that shares the key prefix.
    pub stored_as: GroupVersion,
}

impl fmt::Display for VersionOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = self
            .resource
            .as_ref()
            .map(|resource| format!("/{resource}"));
        write!(
            f,
            "{}{}={}",
            named(&self.group),
            resource.unwrap_or_default(),
            self.stored_as
        )
    }
}

/// A group as messages name it. The core group has no name of its own.
pub(super) fn named(group: &str) -> &str {
    match group {
        "" => "core",
        group => group,
    }
}

/// The options of the factory.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// The prefix of every key (ST-4).
    pub root: Root,
    /// The servers of all resources without an override. Empty when the daemon keeps them itself.
    pub servers: Vec<String>,
    /// The form that objects are stored in.
    pub media_type: MediaType,
    /// Whether there are watch caches at all (SF-7).
    pub watch_cache: bool,
    /// Sizes of watch caches by resource name. 0 means no cache; other numbers have no effect
    /// (SF-8).
    pub watch_cache_sizes: BTreeMap<String, u64>,
    /// The overrides of resources and groups.
    pub overrides: Vec<ResourceOverride>,
    /// The configured storage versions.
    pub versions: Vec<VersionOverride>,
    /// The clock. Its time is shown where a stored object lacks one (KV-30).
    pub clock: fn() -> Timestamp,
}

impl Default for StorageOptions {
    fn default() -> StorageOptions {
        StorageOptions {
            root: Root::from(DEFAULT_ROOT),
            servers: Vec::new(),
            media_type: MediaType::Json,
            watch_cache: true,
            watch_cache_sizes: BTreeMap::new(),
            overrides: Vec::new(),
            versions: Vec::new(),
            clock: || Timestamp::UNIX_EPOCH,
        }
    }
}
