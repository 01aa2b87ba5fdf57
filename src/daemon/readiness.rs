//! Health checks, and when the start is complete.

use std::sync::Arc;
use std::time::Instant;

use actors::supervisor::ActorSystem;
use actors::watchdog::Watchdog;

use super::stores::OpenEngines;
use super::{encryption, options, service_manager};
use crate::config::Config;
use crate::controllers::kubernetes_service::KubernetesServiceController;
use crate::controllers::{
    SystemConfigMaps, ensure_default_account, ensure_system_namespaces,
    ensure_system_priority_classes,
};
use crate::registry::Registry;
use crate::server::health::{Check, Health};

/// The caches are filled.
const STORAGE: &str = "poststarthook/storage-readiness";
/// Every group is served.
const GROUPS: &str = "autoregister-completion";
/// The namespaces of the system are there.
const NAMESPACES: &str = "poststarthook/start-system-namespaces-controller";
/// Its PriorityClasses are.
const CLASSES: &str = "poststarthook/scheduling/bootstrap-system-priority-classes";
/// The Service of the API is.
const SERVICE: &str = "poststarthook/bootstrap-controller";
/// The ConfigMap is that tells others whom to believe.
const CLIENT_AUTHORITIES: &str = "poststarthook/start-cluster-authentication-info-controller";

/// The parts of the start, by the names that kube-apiserver has for them (API-51).
const STEPS: [&str; 6] = [
    STORAGE,
    GROUPS,
    NAMESPACES,
    CLASSES,
    SERVICE,
    CLIENT_AUTHORITIES,
];

/// The health of the daemon: the standard checks, those of the stores and of encryption, and what
/// `/readyz?verbose` tells besides.
pub(super) fn health(
    stores: &OpenEngines,
    config: &Config,
    actor_system: &ActorSystem,
    watchdog: &Watchdog,
) -> Arc<Health> {
    let (actors, parts) = (actor_system.clone(), watchdog.clone());
    let health = Health::new(checks(stores, config))
        .waiting_for(&STEPS)
        .telling(move || told_of_parts(&actors, &parts));
    Arc::new(health)
}

fn checks(stores: &OpenEngines, config: &Config) -> Vec<Check> {
    // Lines are written by whoever has them, so nothing can hold them up.
    let log = Check::new("log", || Ok(()));
    let checks = std::iter::once(log).chain(stores.checks());
    checks.chain(encryption::check(config)).collect()
}

/// What `/readyz?verbose` tells of actors that do not work or were restarted, and of threads that
/// do not turn.
fn told_of_parts(actor_system: &ActorSystem, watchdog: &Watchdog) -> Vec<String> {
    let actors = actor_system.state().actors.into_iter();
    let actors = actors.filter_map(|actor| {
        let (name, restarts) = (actor.name, actor.restarts);
        let told = match (actor.is_degraded, actor.ready) {
            (true, _) => "not at work, died too often and is left alone for a minute",
            (false, false) => "not at work",
            (false, true) if restarts == 0 => return None,
            (false, true) => "works",
        };
        Some(match restarts {
            0 => format!("{name} {told}"),
            _ => format!("{name} {told}, restarts: {restarts}"),
        })
    });
    let stalled = watchdog.stalled().into_iter();
    let stalled = stalled.map(|stall| format!("{} does not turn", stall.part));
    actors.chain(stalled).collect()
}

/// A start that is not complete.
pub(super) struct Start {
    pub(super) actor_system: ActorSystem,
    pub(super) registry: Registry,
    /// The Service of the API.
    pub(super) service: KubernetesServiceController,
    pub(super) config_maps: SystemConfigMaps,
    pub(super) health: Arc<Health>,
    /// When the process started.
    pub(super) at: Instant,
    pub(super) config: Config,
}

impl Start {
    /// Completes the start, and keeps the Service of the API and the ConfigMaps from then on.
    pub(super) async fn run(self) {
        self.complete().await;
        tokio::join!(self.service.run(), self.config_maps.run());
    }

    /// Readiness waits for the caches at the start (WC-46) for the system namespaces and
    /// PriorityClasses (API-262), and for the Service of the API.
    /// A cache that fills again later reports its own state.
    async fn complete(&self) {
        self.health.complete(GROUPS);
        let patience = self.config.storage_initialization_timeout.0;
        let filled = self.actor_system.ready_within(patience).await;
        self.health.complete(STORAGE);
        if let Err(unfilled) = &filled {
            for cache in unfilled {
                tracing::warn!(
                    cache,
                    "not filled within storage-initialization-timeout; its resource answers 429"
                );
            }
        }
        let (namespaces, classes) = tokio::join!(
            ensure_system_namespaces(&self.registry),
            ensure_system_priority_classes(&self.registry)
        );
        self.health.complete(NAMESPACES);
        self.health.complete(CLASSES);
        if let Err(status) = namespaces {
            tracing::warn!(%status, "system namespaces are missing; the namespace controller keeps trying");
        }
        if let Err(status) = classes {
            tracing::warn!(%status, "system PriorityClasses are missing until the next start");
        }
        if options::has_default_account(&self.config)
            && let Err(status) = ensure_default_account(&self.registry).await
        {
            tracing::warn!(%status, "the account default is missing until the next start");
        }
        let (service, config_maps) = tokio::join!(self.service.keep(), self.config_maps.keep());
        self.health.complete(SERVICE);
        self.health.complete(CLIENT_AUTHORITIES);
        if let Err(status) = service {
            tracing::warn!(%status, "the service of the API is missing; it is tried again");
        }
        if let Err(status) = config_maps {
            tracing::warn!(%status, "ConfigMaps of kube-system are missing; it is tried again");
        }
        self.health.complete_start();
        service_manager::ready();
        // Objects that expired while no daemon ran do not delay the caches.
        self.actor_system.begin_expiry();
        let milliseconds = self.at.elapsed().as_millis() as u64;
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
}
