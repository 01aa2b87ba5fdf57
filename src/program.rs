//! The program: configures, builds, serves, waits and stops.
//!
//! It is in the library so that the compiler makes the code of all futures there, in parallel. The
//! binary would make it in one piece, which takes longer.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use actors::engine::Engine;
use futures_util::future::OptionFuture;
use rustix::fs::Mode;
use rustix::process::umask;

use crate::cli::backup::Openers;
use crate::cli::{self, Action, EXIT_REFUSED};
use crate::clock;
use crate::config::Config;
use crate::controllers::Simulation;
use crate::daemon::{self, Conduct, Daemon, Host, StartError};
use crate::etcd_shim;
use crate::kube_apiserver;
use crate::parent::Parent;
use crate::process_limits;
use crate::shutdown::{self, Signals};
use crate::telemetry;
use crate::test_server;
use crate::transport::listener::raise_open_file_limit;

/// The name of the program in its complaints, unless it is called by another one.
const NAME: &str = "taffrail";

/// Runs the command that the arguments name, and returns when it has ended. It sets what belongs
/// to the whole process, such as its log and its recorder of metrics.
pub fn main() -> ExitCode {
    let started = Instant::now();
    // Files that are created from here on are accessible only to their owner.
    umask(Mode::from_raw_mode(0o077));
    let called = std::env::args_os().next().unwrap_or_default();
    if etcd_shim::is_named(&called) {
        return etcd_shim::main();
    }
    if kube_apiserver::is_named(&called) {
        return serve_as_kube_apiserver(started);
    }
    let action = cli::parse();
    if !matches!(
        action,
        Action::Done(_) | Action::Serve(_) | Action::Test(..)
    ) && let Err(code) = check_clock(NAME)
    {
        return code;
    }
    match action {
        Action::Done(code) => code,
        Action::Serve(config) => start(NAME, run(*config, started, Process::default())),
        Action::Test(config, options) => start(NAME, test_server::run(*config, options, started)),
        Action::Assets(options) => cli::assets::run(&options),
        Action::Compact(config, retention) => {
            let open = |config: &Config| opened(daemon::open_existing(config));
            cli::compact::run(&config, &retention, open)
        }
        Action::Backup(config, options) => {
            let openers = Openers {
                directory: &|config| opened(daemon::open_existing(config)),
                etcd: &|config| opened(daemon::open_etcd(config)),
            };
            cli::backup::run(&config, &options, openers)
        }
        Action::Restore(config, options) => {
            let open = |config: &Config| opened(daemon::open_etcd(config));
            cli::restore::run(&config, &options, &open)
        }
        Action::Inspect(config, options) => {
            let open = |config: &Config| opened(daemon::open_existing(config));
            cli::inspect::run(&config, &options, &open)
        }
        Action::History(config, options) => cli::objects::history::run(&config, &options),
        Action::Get(config, options) => cli::objects::get::run(&config, &options),
        Action::Undo(config, options) => cli::objects::undo::run(&config, &options),
        Action::Kubeconfig(config, options) => cli::kubeconfig::run(&config, &options),
        Action::TokenRotate(config) => cli::token::rotate(&config),
        Action::StorageRewrite(config, options) => cli::storage::rewrite::run(&config, &options),
        Action::StorageTable(config, options) => {
            let warnings = daemon::storage_warnings;
            cli::storage::table::run(&config, &options, daemon::storage_factory, warnings)
        }
    }
}

/// Refuses a clock that no clock of a working machine shows.
fn check_clock(name: &str) -> Result<(), ExitCode> {
    clock::check(SystemTime::now()).map_err(|error| {
        cli::complain(name, &error);
        ExitCode::FAILURE
    })
}

fn opened(store: Result<Arc<dyn Engine>, StartError>) -> Result<Arc<dyn Engine>, String> {
    store.map_err(|error| error.to_string())
}

/// Serves in the place of kube-apiserver, until stopped or until the parent has died.
fn serve_as_kube_apiserver(started: Instant) -> ExitCode {
    // Before anything else, because a parent that dies before this is not known.
    let parent = Parent::of_now();
    let placed = match kube_apiserver::prepare() {
        Ok(placed) => placed,
        Err(code) => return code,
    };
    let process = Process {
        announces: false,
        parent,
        conduct: placed.conduct,
    };
    start(kube_apiserver::NAME, run(placed.config, started, process))
}

/// The relation of a process that serves to those around it.
pub struct Process {
    /// Whether it prints its [`Announcement`](cli::Announcement).
    pub announces: bool,
    /// The process with which it ends.
    pub parent: Option<Parent>,
    /// Where the daemon behaves as another program does.
    pub conduct: Conduct,
}

