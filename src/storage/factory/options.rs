//! What an operator decides about how resources are stored, as the factory takes it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::storage::Root;
use crate::storage::codec::{Decorator, MediaType, TypeName};

/// Where everything below is kept unless configured otherwise (KV-1, SF-3).
pub const DEFAULT_ROOT: &str = "/registry";

/// Stands for every resource of a group in a [`ResourceOverride`] (SF-40).
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
}

impl fmt::Display for GroupResource {
    /// As messages and metrics name it: `configmaps`, `deployments.apps`.
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

impl fmt::Display for GroupVersion {
    /// As `apiVersion` has it: `v1`, `apps/v1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.version),
            group => write!(f, "{group}/{}", self.version),
        }
    }
}

/// What one resource, or all of a group, has for itself; what is `None` is as for all others.
#[derive(Clone, Debug)]
pub struct ResourceOverride {
    /// The resource; [`ALL_OF_GROUP`] in the place of its plural is all of a group.
    pub resource: GroupResource,
    /// The servers that keep it.
    pub servers: Option<Vec<String>>,
    /// Its place below the root.
    pub prefix: Option<String>,
    /// The form it is stored in.
    pub media_type: Option<MediaType>,
    /// What happens to its objects before they are encoded and after they were decoded.
    pub decorator: Option<Arc<dyn Decorator>>,
}

impl ResourceOverride {
    /// Nothing of its own yet.
    pub fn of(resource: GroupResource) -> ResourceOverride {
        ResourceOverride {
            resource,
            servers: None,
            prefix: None,
            media_type: None,
            decorator: None,
        }
    }
}

/// The version that a group or a resource is to be stored in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionOverride {
    /// The group; empty for the core group.
    pub group: String,
    /// The resource; all of the group when there is none.
    pub resource: Option<String>,
    /// The version; in another group where both keep the resource in one place.
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

/// A group as messages name it: the core group has no name of its own.
pub(super) fn named(group: &str) -> &str {
    match group {
        "" => "core",
        group => group,
    }
}

/// What the factory is built from.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// What every key begins with (ST-4).
    pub root: Root,
    /// The servers that keep what has none of its own; none where the daemon keeps it itself.
    pub servers: Vec<String>,
    /// The form that objects are stored in.
    pub media_type: MediaType,
    /// Whether there are watch caches at all (SF-7).
    pub watch_cache: bool,
    /// Sizes of watch caches by name of the resource: 0 is none, other numbers say nothing (SF-8).
    pub watch_cache_sizes: BTreeMap<String, u64>,
    /// What single resources and groups have for themselves.
    pub overrides: Vec<ResourceOverride>,
    /// What is stored in another version than the first one served.
    pub versions: Vec<VersionOverride>,
    /// Whether two types of the same objects differ in their name alone, so that a value of one is
    /// one of the other. As long as nothing converts values no others are stored or read.
    pub differ_in_name_alone: fn(&TypeName, &TypeName) -> bool,
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
            differ_in_name_alone: |_, _| false,
        }
    }
}
