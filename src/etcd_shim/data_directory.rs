//! The data directory, and the process that has it.
//!
//! Taffrail as `kube-apiserver` opens the directory itself. It asks for it at
//! `/taffrail/v1/data-directory`, and gets its path and state. The answer is only advice: the lock
//! of the store decides who has it, and an opener that finds it locked asks again.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde_json::{Value, json};

use super::store::SharedStore;
use crate::storage::embedded::disk;

/// The folder below its data directory that etcd keeps its data in.
const FOLDER_OF_ETCD: &str = "member";

/// Makes the directory if it is absent.
///
/// # Errors
/// If it can't be made, or holds the data of an etcd.
pub(super) fn prepare(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(path)
        .map_err(|error| format!("data directory {shown} can't be made: {error}"))?;
    match path.join(FOLDER_OF_ETCD).symlink_metadata() {
        Ok(_) => Err(format!(
            "data directory {shown} holds data of etcd ({FOLDER_OF_ETCD}), which this program does \
             not read: choose another one"
        )),
        Err(_) => Ok(()),
    }
}

/// The answer to a program that would open the directory.
pub(super) fn answer(store: &SharedStore) -> Value {
    let settings = store.settings();
    let holder = disk::holder_of(&settings.data_dir);
    let state = match (store.is_open(), &holder) {
        (true, _) => "served",
        (false, Some(_)) => "lent",
        (false, None) => "free",
    };
    let holder = holder.map(|holder| json!({"pid": holder.pid, "since": holder.since}));
    json!({
        "directory": settings.data_dir.to_string_lossy(),
        "state": state,
        "holder": holder,
        "syncs": settings.syncs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_and_that_of_an_etcd_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        prepare(&path).unwrap();
        prepare(&path).unwrap();
        std::fs::create_dir(path.join(FOLDER_OF_ETCD)).unwrap();
        assert!(prepare(&path).unwrap_err().contains("holds data of etcd"));
        std::fs::write(parent.path().join("file"), b"").unwrap();
        assert!(prepare(&parent.path().join("file/c")).is_err());
    }
}
