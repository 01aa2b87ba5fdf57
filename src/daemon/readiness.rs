//! Health checks, and the completion of the start.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::backoff::{Backoff, random_unit};
use actors::cacher::{CacherHandle, Readiness};
use actors::supervisor::ActorSystem;
use actors::tasks;
use actors::watchdog::Watchdog;

use super::Conduct;
use super::encryption;
use super::service_manager::ServiceManager;
use super::stores::OpenEngines;
use crate::aggregation::availability::{AVAILABILITY_CACHES, AvailabilityMilestones};
use crate::aggregation::{Aggregation, Registrar};
use crate::api::status::Status;
use crate::config::Config;
use crate::controllers::kubernetes_service::KubernetesServiceController;
use crate::controllers::{
    Milestone, SystemConfigMaps, ensure_bootstrap_policy, ensure_system_namespaces,
    ensure_system_priority_classes, is_refused_by_rule,
};
use crate::custom_resources::Gate;
use crate::registry::hooks::HOOK_CACHES;
use crate::registry::{NodeAuthorizer, Registry};
use crate::server::health::{Check, Health, INFORMER_SYNC};
use crate::telemetry;

/// The caches that the daemon itself reads have begun to fill.
const INFORMERS: &str = "poststarthook/generic-apiserver-start-informers";
/// The caches that admission reads are filled.
const ADMISSION: &str = "poststarthook/start-apiserver-admission-initializer";
/// The cache of definitions is filled.
const DEFINITION_INFORMERS: &str = "poststarthook/start-apiextensions-informers";
/// The controller of definitions has read them, and begun to serve their resources.
const DEFINITION_CONTROLLERS: &str = "poststarthook/start-apiextensions-controllers";
/// The resources of all definitions are served.
const DEFINITIONS: &str = "poststarthook/crd-informer-synced";
/// The system namespaces exist.
const NAMESPACES: &str = "poststarthook/start-system-namespaces-controller";
/// The ConfigMap exists that publishes the client CAs.
const CLIENT_AUTHORITIES: &str = "poststarthook/start-cluster-authentication-info-controller";
/// The caches of all resources are filled.
const STORAGE: &str = "poststarthook/storage-readiness";
/// The ConfigMap exists that says since when the use of tokens is tracked.
const TOKEN_TRACKING: &str = "poststarthook/start-legacy-token-tracking-controller";
/// The addresses and ports of all Services were compared with what is allocated.
const REPAIR: &str = "poststarthook/start-service-ip-repair-controllers";
/// The roles and bindings of Kubernetes exist.
const ROLES: &str = "poststarthook/rbac/bootstrap-roles";
/// The system PriorityClasses exist.
const CLASSES: &str = "poststarthook/scheduling/bootstrap-system-priority-classes";
/// The `kubernetes` Service exists, and has its endpoints.
const SERVICE: &str = "poststarthook/bootstrap-controller";
/// The ServiceCIDR exists.
const RANGE: &str = "poststarthook/start-kubernetes-service-cidr-controller";
/// The caches of APIServices, Services and EndpointSlices are filled.
const AGGREGATOR_INFORMERS: &str = "poststarthook/start-kube-aggregator-informers";
/// The conditions of local APIServices were checked.
const LOCAL_AVAILABILITY: &str = "poststarthook/apiservice-status-local-available-controller";
/// The conditions of other APIServices are checked.
const REMOTE_AVAILABILITY: &str = "poststarthook/apiservice-status-remote-available-controller";
/// Requests are passed on by the APIServices that exist.
const REGISTRATION: &str = "poststarthook/apiservice-registration-controller";
/// Extensions are asked for their discovery documents.
const DISCOVERY: &str = "poststarthook/apiservice-discovery-controller";
/// The APIServices of built-in groups are written.
const AUTOREGISTRATION: &str = "poststarthook/kube-apiserver-autoregistration";
/// The APIServices of built-in groups are available.
const GROUPS: &str = "autoregister-completion";
/// Extensions are asked for their OpenAPI v2 documents.
const OPENAPI: &str = "poststarthook/apiservice-openapi-controller";
/// Extensions are asked for their OpenAPI v3 documents.
const OPENAPI_V3: &str = "poststarthook/apiservice-openapiv3-controller";

