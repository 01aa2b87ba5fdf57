//! Health checks, and the completion of the start.

use std::sync::Arc;
use std::time::Instant;

use actors::supervisor::ActorSystem;
use actors::watchdog::Watchdog;

use super::Conduct;
use super::encryption;
use super::service_manager::ServiceManager;
use super::stores::OpenEngines;
use crate::aggregation::Registrar;
use crate::config::Config;
use crate::controllers::kubernetes_service::KubernetesServiceController;
use crate::controllers::{
    SystemConfigMaps, ensure_bootstrap_policy, ensure_system_namespaces,
    ensure_system_priority_classes,
};
use crate::custom_resources::Gate;
use crate::registry::{NodeAuthorizer, Registry};
use crate::server::health::{Check, Health};

/// The caches are filled.
const STORAGE: &str = "poststarthook/storage-readiness";
/// Every group is served.
const GROUPS: &str = "autoregister-completion";
/// The system namespaces exist.
const NAMESPACES: &str = "poststarthook/start-system-namespaces-controller";
/// The system PriorityClasses exist.
const CLASSES: &str = "poststarthook/scheduling/bootstrap-system-priority-classes";
/// The roles and bindings of Kubernetes exist.
const ROLES: &str = "poststarthook/rbac/bootstrap-roles";
/// The resources of all definitions are served.
const DEFINITIONS: &str = "poststarthook/crd-informer-synced";
/// The `kubernetes` Service exists.
const SERVICE: &str = "poststarthook/bootstrap-controller";
/// The ConfigMap exists that publishes the client CAs.
const CLIENT_AUTHORITIES: &str = "poststarthook/start-cluster-authentication-info-controller";

/// The steps of the start, with the names that kube-apiserver has for them (API-51).
const STEPS: [&str; 8] = [
    STORAGE,
    GROUPS,
    DEFINITIONS,
    NAMESPACES,
    CLASSES,
    ROLES,
    SERVICE,
    CLIENT_AUTHORITIES,
];

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
        .telling(move || parts_report(&actors, &parts));
    health.set_serves_to_the_end(conduct.serves_to_the_end);
    Arc::new(health)
}

fn checks(stores: &OpenEngines, config: &Config) -> Vec<Check> {
    // kube-apiserver checks that its log flushes. Here each thread writes its own lines, so the
    // check always passes.
    let log = Check::new("log", || Ok(()));
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

/// Takes note that custom resources are served, when they are.
pub(super) fn wait_for_definitions(health: &Arc<Health>, gate: Option<&Arc<Gate>>) {
    let (health, gate) = (Arc::clone(health), gate.cloned());
    actix_rt::spawn(async move {
        if let Some(gate) = gate {
            gate.opened().await;
        }
        health.complete(DEFINITIONS);
    });
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
    /// Completes the start, and then maintains the `kubernetes` Service and the ConfigMaps. The
    /// rights of nodes are followed all the time.
    pub(super) async fn run(self) {
        let nodes = self.nodes.clone();
        let followed = async {
            if let Some(nodes) = nodes {
                nodes.run().await;
            }
        };
        let maintained = async {
            self.complete().await;
            tokio::join!(self.service.run(), self.config_maps.run());
        };
        tokio::join!(followed, maintained);
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
        let (namespaces, classes, registered) = tokio::join!(
            ensure_system_namespaces(&self.registry),
            ensure_system_priority_classes(&self.registry),
            registered
        );
        self.health.complete(GROUPS);
        if let Err(status) = registered {
            tracing::warn!(%status, "local APIServices are missing; writing them is retried");
        }
        if self.config.rbac_bootstrap.0 {
            ensure_bootstrap_policy(&self.registry).await;
        }
        self.health.complete(ROLES);
        self.health.complete(NAMESPACES);
        self.health.complete(CLASSES);
        if let Err(status) = namespaces {
            tracing::warn!(
                %status,
                "system namespaces are missing; the namespace controller keeps trying"
            );
        }
        if let Err(status) = classes {
            tracing::warn!(%status, "system PriorityClasses are missing until the next start");
        }
        let (service, config_maps) = tokio::join!(self.service.keep(), self.config_maps.keep());
        self.health.complete(SERVICE);
        self.health.complete(CLIENT_AUTHORITIES);
        if let Err(status) = service {
            tracing::warn!(%status, "the kubernetes service is missing; creating it is retried");
        }
        if let Err(status) = config_maps {
            tracing::warn!(
                %status,
                "ConfigMaps of kube-system are missing; creating them is retried"
            );
        }
        self.health.complete_start();
        self.service_manager.ready();
        // Expiry begins only now, so that objects that expired while no daemon ran do not delay the
        // caches.
        self.actor_system.begin_expiry();
        let milliseconds = self.at.elapsed().as_millis() as u64;
        match filled {
            Ok(()) => tracing::info!(milliseconds, "ready: every cache is filled"),
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
