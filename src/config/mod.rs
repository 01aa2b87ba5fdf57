//! The settings of an operator.
//!
//! This folder owns the settings, their values and their checks. It reads flags and a file with the
//! same names into a checked [`Config`], or reports a line for each fault. A flag overrides the
//! file given with `--config`, the file overrides the default. Environment variables are not read,
//! so that unexpected behaviour has fewer possible causes. Every setting is a row of the table in
//! `settings.rs`. Its value has one text form on the command line, in the file and in the output of
//! `taffrail config`. This folder must not know the parts of the daemon that use the settings.

mod admission_plugins;
pub mod apiserver_flags;
mod authentication;
mod authorization_modes;
mod check;
mod connections;
mod controllers;
mod description;
mod feature_gates;
mod file;
mod http_settings;
mod issuers;
mod node_addresses;
mod refusal;
mod runtime_config;
mod settings;
mod storage;
mod tls_settings;
mod unknown;
mod values;
mod webhooks;

pub use admission_plugins::{
    ADMISSION_PLUGINS, AdmissionPluginName, AdmissionPlugins, SERVICE_ACCOUNT, VOLUME_PROTECTION,
    running_plugins,
};
pub use authentication::{AnonymousAuth, Texts};
pub use authorization_modes::{AuthorizationMode, AuthorizationModes};
pub use connections::ConnectionLimit;
pub use controllers::{ControllerName, Controllers};
pub use feature_gates::{FeatureGate, FeatureGates};
pub use http_settings::Chance;
pub use issuers::Issuers;
pub use refusal::{ConfigError, printable};
pub use runtime_config::RuntimeConfig;
pub use settings::{Config, Entry, Settings};
pub use storage::{
    GroupResource, ServersOverride, ServersOverrides, StorageMediaType, StorageVersion,
    StorageVersions, Switch, UnusedSize, WatchCacheSizes,
};
pub use tls_settings::{
    CipherSuite, CipherSuites, CurvePreferences, SniCertificate, SniCertificates, TlsVersion,
};
pub use values::{
    AccessLogMode, AddressRanges, AdvertiseAddress, BindAddress, ByteSize, EndpointReconciler,
    FilePath, LogFilter, LogFormat, MetricsAddress, Names, Period, Port, PortRange, StorageBackend,
    WholeSeconds,
};

use std::path::Path;

/// Settings whose defaults differ for a server of tests: names and values as in a file. A test has
/// a handful of clients, and a machine runs many servers side by side: one thread serves them.
pub const TEST_SERVER_DEFAULTS: [(&str, &str); 5] = [
    ("storage-backend", "memory"),
    ("secure-port", "0"),
    ("metrics-bind-address", ""),
    ("log-level", "warn"),
    ("http-threads", "1"),
];

impl Config {
    /// The effective configuration: `flags` over the file over the defaults.
    ///
    /// # Errors
    /// An unreadable file, an unknown setting, or an invalid value, in one line. Settings that do
    /// not fit together and invalid URLs have a line each.
    pub fn load(flags: Settings, file: Option<&Path>) -> Result<Config, ConfigError> {
        let lower = match file {
            Some(path) => file::read(path)?,
            None => Settings::default(),
        };
        checked(flags.over(lower))
    }

    /// As [`Config::load`], for a command with defaults of its own: names and values as in a file.
    ///
    /// # Errors
    /// Those of [`Config::load`].
    pub fn load_with(
        flags: Settings,
        file: Option<&Path>,
        defaults: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let defaults = file::parse(defaults)?;
        let lower = match file {
            Some(path) => file::read(path)?.over(defaults),
            None => defaults,
        };
        Config::load(flags.over(lower), None)
    }

    /// The configuration with these settings over the defaults. Names and values are those of the
    /// file and of the flags.
    ///
    /// # Errors
    /// An unknown setting or an invalid value, in one line. Settings that do not fit together and
    /// invalid URLs have a line each.
    pub fn of_entries(
        entries: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        checked(file::parse(entries)?)
    }

    /// The storage engine that all settings together select. It is never [`StorageBackend::Unset`].
    pub fn backend(&self) -> StorageBackend {
        match self.storage_backend {
            StorageBackend::Unset if self.etcd_servers.0.is_empty() => StorageBackend::Embedded,
            StorageBackend::Unset => StorageBackend::Etcd3,
            set => set,
        }
    }

    /// The effective configuration as a file for `--config`, with an explanation of every setting.
    pub fn to_yaml(&self) -> String {
        self.entries()
            .iter()
            .map(Entry::to_yaml)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn checked(mut settings: Settings) -> Result<Config, ConfigError> {
    let mut faults = settings.obey_stand_ins();
    let config = settings.resolve();
    faults.extend(config.faults());
    ConfigError::all(faults)?;
    Ok(config)
}

impl Default for Config {
    fn default() -> Config {
        Settings::default().resolve()
    }
}

#[cfg(test)]
mod tests;
