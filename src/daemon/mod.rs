//! The composition of the daemon.
//!
//! This folder owns the construction of all parts and the order of starting and stopping. It binds
//! ports early and then serves. A configuration enters, a running [`Daemon`] leaves, or a
//! [`StartError`]. No other folder knows how the parts fit together. This folder must not know the
//! contents of requests or objects.

mod credentials;
mod encryption;
mod factory;
pub mod resources;
mod sharing;
mod stores;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::dispatcher::{DispatcherConfig, LocalDispatcher};
use actors::engine::{Engine, Prefix, Retention};
use actors::lessor::LeaseReuse;
use actors::ring::RingLimits;
use actors::supervisor::{ActorSystem, ActorSystemConfig, ActorSystemError, CacherSpec, StoreSpec};

use crate::build_info;
use crate::cli::Announcement;
use crate::config::{Config, StorageBackend};
use crate::controllers::{self, Controllers, ensure_system_namespaces};
use crate::registry::Registry;
use crate::server::auth::{AdminError, TokenFileError};
use crate::server::filters::in_flight::InFlightLimits;
use crate::server::health::{Check, Health};
use crate::server::large_requests::LargeRequests;
use crate::server::listener::{BindError, MetricsListener, Running, Server};
use crate::server::service::{ApiServer, ApiServerConfig, Service};
use crate::server::tls::{Tls, TlsError};
use crate::storage::Root;
use crate::storage::embedded::OpenError;
use crate::storage::embedded::disk::Directory;
use crate::storage::encryption::{self as at_rest, Encryption, EncryptionError};
use crate::storage::etcd::ConnectError;
use crate::storage::factory::{Engines, FactoryError, StorageFactory, StoragePlan};
use crate::storage::object_count::{self, ObjectCounter};
use crate::storage::storage_size;
use crate::telemetry::{self, Series};

use credentials::Credentials;
pub use factory::{storage_factory, storage_warnings};
use resources::Resources;
use stores::OpenEngines;
pub use stores::open_existing;

/// The resource that the controllers follow.
const NAMESPACES: &str = "namespaces";

/// The reason why the daemon could not start, in one line for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is in use or may not be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The store can't be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A resource can't be stored as configured.
    #[error(transparent)]
    Factory(#[from] FactoryError),
    /// The encryption configuration can't be used (SF-32).
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    /// An etcd connection can't be set up as configured.
    #[error(transparent)]
    Etcd(#[from] ConnectError),
    /// Certificates can't be read or created.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The admin's credentials can't be read or created.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The file of users can't be used.
    #[error(transparent)]
    Users(#[from] TokenFileError),
    /// The actors can't be started.
    #[error(transparent)]
    ActorSystem(#[from] ActorSystemError),
    /// The threads for large requests can't be started.
    #[error(
        "no threads for large requests: {0}; raise the limit of processes of the daemon's user"
    )]
    Threads(std::io::Error),
    /// The threads that serve HTTP can't be started.
    #[error(
        "no thread to serve HTTP: {0}; raise the limit of processes of the daemon's user, or lower \
         http-threads"
    )]
    HttpThreads(std::io::Error),
    /// Several errors, all of which are refusals.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<StartError>),
    /// The daemons that share namespaces have no common Lease for an election.
    #[error(
        "--etcd-servers-overrides: namespaces are kept by servers that other daemons share, leases \
         by this daemon alone; daemons agree by a lease on who empties deleted namespaces: give \
         coordination.k8s.io/leases servers, too"
    )]
    NoAgreement,
    /// The table of resources has no namespaces.
    #[error("the table of resources lacks namespaces")]
    NoNamespaces,
}

impl StartError {
    /// Whether the configuration is at fault, and not its execution.
    pub fn is_refusal(&self) -> bool {
        if let StartError::Tls(error) = self {
            return error.setting.is_some();
        }
        matches!(
            self,
            StartError::Factory(_)
                | StartError::Encryption(_)
                | StartError::Etcd(_)
                | StartError::Users(_)
                | StartError::Several(_)
                | StartError::NoAgreement
        )
    }
}

