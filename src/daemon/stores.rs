//! The configured engines and their health checks.

use std::path::Path;
use std::sync::Arc;

use actors::engine::{
    DataEngine, Engine, Health as EngineHealth, MaintenanceEngine, MemoryEngine, Revision,
};

use actors::watchdog::Watchdog;
use futures_util::future::{FutureExt, ready};

use super::StartError;
use crate::build_info;
use crate::config::{Config, StorageBackend};
use crate::kinds::defaults::VERSION as DEFAULTS_VERSION;
use crate::registry::component_statuses::StoreProbe;
use crate::server::api_server::OwnStore;
use crate::server::health::Check;
use crate::storage::Root;
use crate::storage::backup::BackupSource;
use crate::storage::embedded::disk::{DataFile, Directory};
use crate::storage::embedded::{EmbeddedEngine, EmbeddedOptions, OpenError};
use crate::storage::etcd::{
    ClientTls, ConnectError, EtcdEngine, EtcdOptions, Probe, ServerProbe, TlsFiles,
};
use crate::storage::factory::{BASE, BackEnd, Engines};
use crate::storage::past::Past;

/// Engines by their names in metrics (ME-11).
pub(super) type Measured = Vec<(String, Arc<dyn MaintenanceEngine>)>;

/// All engines.
pub(super) struct OpenEngines {
    pub(super) engines: Engines,
    /// The engines by their names in metrics (ME-11).
    pub(super) measured: Measured,
    local: Option<LocalStore>,
    /// The daemon's own store, if it is in memory.
    pub(super) memory: Option<Arc<MemoryEngine>>,
    probes: Vec<Probes>,
    /// The TLS towards etcd, if a server uses it.
    pub(super) tls: Option<Arc<ClientTls>>,
}

/// The daemon's own store.
struct LocalStore {
    engine: Arc<dyn DataEngine>,
    /// The same store, if it is in files, which are verified while it serves.
    embedded: Option<Arc<EmbeddedEngine>>,
}

/// The two health probes of an etcd cluster.
struct Probes {
    /// The back end of the cluster.
    name: String,
    health: Probe,
    readiness: Probe,
    servers: Vec<ServerProbe>,
}

impl OpenEngines {
    /// Opens the engine of each back end.
    ///
    /// # Errors
    /// [`StartError`]. An etcd that does not answer is not an error, because it may answer later.
    pub(super) fn open(
        config: &Config,
        back_ends: &[BackEnd],
        watchdog: &Watchdog,
    ) -> Result<OpenEngines, StartError> {
        let mut stores = OpenEngines {
            engines: Engines::default(),
            measured: Vec::new(),
            local: None,
            memory: None,
            probes: Vec::new(),
            tls: client_tls(config, back_ends.iter().flat_map(|one| &one.servers))?,
        };
        for back_end in back_ends {
            let engine = match back_end.servers.as_slice() {
                [] => stores.open_local(config, watchdog)?,
                servers => {
                    let options = EtcdOptions {
                        watchdog: watchdog.clone(),
                        tls: stores.tls.clone(),
                        ..etcd_options(config, servers)
                    };
                    stores.open_etcd(&back_end.name, options)?
                }
            };
            stores.engines = stores.engines.with(&back_end.name, engine);
        }
        log_used_store(config);
        Ok(stores)
    }

    fn open_local(
        &mut self,
        config: &Config,
        watchdog: &Watchdog,
    ) -> Result<Arc<dyn Engine>, StartError> {
        let (engine, embedded): (Arc<dyn Engine>, _) = match config.backend() {
            StorageBackend::Memory => {
                let engine = MemoryEngine::new();
                self.memory = Some(Arc::clone(&engine));
                (engine, None)
            }
            _ => {
                let must_exist = config.require_existing_data.0;
                if !must_exist {
                    warn_of_lost_store(config.data_dir.as_path());
                }
                let embedded = open_embedded(config, must_exist, watchdog)?;
                (embedded.clone(), Some(embedded))
            }
        };
        self.measured.push(("embedded".to_owned(), engine.clone()));
        self.local = Some(LocalStore {
            engine: engine.clone(),
            embedded,
        });
        Ok(engine)
    }

    fn open_etcd(
        &mut self,
        name: &str,
        options: EtcdOptions,
    ) -> Result<Arc<dyn Engine>, StartError> {
        let engine = EtcdEngine::open(options)?;
        self.probes.push(Probes {
            name: name.to_owned(),
            health: engine.health_probe(),
            readiness: engine.readiness_probe(),
            servers: engine.server_probes(),
        });
        let number = self.probes.len() - 1;
        self.measured
            .push((format!("etcd-{number}"), engine.clone()));
        Ok(engine)
    }

    /// Returns the health checks. They are not part of liveness, because a restart does not repair
    /// a store, and reads continue from the caches.
    pub(super) fn checks(&self) -> Vec<Check> {
        let local = self.local.iter().flat_map(LocalStore::checks);
        let etcd = self.probes.iter().flat_map(Probes::checks);
        local.chain(etcd).collect()
    }

