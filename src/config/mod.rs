//! What an operator may set, from flags and from a file of the same names.
//!
//! A flag wins over the file given with `--config`, the file over the default. Environment
//! variables are not read: one place less to look when a daemon does not do what was expected.
//! Every setting is a row of the table in `settings.rs`; its value has one text form, the same on
//! the command line, in the file and in what `taffrail config` prints.

mod connections;
mod file;
mod refusal;
mod settings;
mod storage;
mod values;

pub use connections::ConnectionLimit;
pub use refusal::ConfigError;
pub use settings::{Config, Entry, Settings};
pub use storage::{
    GroupResource, ServersOverride, ServersOverrides, StorageMediaType, StorageVersion,
    StorageVersions, Switch, WatchCacheSizes,
};
pub use values::{
    ByteSize, FilePath, LogFilter, LogFormat, MetricsAddress, Names, Period, Port, StorageBackend,
    WholeSeconds,
};

use std::path::Path;

impl Config {
    /// The effective configuration: `flags` over the file they may name over the defaults.
    ///
    /// # Errors
    /// A file that can't be read, a name that is no setting, a value that does not fit: one line
    /// that names them.
    pub fn load(flags: Settings, file: Option<&Path>) -> Result<Config, ConfigError> {
        let lower = match file {
            Some(path) => file::read(path)?,
            None => Settings::default(),
        };
        let config = flags.over(lower).resolve();
        config.check()?;
        Ok(config)
    }

    /// Which engine keeps the objects, by all that is set: never [`StorageBackend::Unset`].
    pub fn backend(&self) -> StorageBackend {
        match self.storage_backend {
            StorageBackend::Unset if self.etcd_servers.0.is_empty() => StorageBackend::Embedded,
            StorageBackend::Unset => StorageBackend::Etcd3,
            set => set,
        }
    }

    /// What no single value shows: settings that don't go together.
    fn check(&self) -> Result<(), ConfigError> {
        if self.tls_cert_file.is_set() != self.tls_private_key_file.is_set() {
            return Err(ConfigError::together(
                "tls-cert-file",
                "tls-private-key-file",
            ));
        }
        if self.etcd_certfile.is_set() != self.etcd_keyfile.is_set() {
            return Err(ConfigError::together("etcd-certfile", "etcd-keyfile"));
        }
        if self.backend() == StorageBackend::Etcd3 && self.etcd_servers.0.is_empty() {
            return Err(ConfigError::missing(
                "etcd-servers",
                "storage-backend=etcd3",
            ));
        }
        let reloads = self.encryption_provider_config_automatic_reload.0;
        if reloads && !self.encryption_provider_config.is_set() {
            return Err(ConfigError::lacks(
                "encryption-provider-config-automatic-reload",
                "encryption-provider-config",
            ));
        }
        if let Some(metrics) = self.metrics_bind_address.0
            && metrics.port() != 0
            && metrics.port() == self.secure_port.0
            && metrics.ip() == self.bind_address
        {
            return Err(ConfigError::clash("metrics-bind-address", "secure-port"));
        }
        for (name, least, value) in [
            ("max-connections", 1, self.max_connections.most()),
            ("http-threads", 0, self.http_threads),
            ("data-threads", 1, self.data_threads),
            (
                "http2-max-streams-per-connection",
                1,
                self.http2_max_streams_per_connection as usize,
            ),
        ] {
            if value < least {
                return Err(ConfigError::too_small(name, value, least));
            }
        }
        Ok(())
    }

    /// The effective configuration as a file that `--config` takes, every setting with its
    /// explanation.
    pub fn to_yaml(&self) -> String {
        self.entries()
            .iter()
            .map(Entry::to_yaml)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl Default for Config {
    fn default() -> Config {
        Settings::default().resolve()
    }
}

#[cfg(test)]
mod tests;