/// The steps of the start, with the names that kube-apiserver has for them, and in its order
/// (API-51). A step whose part is switched off is complete from the beginning, so that probes may
/// name each of them whatever the configuration.
const STEPS: [&str; 24] = [
    INFORMER_SYNC,
    ADMISSION,
    INFORMERS,
    DEFINITION_INFORMERS,
    DEFINITION_CONTROLLERS,
    DEFINITIONS,
    NAMESPACES,
    CLIENT_AUTHORITIES,
    STORAGE,
    TOKEN_TRACKING,
    REPAIR,
    ROLES,
    CLASSES,
    SERVICE,
    RANGE,
    AGGREGATOR_INFORMERS,
    LOCAL_AVAILABILITY,
    REMOTE_AVAILABILITY,
    REGISTRATION,
    DISCOVERY,
    AUTOREGISTRATION,
    GROUPS,
    OPENAPI,
    OPENAPI_V3,
];

/// The steps that a start tries once before it counts as started.
const TRIED: [&str; 6] = [
    NAMESPACES,
    CLASSES,
    AUTOREGISTRATION,
    SERVICE,
    CLIENT_AUTHORITIES,
    REPAIR,
];

/// The caches that plugins of admission read, in addition to those of hooks.
const PLUGIN_CACHES: [&str; 8] = [
    super::NAMESPACES,
    "limitranges",
    "resourcequotas",
    "serviceaccounts",
    "ingressclasses.networking.k8s.io",
    "priorityclasses.scheduling.k8s.io",
    "runtimeclasses.node.k8s.io",
    "storageclasses.storage.k8s.io",
];

/// The first pause before a step that failed is tried again, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];

/// Returns the health of the daemon: the standard checks, those of stores and encryption, and the
/// report on actors and threads in `/readyz?verbose`.
pub(super) fn health(
    stores: &OpenEngines,
    config: &Config,
    actor_system: &ActorSystem,
    watchdog: &Watchdog,
    conduct: Conduct,
) -> Arc<Health> {
    let (actors, parts) = (actor_system.clone(), watchdog.clone());
    let health = Health::new(checks(stores, config))
        .waiting_for(&STEPS)
        .with_liveness_grace(config.livez_grace_period.0)
        .telling(move || parts_report(&actors, &parts));
    health.set_serves_to_the_end(conduct.serves_to_the_end);
    Arc::new(health)
}

fn checks(stores: &OpenEngines, config: &Config) -> Vec<Check> {
    let log = Check::new("log", telemetry::log_health);
    let checks = std::iter::once(log).chain(stores.checks());
    checks.chain(encryption::check(config)).collect()
}

/// Returns the lines of `/readyz?verbose` about actors that do not work or were restarted, and
/// threads that do not respond.
fn parts_report(actor_system: &ActorSystem, watchdog: &Watchdog) -> Vec<String> {
    let actors = actor_system.state().actors.into_iter();
    let actors = actors.filter_map(|actor| {
        let (name, restarts) = (actor.name, actor.restarts);
        let state = match (actor.is_degraded, actor.ready) {
            (true, _) => "not at work, died too often and is left alone for a minute",
            (false, false) => "not at work",
            (false, true) if restarts == 0 => return None,
            (false, true) => "works",
        };
        Some(match restarts {
            0 => format!("{name} {state}"),
            _ => format!("{name} {state}, restarts: {restarts}"),
        })
    });
    let stalled = watchdog.stalled().into_iter();
    let stalled = stalled.map(|stall| format!("{} does not turn", stall.part));
    actors.chain(stalled).collect()
}

/// Completes a step when its part is ready. `None` means that the part is switched off.
fn complete_when(
    health: &Arc<Health>,
    step: &'static str,
    ready: Option<impl Future<Output = ()> + 'static>,
) {
    match ready {
        Some(ready) => {
            let health = Arc::clone(health);
            tasks::spawn_local(async move {
                ready.await;
                health.complete(step);
            });
        }
        None => health.complete(step),
    }
}

/// Completes the steps of definitions. `None` means that none are served.
pub(super) fn wait_for_definitions(
    health: &Arc<Health>,
    cacher: Option<CacherHandle>,
    gate: Option<Arc<Gate>>,
) {
    let filled = cacher.map(|cacher| async move {
        cacher.settled().await;
    });
    complete_when(health, DEFINITION_INFORMERS, filled);
    let of_gate = gate.clone();
    let begun = of_gate.map(|gate| async move { gate.begun().await });
    complete_when(health, DEFINITION_CONTROLLERS, begun);
    let opened = gate.map(|gate| async move { gate.opened().await });
    complete_when(health, DEFINITIONS, opened);
}