/// The running daemon.
pub struct Daemon {
    config: Config,
    engines: Engines,
    actor_system: ActorSystem,
    resources: Resources,
    health: Arc<Health>,
    encryption: Encryption,
    credentials: Credentials,
    controllers: Controllers,
    running: Running,
    metrics_address: Option<std::net::SocketAddr>,
    background: Vec<actix_rt::task::JoinHandle<()>>,
    /// Holds the data directory while the daemon lives, unless the engine holds it.
    _directory: Option<Directory>,
}

impl Daemon {
    /// Opens ports and store, starts every part and serves. The caches fill in the meantime.
    /// `/readyz` reports when they are full.
    ///
    /// # Errors
    /// [`StartError`]. The end of the process stops every part that was started.
    pub async fn start(
        config: Config,
        series: Series,
        started: Instant,
    ) -> Result<Daemon, StartError> {
        // Refusals come before any other message.
        let (encryption, factory) = understood(&config)?;
        let sharing = sharing::of(&factory)?;
        let server = Server::bind(&config)?;
        let metrics = config.metrics_bind_address.0;
        let metrics_listener = metrics.map(MetricsListener::bind).transpose()?;
        let directory = stores::hold_directory(&config)?;
        for warning in storage_warnings(&config, &factory) {
            tracing::warn!("{warning}");
        }
        let stores = OpenEngines::open(&config, &factory.back_ends())?;
        let engines = stores.engines.clone();
        let address = server.local_address();
        let tls = Tls::load_or_create(&config)?;
        let credentials = Credentials::load(&config, address, tls.trust_pem())?;

        let plans = factory.plans(&engines, &encryption)?;
        encryption.warn_of_unknown_resources();
        let actor_system = ActorSystem::start(
            actor_system_config(&config, &engines, &series),
            cached(&plans),
        )?;
        let registry = assemble(&config, &plans, &actor_system);
        let actors = actor_system.clone();
        let health = Health::new(checks(&stores, &config)).telling(move || not_ready(&actors));
        let health = Arc::new(health);
        let namespaces = actor_system
            .cacher(NAMESPACES)
            .ok_or(StartError::NoNamespaces)?;
        let controllers = Controllers::start(registry.clone(), namespaces, sharing);

        describe_metrics();
        let measured = stores.measured;
        let start = Start {
            at: started,
            patience: config.storage_initialization_timeout.0,
        };
        let (actors, checks) = (actor_system.clone(), health.clone());
        let mut background = vec![
            actix_rt::spawn(telemetry::upkeep(series.clone())),
            actix_rt::spawn(object_counter(&config, &registry).run()),
            actix_rt::spawn(complete_start(actors, registry.clone(), checks, start)),
        ];
        background.extend(encryption::follow(&config, &encryption));
        let rewritten = encryption::rewritten_stores(&plans, &actor_system);
        let rewriter = encryption::rewriter(&encryption, &rewritten, &actor_system, &factory);
        let resources = Resources::new(resources::Parts {
            registry: registry.clone(),
            actor_system: actor_system.clone(),
            factory,
            engines: engines.clone(),
            encryption: encryption.clone(),
            series: series.clone(),
            rewritten,
            changing: tokio::sync::Mutex::default(),
        });
        let api_server = Arc::new(ApiServer::new(ApiServerConfig {
            registry,
            authenticator: credentials.authenticator(),
            health: health.clone(),
            actor_system: actor_system.clone(),
            rewriter,
            metrics: Some(Box::new(move || series.render())),
            metrics_lines: Some(Box::new(move || storage_size::metric_lines(&measured))),
            address: address.to_string(),
            large_requests: LargeRequests::start().map_err(StartError::Threads)?,
            limits: in_flight_limits(&config),
        }));
        let metrics_address = metrics_listener.as_ref();
        let metrics_address = metrics_address.map(MetricsListener::local_address);
        background.extend(metrics_listener.map(|listener| {
            let api_server = Arc::clone(&api_server);
            listener.serve(move || api_server.metrics_page())
        }));
        let running = server
            .serve(tls.server_config(), move |thread| {
                let dispatcher = LocalDispatcher::start(DispatcherConfig::default(), thread);
                Service::new(Arc::clone(&api_server), dispatcher)
            })
            .map_err(StartError::HttpThreads)?;
        Ok(Daemon {
            config,
            engines,
            actor_system,
            resources,
            health,
            encryption,
            credentials,
            controllers,
            running,
            metrics_address,
            background,
            _directory: directory,
        })
    }

