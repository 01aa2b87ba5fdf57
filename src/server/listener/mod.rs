//! Listening sockets, and the threads that serve their connections.
//!
//! This folder owns ports, connection slots, HTTP threads and draining. A configuration and a
//! service per thread enter. Served connections leave: the protocol folders `http1` and `http2`
//! read requests from them. It must not know paths, resources or users.
//!
//! One task accepts connections and gives each to the least loaded HTTP thread, where it stays. The
//! kernel could distribute connections (SO_REUSEPORT, or all threads on one shared socket), but it
//! does so by hash or by which thread wakes first. Ten connections with a thousand watches each
//! could then end up on one core. Accepting is cheap and a hand-over costs microseconds, so the
//! even distribution is worth it.

mod acceptor;
pub(in crate::server) mod http_date;
mod metrics_listener;
mod open_files;
mod single_write;
pub(in crate::server) mod slots;
mod socket;
pub(in crate::server) mod thread;
mod vanished;
mod worker;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_rt::Arbiter;
use arc_swap::ArcSwap;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::body::HttpService;
use super::connection_state::TotalHeldBytes;
use super::limits::Limits;
use crate::config::{Config, ConnectionLimit};

pub use metrics_listener::MetricsListener;
pub use open_files::{OpenFileLimit, raise_open_file_limit};
pub use socket::BindError;

use acceptor::Acceptor;
use worker::Worker;

/// The secure port, listening but not serving.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    open_files: OpenFileLimit,
    threads: usize,
}

impl Server {
    /// Opens the port and raises the limit of open files. This happens first, so that a port
    /// conflict shows before anything else is done. Connections wait in the backlog until
    /// [`Server::serve`].
    ///
    /// # Errors
    /// [`BindError`], one line for the operator.
    pub fn bind(config: &Config) -> Result<Server, BindError> {
        let mut limits = Limits::of(config);
        let open_files = raise_open_file_limit();
        limits.connections = fitted(config.max_connections, open_files.connections());
        let threads = match config.http_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let address = SocketAddr::new(config.bind_address.0, config.secure_port.0);
        let listener = socket::listen("secure-port", address)?;
        let address = listener.local_addr().unwrap_or(address);
        Ok(Server {
            listener,
            address,
            limits,
            open_files,
            threads,
        })
    }

    /// The address, including the chosen port.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// The number of HTTP threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Overrides limits that operators cannot set.
    #[cfg(test)]
    pub(in crate::server) fn with_limits(mut self, change: impl FnOnce(&mut Limits)) -> Server {
        change(&mut self.limits);
        self
    }

    /// Serves connections. Each handshake takes the configuration that is current then.
    /// `make_service` is called once on each HTTP thread, with the number of
    /// the thread.
    ///
    /// Must be called within an actix system. The calling thread accepts.
    ///
    /// # Errors
    /// The system cannot start the threads.
    pub fn serve<S, M>(
        self,
        tls: Arc<ArcSwap<rustls::ServerConfig>>,
        make_service: M,
    ) -> io::Result<Running>
    where
        S: HttpService,
        M: Fn(usize) -> S + Clone + Send + 'static,
    {
        self.open_files.log();
        let limits = Arc::new(self.limits);
        let held = Arc::new(TotalHeldBytes::default());
        let mut workers = Vec::with_capacity(self.threads);
        let mut arbiters = Vec::with_capacity(self.threads);
        let vanished = watch::Sender::new(Arc::default());
        let mut handles = Vec::with_capacity(self.threads);
        for number in 0..self.threads {
            let arbiter = Arbiter::try_new()?;
            let tls = Arc::clone(&tls);
            let (worker, handle) = Worker::new(&limits, &held, tls, vanished.subscribe());
            let drained = worker.start(&arbiter, number, make_service.clone());
            workers.push(drained);
            arbiters.push(arbiter);
            handles.push(handle);
        }
        let acceptor = Acceptor::new(&limits, handles);
        Ok(Running {
            address: self.address,
            accepting: actix_rt::spawn(acceptor.run(self.listener)),
            finding_vanished: actix_rt::spawn(vanished::find_vanished(
                self.address.port(),
                vanished,
            )),
            workers,
            arbiters,
        })
    }
}

/// The number of connections to serve when open files leave room for `room`. Only an operator who
/// set a number is warned that it does not fit.
fn fitted(wanted: ConnectionLimit, room: usize) -> usize {
    let connections = wanted.most().min(room);
    if connections < wanted.most() && matches!(wanted, ConnectionLimit::Exactly(_)) {
        tracing::warn!(
            "max-connections={wanted} is more than the limit of open files leaves room for: \
             {connections} are served at a time; raise the limit (LimitNOFILE, ulimit -n) or \
             lower max-connections"
        );
    } else {
        tracing::debug!(max_connections = connections, room, "room for connections");
    }
    connections
}

/// The time that threads have to drop what was cut.
const THREADS_END_WITHIN: Duration = Duration::from_millis(500);

/// The secure port while it serves.
pub struct Running {
    address: SocketAddr,
    accepting: JoinHandle<()>,
    finding_vanished: JoinHandle<()>,
    workers: Vec<worker::Drained>,
    arbiters: Vec<Arbiter>,
}

impl Running {
    /// The address, including the chosen port.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Stops gracefully within `deadline`. No more connections are accepted, HTTP/2 clients get a
    /// GOAWAY, requests are answered or go on without their clients to their end, watches end, and
    /// then the threads stop. Returns how many connections were cut.
    pub async fn drain(self, deadline: Duration) -> usize {
        let deadline = tokio::time::Instant::now() + deadline;
        self.accepting.abort();
        self.finding_vanished.abort();
        // The listening socket is closed once the task has ended.
        let _ = self.accepting.await;
        let mut cut = 0;
        for drained in self.workers {
            cut += drained.wait_until(deadline).await;
        }
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
        // What is cut tells the audit log so when its thread ends. Nothing waits for a stuck
        // thread.
        let (tell, ended) = oneshot::channel();
        let arbiters = self.arbiters;
        std::thread::spawn(move || {
            for arbiter in arbiters {
                // A panic of that thread has been logged by the runtime.
                let _ = arbiter.join();
            }
            let _ = tell.send(());
        });
        let _ = tokio::time::timeout(THREADS_END_WITHIN, ended).await;
        cut
    }
}
