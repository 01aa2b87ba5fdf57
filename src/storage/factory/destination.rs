//! Decides where and how each resource is stored. Pure: maps options and the table of resources to
//! one row for each resource.

use std::ptr;

use super::back_ends::{BASE, BackEnd, back_ends, name_of};
use super::decision::Decision;
use super::error::FactoryError;
use super::options::{ALL_OF_GROUP, GroupResource, GroupVersion, ResourceOverride};
use super::versions;
use crate::api::resource::ResourceDefinition;
use crate::storage::codec::{MediaType, TypeName};
use crate::storage::keys::Keys;

/// Resources that are stored under another group's name. Flags, metrics and encryption use that
/// name (SF-42).
const REQUESTED_AS: &[[(&str, &str); 2]] = &[[("events.k8s.io", "events"), ("", "events")]];

/// Where and how one resource is stored.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The resource as metrics, transformers and flags name it (SF-42).
    pub requested: GroupResource,
    /// The resource that decides key prefix and storage version, where groups share one (SF-41).
    pub chosen: GroupResource,
    /// The name of the back end that keeps it.
    pub back_end: String,
    /// Its keys.
    pub keys: Keys,
    /// The version it is stored in (SF-43).
    pub storage_version: GroupVersion,
    /// The version it has in caches (SF-44).
    pub memory_version: GroupVersion,
    /// The form it is stored in.
    pub media_type: MediaType,
    /// Whether it has a watch cache.
    pub is_cached: bool,
}

impl Decision<'_> {
    /// The base back end, and those that keep some resource.
    pub(super) fn back_ends(&self) -> Vec<BackEnd> {
        let deciding = self.deciding();
        let overrides = self.options.overrides.iter();
        let overrides = overrides.filter(|one| deciding.iter().any(|other| ptr::eq(*other, *one)));
        back_ends(
            &self.options.servers,
            overrides.filter_map(|one| one.servers.as_deref()),
        )
    }

    /// Returns the overrides that decide the servers of at least one resource.
    pub(super) fn deciding(&self) -> Vec<&ResourceOverride> {
        let table = Decision {
            definitions: self.table,
            ..*self
        };
        let rows = self.table.iter();
        let resources = rows.map(|row| table.chosen(&GroupResource::of(row)));
        resources
            .filter_map(|chosen| self.servers_of(&chosen))
            .collect()
    }

    /// Returns the override that decides the servers of a resource, if there is one.
    fn servers_of(&self, chosen: &GroupResource) -> Option<&ResourceOverride> {
        let own = self.overrides_of(chosen).into_iter();
        own.rev().find(|one| one.servers.is_some())
    }

    /// Where and how a resource is stored.
    ///
    /// # Errors
    /// A resource that is not in the table (SF-33), or without a key prefix (ST-5).
    pub(super) fn destination(
        &self,
        resource: &GroupResource,
    ) -> Result<Destination, FactoryError> {
        let Some(definition) = self.row(resource) else {
            return Err(self.unknown(resource));
        };
        let chosen = self.chosen(resource);
        let own = self.overrides_of(&chosen);
        let kept_by = self.servers_of(&chosen);
        let servers = kept_by.and_then(|one| one.servers.as_deref());
        let prefix = own.iter().rev().find_map(|one| one.prefix.as_deref());
        let media_type = own.iter().rev().find_map(|one| one.media_type);
        let default_prefix = &self.row(&chosen).unwrap_or(definition).key_prefix;
        let memory_version = GroupVersion::of(versions::hub(self, &chosen).unwrap_or(definition));
        Ok(Destination {
            back_end: match servers {
                Some(servers) => name_of(&self.back_ends(), servers)
                    .ok_or_else(|| FactoryError::NoEngine(servers.join(",")))?,
                None => BASE.to_owned(),
            },
            keys: Keys::new(&self.options.root, prefix.unwrap_or(default_prefix))?,
            storage_version: versions::of(self, &chosen).unwrap_or_else(|| memory_version.clone()),
            memory_version,
            media_type: match media_type.unwrap_or(self.options.media_type) {
                MediaType::Protobuf if is_always_json(&chosen) => MediaType::Json,
                media_type => media_type,
            },
            is_cached: self.is_cached(&self::requested(&chosen)),
            requested: requested(resource),
            chosen,
        })
    }

    /// The type that objects are stored as.
    pub(super) fn stored_type(
        &self,
        destination: &Destination,
        definition: &ResourceDefinition,
    ) -> TypeName {
        let stored = &destination.storage_version;
        let versions = self.versions(&destination.chosen);
        let row = versions
            .into_iter()
            .find(|row| GroupVersion::of(row) == *stored);
        TypeName {
            kind: row.map_or(&definition.kind, |row| &row.kind).clone(),
            api_version: stored.to_string(),
        }
    }

    /// The overrides of a resource: first those of its group, then its own, which win (SF-40,
    /// KV-4).
    fn overrides_of(&self, resource: &GroupResource) -> Vec<&ResourceOverride> {
        let of = |name: &str| {
            let wanted = GroupResource::new(&resource.group, name);
            let overrides = self.options.overrides.iter();
            overrides.filter(move |one| one.resource == wanted)
        };
        of(ALL_OF_GROUP).chain(of(&resource.resource)).collect()
    }

    fn is_cached(&self, requested: &GroupResource) -> bool {
        let size = self.options.watch_cache_sizes.get(&requested.to_string());
        self.options.watch_cache && size != Some(&0)
    }

    pub(super) fn unknown(&self, resource: &GroupResource) -> FactoryError {
        let reason = match self.has_group(&resource.group) {
            true => format!("group {:?} has no such resource", resource.group),
            false => format!("group {:?} is not registered", resource.group),
        };
        FactoryError::NoDestination {
            resource: resource.to_string(),
            reason,
        }
    }
}

/// The resource that flags, metrics and encryption name (SF-42).
pub(super) fn requested(resource: &GroupResource) -> GroupResource {
    match renamed(&resource.group, &resource.resource) {
        Some((group, name)) => GroupResource::new(group, name),
        None => resource.clone(),
    }
}

/// The group and the plural under which a row is measured: those of the requested resource (SF-42).
pub(super) fn measured_as(definition: &ResourceDefinition) -> (&str, &str) {
    let own = (definition.group.as_str(), definition.plural.as_str());
    renamed(own.0, own.1).unwrap_or(own)
}

fn renamed(group: &str, name: &str) -> Option<(&'static str, &'static str)> {
    let renamed = REQUESTED_AS.iter().find(|[from, _]| *from == (group, name));
    renamed.map(|[_, to]| *to)
}

/// Whether kube-apiserver stores a resource as JSON, whatever is configured (KV-22).
fn is_always_json(resource: &GroupResource) -> bool {
    const GROUPS: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];
    GROUPS.contains(&&*resource.group)
}
