//! `taffrail compact`: removes data beyond retention at once, and returns the space.
//!
//! This folder owns the command. A running daemon does the work; if none runs, the command opens
//! the directory itself. This folder must not know how an engine compacts.

mod directory;

use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;

use actors::engine::Engine;

use crate::auth::read_kubeconfig;
use crate::cli::complaint::failed;
use crate::config::{Config, Settings, StorageBackend};

use super::access::Access;
use super::running::{self, Request, Unreached};

/// The result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    compacted_revision: u64,
    removed_records: u64,
    reclaimed_bytes: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "compacted up to revision {}: {} records removed, {} bytes given back",
            self.compacted_revision, self.removed_records, self.reclaimed_bytes
        )
    }
}

/// The flags of retention that were given.
pub fn retention(settings: &Settings) -> Vec<&'static str> {
    let age = settings.retention_age.map(|_| "--retention-age");
    let bytes = settings.retention_bytes.map(|_| "--retention-bytes");
    age.into_iter().chain(bytes).collect()
}

/// Compacts. A running daemon uses its own retention, so the given flags of `retention` are refused
/// if one runs. `open` opens the configured store. It is called only when no daemon answers, and
/// fails when a daemon holds the directory anyway.
pub fn run(
    config: &Config,
    retention: &[&str],
    open: impl FnOnce(&Config) -> Result<Arc<dyn Engine>, String>,
) -> ExitCode {
    match compact(config, retention, open) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(problem) => failed("compact", &problem),
    }
}

fn compact(
    config: &Config,
    retention: &[&str],
    open: impl FnOnce(&Config) -> Result<Arc<dyn Engine>, String>,
) -> Result<Report, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let data_dir = config.data_dir.as_path();
    let access = read_kubeconfig(data_dir).map_err(|error| error.to_string())?;
    if let Some(access) = access.map(Access::from) {
        let answered = match retention.is_empty() {
            true => runtime.block_on(running::post_whole(&access, "/taffrail/v1/compact")),
            false => runtime.block_on(running::whole(&access, Request::get("/version"))),
        };
        match answered {
            Err(Unreached::NobodyThere(_)) => {}
            Err(error) => return Err(error.to_string()),
            Ok(_) if !retention.is_empty() => {
                return Err(format!(
                    "{}: a daemon is running here, and compacts by the retention that it was \
                     started with; leave this out, or start the daemon with it",
                    retention.join(", ")
                ));
            }
            Ok(answer) => {
                return serde_json::from_slice(&answer).map_err(|error| error.to_string());
            }
        }
    }
    match config.backend() {
        StorageBackend::Memory => {
            let text = "no daemon answers, and storage-backend=memory keeps nothing on disk";
            return Err(text.into());
        }
        StorageBackend::Etcd3 => {
            let text = "no daemon answers; with etcd running daemons agree on compaction";
            return Err(text.into());
        }
        StorageBackend::Unset | StorageBackend::Embedded => {}
    }
    if !data_dir.exists() {
        return Err(format!(
            "--data-dir={}: there is no such directory",
            data_dir.display()
        ));
    }
    let engine = open(config)?;
    runtime.block_on(directory::compact(engine, config))
}

#[cfg(test)]
mod tests;
