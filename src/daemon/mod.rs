//! The composition of the daemon.
//!
//! This folder owns the construction of all parts and the order of starting and stopping. It binds
//! ports early and then serves. A configuration enters, a running [`Daemon`] leaves, or a
//! [`StartError`]. No other folder knows how the parts fit together. This folder must not know the
//! contents of requests or objects.

mod credentials;
mod encryption;
mod factory;
mod options;
mod readiness;
mod reload;
pub mod resources;
mod rights;
mod service_manager;
mod service_network;
mod sharing;
mod start_error;
mod stores;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_rt::task::JoinHandle;
use actors::dispatcher::{DispatcherConfig, LocalDispatcher};
use actors::engine::Prefix;
use actors::supervisor::{ActorSystem, CacherSpec};
use actors::watchdog::{self, Watchdog};

use crate::build_info;
use crate::cli::Announcement;
use crate::config::{Config, StorageBackend, running_plugins};
use crate::controllers::kubernetes_service::KubernetesServiceController;
use crate::controllers::{self, Controllers};
use crate::kinds::validation::pods::security::forbid_privileged_containers;
use crate::registry::deletion::Collector;
use crate::registry::{ClusterParts, Registry, RestStorage};
use crate::server::audit::Audit;
use crate::server::auth::{self, Authorizer, check_token_file};
use crate::server::component_statuses::ComponentStatusStore;
use crate::server::features::Features;
use crate::server::health::{self, Health};
use crate::server::large_requests::LargeRequests;
use crate::server::listener::{MetricsListener, Running, Server};
use crate::server::reviews;
use crate::server::service::{ApiServer, ApiServerConfig, Service};
use crate::server::service_accounts::{
    IssuerDiscovery, Objects, ServiceAccountTokens, TokenStore, check_keys,
};
use crate::server::tls::Tls;
use crate::server::version;
use crate::storage::Root;
use crate::storage::embedded::disk::Directory;
use crate::storage::encryption::{self as at_rest, Encryption};
use crate::storage::factory::{Engines, StorageFactory, StoragePlan};
use crate::storage::object_count;
use crate::storage::storage_size;
use crate::telemetry::{self, Series};

use credentials::Credentials;
use factory::{UnservedPlans, check_definitions, remove_unserved, storage_plans};
pub use factory::{storage_factory, storage_warnings};
use resources::Resources;
use rights::ByAuthorizer;
pub use start_error::StartError;
use stores::{Measured, OpenEngines};
pub use stores::{open_etcd, open_existing};

/// The time of a stop that is kept for what comes after the connections.
const REST_OF_STOP: Duration = Duration::from_secs(2);

/// The resource that the controllers follow.
const NAMESPACES: &str = "namespaces";

