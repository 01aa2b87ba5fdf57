//! The parts of the daemon that write by themselves: the controllers, and the loops over
//! definitions.

use std::sync::Arc;

use actors::tasks::Pausable;

use super::custom;
use super::readiness;
use super::resources::Resources;
use crate::aggregation::{ApiServices, Registrar, local};
use crate::controllers::{Controllers, Setup, Sharing};
use crate::custom_resources::{CustomResources, DeletionPause};
use crate::registry::{Completeness, DefinedVersions};
use crate::server::health::Health;

/// The running parts.
pub(super) struct Writers {
    controllers: Controllers,
    /// `None` if definitions are not served.
    custom_resources: Option<CustomResources>,
    deletions: DeletionPause,
    /// The registrar of local APIServices and its task. `None` if APIServices are not served.
    registrar: Option<(Arc<Registrar>, Pausable)>,
}

impl Writers {
    /// Starts them on the calling thread.
    pub(super) fn start(
        resources: &Resources,
        health: &Arc<Health>,
        setup: Setup,
        sharing: Sharing,
        services: Option<&Arc<ApiServices>>,
    ) -> Arc<Writers> {
        let deletions = DeletionPause::default();
        let defined: Arc<DefinedVersions> = Arc::default();
        let custom_resources = custom::start(resources, health, deletions.clone(), &defined);
        let registrar = services.and_then(|services| {
            let registrar = Registrar::new(local::Setup {
                registry: setup.registry.clone(),
                services: Arc::clone(services),
                defined,
                completeness: custom::gate(custom_resources.as_ref()),
            });
            let registrar = Arc::new(registrar?);
            let running = Pausable::new("the registrar of local APIServices", registrar.run());
            Some((registrar, running))
        });
        let waited = registrar.as_ref().map(|(registrar, _)| registrar);
        readiness::wait_for_registrar(health, waited.cloned());
        Arc::new(Writers {
            custom_resources,
            controllers: Controllers::start(setup, sharing),
            deletions,
            registrar,
        })
    }

    /// Returns the registrar of local APIServices.
    pub(super) fn registrar(&self) -> Option<&Arc<Registrar>> {
        self.registrar.as_ref().map(|(registrar, _)| registrar)
    }

    /// Returns the gate at which requests to unknown paths wait.
    pub(super) fn gate(&self) -> Option<Arc<dyn Completeness>> {
        custom::gate(self.custom_resources.as_ref())
    }

    /// Does work while none of them writes. They begin again from the caches afterwards.
    pub(super) async fn pause<T>(&self, work: impl Future<Output = T>) -> T {
        let work = self.deletions.during(work);
        let work = async {
            match &self.registrar {
                Some((registrar, running)) => running.pause(work, || registrar.run()).await,
                None => work.await,
            }
        };
        self.controllers.pause(work).await
    }

    /// Stops them after their current step.
    pub(super) async fn stop(&self) {
        if let Some(custom_resources) = &self.custom_resources {
            custom_resources.stop().await;
        }
        if let Some((_, running)) = &self.registrar {
            running.stop().await;
        }
        self.controllers.stop().await;
    }
}
