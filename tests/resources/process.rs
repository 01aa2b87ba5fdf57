//! A daemon in the process of the test.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use actors::testing::failpoints;
use taffrail::{Server, ServerResources};

use crate::harness::{Client, Target};

/// Longer than a daemon takes to end.
const END: Duration = Duration::from_secs(60);

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
    pub resources: ServerResources,
    /// Plain HTTP for scrapers.
    pub metrics: SocketAddr,
    target: Target,
    server: Option<Server>,
    clients: tokio::runtime::Runtime,
    /// Only one daemon runs at a time, because the use of the whole process is measured.
    _turn: MutexGuard<'static, ()>,
}

/// Waits until no other test of this process runs a server.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Running {
    /// Starts a daemon with flags as those of `taffrail serve`.
    pub fn start(flags: &[&str]) -> Running {
        let turn = turn();
        // The controllers of these plugins create objects that tests would have to expect.
        let plugins = "ServiceAccount,StorageObjectInUseProtection";
        let mut builder = Server::builder()
            .setting("metrics-bind-address", "127.0.0.1:0")
            .setting("disable-admission-plugins", plugins);
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            let flag = flag.strip_prefix("--").unwrap();
            let pair = flag.split_once('=');
            let (name, value) = pair.unwrap_or_else(|| (flag, flags.next().unwrap()));
            builder = builder.setting(name, value);
        }
        let mut clients = tokio::runtime::Builder::new_multi_thread();
        let clients = clients.worker_threads(1).enable_all().build().unwrap();
        let server = clients.block_on(builder.start()).unwrap();
        clients.block_on(server.ready()).unwrap();
        let token = server.admin_token().map(str::to_owned);
        Running {
            resources: server.resources(),
            metrics: server.metrics_address().unwrap(),
            target: Target::new(server.address(), token, None),
            server: Some(server),
            clients,
            _turn: turn,
        }
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

    /// Stops the daemon, and fails if it did not stop in order.
    pub fn stop(mut self) {
        let server = self.server.take().unwrap();
        let stopped = async { tokio::time::timeout(END, server.stop()).await };
        let stopped = self.clients.block_on(stopped);
        stopped.expect("the daemon has not ended").unwrap();
    }

    /// Waits until the daemon has ended by itself.
    pub fn ended(mut self) {
        let server = self.server.take().unwrap();
        let begun = Instant::now();
        while !server.has_ended() {
            assert!(begun.elapsed() < END, "the daemon has not ended");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A test that fails leaves nothing to the next one: neither faults nor a daemon.
impl Drop for Running {
    fn drop(&mut self) {
        failpoints::clear();
        if let Some(server) = self.server.take() {
            let stopping = async { tokio::time::timeout(END, server.stop()).await };
            // The test has failed already.
            let _ = self.clients.block_on(stopping);
        }
    }
}
