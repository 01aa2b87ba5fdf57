//! Controllers for a store without a controller manager (API-225, API-262).
//!
//! This folder owns the emptying of deleted namespaces, the creation of the system namespaces, the
//! collection of objects without owners, and the election of the daemon that does it. It reads
//! snapshots and events of watch caches, and sends requests to the registry. The tasks keep no
//! state that the caches can't show again, so they may stop or fail at any point. Only one of
//! several daemons on a store works at a time ([`Sharing`]). This folder must not know HTTP or
//! storage engines.

use std::sync::Arc;
use std::time::Duration;

use actors::backoff::{Backoff, random_unit};
use actors::cacher::CacherHandle;
use actors::tasks::{self, Pausable, Running};
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::registry::Registry;

mod bootstrap_policy;
mod cache_changes;
mod cluster_role_aggregation;
mod extensions;
mod garbage_collector;
pub mod kubernetes_service;
mod leader_election;
mod leader_elector;
pub mod master_leases;
mod metrics;
mod milestone;
mod namespace_conditions;
mod namespace_controller;
mod namespaced_resources_deleter;
mod policy_status;
mod service_accounts;
mod simulation;
mod system_config_maps;
mod system_objects;
mod volume_protection;
pub mod work_queue;

pub use bootstrap_policy::ensure_bootstrap_policy;
use cluster_role_aggregation::ClusterRoleAggregationController;
pub use extensions::Extensions;
pub use garbage_collector::Caches;
use garbage_collector::GarbageCollector;
use leader_elector::LeaderElector;
pub use milestone::{Milestone, is_refused_by_rule};
pub use namespace_conditions::{RemainingContent, RemainingObjects};
use namespace_controller::NamespaceController;
use policy_status::PolicyStatusController;
pub use service_accounts::Provisions;
use service_accounts::ServiceAccountsController;
pub use simulation::Simulation;
use simulation::SimulationController;
pub use system_config_maps::{ClientAuthentication, SystemConfigMaps};
pub use system_objects::{ensure_system_namespaces, ensure_system_priority_classes};
pub use volume_protection::Protections;
use volume_protection::VolumeProtectionController;

/// Registers the unit and help text of the controllers' metrics.
pub fn describe_metrics() {
    leader_elector::describe();
    metrics::describe();
}

/// The handle of the running controllers.
pub struct Controllers {
    setup: Setup,
    sharing: Sharing,
    running: Pausable,
}

/// Whether other daemons work on the same store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only this daemon uses the store.
    Alone,
    /// Other daemons use the store too. The holder of a Lease in `kube-system` does the work.
    WithOthers {
        /// This daemon's unique name.
        identity: String,
    },
}

/// How long after its deletion kube-controller-manager begins to empty a namespace. With other
/// daemons on the store this one waits as long: by then all of them have seen the deletion and
/// create nothing in the namespace.
pub const NAMESPACE_DELETION_GRACE: Duration = Duration::from_secs(5);

/// The dependencies of the controllers, and which of them run.
#[derive(Clone)]
pub struct Setup {
    /// The resources.
    pub registry: Registry,
    /// The cache of the namespaces in the registry.
    pub namespaces: CacherHandle,
    /// The caches of the other resources.
    pub caches: Caches,
    /// Whether deleted namespaces are emptied here. The system namespaces are created in any case.
    pub empties_namespaces: bool,
    /// The extensions at which namespaces are emptied, too. `None` if there can be none.
    pub extensions: Option<Arc<dyn Extensions>>,
    /// How long after their deletion namespaces are emptied. It is at least
    /// [`NAMESPACE_DELETION_GRACE`] if other daemons use the store.
    pub namespace_grace: Duration,
    /// Whether objects without owners are deleted here.
    pub collects_garbage: bool,
    /// Whether aggregated ClusterRoles get their rules here.
    pub aggregates_roles: bool,
    /// Whether the expressions of admission policies are checked by types here.
    pub checks_policies: bool,
    /// The objects to create so that pods can run under accounts.
    pub provisions: Provisions,
    /// The kinds of volume objects whose finalizers are removed here.
    pub protections: Protections,
    /// The parts of a cluster that are simulated here.
    pub simulation: Simulation,
    /// Controllers of other parts.
    pub further: Vec<Arc<dyn FurtherController>>,
    /// Reached once another daemon of those on the store runs the controllers.
    pub stands_by: Milestone,
}

/// A controller of another part of the daemon. It runs where the others run, and while they do.
pub trait FurtherController: Send + Sync {
    /// Its name in the log.
    fn name(&self) -> &'static str;

    /// Starts it. It works until it is stopped, and starts again after a failure.
    fn start(&self, stopped: watch::Receiver<bool>) -> JoinHandle<()>;
}

impl Setup {
    /// The same setup with these parts of a cluster simulated, in which namespaces are emptied at
    /// least this long after their deletion.
    pub fn in_host(self, simulation: Simulation, grace: Duration) -> Setup {
        Setup {
            simulation,
            ..self.with_namespace_grace(grace)
        }
    }

    fn with_namespace_grace(self, grace: Duration) -> Setup {
        Setup {
            namespace_grace: self.namespace_grace.max(grace),
            ..self
        }
    }
}