/// Completes the steps of local APIServices. `None` means that none are served.
pub(super) fn wait_for_registrar(health: &Arc<Health>, registrar: Option<Arc<Registrar>>) {
    let of_registrar = registrar.clone();
    let registered = of_registrar.map(|registrar| async move { registrar.registered().await });
    complete_when(health, AUTOREGISTRATION, registered);
    let reported = Arc::clone(health);
    let completed = registrar.map(|registrar| async move {
        let missing = |names: &[&str]| {
            reported.hold(GROUPS, format_args!("missing APIService: {names:?}"));
        };
        registrar.completed(missing).await;
    });
    complete_when(health, GROUPS, completed);
}

/// Completes the steps of the controller of availability, also if another daemon runs it. `None`
/// means that no daemon does.
pub(super) fn wait_for_availability(
    health: &Arc<Health>,
    milestones: Option<AvailabilityMilestones>,
    stands_by: &Milestone,
) {
    let either = |milestone: Milestone| {
        let stands_by = stands_by.clone();
        async move {
            tokio::select! {
                () = milestone.reached() => {}
                () = stands_by.reached() => {}
            }
        }
    };
    let (local, remote) = milestones.map(|all| (all.local, all.remote)).unzip();
    complete_when(health, LOCAL_AVAILABILITY, local.map(either));
    complete_when(health, REMOTE_AVAILABILITY, remote.map(either));
}

/// Completes the steps of the parts that pass requests on and ask extensions. `None` means that no
/// APIServices are served.
pub(super) fn wait_for_aggregation(health: &Arc<Health>, aggregation: Option<&Arc<Aggregation>>) {
    let reached = |milestone: Milestone| async move { milestone.reached().await };
    let begun = aggregation.map(|all| (all.discovered.begun.clone(), all.documents.begun.clone()));
    let (discovered, documents) = begun.unzip();
    complete_when(health, DISCOVERY, discovered.map(reached));
    // One question asks for both.
    complete_when(health, OPENAPI, documents.clone().map(reached));
    complete_when(health, OPENAPI_V3, documents.map(reached));
    let services = aggregation.map(|aggregation| Arc::clone(&aggregation.services));
    let filled = services.map(|services| async move {
        loop {
            let changed = services.cache().follow().changed();
            let has_stopped = services.cache().settled().await == Readiness::Stopped;
            if has_stopped || services.current().is_filled() {
                return;
            }
            changed.await;
        }
    });
    complete_when(health, REGISTRATION, filled);
}

/// A start in progress.
pub(super) struct Start {
    pub(super) actor_system: ActorSystem,
    pub(super) registry: Registry,
    /// The controller of the `kubernetes` Service.
    pub(super) service: KubernetesServiceController,
    pub(super) config_maps: SystemConfigMaps,
    pub(super) health: Arc<Health>,
    /// Reads caches, and is ready with them.
    pub(super) nodes: Option<NodeAuthorizer>,
    /// The time when the process started.
    pub(super) at: Instant,
    pub(super) config: Config,
    pub(super) service_manager: ServiceManager,
    /// Writes the local APIServices, if they are served.
    pub(super) registrar: Option<Arc<Registrar>>,
}

impl Start {
    /// Completes the start, and then maintains the `kubernetes` Service and the ConfigMaps. Steps
    /// that failed are tried again. The rights of nodes are followed all the time.
    pub(super) async fn run(self) {
        let nodes = self.nodes.clone();
        let followed = async {
            if let Some(nodes) = nodes {
                nodes.run().await;
            }
        };
        self.wait_for_caches();
        self.wait_for_milestones();
        let registry = self.registry.clone();
        let maintained = async {
            self.complete().await;
            tokio::join!(
                self.insist(NAMESPACES, || ensure_system_namespaces(&registry)),
                self.insist(CLASSES, || ensure_system_priority_classes(&registry)),
                self.service.clone().run(),
                self.config_maps.run(),
            );
        };
        tokio::join!(followed, maintained);
    }

