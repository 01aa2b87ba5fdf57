//! A daemon in the process of the test.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Parser;
use taffrail::config::{Config, Settings};
use taffrail::daemon::Daemon;
use taffrail::daemon::resources::Resources;
use taffrail::telemetry::{self, Series};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::harness::{Call, Client, Target};

/// Flags of `taffrail serve`.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    settings: Settings,
}

/// The resource use of the process.
pub struct Process;

impl Process {
    fn status(name: &str) -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.unwrap().split_whitespace().next();
        number.unwrap().parse().unwrap()
    }

    pub fn threads() -> usize {
        Process::status("Threads:")
    }

    pub fn resident_mib() -> f64 {
        Process::status("VmRSS:") as f64 / 1024.0
    }
}

/// A daemon that serves, and a runtime for its clients.
pub struct Running {
    pub resources: Resources,
    target: Target,
    stop: oneshot::Sender<()>,
    daemon: JoinHandle<()>,
    clients: tokio::runtime::Runtime,
    _folder: TempDir,
    /// Only one daemon runs at a time, because the use of the whole process is measured.
    _turn: MutexGuard<'static, ()>,
}

fn series() -> Series {
    static SERIES: OnceLock<Series> = OnceLock::new();
    SERIES
        .get_or_init(|| telemetry::install_metrics().unwrap())
        .clone()
}

impl Running {
    pub fn start(arguments: &[&str]) -> Running {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut flags = vec!["taffrail", "--data-dir", data.to_str().unwrap()];
        flags.extend(["--secure-port", "0", "--metrics-bind-address", "0"]);
        flags.extend(arguments);
        let config = Config::load(Flags::parse_from(flags).settings, None).unwrap();
        let (started, starting) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let daemon = std::thread::spawn(move || {
            actix_rt::System::new().block_on(async move {
                let daemon = Daemon::start(config, series(), Instant::now())
                    .await
                    .unwrap();
                let at: SocketAddr = daemon.announcement().secure;
                started.send((at, daemon.resources().clone())).unwrap();
                tokio::select! {
                    _ = stopped => {}
                    () = daemon.ended() => {}
                }
                daemon.stop().await;
            });
        });
        let (address, resources) = starting.recv().unwrap();
        let token = std::fs::read_to_string(data.join("admin.token")).unwrap();
        let mut clients = tokio::runtime::Builder::new_multi_thread();
        let running = Running {
            resources,
            target: Target::new(address, Some(token.trim().to_owned()), None),
            stop,
            daemon,
            clients: clients.worker_threads(1).enable_all().build().unwrap(),
            _folder: folder,
            _turn: turn,
        };
        running.block_on(async {
            let client = running.client();
            while client.call(Call::get("/readyz")).await.status != 200 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        running
    }

    pub fn client(&self) -> Client {
        self.target.client()
    }

    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.clients.block_on(work)
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn stop(self) {
        self.stop.send(()).unwrap();
        self.daemon.join().unwrap();
    }

    /// Waits until the daemon has ended by itself.
    pub fn ended(self) {
        self.daemon.join().unwrap();
    }
}