    /// Returns the stores that `componentstatuses` shows: the daemon's own, and each server of each
    /// etcd.
    pub(super) fn component_probes(&self) -> Vec<(String, StoreProbe)> {
        let local = self.local.iter().map(LocalStore::component_probe);
        let local = local.map(|probe| ("storage".to_owned(), probe));
        let mut servers: Vec<&ServerProbe> = Vec::new();
        for server in self.probes.iter().flat_map(|probes| &probes.servers) {
            if !servers.iter().any(|known| known.url() == server.url()) {
                servers.push(server);
            }
        }
        let etcd = servers.into_iter().enumerate().map(|(number, server)| {
            let server = server.clone();
            let probe: StoreProbe = Box::new(move || {
                let server = server.clone();
                async move { server.ask().await }.boxed()
            });
            (format!("etcd-{number}"), probe)
        });
        local.chain(etcd).collect()
    }
}

impl LocalStore {
    /// Returns the checks of the daemon's own store. Those with the names of etcd say whether it
    /// answers, `storage` whether it also takes writes.
    fn checks(&self) -> [Check; 4] {
        let (engine, embedded) = (self.engine.clone(), self.embedded.clone());
        let (alive, ready) = (self.engine.clone(), self.engine.clone());
        [
            Check::not_of_liveness("etcd", move || is_answering(&*alive)).in_group("etcd"),
            Check::of_readiness("etcd-readiness", move || is_answering(&*ready))
                .in_group("etcd-readiness"),
            Check::of_readiness("storage", move || health_of(&*engine)),
            Check::of_readiness("storage-integrity", move || {
                let damage = embedded.as_ref().and_then(|embedded| embedded.damage());
                damage.map_or(Ok(()), Err)
            }),
        ]
    }

    fn component_probe(&self) -> StoreProbe {
        let engine = self.engine.clone();
        Box::new(move || ready(health_of(&*engine)).boxed())
    }
}

fn is_answering(engine: &dyn DataEngine) -> Result<(), String> {
    match engine.health() {
        EngineHealth::Serving | EngineHealth::ReadOnly(_) => Ok(()),
        EngineHealth::Down(why) => Err(why),
    }
}

fn health_of(engine: &dyn DataEngine) -> Result<(), String> {
    match engine.health() {
        EngineHealth::Serving => Ok(()),
        EngineHealth::ReadOnly(why) | EngineHealth::Down(why) => Err(why),
    }
}

impl Probes {
    /// Returns the checks of OP-20 and OP-23. `/livez` omits them, because a restart does not
    /// repair etcd.
    fn checks(&self) -> [Check; 2] {
        let (health, readiness) = match self.name.strip_prefix("override-") {
            None => ("etcd".to_owned(), "etcd-readiness".to_owned()),
            Some(number) => (
                format!("etcd-override-{number}"),
                format!("etcd-override-readiness-{number}"),
            ),
        };
        let (alive, ready) = (self.health.clone(), self.readiness.clone());
        [
            Check::not_of_liveness(health, move || alive.outcome()).in_group("etcd"),
            Check::of_readiness(readiness, move || ready.outcome()).in_group("etcd-readiness"),
        ]
    }
}

/// Opens the store in the data directory.
///
/// # Errors
/// [`StartError`] if it is missing, damaged or held by a daemon, or if its directory cannot be
/// used.
pub fn open_existing(config: &Config) -> Result<Arc<dyn Engine>, StartError> {
    let path = config.data_dir.as_path();
    let files = [DataFile::StoreId, DataFile::Log].map(|file| path.join(file.name()));
    // Check this before the lock, which would create a file in the directory.
    if path.is_dir() && files.iter().all(|file| file.symlink_metadata().is_err()) {
        let path = path.to_owned();
        return Err(OpenError::NoStore { path }.into());
    }
    Ok(open_embedded(config, true, &Watchdog::default())?)
}

/// Connects to the configured etcd.
///
/// # Errors
/// [`StartError`] if none is configured, or its URLs or certificates cannot be used.
pub fn open_etcd(config: &Config) -> Result<Arc<dyn Engine>, StartError> {
    if let Some(unreadable) = unreadable_files(config).pop() {
        return Err(unreadable.into());
    }
    Ok(EtcdEngine::open(EtcdOptions {
        tls: client_tls(config, &config.etcd_servers.0)?,
        ..etcd_options(config, &config.etcd_servers.0)
    })?)
}

/// Returns the store of the base back end, for backups and reads of history.
pub(super) fn own_store(engines: &Engines, config: &Config) -> Option<OwnStore> {
    let (_, base) = engines.iter().next()?;
    let root = Root::from(config.etcd_prefix.as_str()).to_string();
    Some(OwnStore {
        backup: BackupSource::new(base.clone(), root.clone(), build_info::program()),
        past: Past::new(base.clone()),
        engines: engines
            .iter()
            .map(|(name, engine)| (name.to_owned(), engine.clone()))
            .collect(),
        root,
    })
}

