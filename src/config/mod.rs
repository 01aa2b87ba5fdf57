//! What an operator may set, from flags and from a file of the same names.
//!
//! A flag wins over the file given with `--config`, the file over the default. Environment
//! variables are not read: one place less to look when a daemon does not do what was expected.
//! Every setting is a row of the table in `settings.rs`; its value has one text form, the same on
//! the command line, in the file and in what `taffrail config` prints.

mod check;
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
    StorageVersions, Switch, UnusedSize, WatchCacheSizes,
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
    /// that names them. Of settings that don't go together, and of URLs that are none, a line each.
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