    /// Completes the steps that are about caches, once these are filled.
    fn wait_for_caches(&self) {
        let filled = |names: Vec<&'static str>| {
            let cachers = names.into_iter();
            let cachers = cachers.filter_map(|name| self.actor_system.cacher(name));
            settled(cachers.collect())
        };
        let of_hooks = HOOK_CACHES.into_iter();
        let of_admission = of_hooks.chain(PLUGIN_CACHES).collect();
        let own = self.actor_system.cachers().into_iter();
        let own: Vec<CacherHandle> = own
            .filter(|cacher| super::is_followed(cacher.resource(), &self.config))
            .collect();
        self.health.complete(INFORMERS);
        complete_when(&self.health, INFORMER_SYNC, Some(settled(own)));
        complete_when(&self.health, ADMISSION, Some(filled(of_admission)));
        let of_aggregator = filled(AVAILABILITY_CACHES.to_vec());
        complete_when(&self.health, AGGREGATOR_INFORMERS, Some(of_aggregator));
    }

    /// Completes the steps of the parts that this start runs, when these have done them.
    fn wait_for_milestones(&self) {
        let of_service = &self.service.milestones;
        let of_maps = &self.config_maps;
        for (step, milestone) in [
            (RANGE, &of_service.range),
            (SERVICE, &of_service.service),
            (REPAIR, &of_service.repair),
            (TOKEN_TRACKING, &of_maps.tracks),
            (CLIENT_AUTHORITIES, &of_maps.has_published),
        ] {
            let milestone = milestone.clone();
            let reached = async move { milestone.reached().await };
            complete_when(&self.health, step, Some(reached));
        }
    }

    async fn make_roles(&self) {
        if self.config.rbac_bootstrap.0 {
            ensure_bootstrap_policy(&self.registry).await;
        }
        self.health.complete(ROLES);
    }

    /// Tries a step of the start once, and says why it failed.
    async fn attempt<T>(
        &self,
        step: &'static str,
        work: impl Future<Output = Result<T, Box<Status>>>,
    ) {
        match work.await {
            Ok(_) => self.health.complete(step),
            Err(status) if is_refused_by_rule(&status) => {
                tracing::warn!(step, %status, "a step of the start is refused by a rule");
                self.health.complete(step);
            }
            Err(status) => {
                tracing::warn!(step, %status, "a step of the start failed, retrying");
                self.health.hold(step, &status);
            }
        }
    }

    /// Tries a step of the start again until it is complete.
    async fn insist<T, W>(&self, step: &'static str, work: impl Fn() -> W)
    where
        W: Future<Output = Result<T, Box<Status>>>,
    {
        let [first, most] = PAUSES;
        let mut backoff = Backoff::new(first, most);
        while !self.health.is_complete(step) {
            tokio::time::sleep(backoff.failed(random_unit())).await;
            self.attempt(step, work()).await;
        }
    }

    /// Readiness waits at the start for the caches (WC-46), for system namespaces and
    /// PriorityClasses (API-262), for local APIServices (CN-8), and for the `kubernetes` Service. A
    /// cache that fills again later reports its own state.
    async fn complete(&self) {
        let patience = self.config.storage_initialization_timeout.0;
        let filled = self.actor_system.ready_within(patience).await;
        if let Some(nodes) = self.nodes.as_ref().filter(|_| filled.is_ok()) {
            let _ = tokio::time::timeout(patience, nodes.filled()).await;
        }
        self.health.complete(STORAGE);
        if let Err(unfilled) = &filled {
            for cache in unfilled {
                tracing::warn!(
                    cache,
                    "not filled within storage-initialization-timeout; its resource answers 429"
                );
            }
        }
        let registered = async {
            match &self.registrar {
                Some(registrar) => registrar.register_own().await,
                None => Ok(()),
            }
        };
        // They run concurrently, so that they share one disk sync.
        tokio::join!(
            self.attempt(NAMESPACES, ensure_system_namespaces(&self.registry)),
            self.attempt(CLASSES, ensure_system_priority_classes(&self.registry)),
            self.attempt(AUTOREGISTRATION, registered)
        );
        tokio::join!(
            self.make_roles(),
            self.attempt(SERVICE, self.service.keep()),
            self.attempt(CLIENT_AUTHORITIES, self.config_maps.keep()),
            self.attempt(REPAIR, self.service.repair())
        );
        self.health.complete_start();
        self.service_manager.ready();
        // Expiry begins only now, so that objects that expired while no daemon ran do not delay the
        // caches.
        self.actor_system.begin_expiry();
        let milliseconds = self.at.elapsed().as_millis() as u64;
        let mut missing = TRIED.to_vec();
        missing.retain(|step| !self.health.is_complete(step));
        match filled {
            Ok(()) if missing.is_empty() => {
                tracing::info!(milliseconds, "ready: every cache is filled");
            }
            Ok(()) => {
                tracing::warn!(
                    milliseconds,
                    ?missing,
                    "started; steps that failed are retried"
                );
            }
            Err(unfilled) => {
                let caches = unfilled.len();
                tracing::warn!(
                    milliseconds,
                    caches,
                    "ready, except for caches that are not filled"
                );
            }
        }
    }
}

/// Waits until each of these caches was filled once. One that nobody has used yet is not awaited.
async fn settled(cachers: Vec<CacherHandle>) {
    for cacher in cachers.iter().filter(|cacher| !cacher.is_unused()) {
        cacher.settled().await;
    }
}
