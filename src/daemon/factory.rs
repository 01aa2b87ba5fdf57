//! The configured storage factory.

use std::sync::Arc;

use crate::api::resource::ResourceDefinition;
use crate::config::{Config, StorageMediaType};
use crate::kinds::definitions::{built_in, core, not_stored};
use crate::registry::Registry;
use crate::registry::definition_check::{DefinitionError, Names, check_table};
use crate::storage::Root;
use crate::storage::codec::MediaType;
use crate::storage::encryption::Encryption;
use crate::storage::factory::options::{ResourceOverride, VersionOverride};
use crate::storage::factory::{
    Engines, FactoryError, GroupResource, GroupVersion, StorageFactory, StorageOptions, StoragePlan,
};
use crate::telemetry::Series;

/// Returns the factory that decides where and how each resource is stored. It only reads the
/// configuration, and opens nothing.
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
        clock: crate::clock::now,
        root: Root::from(config.etcd_prefix.as_str()),
        servers: super::stores::base_servers(config),
        media_type: match config.storage_media_type {
            StorageMediaType::Json => MediaType::Json,
            StorageMediaType::Yaml => MediaType::Yaml,
            StorageMediaType::Protobuf => MediaType::Protobuf,
        },
        watch_cache: config.watch_cache.0,
        watch_cache_sizes: config.watch_cache_sizes.0.iter().cloned().collect(),
        overrides: overrides.collect(),
        versions: versions.collect(),
    };
    let rows = built_in().into_iter();
    let served = rows.filter(|row| is_served(config, row));
    StorageFactory::new(options, served.collect())
}

/// Checks that all built-in resources can be served together, including disabled ones.
///
/// # Errors
/// [`DefinitionError`]
pub(super) fn check_definitions() -> Result<(), DefinitionError> {
    let rows = built_in();
    check_table(&rows.iter().collect::<Vec<_>>())?;
    let mut names = Names::default();
    rows.iter().for_each(|row| names.insert(row));
    for other in not_stored().into_iter().map(Arc::new) {
        names.check(&other)?;
        names.insert(&other);
    }
    Ok(())
}

/// Returns whether the configuration enables a resource (SF-48). Namespaces are always served,
/// because the daemon needs them.
fn is_served(config: &Config, row: &ResourceDefinition) -> bool {
    row.is("", "namespaces")
        || config
            .runtime_config
            .serves(&row.group, &row.version, &row.plural)
}

/// Removes resources without a store that the configuration disables.
pub(super) fn remove_unserved(registry: &Registry, config: &Config) {
    for row in not_stored() {
        if !is_served(config, &row) {
            registry.remove(&row.group, &row.version, &row.plural);
        }
    }
}

/// Returns a warning for each setting about resources that has no effect.
fn kind_warnings(config: &Config) -> Vec<String> {
    let rows = built_in();
    let others = not_stored();
    let is_known = |key: &&str| {
        let mut rows = rows.iter().map(|row| &**row).chain(&others);
        rows.any(|row| {
            let version = row.api_version();
            let rest = key.strip_prefix(&*version);
            rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('/') == Some(&row.plural))
        })
    };
    let unknown = config.runtime_config.names().filter(|key| !is_known(key));
    let unknown = unknown.map(|key| {
        format!("runtime-config={key}: there is no such version or resource, so it has no effect")
    });
    let namespaces = !config.runtime_config.serves("", "v1", "namespaces");
    let needed = namespaces.then(|| {
        "runtime-config: namespaces of v1 are still served, because other objects need them"
            .to_owned()
    });
    let gates = config.feature_gates.warnings();
    let plugins = config.enable_admission_plugins.without_effect();
    let plugins = plugins.map(|name| {
        format!(
            "enable-admission-plugins={name}: this plugin is NOT built, so nothing is refused or \
             changed by it"
        )
    });
    let all = unknown.chain(needed).chain(gates);
    all.chain(plugins).collect()
}

/// Returns a warning for each storage setting that has no effect.
pub fn storage_warnings(config: &Config, factory: &StorageFactory) -> Vec<String> {
    let size = config.default_watch_cache_size.0;
    let unused = size.map(|size| {
        format!("default-watch-cache-size={size}: caches have no fixed size, nothing consults it")
    });
    let kinds = kind_warnings(config);
    let warnings = factory.warnings().into_iter();
    warnings.chain(unused).chain(kinds).collect()
}

/// The storage plans of objects that no path serves.
pub(super) struct UnservedPlans {
    /// The allocated node ports.
    pub range_allocations: StoragePlan,
    /// The daemons that share the store.
    pub master_leases: StoragePlan,
}

impl UnservedPlans {
    /// Plans them.
    ///
    /// # Errors
    /// Those of [`StorageFactory::plan`].
    pub(super) fn of(
        factory: &StorageFactory,
        engines: &Engines,
        encryption: &Encryption,
    ) -> Result<UnservedPlans, FactoryError> {
        let plan = |row| factory.plan(&Arc::new(row), &[], engines, encryption);
        Ok(UnservedPlans {
            range_allocations: plan(core::rangeallocations())?,
            master_leases: plan(core::masterleases())?,
        })
    }
}

/// Returns the plan of each stored resource. Logs resources of the encryption configuration that
/// are not stored.
///
/// # Errors
/// Those of [`StorageFactory::plans`].
pub(super) fn storage_plans(
    factory: &StorageFactory,
    engines: &Engines,
    encryption: &Encryption,
    series: &Series,
) -> Result<Vec<StoragePlan>, FactoryError> {
    // Plans record metrics from their creation on, so the series must exist.
    for name in factory.resource_names() {
        series.add_resource(&name);
    }
    let plans = factory.plans(engines, encryption)?;
    encryption.warn_of_unknown_resources();
    Ok(plans)
}