/// The running daemon.
pub struct Daemon {
    config: Config,
    engines: Engines,
    actor_system: ActorSystem,
    resources: Resources,
    health: Arc<Health>,
    encryption: Encryption,
    credentials: Arc<Credentials>,
    audit: Option<Arc<Audit>>,
    controllers: Controllers,
    service: KubernetesServiceController,
    running: Running,
    metrics_address: Option<std::net::SocketAddr>,
    background: Vec<JoinHandle<()>>,
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
        let metrics_listener = bound_for_metrics(&config)?;
        let directory = stores::hold_directory(&config)?;
        warn(&config, &factory);
        let watchdog = Watchdog::start(watchdog::LIMIT).map_err(StartError::Threads)?;
        let stores = OpenEngines::open(&config, &factory.back_ends(), &watchdog)?;
        let (engines, address) = (stores.engines.clone(), server.local_address());
        let credentials = Arc::new(Credentials::load(&config, address, stores.tls.clone())?);
        let audit = Audit::open(&config)?;
        let plans = storage_plans(&factory, &engines, &encryption, &series)?;
        let actor_system = ActorSystem::start(
            options::actor_system_config(&config, &engines, &series, &watchdog),
            cached(&plans),
        )?;
        let unserved = UnservedPlans::of(&factory, &engines, &encryption)?;
        let (registry, authorizer) = assemble(&config, &plans, &unserved, &actor_system);
        add_others(&registry, &config, &credentials, &stores, &authorizer);
        let health = readiness::health(&stores, &config, &actor_system, &watchdog);
        let setup = options::controllers(&config, &registry, &actor_system, &credentials)?;
        let controllers = Controllers::start(setup, sharing.clone());
        describe_metrics(&config);
        let leases = service_network::leases(&unserved, &sharing, &actor_system);
        let service = service_network::controller(&config, &registry, address, leases);
        let start = readiness::Start {
            actor_system: actor_system.clone(),
            registry: registry.clone(),
            service: service.clone(),
            config_maps: options::config_maps(&config, &registry, &credentials),
            health: health.clone(),
            at: started,
            config: config.clone(),
        };
        let mut background = followed(&config, &encryption, &credentials, &watchdog, &series);
        background.push(actix_rt::spawn(start.run()));
        let counter = options::object_counter(&config, &registry);
        background.push(actix_rt::spawn(counter.run()));
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
            authorizer,
            registry,
            authenticator: credentials.authenticator(),
            health: health.clone(),
            actor_system: actor_system.clone(),
            rewriter,
            own_store: stores::own_store(&engines, &config),
            rotate_token: Credentials::rotation(&credentials),
            issuer: issuer(&config, &credentials, address),
            audit: audit.clone(),
            features: Features::of(|gate| config.feature_gates.is_on(gate)),
            process: options::process(&config, started),
            access_log: config.access_log,
            metrics: Some(Box::new(move || series.render())),
            metrics_lines: Some(further_lines(stores.measured)),
            address: address.to_string(),
            large_requests: LargeRequests::start(&watchdog).map_err(StartError::Threads)?,
            limits: options::in_flight_limits(&config),
        }));
        let metrics_address = metrics_listener.as_ref().map(|one| one.local_address());
        background.extend(metrics_listener.map(|listener| serve_metrics(listener, &api_server)));
        let running = server
            .serve(credentials.server_config(), move |thread| {
                Service::new(Arc::clone(&api_server), dispatcher(thread, &watchdog))
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
            audit,
            controllers,
            service,
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
        reload::now(Arc::clone(&self.credentials)).await;
    }

    /// Resolves when the Supervisor has died. The daemon must then end too.
    pub fn ended(&self) -> impl Future<Output = ()> + use<> {
        let actor_system = self.actor_system.clone();
        async move { actor_system.ended().await }
    }

    /// Stops readiness, listeners, requests and watches, controllers, actors and store in this
    /// order, within the configured time. A quarter of it, two seconds at most, is kept for what
    /// comes after the connections.
    pub async fn stop(self) {
        service_manager::stopping();
        self.health.begin_shutdown();
        let within = self.config.shutdown_timeout.0;
        let deadline = Instant::now() + within;
        let drain = within.saturating_sub(REST_OF_STOP.min(within / 4));
        // New clients are to go elsewhere while this one ends its requests.
        let (cut, ()) = tokio::join!(self.running.drain(drain), self.service.leave());
        if cut > 0 {
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
                // It writes what waits.
                let _ = actix_rt::task::spawn_blocking(move || audit.close()).await;
            }
            self.controllers.stop().await;
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

/// The encryption and the storage factory. All faults in files and settings are reported at once
/// (SF-30).
fn understood(config: &Config) -> Result<(Encryption, StorageFactory), StartError> {
    check_definitions()?;
    if !config.allow_privileged.0 {
        forbid_privileged_containers();
    }
    let files = stores::unreadable_files(config).into_iter();
    let mut refusals: Vec<StartError> = files.map(StartError::Etcd).collect();
    refusals.extend(faulty_files(config));
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

/// The faults of files that are used once the store is open. A refused start must not make one.
fn faulty_files(config: &Config) -> impl Iterator<Item = StartError> + use<> {
    let users = &config.token_auth_file;
    let users = users.is_set().then(|| check_token_file(users.as_path()));
    let tls = Tls::check(config).err().map(StartError::Tls);
    let users = users.and_then(Result::err).map(StartError::Users);
    let audit = Audit::check(config).err().map(StartError::Audit);
    let keys = check_keys(&credentials::service_accounts(config)).err();
    let keys = keys.map(StartError::Keys);
    [tls, users, audit, keys].into_iter().flatten()
}

/// Logs what is likely not meant, but can be carried out.
fn warn(config: &Config, factory: &StorageFactory) {
    let metrics = config.metrics_bind_address.0;
    if let Some(address) = metrics.filter(|address| !address.ip().is_loopback()) {
        tracing::warn!(
            %address,
            "metrics-bind-address: whoever reaches this address reads the metrics, without \
             credentials and without encryption"
        );
    }
    if std::env::var_os("KUBE_API_VERSIONS").is_some() {
        tracing::warn!(
            "KUBE_API_VERSIONS has no effect, as in kube-apiserver; --runtime-config switches \
             versions on and off"
        );
    }
    for warning in storage_warnings(config, factory) {
        tracing::warn!("{warning}");
    }
}

/// The registry of the planned resources, and what users may do.
fn assemble(
    config: &Config,
    plans: &[StoragePlan],
    unserved: &UnservedPlans,
    actor_system: &ActorSystem,
) -> (Registry, Arc<dyn Authorizer>) {
    let authorizer: Arc<dyn Authorizer> = Arc::new(auth::bootstrap());
    let network = service_network::of(config, &unserved.range_allocations, actor_system);
    let plans = plans.iter();
    let versions = plans.flat_map(|plan| plan.build_versions(actor_system));
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
        // Less than one is one (SF-15), which the registry sees to.
        delete_collection_workers: usize::try_from(config.delete_collection_workers)
            .unwrap_or_default(),
        rights: Some(Arc::new(ByAuthorizer(Arc::clone(&authorizer)))),
    };
    let registry = Registry::with_parts(root, ttl, collector, versions.collect(), parts);
    (registry, authorizer)
}

/// The tasks that follow files, the service manager and this thread, and keep metrics small.
fn followed(
    config: &Config,
    encryption: &Encryption,
    credentials: &Arc<Credentials>,
    watchdog: &Watchdog,
    series: &Series,
) -> Vec<JoinHandle<()>> {
    let files = encryption::follow(config, encryption).into_iter();
    let all = files.chain([reload::follow(credentials.clone())]);
    all.chain(service_manager::watched(watchdog.clone()))
        .chain([actix_rt::spawn(watchdog.probe("main".to_owned()))])
        .chain([actix_rt::spawn(telemetry::upkeep(series.clone()))])
        .collect()
}

/// Adds what is served and not stored. Reviews tell what the authorizer allows.
fn add_others(
    registry: &Registry,
    config: &Config,
    credentials: &Credentials,
    stores: &OpenEngines,
    authorizer: &Arc<dyn Authorizer>,
) {
    let tokens = credentials.service_accounts();
    let audiences = &tokens.config().audiences;
    let reviews = reviews::paths(&credentials.authenticator(), authorizer, audiences).into_iter();
    let health = ComponentStatusStore::new(stores.component_probes());
    let others = reviews.chain([Arc::new(health) as Arc<dyn RestStorage>]);
    registry.add_others(others);
    remove_unserved(registry, config);
    add_tokens(registry, tokens);
}

/// Tokens of service accounts, which are good while the objects are there that they name.
fn add_tokens(registry: &Registry, tokens: &Arc<ServiceAccountTokens>) {
    let Some(objects) = Objects::of(&registry.current()).map(Arc::new) else {
        return;
    };
    tokens.attach(Arc::clone(&objects));
    if tokens.issues() {
        registry.add_other(Arc::new(TokenStore::new(tokens, &objects)));
    }
}

/// What others need to know tokens of the issuer.
fn issuer(
    config: &Config,
    credentials: &Credentials,
    address: SocketAddr,
) -> Option<IssuerDiscovery> {
    let advertised = config.advertise_address.0;
    let ip = advertised.unwrap_or(address.ip());
    let address = SocketAddr::new(ip, address.port()).to_string();
    let uri = &config.service_account_jwks_uri;
    IssuerDiscovery::new(credentials.service_accounts(), uri, &address)
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

/// The lines of the metrics page that are measured at each scrape.
fn further_lines(measured: Measured) -> Box<dyn Fn() -> String + Send + Sync> {
    Box::new(move || storage_size::metric_lines(&measured) + "\n" + &telemetry::process_lines())
}

/// The port of metrics, unless it is switched off.
fn bound_for_metrics(config: &Config) -> Result<Option<MetricsListener>, StartError> {
    let address = config.metrics_bind_address.0;
    Ok(address.map(MetricsListener::bind).transpose()?)
}

fn serve_metrics(listener: MetricsListener, api_server: &Arc<ApiServer>) -> JoinHandle<()> {
    let api_server = Arc::clone(api_server);
    listener.serve(move || api_server.metrics_page())
}

/// The Dispatcher of the calling HTTP thread. Both are watched.
fn dispatcher(thread: usize, watchdog: &Watchdog) -> LocalDispatcher {
    actix_rt::spawn(watchdog.probe(format!("http/{thread}")));
    let config = DispatcherConfig {
        watchdog: watchdog.clone(),
        ..DispatcherConfig::default()
    };
    LocalDispatcher::start(config, thread)
}

fn describe_metrics(config: &Config) {
    options::measure_features(config);
    actors::supervisor::describe_metrics();
    crate::storage::metrics::describe();
    object_count::describe();
    controllers::describe_metrics();
    at_rest::describe();
    health::describe_metrics();
    version::measure();
}
