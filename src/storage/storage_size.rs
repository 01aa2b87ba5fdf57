//! The size of each store on disk, as lines of the metrics page (ME-11).

use std::sync::Arc;

use actors::engine::MaintenanceEngine;

/// Returns the lines of the metrics page with the current sizes of the stores. Each engine has its
/// name in metrics: `etcd-0` and so on, or `embedded`. An engine whose size is unknown, such as an
/// etcd that does not answer, has no line (ME-11).
pub fn metric_lines(engines: &[(String, Arc<dyn MaintenanceEngine>)]) -> String {
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
        let text = metric_lines(&engines);
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
