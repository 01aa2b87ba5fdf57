//! Custom resources: the loops over CustomResourceDefinitions, and the resources that follow from
//! them (crd.md 3 and 4).
//!
//! This folder owns the decisions about names and conditions, the resource that is made from a
//! definition, and one controller that follows the definitions in their watch cache. The controller
//! writes their status, has their resources served ([`Serving`]), and deletes the objects of
//! deleted definitions. It runs on every daemon: what it writes follows from the definitions alone,
//! is bound to the version that it was computed from, and is not written if it changes nothing. So
//! daemons and kube-apiservers on one store agree without a leader. The folder must not know HTTP,
//! storage engines, or how a resource is cached.

mod cleanup;
mod controller;
pub mod conversion;
mod definition;
mod entry;
mod form;
mod gate;
mod kind;
mod leftovers;
mod life;
mod made;
mod names;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use actors::cacher::CacherHandle;
use actors::tasks::{self, Pausable, Running, until_stopped};
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::registry::{DefinedVersions, Registry, RegistryStore};

use controller::Controller;
pub use gate::Gate;
pub use made::Made;

/// The resource of definitions.
const DEFINITIONS: [&str; 3] = ["apiextensions.k8s.io", "v1", "customresourcedefinitions"];

/// A resource to serve, in addition to others or instead of its former state.
pub struct ToServe {
    /// The resource.
    pub made: Made,
    /// Whether the watches of its former state end.
    pub ends_watches: bool,
}

/// Serves custom resources.
pub trait Serving: Send + Sync {
    /// Serves resources in one generation. One whose used cache must hold other texts than before
    /// is served when the new cache is full. Returns the outcomes in order.
    fn serve(&self, resources: Vec<ToServe>) -> BoxFuture<'static, Vec<Result<(), String>>>;

    /// Ends the serving of a resource, of this group and plural, and removes its cache.
    fn withdraw(&self, group: &str, plural: &str) -> BoxFuture<'static, Result<(), String>>;

    /// Returns a store of the resource with this name, whether or not any version is served.
    fn store(&self, name: &str) -> Option<Arc<RegistryStore>>;

    /// Returns whether a group is built in, so that it hides custom resources (CRD-104).
    fn is_built_in(&self, group: &str) -> bool;
}

/// The dependencies of the loops.
#[derive(Clone)]
pub struct Setup {
    /// The resources.
    pub registry: Registry,
    /// The cache of the definitions.
    pub definitions: CacherHandle,
    /// Serves what follows from them.
    pub serving: Arc<dyn Serving>,
    /// Ends the deletion of objects, and lets none begin.
    pub pause: DeletionPause,
    /// Gets the group versions that definitions serve.
    pub defined: Arc<DefinedVersions>,
}

/// Pauses the deletion of the objects of definitions. Clones pause the same loops, on whose thread
/// they must be used.
#[derive(Clone, Default)]
pub struct DeletionPause {
    is_paused: watch::Sender<bool>,
}

impl DeletionPause {
    /// Does work while no object is deleted. Deletions that were under way are abandoned before,
    /// and begin again afterwards if a definition still demands them.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        self.is_paused.send_replace(true);
        let done = work.await;
        self.is_paused.send_replace(false);
        done
    }

    /// Whether no deletion may begin.
    fn is_on(&self) -> bool {
        *self.is_paused.borrow()
    }

    /// Carries out a deletion; `None` if it was abandoned.
    async fn unless_on<T>(&self, deletion: impl Future<Output = T>) -> Option<T> {
        let mut is_paused = self.is_paused.subscribe();
        tokio::select! {
            // The pause is looked at first, so the deletion does no further step once it is on.
            biased;
            _ = is_paused.wait_for(|is_paused| *is_paused) => None,
            done = deletion => Some(done),
        }
    }
}

/// A handle of the running loops.
pub struct CustomResources {
    gate: Arc<Gate>,
    running: Pausable,
}

impl CustomResources {
    /// Starts the loops on the calling thread's runtime. `None` if definitions are not served.
    pub fn start(setup: Setup) -> Option<CustomResources> {
        let [group, version, plural] = DEFINITIONS;
        let store = setup.registry.current().find(group, version, plural)?;
        let gate = Arc::new(Gate::new(Arc::clone(&store), setup.definitions.clone()));
        let controllers = supervised(setup, store, Arc::clone(&gate));
        let first = Running::start(|stopped| tasks::spawn(until_stopped(stopped, controllers)));
        let running = Pausable::new("the task of the loops over definitions", first);
        Some(CustomResources { gate, running })
    }

    /// Returns the gate at which requests to unknown paths wait.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Stops the loops.
    pub async fn stop(&self) {
        self.running.stop().await;
    }
}

/// Runs a controller, and a new one when it fails.
async fn supervised(setup: Setup, store: Arc<RegistryStore>, gate: Arc<Gate>) {
    use actors::backoff::{Backoff, random_unit};
    use std::time::Duration;
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
    loop {
        let controller = Controller::new(&setup, Arc::clone(&store), Arc::clone(&gate));
        let running = tasks::spawn(controller.run());
        let aborted = AbortOnDrop(running.abort_handle());
        let Err(failure) = running.await else {
            return;
        };
        drop(aborted);
        let wait = backoff.failed(random_unit());
        tracing::error!(%failure, ?wait, "the loops over definitions failed and are restarted");
        tokio::time::sleep(wait).await;
    }
}

/// Stops a task with the one that waits for it.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
