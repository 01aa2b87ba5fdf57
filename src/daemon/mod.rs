//! The composition of the daemon.
//!
//! This folder owns the construction of all parts and the order in which they start and stop. It
//! binds ports early and serves later. It takes a configuration, and returns a running [`Daemon`]
//! or a [`StartError`]. No other folder knows how the parts fit together. This folder must not know
//! the contents of requests or objects.

mod addition_pace;
mod admission_configuration;
mod aggregation;
mod authorization;
mod authorization_chain;
mod credentials;
mod custom;
mod encryption;
mod factory;
mod hooks;
mod metrics;
mod opened;
mod options;
mod readiness;
mod reload;
pub mod resources;
mod service_manager;
mod service_network;
mod sharing;
mod start_error;
mod stores;
mod test_controls;
mod token_issuers;
mod webhooks;
mod writers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_rt::task::JoinHandle;
use actors::dispatcher::{DispatcherConfig, LocalDispatcher};
use actors::engine::Prefix;
use actors::supervisor::{ActorSystem, CacherSpec};
use actors::tasks;
use actors::watchdog::Watchdog;

use crate::admission::HookSources;
use crate::admission::configuration::PluginSettings;
use crate::aggregation::availability::AVAILABILITY_CACHES;
use crate::api::error_list::ClusterPolicies;
use crate::api::user_info::UserInfo;
use crate::auth::Token;
use crate::auth::authorization_config::AuthorizerType;
use crate::build_info;
use crate::cli::Announcement;
use crate::config::{Config, StorageBackend, running_plugins};
use crate::controllers::Simulation;
use crate::controllers::kubernetes_service::KubernetesServiceController;
use crate::kinds::validation::pods::security::NO_PRIVILEGED_CONTAINERS;
use crate::registry::component_statuses::ComponentStatusStore;
use crate::registry::deletion::Collector;
use crate::registry::hooks::HOOK_CACHES;
use crate::registry::rbac::RBAC_CACHES;
use crate::registry::service_account_tokens::{BoundObjects, TokenStore};
use crate::registry::{
    ClusterParts, DefinitionLimits, NODE_CACHES, Registry, RestStorage, reviews,
};
use crate::server::api_server::{ApiServer, ApiServerConfig};
use crate::server::audit::Audit;
use crate::server::features::Features;
use crate::server::health::{self, Health};
use crate::server::issuer_discovery::IssuerDiscovery;
use crate::server::large_requests::LargeRequests;
use crate::server::service::Service;
pub use crate::server::test_controls::AdvanceError;
use crate::server::test_controls::TestControls;
use crate::storage::Root;
use crate::storage::embedded::disk::Directory;
use crate::storage::encryption::Encryption;
use crate::storage::factory::{Engines, StoragePlan};
use crate::telemetry::{self, Series};
use crate::transport::listener::{Running, SecureListener};

use aggregation::Remote;
use authorization::Authorization;
use credentials::Credentials;
use factory::{UnservedPlans, remove_unserved, storage_plans};
pub use factory::{storage_factory, storage_warnings};
use opened::Opened;
pub use opened::check_files;
use resources::{Resources, Stored, changes};
use service_manager::ServiceManager;
pub use start_error::StartError;
use stores::OpenEngines;
pub use stores::{open_etcd, open_existing};
use writers::Writers;

/// The part of the shutdown timeout that is reserved for the steps after the connections.
const REST_OF_STOP: Duration = Duration::from_secs(2);

/// The resource that the controllers follow.
const NAMESPACES: &str = "namespaces";

/// The decisions of a process about a daemon that runs in it.
pub struct Host {
    /// The series of metrics that the daemon shows.
    pub series: Series,
    /// When the start began.
    pub started: Instant,
    /// Users in addition to those of `token-auth-file`, with their tokens.
    pub users: Vec<(Token, UserInfo)>,
    /// Whether the daemon reports its state to systemd, as the process of a service does.
    pub notifies_service_manager: bool,
    /// The parts of a cluster that are simulated.
    pub simulation: Simulation,
    /// Where the daemon behaves as another program does.
    pub conduct: Conduct,
    /// Whether the daemon serves tests, which may inject faults and move its clock.
    pub for_tests: bool,
}