impl Default for Process {
    fn default() -> Process {
        Process {
            announces: true,
            parent: None,
            conduct: Conduct::default(),
        }
    }
}

/// Serves until stopped. If a library panics because the system refused something, the panic is
/// reported as one line.
pub fn start(
    name: &str,
    run: impl Future<Output = Result<ExitCode, Box<dyn std::error::Error>>>,
) -> ExitCode {
    if let Err(code) = check_clock(name) {
        return code;
    }
    if let Err(low) = process_limits::check() {
        cli::complain(name, &low);
        return ExitCode::FAILURE;
    }
    seed_random();
    // The log is not open yet, so the message is printed below instead.
    set_hook(Box::new(|_| {}));
    let served = catch_unwind(AssertUnwindSafe(|| {
        let system = actix::System::new();
        let code = system.block_on(report(name, run));
        // Everything was stopped and closed. Freeing each task and connection that is left would
        // only delay the end of the process.
        std::mem::forget(system);
        code
    }));
    served.unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().map(String::as_str);
        let why = why.or_else(|| panic.downcast_ref::<&str>().copied());
        let why = why.unwrap_or("a library panicked");
        let hint = "check that the limits of files, threads and memory are not too low";
        cli::complain(name, &format!("the daemon ended: {why}; {hint}"));
        ExitCode::FAILURE
    })
}

/// Seeds the random generator on a thread of its own, while the store is opened. A build without
/// the environment of `.cargo/config.toml` measures the processor for that, for 30 ms.
fn seed_random() {
    let seed = || {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.secure_random.fill(&mut [0])
    };
    // The thread ends by itself. A generator that fails is reported at its first use.
    let seeding = std::thread::Builder::new().name("random-seed".to_owned());
    drop(seeding.spawn(seed));
}

/// Returns the exit code of a run, and prints its error.
async fn report(
    name: &str,
    run: impl Future<Output = Result<ExitCode, Box<dyn std::error::Error>>>,
) -> ExitCode {
    match run.await {
        Ok(code) => code,
        Err(error) => {
            cli::complain(name, &error);
            let start = error.downcast_ref::<StartError>();
            match start.is_some_and(StartError::is_refusal) {
                true => ExitCode::from(EXIT_REFUSED),
                false => ExitCode::FAILURE,
            }
        }
    }
}

pub async fn run(
    config: Config,
    started: Instant,
    process: Process,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    telemetry::install_log(&config.log_level, config.log_format)?;
    let series = telemetry::install_metrics()?;
    let mut signals = Signals::install()?;
    let starting = shutdown::stop_at_once()?;
    let open_files = raise_open_file_limit();
    let host = Host {
        series,
        started,
        users: Vec::new(),
        notifies_service_manager: true,
        simulation: Simulation::default(),
        conduct: process.conduct,
        for_tests: false,
    };
    let daemon = Daemon::start(config, host).await?;
    open_files.log();
    daemon.log_start();
    if process.announces {
        // Keep serving even if stdout is closed.
        let _ = write!(std::io::stdout(), "{}", daemon.announcement());
    }
    drop(starting);
    let code = until_stopped(&daemon, &mut signals, process.parent).await;
    let stopping = Instant::now();
    tokio::select! {
        () = daemon.stop() => {
            tracing::info!(milliseconds = stopping.elapsed().as_millis() as u64, "stopped");
            Ok(code)
        }
        // A second signal exits at once.
        signal = signals.stop() => Ok(signal.exit_code()),
    }
}

/// Serves until the daemon should stop.
async fn until_stopped(daemon: &Daemon, signals: &mut Signals, parent: Option<Parent>) -> ExitCode {
    let ended = daemon.ended();
    let orphaned = OptionFuture::from(parent.map(Parent::died));
    tokio::pin!(ended, orphaned);
    loop {
        tokio::select! {
            action = signals.next() => match action {
                shutdown::SignalAction::Reload => daemon.reload().await,
                shutdown::SignalAction::Stop(signal) => {
                    tracing::info!(%signal, "stopping");
                    return ExitCode::SUCCESS;
                }
            },
            Some(()) = &mut orphaned => {
                tracing::info!("stopping, because the process that started this one has died");
                return ExitCode::SUCCESS;
            }
            () = &mut ended => {
                tracing::error!("the supervisor of the actors has ended; stopping");
                return ExitCode::FAILURE;
            }
        }
    }
}