    /// Logs what [`Daemon::announcement`] says, for those who read only the log.
    pub fn log_start(&self) {
        let everything = Prefix::new(self.config.etcd_prefix.as_str());
        let own = self.engines.iter().next();
        let revision = own.map(|(_, engine)| engine.known(&everything).revision);
        // An etcd has not answered yet.
        let is_known = self.config.backend() != StorageBackend::Etcd3;
        tracing::info!(
            version = build_info::VERSION,
            api = %self.running.local_address(),
            metrics = self.metrics_address.map(tracing::field::display),
            data = %self.data_dir().display(),
            backend = %self.config.backend(),
            revision = revision.filter(|_| is_known).map(|revision| revision.0),
            "serving"
        );
    }

    /// The data directory, absolute.
    fn data_dir(&self) -> PathBuf {
        let directory = self.config.data_dir.as_path();
        std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
    }

    /// The addresses and paths for the operator.
    pub fn announcement(&self) -> Announcement {
        Announcement {
            secure: self.running.local_address(),
            metrics: self.metrics_address,
            data_dir: self.data_dir(),
            kubeconfig: self.credentials.kubeconfig().to_owned(),
        }
    }

    /// Adds and removes resources.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Reloads changed files, and logs the changes.
    pub async fn reload(&self) {
        encryption::reload(&self.encryption).await;
        self.credentials.reload().await;
    }

    /// Resolves when the Supervisor has died. The daemon must then end too.
    pub fn ended(&self) -> impl Future<Output = ()> + use<> {
        let actor_system = self.actor_system.clone();
        async move { actor_system.ended().await }
    }

    /// Stops readiness, listeners, requests and watches, controllers, actors and store in this
    /// order, within the configured time.
    pub async fn stop(self) {
        self.health.begin_shutdown();
        let within = self.config.shutdown_timeout.0;
        let cut = self.running.drain(within).await;
        if cut > 0 {
            tracing::warn!(
                connections = cut,
                "connections were cut at the end of the drain"
            );
        }
        for task in &self.background {
            task.abort();
        }
        let rest = async {
            self.controllers.stop().await;
            self.actor_system.stop().await;
            for (_, engine) in self.engines.iter() {
                engine.close().await;
            }
        };
        if tokio::time::timeout(within.max(Duration::from_secs(1)), rest)
            .await
            .is_err()
        {
            tracing::warn!("not everything stopped in time; what was acknowledged is durable");
        }
    }
}

/// The encryption and the storage factory. All faults in files and settings are reported at once
/// (SF-30).
fn understood(config: &Config) -> Result<(Encryption, StorageFactory), StartError> {
    let files = stores::unreadable_files(config).into_iter();
    let mut refusals: Vec<StartError> = files.map(StartError::Etcd).collect();
    match (encryption::load(config), storage_factory(config)) {
        (Ok(encryption), Ok(factory)) if refusals.is_empty() => return Ok((encryption, factory)),
        (encryption, factory) => {
            refusals.extend(encryption.err().map(StartError::Encryption));
            refusals.extend(factory.err().map(StartError::Factory));
        }
    }
    match refusals.pop() {
        Some(only) if refusals.is_empty() => Err(only),
        last => {
            refusals.extend(last);
            Err(StartError::Several(refusals))
        }
    }
}

/// The registry of the planned resources.
fn assemble(config: &Config, plans: &[StoragePlan], actor_system: &ActorSystem) -> Registry {
    let plans = plans.iter();
    let versions = plans.flat_map(|plan| plan.build_versions(actor_system));
    let root = Root::from(config.etcd_prefix.as_str());
    Registry::new(root, config.event_ttl.0, versions.collect())
}

/// The Cachers' specifications, for resources with a cache.
fn cached(plans: &[StoragePlan]) -> Vec<CacherSpec> {
    // The controllers follow the cache of namespaces, even if clients are served without it.
    let is_followed = |plan: &&StoragePlan| plan.resource().name == NAMESPACES;
    let plans = plans.iter();
    plans
        .filter(|plan| plan.destination().is_cached || is_followed(plan))
        .map(StoragePlan::cacher_spec)
        .collect()
}