/// Behaviour that differs with the program in whose place the daemon runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conduct {
    /// How long after their deletion namespaces are emptied, at least.
    pub namespace_grace: Duration,
    /// Whether requests on open connections are served until the daemon has stopped. Otherwise they
    /// are refused once it begins to stop.
    pub serves_to_the_end: bool,
    /// The parts that the stop waits for.
    pub stop: Stop,
}

impl Conduct {
    /// The conduct of a server for tests.
    pub fn of_test_server(stop: Stop) -> Conduct {
        Conduct {
            // A refusal with Retry-After would keep clients of a stopped test waiting.
            serves_to_the_end: true,
            stop,
            ..Conduct::default()
        }
    }
}

/// The parts that the stop of a daemon waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// Requests and watches, within the time of the drain, and then all threads.
    #[default]
    Drained,
    /// Threads. Requests and watches have [`AT_ONCE`] to end, and their connections are cut then.
    Cut,
    /// The store. Requests and watches have [`AT_ONCE`] to end. The process ends afterwards, and
    /// closes the connections and frees the memory faster than the threads do.
    WithProcess,
}

/// The time that the clients of a daemon have if it stops at once. Watches are sent their end
/// within it, unless there are hundreds of connections.
const AT_ONCE: Duration = Duration::from_millis(4);

/// The running daemon.
pub struct Daemon {
    config: Config,
    conduct: Conduct,
    engines: Engines,
    actor_system: ActorSystem,
    resources: Resources,
    health: Arc<Health>,
    encryption: Encryption,
    credentials: Arc<Credentials>,
    audit: Option<Arc<Audit>>,
    writers: Arc<Writers>,
    service: KubernetesServiceController,
    running: Running,
    metrics_address: Option<std::net::SocketAddr>,
    background: Vec<JoinHandle<()>>,
    service_manager: ServiceManager,
    /// The parts that a test may change, if the daemon serves tests.
    test: Option<Arc<TestControls>>,
    /// Holds the lock of the data directory while the daemon lives, unless the engine does.
    _directory: Option<Directory>,
}

impl Daemon {
    /// Opens ports and store, starts every part and serves. Caches fill meanwhile, and `/readyz`
    /// reports when they are full.
    ///
    /// # Errors
    /// [`StartError`]. The caller must then stop the actix system, which ends the threads of every
    /// part that was started.
    pub async fn start(config: Config, host: Host) -> Result<Daemon, StartError> {
        let (series, started, conduct) = (host.series, host.started, host.conduct);
        let service_manager = ServiceManager::new(host.notifies_service_manager);
        let opened = Opened::open(&config, host.users, host.for_tests)?;
        let (encryption, factory, sharing) = (opened.encryption, opened.factory, opened.sharing);
        let (listener, stores, port) = (opened.listener, opened.stores, opened.metrics_listener);
        let (watchdog, credentials, audit) = (opened.watchdog, opened.credentials, opened.audit);
        let (engines, address) = (stores.engines.clone(), listener.local_address());
        let plans = storage_plans(&factory, &engines, &encryption, &series)?;
        let actors = options::actor_system_config(&config, &engines, &series, &watchdog);
        let actor_system = ActorSystem::start(actors, cached(&plans, &config))?;
        let unserved = UnservedPlans::of(&factory, &engines, &encryption)?;
        let egress = opened.egress;
        let hooks = hooks::of(&config, &actor_system, address, &egress);
        let authorization = Authorization::new(&config, &actor_system, &plans, egress.clone())?;
        let planned = Planned::new(&plans, &unserved, opened.plugin_settings);
        let registry = assemble(&config, planned, &actor_system, &authorization, hooks);
        add_others(&registry, &config, &credentials, &stores, &authorization);
        let health = readiness::health(&stores, &config, &actor_system, &watchdog, conduct);
        let setup = options::controllers(&config, &registry, &actor_system, &credentials)?;
        let remote = Remote::new(&registry, &actor_system, &credentials, &egress);
        let setup = setup.in_host(host.simulation, conduct.namespace_grace);
        let setup = remote.with_controllers(&health, setup);
        let leases = service_network::leases(&unserved, &sharing, &actor_system);
        let service = service_network::controller(&config, &registry, address, leases);
        let mut background = followed(&config, &encryption, &credentials, &watchdog, &series);
        background.push(tasks::spawn_local(
            options::object_counter(&config, &registry).run(),
        ));
        let watched = service_manager.watched(watchdog.clone()).into_iter();
        background.extend(watched.chain(authorization.followed()));
        let stored = Stored::new(factory, &engines, &encryption);
        let (resources, rewriter) = changes(&registry, &actor_system, &plans, stored, &series);
        let writers = Writers::start(&resources, &health, setup, sharing, remote.services());
        let start = readiness::Start {
            actor_system: actor_system.clone(),
            registry: registry.clone(),
            service: service.clone(),
            config_maps: options::config_maps(&config, &registry, &credentials),
            health: health.clone(),
            nodes: authorization.nodes.clone(),
            at: started,
            config: config.clone(),
            service_manager,
            registrar: writers.registrar().cloned(),
        };
        background.push(tasks::spawn_local(start.run()));
        let test = test_controls::controls(opened.own_clock, &stores, &actor_system, &writers);
        let (test, resetting) = test.unzip();
        background.extend(resetting.flatten());
        let api_server = Arc::new(ApiServer::new(ApiServerConfig {
            authorizer: authorization.all,
            registry,
            authenticator: credentials.authenticator(),
            health: health.clone(),
            actor_system: actor_system.clone(),
            rewriter,
            own_store: stores::own_store(&engines, &config),
            rotate_token: Credentials::rotation(&credentials),
            issuer: issuer(&config, &credentials, address),
            unknown_paths: writers.gate(),
            aggregation: remote.start(&writers, &health, &mut background),
            audit: audit.clone(),
            test: test.clone(),
            features: Features::of(|gate| config.feature_gates.is_on(gate)),
            http: options::http_rules(&config),
            process: options::process(&config, started),
            access_log: config.access_log,
            metrics: Some(Box::new(move || series.render())),
            metrics_lines: Some(metrics::further_lines(stores.measured)),
            address: address.to_string(),
            kubelets: opened.kubelets,
            large_requests: LargeRequests::start(&watchdog).map_err(StartError::Threads)?,
            limits: options::in_flight_limits(&config),
        }));
        let metrics_address = metrics::serve(&config, port, &api_server, &mut background);
        let running = serve(listener, &credentials, api_server, watchdog)?;
        Ok(Daemon {
            config,
            conduct,
            engines,
            actor_system,
            resources,
            health,
            encryption,
            credentials,
            audit,
            writers,
            service,
            running,
            metrics_address,
            background,
            service_manager,
            test,
            _directory: opened.directory,
        })
    }

