//! A daemon in the process of the test.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use actors::testing::failpoints;
use clap::Parser;
use taffrail::config::{Config, Settings};
use taffrail::daemon::Daemon;
use taffrail::daemon::resources::Resources;
use taffrail::telemetry::{self, Series};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::harness::{Call, Client, Target};

/// Longer than a daemon takes to end.
const END: Duration = Duration::from_secs(60);

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
    /// Plain HTTP for scrapers.
    pub metrics: SocketAddr,
    target: Target,
    stop: Option<oneshot::Sender<()>>,
    daemon: Option<JoinHandle<()>>,
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
        flags.extend([
            "--secure-port",
            "0",
            "--metrics-bind-address",
            "127.0.0.1:0",
        ]);
        flags.extend(arguments);
        let config = Config::load(Flags::parse_from(flags).settings, None).unwrap();
        let (started, starting) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let daemon = std::thread::spawn(move || {
            actix_rt::System::new().block_on(async move {
                let daemon = Daemon::start(config, series(), Instant::now())
                    .await
                    .unwrap();
                let announcement = daemon.announcement();
                let at = (announcement.secure, announcement.metrics.unwrap());
                started.send((at, daemon.resources().clone())).unwrap();
                tokio::select! {
                    _ = stopped => {}
                    () = daemon.ended() => {}
                }
                daemon.stop().await;
            });
        });
        let ((address, metrics), resources) = starting.recv().unwrap();
        let token = std::fs::read_to_string(data.join("admin.token")).unwrap();
        let mut clients = tokio::runtime::Builder::new_multi_thread();
        let running = Running {
            resources,
            metrics,
            target: Target::new(address, Some(token.trim().to_owned()), None),
            stop: Some(stop),
            daemon: Some(daemon),
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

    /// Stops the daemon, and fails if it did not end well.
    pub fn stop(mut self) {
        self.ask_to_stop();
        self.join().unwrap();
    }

    /// Waits until the daemon has ended by itself.
    pub fn ended(mut self) {
        self.join().unwrap();
    }

    fn ask_to_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
    }

    /// Fails when the daemon is still there after a minute, so that no test waits forever.
    fn join(&mut self) -> std::thread::Result<()> {
        let Some(daemon) = self.daemon.take() else {
            return Ok(());
        };
        let begun = Instant::now();
        while !daemon.is_finished() {
            assert!(begun.elapsed() < END, "the daemon has not ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        daemon.join()
    }
}

/// A test that fails leaves nothing to the next one: neither faults nor a daemon.
impl Drop for Running {
    fn drop(&mut self) {
        failpoints::clear();
        self.ask_to_stop();
        if std::thread::panicking() {
            // The test has failed already.
            let daemon = self.daemon.take();
            let begun = Instant::now();
            while daemon.as_ref().is_some_and(|daemon| !daemon.is_finished())
                && begun.elapsed() < END
            {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