fn actor_system_config(config: &Config, engines: &Engines, series: &Series) -> ActorSystemConfig {
    let series = series.clone();
    let retention = Retention {
        age: config.retention_age.0,
        bytes: config.retention_bytes.0,
    };
    let leases = LeaseReuse {
        window_seconds: config.lease_reuse_duration_seconds,
        ..LeaseReuse::default()
    };
    let store = |(name, engine): (&str, &Arc<dyn Engine>)| StoreSpec {
        name: name.to_owned(),
        engine: engine.clone(),
        retention,
        leases,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ActorSystemConfig {
        data_arbiters: data_threads(config.data_threads, cores),
        rings: RingLimits {
            per_resource_bytes: config.watch_ring_bytes.0 as usize,
            total_bytes: config.watch_ring_total_bytes.0 as usize,
        },
        on_removed: Some(Arc::new(move |resource| series.remove_resource(resource))),
        ..ActorSystemConfig::new(engines.iter().map(store).collect())
    }
}

/// The number of data threads: as it is set, or by the number of cores. What one etcd takes at most
/// keeps a quarter of a thread busy (docs/sizing.md), so few are enough.
fn data_threads(set: usize, cores: usize) -> usize {
    match set {
        0 => (cores / 4).clamp(1, 4),
        set => set,
    }
}

/// The health checks in addition to the standard ones.
fn checks(stores: &OpenEngines, config: &Config) -> Vec<Check> {
    let checks = stores.checks().into_iter();
    checks.chain(encryption::check(config)).collect()
}

fn not_ready(actor_system: &ActorSystem) -> Vec<String> {
    let actors = actor_system.state().actors.into_iter();
    actors
        .filter(|actor| !actor.ready)
        .map(|actor| actor.name)
        .collect()
}

/// The object counts for metrics.
fn object_counter(config: &Config, registry: &Registry) -> ObjectCounter {
    let registry = registry.clone();
    let stores = move || {
        let catalog = registry.current();
        let resources = catalog.stored_resources();
        resources
            .map(|store| (store.stored_resource().clone(), store.storage().clone()))
            .collect()
    };
    ObjectCounter {
        stores: Box::new(stores),
        period: config.etcd_count_metric_poll_period.0,
    }
}

fn in_flight_limits(config: &Config) -> InFlightLimits {
    InFlightLimits {
        read_only: config.max_requests_inflight,
        mutating: config.max_mutating_requests_inflight,
    }
}

fn describe_metrics() {
    actors::supervisor::describe_metrics();
    crate::storage::metrics::describe();
    object_count::describe();
    controllers::describe_metrics();
    at_rest::describe();
}

/// A start that is not complete.
struct Start {
    /// The time when the process started.
    at: Instant,
    /// The time limit for the caches.
    patience: Duration,
}

/// Readiness waits for the caches at the start (WC-46) and for the system namespaces (API-262). A
/// cache that fills again later reports its own state.
async fn complete_start(
    actor_system: ActorSystem,
    registry: Registry,
    health: Arc<Health>,
    start: Start,
) {
    let filled = actor_system.ready_within(start.patience).await;
    if let Err(unfilled) = &filled {
        for cache in unfilled {
            tracing::warn!(
                cache,
                "not filled within storage-initialization-timeout; its resource answers 429"
            );
        }
    }
    if let Err(status) = ensure_system_namespaces(&registry).await {
        tracing::warn!(%status, "system namespaces are missing; the namespace controller keeps trying");
    }
    health.complete_start();
    // Objects that expired while no daemon ran do not delay the caches.
    actor_system.begin_expiry();
    let milliseconds = start.at.elapsed().as_millis() as u64;
    match filled {
        Ok(()) => tracing::info!(milliseconds, "ready: every cache is filled"),
        Err(unfilled) => {
            let caches = unfilled.len();
            tracing::warn!(
                milliseconds,
                caches,
                "ready, but for caches that are not filled"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_threads_follow_the_cores_unless_they_are_set() {
        let by_cores = [1, 2, 7, 8, 16, 64].map(|cores| data_threads(0, cores));
        assert_eq!(by_cores, [1, 1, 1, 2, 4, 4]);
        assert_eq!(data_threads(3, 64), 3);
    }
}