    /// Logs the [`Daemon::announcement`], for operators who read only the log.
    pub fn log_start(&self) {
        let everything = Prefix::new(self.config.etcd_prefix.as_str());
        let own = self.engines.iter().next();
        let revision = own.map(|(_, engine)| engine.known(&everything).revision);
        // An etcd has not answered yet, so its revision is unknown.
        let is_known = self.config.backend() != StorageBackend::Etcd3;
        if let Some(note) = self.config.apiserver_flags.note() {
            tracing::info!("{note}");
        }
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

    /// Returns the absolute path of the data directory.
    fn data_dir(&self) -> PathBuf {
        let directory = self.config.data_dir.as_path();
        std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
    }

    /// Returns the addresses and paths that the operator needs.
    pub fn announcement(&self) -> Announcement {
        Announcement {
            secure: self.running.local_address(),
            metrics: self.metrics_address,
            data_dir: self.data_dir(),
            kubeconfig: self.credentials.kubeconfig().to_owned(),
        }
    }

    /// Whether the start is complete. It is cheaper to ask than [`Daemon::is_ready`].
    pub fn has_started(&self) -> bool {
        self.health.has_started()
    }

    /// Whether every cache is filled and the system objects exist, as `/readyz` says.
    pub fn is_ready(&self) -> bool {
        self.health.passes(health::Root::Readyz)
    }

    /// The certificates that clients must trust, in PEM.
    pub fn trust_pem(&self) -> String {
        self.credentials.trust_pem()
    }

    /// Returns the handle that adds and removes resources.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Reloads changed files, and logs what has changed.
    pub async fn reload(&self) {
        encryption::reload(&self.encryption).await;
        reload::now(Arc::clone(&self.credentials)).await;
    }

    /// Resolves when the Supervisor has died. The process must then end too.
    pub fn ended(&self) -> impl Future<Output = ()> + use<> {
        let actor_system = self.actor_system.clone();
        async move { actor_system.ended().await }
    }

    /// Stops readiness, listeners, requests and watches, controllers, actors and store in this
    /// order, within the configured time. A quarter of it, at most two seconds, is reserved for the
    /// steps after the connections. With `shutdown-delay-duration` readiness stops that much
    /// earlier.
    pub async fn stop(self) {
        self.service_manager.stopping();
        let delay = self.config.shutdown_delay_duration.0;
        if !delay.is_zero() {
            self.health.announce_shutdown();
            tokio::time::sleep(delay).await;
        }
        self.health.begin_shutdown();
        let within = self.config.shutdown_timeout.0;
        let deadline = Instant::now() + within;
        let stop = self.conduct.stop;
        let drain = match stop {
            Stop::Drained => within.saturating_sub(REST_OF_STOP.min(within / 4)),
            Stop::Cut | Stop::WithProcess => AT_ONCE,
        };
        // Leave the endpoints while requests still run, so that new clients go to another daemon.
        let (drained, ()) = tokio::join!(self.running.drain(drain), self.service.leave());
        let cut = drained.left();
        // The audit log has the requests that are cut, which their threads write when they end.
        match stop {
            Stop::WithProcess if self.audit.is_none() => drained.halt(),
            _ => drained.end().await,
        }
        if cut > 0 && stop == Stop::Drained {
            tracing::warn!(
                connections = cut,
                "connections were cut at the end of the drain"
            );
        }
        for task in &self.background {
            task.abort();
        }
        let audit = self.audit;
        let rest = async {
            if let Some(audit) = audit {
                // Closing writes the audit events that are still queued.
                let _ = tasks::spawn_blocking(move || audit.close()).await;
            }
            self.writers.stop().await;
            self.actor_system.stop().await;
            for (_, engine) in self.engines.iter() {
                engine.close().await;
            }
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_secs(1));
        if tokio::time::timeout(left, rest).await.is_err() {
            tracing::warn!("not everything stopped in time; what was acknowledged is durable");
        }
    }
}

/// The storages of all resources, and the configuration of the plugins that admit their objects.
struct Planned<'p> {
    served: &'p [StoragePlan],
    unserved: &'p UnservedPlans,
    plugin_settings: PluginSettings,
}

