//! One HTTP thread. It serves the connections it receives, and ends them when the daemon stops.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use actix_rt::Arbiter;
use actors::tasks;
use arc_swap::ArcSwap;
use metrics::Counter;
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::acceptor::{Arrival, WorkerHandle};
use super::single_write::SingleWrite;
use crate::clock;
use crate::transport::connection_state::{ConnectionState, TotalHeldBytes};
use crate::transport::limits::Limits;
use crate::transport::lingering_close::lingering_close;
use crate::transport::thread::{HttpThread, Load};
use crate::transport::vanished::Ends;
use crate::transport::{ConnectionFacts, HttpService, LongReads, http1, http2, tls};
use crate::x509::PeerCertificates;

/// The most connections on their way to a thread. More of them wait in the backlog of the port.
const ARRIVALS_MAX: usize = 64;

/// How many new connections a thread takes before its other connections have their turn. So
/// handshakes in progress finish before many more begin, however many clients arrive at once.
const ARRIVALS_PER_TURN: usize = 16;

/// An HTTP thread that has not started.
pub(super) struct Worker {
    arrivals: mpsc::Receiver<Arrival>,
    load: Arc<Load>,
    limits: Arc<Limits>,
    held: Arc<TotalHeldBytes>,
    tls: Arc<ArcSwap<ServerConfig>>,
    vanished: watch::Receiver<Arc<HashSet<Ends>>>,
}

/// Reports when a thread has ended its connections.
pub(super) struct Emptied {
    emptied: oneshot::Receiver<()>,
    load: Arc<Load>,
}

impl Emptied {
    /// Waits until the thread is empty or `deadline` passes. Returns how many connections remain.
    pub(super) async fn wait_until(self, deadline: Instant) -> usize {
        match tokio::time::timeout_at(deadline, self.emptied).await {
            Ok(_) => 0,
            Err(_) => self.load.connections(),
        }
    }
}

impl Worker {
    pub(super) fn new(
        limits: &Arc<Limits>,
        held: &Arc<TotalHeldBytes>,
        tls: Arc<ArcSwap<ServerConfig>>,
        vanished: watch::Receiver<Arc<HashSet<Ends>>>,
    ) -> (Worker, WorkerHandle) {
        let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
        let load = Arc::new(Load::default());
        let handle = WorkerHandle {
            arrivals: sender,
            load: Arc::clone(&load),
        };
        let worker = Worker {
            arrivals,
            load,
            limits: Arc::clone(limits),
            held: Arc::clone(held),
            tls,
            vanished,
        };
        (worker, handle)
    }

    /// Starts the worker on the thread of the arbiter.
    pub(super) fn start<S, M>(self, arbiter: &Arbiter, number: usize, make_service: M) -> Emptied
    where
        S: HttpService,
        M: Fn(usize) -> S + Send + 'static,
    {
        let (emptied, drained) = oneshot::channel();
        let load = Arc::clone(&self.load);
        arbiter.spawn_fn(move || {
            let service = make_service(number);
            tasks::spawn_local(async move {
                self.run(service).await;
                // Nobody waits when the daemon stops without a drain.
                let _ = emptied.send(());
            });
        });
        Emptied {
            emptied: drained,
            load,
        }
    }

    async fn run<S: HttpService>(mut self, service: S) {
        let thread = HttpThread::new(self.limits, self.load, self.held);
        let failed_handshakes = tls::handshake_errors();
        tasks::spawn_local(thread.grant_turns());
        let mut revocations = service.revocations();
        let mut taken: usize = 0;
        loop {
            let arrival = tokio::select! {
                arrival = self.arrivals.recv() => arrival,
                Ok(()) = revocations.changed() => {
                    thread.look_for_revoked();
                    continue;
                }
                Ok(()) = self.vanished.changed() => {
                    thread.end_vanished(&self.vanished.borrow_and_update());
                    continue;
                }
            };
            let Some(arrival) = arrival else { break };
            let connection = Connection {
                tls: TlsAcceptor::from(self.tls.load_full()),
                thread: thread.clone(),
                failed_handshakes: failed_handshakes.clone(),
            };
            tasks::spawn_local(connection.serve(arrival, service.clone()));
            taken = (taken + 1) % ARRIVALS_PER_TURN;
            if taken == 0 {
                tokio::task::yield_now().await;
            }
        }
        // The acceptor has ended, so the daemon is stopping. Requests already received are answered
        // while watches end.
        service.drain();
        thread.drain();
        thread.emptied().await;
        service.unattended_ended().await;
    }
}

