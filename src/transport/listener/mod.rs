//! Listening sockets, and the threads that serve their connections.
//!
//! This folder opens ports, assigns connection slots, starts the HTTP threads and drains them. It
//! takes a configuration and makes a service for each thread. The protocol folders `http1` and
//! `http2` serve the connections that it accepts. It does not know paths, resources or users.
//!
//! One task accepts connections and gives each to the least loaded HTTP thread, where it stays. The
//! kernel could distribute connections (SO_REUSEPORT, or all threads on one shared socket), but it
//! does so by hash or by which thread wakes first. Ten connections with a thousand watches each
//! could then end up on one core. Accepting is cheap and a hand-over costs microseconds, so the
//! even distribution is worth it.

mod acceptor;
mod open_files;
mod plain_listener;
mod single_write;
mod socket;
mod worker;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_rt::Arbiter;
use actors::tasks;
use actors::threads::spawn_arbiter;
use arc_swap::ArcSwap;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::HttpService;
use super::connection_state::TotalHeldBytes;
use super::limits::Limits;
use crate::config::{Config, ConnectionLimit};
use crate::transport::vanished::find_vanished;

pub use open_files::{OpenFileLimit, raise_open_file_limit};
pub use plain_listener::PlainListener;
pub use socket::BindError;

use acceptor::Acceptor;
use worker::Worker;

/// The secure port, listening but not serving.
#[derive(Debug)]
pub struct SecureListener {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    threads: usize,
}

impl SecureListener {
    /// Opens the port. This happens first, so that the daemon reports a port conflict before it
    /// does anything else. Connections wait in the backlog until [`SecureListener::serve`].
    ///
    /// # Errors
    /// [`BindError`], which is one line for the operator.
    pub fn bind(config: &Config) -> Result<SecureListener, BindError> {
        let mut limits = Limits::of(config);
        let open_files = OpenFileLimit::current();
        limits.connections = fitted(config.max_connections, open_files.connections());
        let threads = match config.http_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let address = SocketAddr::new(config.bind_address.0, config.secure_port.0);
        let listener = socket::listen("secure-port", address, config.permit_port_sharing.0)?;
        let address = listener.local_addr().unwrap_or(address);
        Ok(SecureListener {
            listener,
            address,
            limits,
            threads,
        })
    }

    /// The address, with the port that was assigned if the configuration has port 0.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// The number of HTTP threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Overrides limits that operators cannot set.
    #[cfg(test)]
    pub(in crate::transport) fn with_limits(
        mut self,
        change: impl FnOnce(&mut Limits),
    ) -> SecureListener {
        change(&mut self.limits);
        self
    }

    /// Serves connections. Each handshake uses the TLS configuration that is current then.
    /// `make_service` is called once on each HTTP thread, with the number of the thread.
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
        let limits = Arc::new(self.limits);
        let held = Arc::new(TotalHeldBytes::default());
        let mut workers = Vec::with_capacity(self.threads);
        let mut arbiters = Vec::with_capacity(self.threads);
        let vanished = watch::Sender::new(Arc::default());
        let mut handles = Vec::with_capacity(self.threads);
        for number in 0..self.threads {
            let arbiter = spawn_arbiter()?;
            let tls = Arc::clone(&tls);
            let (worker, handle) = Worker::new(&limits, &held, tls, vanished.subscribe());
            let emptied = worker.start(&arbiter, number, make_service.clone());
            workers.push(emptied);
            arbiters.push(arbiter);
            handles.push(handle);
        }
        let acceptor = Acceptor::new(&limits, handles);
        Ok(Running {
            address: self.address,
            accepting: tasks::spawn_local(acceptor.run(self.listener)),
            finding_vanished: tasks::spawn_local(find_vanished(self.address.port(), vanished)),
            workers,
            arbiters,
        })
    }
}

/// Returns how many connections to serve if the limit of open files leaves room for `room`. It
/// warns only if the operator has set a number that does not fit.
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

/// How long threads have to drop the connections that were cut.
const THREADS_END_WITHIN: Duration = Duration::from_millis(500);

/// The secure port while it serves.
pub struct Running {
    address: SocketAddr,
    accepting: JoinHandle<()>,
    finding_vanished: JoinHandle<()>,
    workers: Vec<worker::Emptied>,
    arbiters: Vec<Arbiter>,
}

impl Running {
    /// The address, with the port that was assigned if the configuration has port 0.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Stops gracefully within `deadline`. The port accepts no more connections, HTTP/2 clients get
    /// a GOAWAY, requests are answered or carried out to their end without their clients, and
    /// watches end.
    pub async fn drain(self, deadline: Duration) -> Drained {
        let deadline = tokio::time::Instant::now() + deadline;
        self.accepting.abort();
        self.finding_vanished.abort();
        // The listening socket is closed once the task has ended.
        let _ = self.accepting.await;
        let mut left = 0;
        for emptied in self.workers {
            left += emptied.wait_until(deadline).await;
        }
        Drained {
            left,
            arbiters: self.arbiters,
        }
    }
}

/// The HTTP threads after the drain.
#[must_use]
pub struct Drained {
    left: usize,
    arbiters: Vec<Arbiter>,
}

impl Drained {
    /// How many connections are still open.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Ends the threads, which cuts their connections.
    pub async fn end(self) {
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
        // When a thread ends, its cut requests write their audit events. Nothing waits for a
        // stuck thread.
        let (tell, ended) = oneshot::channel();
        std::thread::spawn(move || {
            for arbiter in self.arbiters {
                // A panic of that thread has been logged by the runtime.
                let _ = arbiter.join();
            }
            let _ = tell.send(());
        });
        let _ = tokio::time::timeout(THREADS_END_WITHIN, ended).await;
    }

    /// Stops the threads where they are, for a process that ends now. Its end closes connections
    /// and frees memory several times faster than the threads do.
    pub fn halt(self) {
        for arbiter in &self.arbiters {
            arbiter.spawn_fn(|| {
                loop {
                    std::thread::park();
                }
            });
        }
    }
}
