//! Counting what is stored, for the gauges that boards read (RG-14, ME-8 to ME-11).

use std::sync::Arc;
use std::time::Duration;

use actors::engine::Engine;
use metrics::{Unit, describe_gauge, gauge};

use super::Storage;
use crate::api::resource::ResourceDefinition;

/// How often is counted (SF-11).
pub const PERIOD: Duration = Duration::from_secs(60);

/// Gives every metric of this module its unit and help text.
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
    describe_gauge!(
        "apiserver_storage_size_bytes",
        Unit::Bytes,
        "Bytes of the blocks that the store's file takes on disk"
    );
}

/// Counts at once and then every [`PERIOD`]; never returns.
pub async fn run(
    stores: Vec<(&'static ResourceDefinition, Arc<dyn Storage>)>,
    engine: Arc<dyn Engine>,
) {
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        for (definition, storage) in &stores {
            count(definition, &**storage).await;
        }
        gauge!("apiserver_storage_size_bytes", "storage_cluster_id" => "embedded")
            .set(engine.stats().file_bytes as f64);
    }
}

async fn count(definition: &'static ResourceDefinition, storage: &dyn Storage) {
    let stats = storage.stats().await.ok();
    let objects = stats.map_or(-1.0, |stats| stats.object_count as f64);
    let bytes = match stats {
        Some(stats) if stats.object_count == 0 || stats.average_object_bytes > 0 => {
            (stats.object_count * stats.average_object_bytes) as f64
        }
        _ => -1.0,
    };
    let labels = [("group", definition.group), ("resource", definition.plural)];
    gauge!("apiserver_storage_objects", "resource" => definition.qualified()).set(objects);
    gauge!("apiserver_resource_objects", &labels).set(objects);
    gauge!("apiserver_resource_size_estimate_bytes", &labels).set(bytes);
}
