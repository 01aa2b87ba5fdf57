//! `taffrail test`: a throwaway server for tests.
//!
//! This folder owns the life of such a server: its folder, the objects it is loaded with, the line
//! that says where it is, and the command that it runs. The daemon is the usual one, with a store
//! in memory. This folder must not know how the daemon works inside: it loads objects as a client.

mod client;
mod command;
mod documents;
mod load;
mod ready_line;
mod signals;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::auth::{AdminAccess, read_kubeconfig};
use crate::cli::complain;
use crate::cli::test_server::{NAME, TestOptions};
use crate::config::{Config, FilePath};
use crate::controllers::Simulation;
use crate::daemon::{Conduct, Daemon, Host, Stop};
use crate::files::{ThrowawayFolder, remove_leftovers};
use crate::parent::Parent;
use crate::telemetry;
use crate::transport::listener::raise_open_file_limit;

use client::Client;
use command::RunningCommand;
use ready_line::ReadyLine;
use signals::Signals;

/// The beginning of the names of folders.
const PREFIX: &str = "taffrail-test-";
/// How often a starting server is asked whether it is ready.
const LOOK_EVERY: Duration = Duration::from_millis(1);

type Failure = Box<dyn std::error::Error>;

/// Serves until it is stopped, its parent ends or its command ends.
///
/// # Errors
/// The server can't start, or an object can't be loaded.
pub async fn run(
    mut config: Config,
    options: TestOptions,
    started: Instant,
) -> Result<ExitCode, Failure> {
    // First of all, because a parent that has died already can't be watched.
    let parent = options.with_parent.0.then(Parent::of_now).flatten();
    let has_command = !options.command.is_empty();
    telemetry::install_log(&config.log_level, config.log_format)?;
    let mut signals = Signals::install()?;
    let folder = ThrowawayFolder::make(PREFIX)
        .map_err(|error| format!("a temporary folder can't be made: {error}"))?;
    // Within the folder, so that the daemon makes it.
    let data = folder.path().join("data");
    let path = data
        .to_str()
        .ok_or("the path of the temporary folder is not UTF-8")?;
    config.data_dir = FilePath::from(path);
    let death = async {
        match parent {
            Some(parent) => parent.died().await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(death);
    let starting = start(config, &options, started);
    let server = tokio::select! {
        server = starting => server?,
        // A command that was not run has not succeeded.
        () = &mut death => {
            let code = ExitCode::from(u8::from(has_command));
            return Ok(ended(folder, code, has_command));
        }
        signal = signals.stopping() => {
            let code = match has_command {
                true => command::code_of_signal(signal),
                false => ExitCode::SUCCESS,
            };
            return Ok(ended(folder, code, has_command));
        }
    };
    remove_leftovers(PREFIX);
    let code = match has_command {
        false => {
            server.announce(&data);
            tokio::select! {
                () = &mut death => ExitCode::SUCCESS,
                _ = signals.stopping() => ExitCode::SUCCESS,
                () = server.daemon.ended() => {
                    complain(NAME, &"the server has failed; --log-level=error shows why");
                    ExitCode::FAILURE
                }
            }
        }
        true => {
            let kubeconfig = server.daemon.announcement().kubeconfig;
            match RunningCommand::start(&options.command, &kubeconfig) {
                Err(refused) => {
                    complain(NAME, &refused);
                    refused.exit_code()
                }
                Ok(running) => running.ended(&mut signals, death.as_mut()).await,
            }
        }
    };
    tokio::select! {
        () = server.daemon.stop() => {}
        // A second signal, or a test that does not wait.
        _ = signals.stopping() => {}
    }
    Ok(ended(folder, code, has_command))
}

/// Removes the folder. If that fails, a server without a command fails; a command keeps its code.
fn ended(folder: ThrowawayFolder, code: ExitCode, has_command: bool) -> ExitCode {
    let path = folder.path().to_owned();
    let Err(error) = folder.remove() else {
        return code;
    };
    let path = path.display();
    let problem = format!("the temporary folder {path} can't be removed: {error}");
    complain(NAME, &problem);
    match has_command {
        true => code,
        false => ExitCode::FAILURE,
    }
}

/// A server that is ready and loaded.
struct TestServer {
    daemon: Daemon,
    access: AdminAccess,
}

/// Starts a server, waits until it is ready and loads it.
async fn start(
    config: Config,
    options: &TestOptions,
    started: Instant,
) -> Result<TestServer, Failure> {
    // Faults of files are found before anything is started.
    let manifests = load::read(&options.load)?;
    let series = telemetry::install_metrics()?;
    raise_open_file_limit();
    let data = config.data_dir.clone();
    let host = Host {
        series,
        started,
        users: Vec::new(),
        notifies_service_manager: false,
        simulation: Simulation {
            nodes: options.nodes,
            pods_run: options.pods_run.0,
            workloads: options.workloads.0,
        },
        conduct: Conduct::of_test_server(Stop::WithProcess),
        for_tests: true,
    };
    let daemon = Daemon::start(config, host).await?;
    let access = read_kubeconfig(data.as_path())?;
    let access = access.ok_or("the daemon has written no kubeconfig")?;
    while !(daemon.has_started() && daemon.is_ready()) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let client = Client::new(&access)?;
    load::load(&client, manifests).await?;
    client.nodes_ready(options.nodes).await?;
    if let Some(mut plan) = options.faults.clone() {
        plan.seed = options.fault_seed.or(plan.seed);
        if let Some(test) = daemon.test_controls() {
            test.faults.set(plan);
        }
    }
    Ok(TestServer { daemon, access })
}

/// Loads manifests into a server, as `--load` does.
///
/// # Errors
/// A line with the file, the document and the fault.
pub(crate) async fn load(access: &AdminAccess, paths: &[PathBuf]) -> Result<(), String> {
    let manifests = load::read(paths)?;
    load::load(&Client::new(access)?, manifests).await
}

/// Waits until this many nodes of a server are Ready.
///
/// # Errors
/// They are not within a minute, or the server does not answer.
pub(crate) async fn nodes_ready(access: &AdminAccess, nodes: u32) -> Result<(), String> {
    Client::new(access)?.nodes_ready(nodes).await
}

impl TestServer {
    /// Prints the ready line.
    fn announce(&self, data: &Path) {
        let line = ReadyLine {
            access: &self.access,
            kubeconfig: self.daemon.announcement().kubeconfig,
        };
        tracing::info!(data = %data.display(), "ready");
        let mut stdout = std::io::stdout();
        // Keep serving even if stdout is closed.
        let _ = writeln!(stdout, "{}", line.text()).and_then(|()| stdout.flush());
    }
}
