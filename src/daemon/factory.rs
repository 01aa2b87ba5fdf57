//! The configured storage factory.

use crate::config::{Config, StorageMediaType};
use crate::kinds::definitions::built_in;
use crate::storage::Root;
use crate::storage::codec::MediaType;
use crate::storage::encryption::Encryption;
use crate::storage::factory::options::{ResourceOverride, VersionOverride};
use crate::storage::factory::{
    Engines, FactoryError, GroupResource, GroupVersion, StorageFactory, StorageOptions, StoragePlan,
};
use crate::telemetry::Series;

/// The factory that decides where and how each resource is stored. It uses only the configuration
/// and opens nothing.
///
/// # Errors
/// [`FactoryError`] for settings that do not fit the resources.
pub fn storage_factory(config: &Config) -> Result<StorageFactory, FactoryError> {
    let overrides = config.etcd_servers_overrides.0.iter();
    let overrides = overrides.map(|one| ResourceOverride {
        servers: Some(one.servers.clone()),
        ..ResourceOverride::of(GroupResource::new(
            &one.resource.group,
            &one.resource.resource,
        ))
    });
    let versions = config.storage_versions.0.iter();
    let versions = versions.map(|one| VersionOverride {
        group: one.group.clone(),
        resource: one.resource.clone(),
        stored_as: GroupVersion {
            group: one.stored_group.as_ref().unwrap_or(&one.group).clone(),
            version: one.version.clone(),
        },
    });
    let options = StorageOptions {
        root: Root::from(config.etcd_prefix.as_str()),
        servers: super::stores::base_servers(config),
        media_type: match config.storage_media_type {
            StorageMediaType::Json => MediaType::Json,
            StorageMediaType::Yaml => MediaType::Yaml,
        },
        watch_cache: config.watch_cache.0,
        watch_cache_sizes: config.watch_cache_sizes.0.iter().cloned().collect(),
        overrides: overrides.collect(),
        versions: versions.collect(),
    };
    StorageFactory::new(options, built_in())
}

/// The storage settings without effect, with a line for each.
pub fn storage_warnings(config: &Config, factory: &StorageFactory) -> Vec<String> {
    let size = config.default_watch_cache_size.0;
    let unused = size.map(|size| {
        format!("default-watch-cache-size={size}: caches have no fixed size, nothing consults it")
    });
    factory.warnings().into_iter().chain(unused).collect()
}

/// The plan of each stored resource.
///
/// # Errors
/// As [`StorageFactory::plans`].
pub(super) fn storage_plans(
    factory: &StorageFactory,
    engines: &Engines,
    encryption: &Encryption,
    series: &Series,
) -> Result<Vec<StoragePlan>, FactoryError> {
    // The plans have metrics already.
    for name in factory.resource_names() {
        series.add_resource(&name);
    }
    factory.plans(engines, encryption)
}
