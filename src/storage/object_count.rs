//! Counts the objects of every resource, for the gauges that dashboards read (RG-14, ME-8 to
//! ME-10).

use std::sync::Arc;
use std::time::Duration;

use metrics::{Unit, describe_gauge, gauge};

use super::{Storage, StoredResource};

/// Registers units and help texts of these metrics.
pub fn describe() {
    describe_gauge!(
        "apiserver_storage_objects",
        "Objects stored, -1 when they can't be counted"
    );
    describe_gauge!(
        "apiserver_resource_objects",
        "Objects stored, -1 when they can't be counted"
    );
    describe_gauge!(
        "apiserver_resource_size_estimate_bytes",
        Unit::Bytes,
        "Bytes of the objects stored, -1 when they can't be estimated"
    );
}

/// Returns the stored resources that are served now, with their storages.
pub type Stores = Box<dyn Fn() -> Vec<(Arc<StoredResource>, Arc<dyn Storage>)> + Send>;

/// The pause after a count that missed some resources.
const RETRY: Duration = Duration::from_secs(1);

/// Counts the objects of all resources periodically.
pub struct ObjectCounter {
    /// The storages of all resources that are served now.
    pub stores: Stores,
    /// The time from one count to the next (SF-11). Zero turns counting off.
    pub period: Duration,
}

impl ObjectCounter {
    /// Counts at once and then periodically. Returns only when counting is off.
    pub async fn run(self) {
        if self.period.is_zero() {
            return;
        }
        loop {
            let mut is_complete = true;
            for (resource, storage) in (self.stores)() {
                is_complete &= count(&resource, &*storage).await;
            }
            let pause = match is_complete {
                true => self.period,
                // A cache that is being filled does not know its count yet.
                false => self.period.min(RETRY),
            };
            tokio::time::sleep(pause).await;
        }
    }
}

/// Counts one resource. Returns whether that was possible.
async fn count(resource: &StoredResource, storage: &dyn Storage) -> bool {
    let stats = storage.stats().await.ok();
    let objects = stats.map_or(-1.0, |stats| stats.object_count as f64);
    let bytes = match stats {
        Some(stats) if stats.object_count == 0 || stats.average_object_bytes > 0 => {
            (stats.object_count * stats.average_object_bytes) as f64
        }
        _ => -1.0,
    };
    let labels = [
        ("group", resource.group.clone()),
        ("resource", resource.plural.clone()),
    ];
    gauge!("apiserver_storage_objects", "resource" => resource.name.clone()).set(objects);
    gauge!("apiserver_resource_objects", &labels).set(objects);
    gauge!("apiserver_resource_size_estimate_bytes", &labels).set(bytes);
    stats.is_some()
}
