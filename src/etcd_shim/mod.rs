//! The program `etcd`: what this binary is when it is called by that name.
//!
//! Owns etcd's command line, its HTTP paths and its gRPC services over an embedded store, so that a
//! test environment which starts `etcd` and `kube-apiserver` needs neither. Taffrail as
//! `kube-apiserver` asks for the directory and opens it itself ([`data_directory`]). Any other
//! client speaks gRPC, and then the store is opened here ([`store`]). This folder must not know
//! objects, resources or the daemon: it serves keys and bytes.
//!
//! | module | purpose |
//! |---|---|
//! | [`command_line`], [`flags`] | the flags of etcd: obeyed, noted or refused |
//! | [`server`], [`paths`] | connections, and which service answers a request |
//! | [`data_directory`], [`peer`] | whose the directory is, and who may ask |
//! | [`store`], [`turns`] | the store, once it is open, and the turns of writers |
//! | [`key_range`], [`kv`] | reads, writes and transactions |
//! | [`watch`] | streams of watches |
//! | [`leases`], [`maintenance`], [`cluster`] | etcd's smaller services |
//! | [`status`] | errors, with etcd's codes and texts |

mod cluster;
mod command_line;
mod data_directory;
mod flags;
mod key_range;
mod kv;
mod leases;
mod maintenance;
mod paths;
mod peer;
mod server;
mod status;
mod store;
mod turns;
mod watch;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use actors::tasks;
use command_line::{Parsed, Settings};
use server::Server;
use store::SharedStore;

use crate::cli::{EXIT_REFUSED, complain};
use crate::config::LogFormat;
use crate::parent::Parent;
use crate::shutdown::Signals;
use crate::telemetry;
use crate::transport::listener::raise_open_file_limit;

/// The name by which the program is called.
const NAME: &str = "etcd";

/// The version of etcd whose behaviour this is. Clients decide by it what they may ask for.
const VERSION: &str = "3.6.8";

/// The threads that serve. The store has threads of its own.
const THREADS: usize = 2;

/// Whether a program of this path is `etcd`.
pub fn is_named(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(NAME))
}

/// Runs until it is stopped or its parent has died.
pub fn main() -> ExitCode {
    // Before anything else, because a parent that dies before this is not known.
    let parent = Parent::of_now();
    let settings = match command_line::parse() {
        Parsed::Settings(settings) => *settings,
        Parsed::Done(code) => return code,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name(NAME)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(NAME, &error);
            return ExitCode::FAILURE;
        }
    };
    let code = match runtime.block_on(run(settings, parent)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            complain(NAME, &problem);
            ExitCode::from(EXIT_REFUSED)
        }
    };
    // Connections and watches end with the process. Nothing of theirs is left to be done.
    runtime.shutdown_background();
    code
}

/// Serves until stopped.
///
/// # Errors
/// Why it cannot serve, in one line.
async fn run(settings: Settings, parent: Option<Parent>) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    telemetry::install_log(&settings.log_level, LogFormat::Auto).map_err(|error| text(&error))?;
    let mut signals = Signals::install().map_err(|error| text(&error))?;
    raise_open_file_limit().log();
    let outlives_parent = settings.outlives_parent;
    data_directory::prepare(&settings.data_dir)?;
    let store = Arc::new(SharedStore::new(settings));
    let servers = Server::listen(&store)?;
    let settings = store.settings();
    if !settings.noted.is_empty() {
        tracing::info!(flags = %settings.noted.join(" "), "flags that have no effect here");
    }
    for server in servers {
        tracing::info!(url = %server.url(), data_dir = %settings.data_dir.display(), "serving");
        tasks::spawn(server.serve());
    }
    let died = async {
        match parent {
            Some(parent) if !outlives_parent => parent.died().await,
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        signal = signals.stop() => tracing::info!(%signal, "stopping"),
        () = died => tracing::info!("stopping because the process that started this one has died"),
    }
    tokio::select! {
        () = store.close() => {}
        // A second signal exits at once. Everything acknowledged is durable anyway.
        _ = signals.stop() => {}
    }
    Ok(())
}