fn open_embedded(
    config: &Config,
    must_exist: bool,
    watchdog: &Watchdog,
) -> Result<Arc<EmbeddedEngine>, StartError> {
    let defaults = EmbeddedOptions::new(config.data_dir.as_path());
    Ok(EmbeddedEngine::open(EmbeddedOptions {
        reserve_bytes: config.disk_reserve_bytes.0,
        must_exist,
        syncs: !config.unsafe_no_fsync.0,
        edition: Some(DEFAULTS_VERSION),
        accept_loss: (config.accept_loss > 0).then_some(Revision(config.accept_loss)),
        verify_bytes_per_second: config.verify_bytes_per_second.0,
        watchdog: watchdog.clone(),
        ..defaults
    })?)
}

/// Warns if a daemon has used the directory and its store is missing. A daemon creates the store
/// before other files, so a first start does not warn. An empty file is not a store.
fn warn_of_lost_store(data_dir: &Path) {
    let holds = |name: &str| {
        let found = data_dir.join(name).symlink_metadata();
        found.is_ok_and(|found| !found.is_file() || found.len() > 0)
    };
    let store = ["store", "events.redb"]
        .into_iter()
        .find(|name| holds(name));
    let left = ["admin.token", "pki"].into_iter().find(|name| holds(name));
    if let (None, Some(left)) = (store, left) {
        tracing::warn!(
            data_dir = %data_dir.display(),
            "a daemon has used this data directory before, it holds {left:?}, but no store: an \
             empty one is created. If objects were stored here, stop now and restore `store` and \
             `events.redb` from a backup; --require-existing-data refuses such a start"
        );
    }
}

/// Locks the data directory, unless an engine does. Certificates and tokens are in it with every
/// engine, and two daemons would overwrite them.
pub(super) fn hold_directory(config: &Config) -> Result<Option<Directory>, StartError> {
    Ok(match config.backend() {
        StorageBackend::Embedded | StorageBackend::Unset => None,
        StorageBackend::Memory | StorageBackend::Etcd3 => {
            Some(Directory::open(config.data_dir.as_path())?)
        }
    })
}

/// Returns the servers of the base back end, or an empty list if the daemon stores objects itself.
pub(super) fn base_servers(config: &Config) -> Vec<String> {
    match config.backend() {
        StorageBackend::Etcd3 => config.etcd_servers.0.clone(),
        _ => Vec::new(),
    }
}

/// Returns the errors of unreadable TLS files, if etcd is reached over TLS.
pub(super) fn unreadable_files(config: &Config) -> Vec<ConnectError> {
    let overrides = config.etcd_servers_overrides.0.iter();
    let mut servers = base_servers(config);
    servers.extend(overrides.flat_map(|one| one.servers.clone()));
    match servers.iter().any(|url| url.starts_with("https:")) {
        true => tls_files(config).unreadable(),
        false => Vec::new(),
    }
}

/// Returns the TLS towards these servers, if any of them uses it.
fn client_tls<'s>(
    config: &Config,
    servers: impl IntoIterator<Item = &'s String>,
) -> Result<Option<Arc<ClientTls>>, ConnectError> {
    let mut servers = servers.into_iter();
    let first = servers.find(|url| url.starts_with("https:"));
    let tls = first.map(|url| ClientTls::read(&tls_files(config), url));
    tls.transpose()
}

fn tls_files(config: &Config) -> TlsFiles {
    let file = |file: &Path| Some(file.to_owned()).filter(|file| !file.as_os_str().is_empty());
    let certificate = file(config.etcd_certfile.as_path());
    TlsFiles {
        authority: file(config.etcd_cafile.as_path()),
        identity: certificate.zip(file(config.etcd_keyfile.as_path())),
    }
}

fn etcd_options(config: &Config, servers: &[String]) -> EtcdOptions {
    EtcdOptions {
        root: Root::from(config.etcd_prefix.as_str()).to_string(),
        compaction_interval: config.etcd_compaction_interval.0,
        size_every: config.etcd_db_metric_poll_interval.0,
        health_timeout: config.etcd_healthcheck_timeout.0,
        ready_timeout: config.etcd_readycheck_timeout.0,
        ..EtcdOptions::new(servers.to_vec())
    }
}

/// Logs which store is used, and warns of one that is not.
fn log_used_store(config: &Config) {
    let servers = &config.etcd_servers;
    match config.backend() {
        StorageBackend::Etcd3 => {
            tracing::info!(%servers, back_end = BASE, "objects are stored in etcd");
            if EmbeddedEngine::is_in(config.data_dir.as_path()) {
                tracing::warn!(
                    data_dir = %config.data_dir,
                    "the data directory holds an embedded store, too: it is not used, and its \
                     objects are not served; --storage-backend=embedded would serve them instead"
                );
            }
        }
        backend if !servers.0.is_empty() => {
            tracing::warn!(
                %servers,
                %backend,
                "etcd-servers has no effect with this storage-backend"
            );
        }
        _ => {}
    }
}