impl<'p> Planned<'p> {
    fn new(
        served: &'p [StoragePlan],
        unserved: &'p UnservedPlans,
        plugin_settings: PluginSettings,
    ) -> Planned<'p> {
        Planned {
            served,
            unserved,
            plugin_settings,
        }
    }
}

/// Creates the registry of the planned resources.
fn assemble(
    config: &Config,
    planned: Planned<'_>,
    actor_system: &ActorSystem,
    authorization: &Authorization,
    hooks: Option<HookSources>,
) -> Registry {
    let allocations = &planned.unserved.range_allocations;
    let network = service_network::of(config, allocations, actor_system);
    let plans = planned.served.iter();
    let versions = plans.flat_map(|plan| plan.build_versions(actor_system));
    let versions: Vec<_> = versions.collect();
    let root = Root::from(config.etcd_prefix.as_str());
    let collector = match config.enable_garbage_collector.0 {
        true => Collector::Running,
        false => Collector::Absent,
    };
    let ttl = config.event_ttl.0;
    let parts = ClusterParts {
        network: Some(network),
        admission_plugins: running_plugins(
            &config.enable_admission_plugins,
            &config.disable_admission_plugins,
        ),
        plugin_settings: planned.plugin_settings,
        // The registry raises a value below one to one (SF-15).
        delete_collection_workers: usize::try_from(config.delete_collection_workers)
            .unwrap_or_default(),
        authorizer: Some(Arc::clone(&authorization.all)),
        rbac: authorization.rbac.clone(),
        hooks,
        policies: if config.allow_privileged.0 {
            ClusterPolicies::default()
        } else {
            NO_PRIVILEGED_CONTAINERS
        },
        definitions: DefinitionLimits {
            count: config.max_definitions,
            bytes: config.max_definition_bytes.0 as usize,
        },
        definition_cache: actor_system.cacher(custom::DEFINITIONS),
        node_addresses: config.kubelet_preferred_address_types.0.clone().into(),
    };
    Registry::with_parts(root, ttl, collector, versions, parts)
}

