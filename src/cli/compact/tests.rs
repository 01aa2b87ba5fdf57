//! Compaction with and without a daemon.

use super::*;
use crate::auth::{load_or_create_token, write_kubeconfig};
use crate::config::FilePath;

fn config(folder: &std::path::Path) -> Config {
    Config {
        data_dir: FilePath::from(folder),
        ..Config::default()
    }
}

fn refuses(_: &Config) -> Result<Arc<dyn Engine>, String> {
    Err("somebody has the directory".to_owned())
}

#[test]
fn without_a_daemon_the_directory_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = compact(&config(folder.path()), &[], refuses).unwrap_err();
    assert_eq!(refusal, "somebody has the directory");
}

#[test]
fn a_kubeconfig_that_points_to_nobody_counts_as_no_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let token = load_or_create_token(folder.path()).unwrap();
    // A port that was just free.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    write_kubeconfig(folder.path(), address, "PEM", &token).unwrap();
    let refusal = compact(&config(folder.path()), &[], refuses).unwrap_err();
    assert_eq!(refusal, "somebody has the directory");
}

#[test]
fn a_store_in_memory_and_a_missing_directory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Config {
        storage_backend: StorageBackend::Memory,
        ..config(folder.path())
    };
    assert!(
        compact(&memory, &[], refuses)
            .unwrap_err()
            .contains("memory")
    );
    let missing = config(&folder.path().join("missing"));
    let refusal = compact(&missing, &[], refuses).unwrap_err();
    assert!(
        refusal.contains("missing: there is no such directory"),
        "{refusal}"
    );
}

#[test]
fn a_report_is_read_and_told() {
    let report: Report = serde_json::from_str(
        r#"{"compactedRevision": 7, "removedRecords": 3, "reclaimedBytes": 4096}"#,
    )
    .unwrap();
    assert_eq!(
        report.to_string(),
        "compacted up to revision 7: 3 records removed, 4096 bytes given back"
    );
}
