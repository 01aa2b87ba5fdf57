//! The task that accepts all connections and chooses their threads.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::Counter;
use tokio::sync::mpsc;

use crate::transport::limits::Limits;
use crate::transport::slots::{Slot, Slots};
use crate::transport::thread::Load;

/// The pause after an error of the whole process, such as a lack of file descriptors.
const REST: Duration = Duration::from_millis(100);

/// The minimum interval between two log lines about failing connections.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(10);

/// A connection on its way to its thread.
pub(super) struct Arrival {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) counted: CountedConnection,
    pub(super) slot: Slot,
}

/// A thread as the acceptor sees it.
pub(super) struct WorkerHandle {
    pub(super) arrivals: mpsc::Sender<Arrival>,
    pub(super) load: Arc<Load>,
}

/// Counts a connection of a thread until it is dropped.
pub(super) struct CountedConnection(Arc<Load>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.disconnect();
    }
}

/// Accepts connections and gives each to the least loaded thread.
pub(super) struct Acceptor {
    connections_max: usize,
    workers: Vec<WorkerHandle>,
    slots: Arc<Slots>,
    refused: Counter,
    complained: Option<Instant>,
}

impl Acceptor {
    pub(super) fn new(limits: &Limits, workers: Vec<WorkerHandle>) -> Acceptor {
        metrics::describe_counter!(
            "taffrail_connections_refused_total",
            "Connections closed because authenticated connections held all slots."
        );
        Acceptor {
            connections_max: limits.connections,
            workers,
            slots: Slots::new(limits),
            refused: metrics::counter!("taffrail_connections_refused_total"),
            complained: None,
        }
    }

    /// Accepts connections until it is dropped.
    pub(super) async fn run(mut self, listener: TcpListener) {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "cannot accept connections on the secure port");
                return;
            }
        };
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => match stream.into_std() {
                    Ok(stream) => self.hand_over(stream, peer).await,
                    Err(error) => self.complain(&format!("cannot serve a connection: {error}")),
                },
                Err(error) => self.rest_after(error).await,
            }
        }
    }

    async fn rest_after(&mut self, error: io::Error) {
        // A client that closed the connection before it was accepted is not an error of the
        // server.
        let harmless = [
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::Interrupted,
        ];
        if !harmless.contains(&error.kind()) {
            self.complain(&format!("cannot accept connections: {error}"));
            tokio::time::sleep(REST).await;
        }
    }

    /// Finds a slot and a thread for a connection. A connection without a slot is closed at once,
    /// so that the client fails early. While the threads are busy the connection waits, and later
    /// ones wait in the backlog.
    async fn hand_over(&mut self, stream: TcpStream, peer: SocketAddr) {
        let Some(slot) = self.slots.admit(peer.ip()) else {
            self.refused.increment(1);
            let most = self.connections_max;
            self.complain(&format!(
                "closing new connections, because max-connections={most} are open"
            ));
            return;
        };
        let Some(worker) = self.workers.iter().min_by_key(|worker| worker.load.get()) else {
            return;
        };
        worker.load.connect();
        let arrival = Arrival {
            stream,
            peer,
            counted: CountedConnection(Arc::clone(&worker.load)),
            slot,
        };
        // Sending fails only after the thread has ended together with the daemon.
        let _ = worker.arrivals.send(arrival).await;
    }

    fn complain(&mut self, complaint: &str) {
        let now = Instant::now();
        let due = self
            .complained
            .is_none_or(|last| now.duration_since(last) >= COMPLAINT_INTERVAL);
        if due {
            self.complained = Some(now);
            tracing::warn!("{complaint}");
        }
    }
}