/// Starts the tasks that follow changed files, watch this thread, and keep metrics small.
fn followed(
    config: &Config,
    encryption: &Encryption,
    credentials: &Arc<Credentials>,
    watchdog: &Watchdog,
    series: &Series,
) -> Vec<JoinHandle<()>> {
    let files = encryption::follow(config, encryption).into_iter();
    let issuers = credentials.follow_issuers().map(tasks::spawn_local);
    let all = files
        .chain([reload::follow(credentials.clone())])
        .chain(issuers);
    all.chain([tasks::spawn_local(watchdog.probe("main".to_owned()))])
        .chain([tasks::spawn_local(telemetry::upkeep(series.clone()))])
        .collect()
}

/// Adds the resources that are served but not stored. Reviews answer what the authorizer allows.
fn add_others(
    registry: &Registry,
    config: &Config,
    credentials: &Credentials,
    stores: &OpenEngines,
    authorization: &Authorization,
) {
    let authorizer = &authorization.all;
    let tokens = credentials.service_accounts();
    let audiences = &tokens.config().audiences;
    let authenticators = credentials.authenticator();
    let reviews = reviews::paths(&authenticators, authorizer, audiences, registry.admission());
    let reviews = reviews.into_iter();
    let health = ComponentStatusStore::new(stores.component_probes());
    let others = reviews.chain([Arc::new(health) as Arc<dyn RestStorage>]);
    registry.add_others(others);
    remove_unserved(registry, config);
    add_tokens(registry, credentials);
}

/// Connects tokens with the objects that they name, which must exist for a token to be valid.
fn add_tokens(registry: &Registry, credentials: &Credentials) {
    let tokens = credentials.service_accounts();
    let Some(objects) = BoundObjects::of(&registry.current()).map(Arc::new) else {
        return;
    };
    tokens.attach(objects.clone());
    credentials.attach_secrets(&objects);
    if tokens.issues() {
        registry.add_other(Arc::new(TokenStore::new(tokens, &objects)));
    }
}

/// Returns the discovery document and keys with which other servers verify tokens of this issuer.
fn issuer(
    config: &Config,
    credentials: &Credentials,
    address: SocketAddr,
) -> Option<IssuerDiscovery> {
    let advertised = config.advertise_address.0;
    let ip = advertised.unwrap_or(address.ip());
    let address = match config.external_hostname.as_str() {
        "" => SocketAddr::new(ip, address.port()).to_string(),
        host if host.contains(':') => host.to_owned(),
        host => format!("{host}:{}", address.port()),
    };
    let uri = &config.service_account_jwks_uri;
    IssuerDiscovery::new(credentials.service_accounts(), uri, &address)
}

/// Returns the specifications of the Cachers, for resources with a watch cache.
fn cached(plans: &[StoragePlan], config: &Config) -> Vec<CacherSpec> {
    let plans = plans.iter();
    let is_followed = |plan: &&StoragePlan| is_followed(&plan.resource().name, config);
    plans
        .filter(|plan| plan.destination().is_cached || is_followed(plan))
        .map(StoragePlan::cacher_spec)
        .collect()
}

/// Whether the daemon itself needs the cache of a resource, even if clients are served without it.
fn is_followed(name: &str, config: &Config) -> bool {
    name == NAMESPACES
        || name == custom::DEFINITIONS
        || RBAC_CACHES.contains(&name)
        || AVAILABILITY_CACHES.contains(&name)
        || HOOK_CACHES.contains(&name)
        || (NODE_CACHES.contains(&name) && authorization_chain::wants(config, AuthorizerType::Node))
}

/// Serves clients on the HTTP threads.
fn serve(
    listener: SecureListener,
    credentials: &Credentials,
    api_server: Arc<ApiServer>,
    watchdog: Watchdog,
) -> Result<Running, StartError> {
    let serving = listener.serve(credentials.server_config(), move |thread| {
        Service::new(Arc::clone(&api_server), dispatcher(thread, &watchdog))
    });
    serving.map_err(StartError::HttpThreads)
}

/// Returns the Dispatcher of the calling HTTP thread. The watchdog watches both.
fn dispatcher(thread: usize, watchdog: &Watchdog) -> LocalDispatcher {
    tasks::spawn_local(watchdog.probe(format!("http/{thread}")));
    let config = DispatcherConfig {
        watchdog: watchdog.clone(),
        ..DispatcherConfig::default()
    };
    LocalDispatcher::start(config, thread)
}
