//! One HTTP thread: takes the connections it is given, and sees them off when the daemon stops.

use std::sync::Arc;

use actix_rt::Arbiter;
use metrics::Counter;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::acceptor::{Arrival, Seat, Seated};
use super::single_write::SingleWrite;
use super::thread::{HttpThread, Load};
use crate::server::body::{ConnectionFacts, HttpService};
use crate::server::limits::Limits;
use crate::server::{http1, http2, tls};

/// Connections on their way to a thread. A thread that lets more than these wait is too busy to
/// serve them.
const ARRIVALS_MAX: usize = 1024;

/// A thread to be.
pub(super) struct Worker {
    arrivals: mpsc::Receiver<Arrival>,
    load: Arc<Load>,
    limits: Arc<Limits>,
    tls: Arc<ServerConfig>,
}

/// Hears when a thread has seen its connections off.
pub(super) struct Drained {
    emptied: oneshot::Receiver<()>,
    load: Arc<Load>,
}

impl Drained {
    /// Waits until then or until `deadline`; how many connections were left.
    pub(super) async fn wait_until(self, deadline: Instant) -> usize {
        match tokio::time::timeout_at(deadline, self.emptied).await {
            Ok(_) => 0,
            Err(_) => self.load.connections(),
        }
    }
}

impl Worker {
    pub(super) fn new(limits: Arc<Limits>, tls: Arc<ServerConfig>) -> (Worker, Seat) {
        let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
        let load = Arc::new(Load::default());
        let seat = Seat {
            arrivals: sender,
            load: Arc::clone(&load),
        };
        let worker = Worker {
            arrivals,
            load,
            limits,
            tls,
        };
        (worker, seat)
    }

    /// Starts on the arbiter's thread.
    pub(super) fn start<S, M>(self, arbiter: &Arbiter, number: usize, make_service: M) -> Drained
    where
        S: HttpService,
        M: Fn(usize) -> S + Send + 'static,
    {
        let (emptied, drained) = oneshot::channel();
        let load = Arc::clone(&self.load);
        arbiter.spawn_fn(move || {
            let service = make_service(number);
            actix_rt::spawn(async move {
                self.run(service).await;
                // Nobody waits when the daemon stops without a drain.
                let _ = emptied.send(());
            });
        });
        Drained {
            emptied: drained,
            load,
        }
    }

    async fn run<S: HttpService>(mut self, service: S) {
        let thread = HttpThread::new(self.limits, self.load);
        let tls = TlsAcceptor::from(self.tls);
        let failed_handshakes = tls::handshake_errors();
        while let Some(arrival) = self.arrivals.recv().await {
            let connection = Connection {
                tls: tls.clone(),
                thread: thread.clone(),
                failed_handshakes: failed_handshakes.clone(),
            };
            actix_rt::spawn(connection.serve(arrival, service.clone()));
        }
        // The acceptor is gone: the daemon stops. Requests that are already here are answered
        // while the watches say goodbye.
        service.drain();
        thread.drain();
        thread.emptied().await;
    }
}

struct Connection {
    tls: TlsAcceptor,
    thread: HttpThread,
    failed_handshakes: Counter,
}

impl Connection {
    async fn serve<S: HttpService>(self, arrival: Arrival, service: S) {
        let Arrival { stream, peer, seat } = arrival;
        let _seat: Seated = seat;
        let stream = match self.shake_hands(stream).await {
            Ok(stream) => stream,
            Err(error) => {
                self.failed_handshakes.increment(1);
                tracing::debug!(%peer, error, "no TLS handshake");
                return;
            }
        };
        let http2 = stream.get_ref().1.alpn_protocol() == Some(tls::ALPN_HTTP2);
        let facts = ConnectionFacts { peer, http2 };
        let ended = if http2 {
            let served = http2::serve(stream, facts, service, self.thread).await;
            served.map_err(|error| error.to_string())
        } else {
            let served = http1::serve(stream, facts, service, self.thread).await;
            served.map_err(|error| error.to_string())
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, error, "a connection broke");
        }
    }

    async fn shake_hands(
        &self,
        stream: std::net::TcpStream,
    ) -> Result<TlsStream<SingleWrite<TcpStream>>, String> {
        let stream = TcpStream::from_std(stream).map_err(|error| error.to_string())?;
        let limit = self.thread.limits().handshake_timeout;
        match tokio::time::timeout(limit, self.tls.accept(SingleWrite(stream))).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("not done within {limit:?}")),
        }
    }
}
