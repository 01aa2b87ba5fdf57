//! The parts of the daemon that write by themselves: the controllers, and the loops over
//! definitions.

use std::sync::Arc;

use super::custom;
use super::resources::Resources;
use crate::controllers::{Controllers, Setup, Sharing};
use crate::custom_resources::{CustomResources, DeletionPause};
use crate::registry::Completeness;
use crate::server::health::Health;

/// The running parts.
pub(super) struct Writers {
    controllers: Controllers,
    /// `None` if definitions are not served.
    custom_resources: Option<CustomResources>,
    deletions: DeletionPause,
}

impl Writers {
    /// Starts them on the calling thread.
    pub(super) fn start(
        resources: &Resources,
        health: &Arc<Health>,
        setup: Setup,
        sharing: Sharing,
    ) -> Arc<Writers> {
        let deletions = DeletionPause::default();
        Arc::new(Writers {
            custom_resources: custom::start(resources, health, deletions.clone()),
            controllers: Controllers::start(setup, sharing),
            deletions,
        })
    }

    /// Returns the gate at which requests to unknown paths wait.
    pub(super) fn gate(&self) -> Option<Arc<dyn Completeness>> {
        custom::gate(self.custom_resources.as_ref())
    }

    /// Does work while none of them writes. They begin again from the caches afterwards.
    pub(super) async fn pause<T>(&self, work: impl Future<Output = T>) -> T {
        self.controllers.pause(self.deletions.during(work)).await
    }

    /// Stops them after their current step.
    pub(super) async fn stop(&self) {
        if let Some(custom_resources) = &self.custom_resources {
            custom_resources.stop().await;
        }
        self.controllers.stop().await;
    }
}
