//! Counting what is stored, for the gauges that boards read (RG-14, ME-8 to ME-11).

use std::sync::Arc;
use std::time::Duration;

use actors::engine::MaintenanceEngine;
use metrics::{Unit, describe_gauge, gauge};

use super::Storage;
use crate::api::resource::ResourceDefinition;

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
}

/// Tells the resources that are served now, and their storages.
pub type Stores = Box<dyn Fn() -> Vec<(Arc<ResourceDefinition>, Arc<dyn Storage>)> + Send>;

/// When resources that could not be counted are counted again.
const RETRY: Duration = Duration::from_secs(1);

/// What is counted, and how often.
pub struct Census {
    /// The stores of all resources that are served now.
    pub stores: Stores,
    /// From one count to the next (SF-11); zero is never.
    pub period: Duration,
}

impl Census {
    /// Counts at once and then again and again; comes back only when nothing is to be counted.
    pub async fn run(self) {
        if self.period.is_zero() {
            return;
        }
        loop {
            let mut is_complete = true;
            for (definition, storage) in (self.stores)() {
                is_complete &= count(&definition, &*storage).await;
            }
            let pause = match is_complete {
                true => self.period,
                // A cache that is being filled can't tell yet.
                false => self.period.min(RETRY),
            };
            tokio::time::sleep(pause).await;
        }
    }
}

/// The lines of a page of metrics that say how large the stores are now. The engines have the
/// names that metrics give them: `etcd-0` and so on, `embedded`; one that does not know its size,
/// as an etcd that does not answer, has no line (ME-11).
pub fn sizes(engines: &[(String, Arc<dyn MaintenanceEngine>)]) -> String {
    const NAME: &str = "apiserver_storage_size_bytes";
    let mut text = format!(
        "# HELP {NAME} Bytes that the store takes on disk: of its file's blocks, or of etcd's \
         database\n# TYPE {NAME} gauge\n"
    );
    for (name, engine) in engines {
        let bytes = engine.stats().file_bytes;
        if bytes > 0 {
            text += &format!("{NAME}{{storage_cluster_id=\"{name}\"}} {bytes}\n");
        }
    }
    text
}

/// Whether the resource could be counted.
async fn count(definition: &ResourceDefinition, storage: &dyn Storage) -> bool {
    let stats = storage.stats().await.ok();
    let objects = stats.map_or(-1.0, |stats| stats.object_count as f64);
    let bytes = match stats {
        Some(stats) if stats.object_count == 0 || stats.average_object_bytes > 0 => {
            (stats.object_count * stats.average_object_bytes) as f64
        }
        _ => -1.0,
    };
    let labels = [
        ("group", definition.group.clone()),
        ("resource", definition.plural.clone()),
    ];
    gauge!("apiserver_storage_objects", "resource" => definition.qualified()).set(objects);
    gauge!("apiserver_resource_objects", &labels).set(objects);
    gauge!("apiserver_resource_size_estimate_bytes", &labels).set(bytes);
    stats.is_some()
}

#[cfg(test)]
mod tests {
    use actors::engine::MemoryEngine;

    use super::*;
    use crate::storage::embedded::{EmbeddedEngine, EmbeddedOptions};

    #[test]
    fn a_store_that_does_not_know_its_size_has_no_line_me_11() {
        let directory = tempfile::tempdir().unwrap();
        let embedded = EmbeddedEngine::open(EmbeddedOptions::new(directory.path())).unwrap();
        let engines: [(String, Arc<dyn MaintenanceEngine>); 2] = [
            ("etcd-0".to_owned(), MemoryEngine::new()),
            ("embedded".to_owned(), embedded),
        ];
        let text = sizes(&engines);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let [line] = lines[..] else {
            panic!("{text}");
        };
        let size =
            line.strip_prefix(r#"apiserver_storage_size_bytes{storage_cluster_id="embedded"} "#);
        assert!(size.unwrap().parse::<u64>().unwrap() > 1000, "{text}");
        assert!(text.contains("# TYPE apiserver_storage_size_bytes gauge\n"));
    }
}