impl Controllers {
    /// Starts the tasks on the calling thread's runtime.
    pub fn start(setup: Setup, sharing: Sharing) -> Controllers {
        let first = run(setup.clone(), sharing.clone());
        let running = Pausable::new("the task of the controllers", first);
        Controllers {
            setup,
            sharing,
            running,
        }
    }

    /// Stops the tasks after their current step.
    pub async fn stop(&self) {
        self.running.stop().await;
    }

    /// Does work while no controller writes. They begin again from the caches afterwards, unless
    /// they have been stopped.
    pub async fn pause<T>(&self, work: impl Future<Output = T>) -> T {
        let again = || run(self.setup.clone(), self.sharing.clone());
        self.running.pause(work, again).await
    }
}

/// Starts the task that runs the controllers.
fn run(setup: Setup, sharing: Sharing) -> Running {
    Running::start(|stopped| match sharing {
        Sharing::Alone => tasks::spawn(run_all(setup, stopped)),
        Sharing::WithOthers { identity } => {
            let electing = setup.registry.clone();
            let stands_by = setup.stands_by.clone();
            let setup = setup.with_namespace_grace(NAMESPACE_DELETION_GRACE);
            let work = move |stopped| tasks::spawn(run_all(setup.clone(), stopped));
            let elector = LeaderElector::new(electing, identity, Box::new(work), stands_by);
            tasks::spawn(elector.run(stopped))
        }
    })
}

/// Runs the controllers until they are stopped.
async fn run_all(setup: Setup, stopped: watch::Receiver<bool>) {
    let namespaces = || {
        let controller = NamespaceController::new(
            setup.registry.clone(),
            setup.extensions.clone(),
            setup.namespaces.clone(),
            setup.empties_namespaces.then_some(setup.namespace_grace),
            stopped.clone(),
        );
        tasks::spawn(controller.run())
    };
    let collector = || {
        let (registry, caches) = (setup.registry.clone(), setup.caches.clone());
        let collector = GarbageCollector::new(registry, caches, stopped.clone());
        tasks::spawn(collector.run())
    };
    let collecting = async {
        if setup.collects_garbage {
            supervise("the garbage collector", collector, stopped.clone()).await;
        }
    };
    let accounts = || {
        let (registry, caches) = (setup.registry.clone(), setup.caches.clone());
        let provisions = setup.provisions.clone();
        let controller =
            ServiceAccountsController::new(registry, caches, provisions, stopped.clone());
        tasks::spawn(controller.run())
    };
    let providing = async {
        if !setup.provisions.is_empty() {
            let name = "the controller of service accounts";
            supervise(name, accounts, stopped.clone()).await;
        }
    };
    let protection = || {
        let (registry, caches) = (setup.registry.clone(), setup.caches.clone());
        let (protections, stopped) = (setup.protections, stopped.clone());
        let controller = VolumeProtectionController::new(registry, caches, protections, stopped);
        tasks::spawn(controller.run())
    };
    let protecting = async {
        if !setup.protections.is_empty() {
            let name = "the controller of the protection of volumes";
            supervise(name, protection, stopped.clone()).await;
        }
    };
    let aggregation = || {
        let (registry, caches) = (setup.registry.clone(), setup.caches.clone());
        let controller = ClusterRoleAggregationController::new(registry, caches, stopped.clone());
        tasks::spawn(controller.run())
    };
    let aggregating = async {
        if setup.aggregates_roles {
            let name = "the controller of aggregated ClusterRoles";
            supervise(name, aggregation, stopped.clone()).await;
        }
    };
    let policies = || {
        let (registry, caches) = (setup.registry.clone(), setup.caches.clone());
        let controller = PolicyStatusController::new(registry, caches, stopped.clone());
        tasks::spawn(controller.run())
    };
    let checking = async {
        if setup.checks_policies {
            let name = "the controller of the status of policies";
            supervise(name, policies, stopped.clone()).await;
        }
    };
    let simulation = || {
        let (registry, caches) = (setup.registry.clone(), setup.caches.clone());
        let (simulation, stopped) = (setup.simulation, stopped.clone());
        let controller = SimulationController::new(registry, caches, simulation, stopped);
        tasks::spawn(controller.run())
    };
    let simulating = async {
        if !setup.simulation.is_empty() {
            supervise("the simulation of a cluster", simulation, stopped.clone()).await;
        }
    };
    let further = setup.further.iter().map(|one| {
        let start = || one.start(stopped.clone());
        supervise(one.name(), start, stopped.clone())
    });
    tokio::join!(
        join_all(further),
        checking,
        simulating,
        supervise("the namespace controller", namespaces, stopped.clone()),
        collecting,
        aggregating,
        providing,
        protecting
    );
}

/// Restarts a controller when it fails, until it is stopped.
async fn supervise(
    name: &str,
    start: impl Fn() -> JoinHandle<()>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
    loop {
        let failure = match start().await {
            Ok(()) => return,
            Err(failure) => failure,
        };
        let wait = backoff.failed(random_unit());
        tracing::error!(%failure, ?wait, "{name} failed and is restarted");
        if tokio::time::timeout(wait, stopped.wait_for(|stopped| *stopped))
            .await
            .is_ok()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