struct Connection {
    tls: TlsAcceptor,
    thread: HttpThread,
    failed_handshakes: Counter,
}

/// The response to a client that speaks HTTP without TLS, in the words of Go's server.
const SPEAK_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Whether the first bytes are those of an HTTP request. It only peeks at them.
async fn speaks_http(stream: &TcpStream) -> io::Result<bool> {
    const REQUESTS: [&[u8; 5]; 7] = [
        b"GET /", b"HEAD ", b"POST ", b"PUT /", b"PATCH", b"DELET", b"OPTIO",
    ];
    let mut first = [0; 5];
    stream.peek(&mut first).await?;
    Ok(REQUESTS.contains(&&first))
}

impl Connection {
    async fn serve<S: HttpService>(self, arrival: Arrival, service: S) {
        let Arrival {
            stream,
            peer,
            counted,
            slot,
        } = arrival;
        let _counted = counted;
        let local = stream.local_addr().ok();
        let ends = local.map(|local| Ends::new(local, peer));
        let known = self.thread.state_of(slot, ends);
        let state = &known.state;
        // Pinned in place. A moved future would take its memory twice while the connection lives.
        let served = pin!(self.serve_stream(stream, peer, state, service));
        if state.keep(served).await.is_none() {
            tracing::debug!(%peer, "connection closed: to make room, or its client vanished");
        }
    }

    async fn serve_stream<S: HttpService>(
        self,
        stream: std::net::TcpStream,
        peer: SocketAddr,
        state: &Rc<ConnectionState>,
        service: S,
    ) {
        let stream = match self.shake_hands(stream, state).await {
            Ok(stream) => stream,
            Err(error) => {
                self.failed_handshakes.increment(1);
                tracing::debug!(%peer, error, "the TLS handshake failed");
                return;
            }
        };
        let http2 = stream.get_ref().1.alpn_protocol() == Some(tls::ALPN_HTTP2);
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let facts = ConnectionFacts {
            peer,
            http2,
            certificates: PeerCertificates::new(shown).map(Arc::new),
            reads: LongReads::default(),
        };
        let ended = if http2 {
            let served = http2::serve(stream, facts, state, service, self.thread).await;
            served.map_err(|error| error.to_string())
        } else {
            let served = http1::serve(stream, facts, state, service, self.thread).await;
            served.map_err(|error| error.to_string())
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, error, "a connection broke");
        }
    }

    async fn shake_hands(
        &self,
        stream: std::net::TcpStream,
        state: &ConnectionState,
    ) -> Result<TlsStream<SingleWrite<TcpStream>>, String> {
        // rustls panics at a time outside the range it can represent.
        clock::check(SystemTime::now()).map_err(|error| error.to_string())?;
        let mut stream = TcpStream::from_std(stream).map_err(|error| error.to_string())?;
        let limit = self.thread.limits().handshake_timeout;
        let shaking = async {
            // Allocate nothing for a client that sends nothing.
            stream.readable().await?;
            state.begin().await;
            if speaks_http(&stream).await? {
                stream.write_all(SPEAK_TLS).await?;
                stream.shutdown().await?;
                lingering_close(stream).await;
                return Err(io::Error::other("the client speaks HTTP without TLS"));
            }
            self.tls.accept(SingleWrite(stream)).await
        };
        match tokio::time::timeout(limit, shaking).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("not done within {limit:?}")),
        }
    }
}
