//! The connections to one target.

use std::sync::{Arc, Weak};
use std::time::Duration;

use actors::tasks;
use hyper::client::conn::http1;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::dial::{self, Dialed};
use super::error::Failure;
use super::http2::{self, Shared};
use super::outgoing::OutgoingBody;
use super::target::Target;
use super::trust;

/// The most idle connections to one target, as in Kubernetes' clients.
pub(super) const IDLE_MAX: usize = 25;
/// The time after which an idle connection is closed, as in Go.
pub(super) const IDLE_TIME: Duration = Duration::from_secs(90);

/// The room for long answers of one target, in MiB.
const ROOM: u32 = 64;

/// The connections to one target. Those of HTTP/1.1 with a request are not in it.
pub(super) struct Pool {
    tls: Arc<ClientConfig>,
    room: Semaphore,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: Vec<(http1::SendRequest<OutgoingBody>, Instant)>,
    shared: Shared,
    /// Whether a task waits to close idle connections.
    is_swept: bool,
}

/// A connection that a request can be sent on.
pub(super) enum Connection {
    /// It has one request at a time.
    Http1(http1::SendRequest<OutgoingBody>),
    /// It has others, too.
    Http2(Place),
}

/// The place of a request on a connection that requests share. It is dropped with the answer.
pub(super) struct Place {
    pub(super) sender: http2::Sender,
    pool: Arc<Pool>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.shared.give_back(self.number, IDLE_MAX);
    }
}

/// A connection for one request.
pub(super) struct Lease {
    pub(super) connection: Connection,
    /// Whether it has had a request before, so that the server may have closed it meanwhile.
    pub(super) is_reused: bool,
}

impl Pool {
    /// Reads the certificates of a target.
    pub(super) fn new(target: &Target) -> Result<Arc<Pool>, Failure> {
        Ok(Arc::new(Pool {
            tls: Arc::new(trust::config(target.settings())?),
            room: Semaphore::new(ROOM as usize),
            state: Mutex::default(),
        }))
    }

    /// The TLS of its connections.
    pub(super) fn tls(&self) -> &Arc<ClientConfig> {
        &self.tls
    }

    /// Waits until there is room for an answer of this many bytes. It is never closed.
    pub(super) async fn room(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let units = u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(ROOM);
        self.room.acquire_many(units.min(ROOM)).await.ok()
    }

    /// Takes a connection that has room for a request, or opens one.
    pub(super) async fn lease(
        self: &Arc<Self>,
        target: &Target,
        may_reuse: bool,
    ) -> Result<Lease, Failure> {
        while may_reuse && let Some(mut connection) = self.take() {
            let is_ready = match &mut connection {
                Connection::Http1(sender) => sender.ready().await.is_ok(),
                Connection::Http2(_) => true,
            };
            if is_ready {
                return Ok(Lease {
                    connection,
                    is_reused: true,
                });
            }
        }
        let connection = match dial::dial(target, &self.tls).await? {
            Dialed::Http1(sender) => Connection::Http1(sender),
            Dialed::Http2(wire, until) => {
                let opened = http2::open(wire, until).await?;
                let sender = opened.sender.clone();
                let number = self.state.lock().shared.add(opened);
                self.sweep_later();
                Connection::Http2(self.place(sender, number))
            }
        };
        Ok(Lease {
            connection,
            is_reused: false,
        })
    }

    fn take(self: &Arc<Self>) -> Option<Connection> {
        let mut state = self.state.lock();
        if let Some((sender, number)) = state.shared.take() {
            return Some(Connection::Http2(self.place(sender, number)));
        }
        while let Some((sender, since)) = state.idle.pop() {
            if !sender.is_closed() && since.elapsed() < IDLE_TIME {
                return Some(Connection::Http1(sender));
            }
        }
        None
    }

    fn place(self: &Arc<Self>, sender: http2::Sender, number: u64) -> Place {
        Place {
            sender,
            pool: Arc::clone(self),
            number,
        }
    }

    /// Returns a connection whose answer has been read to its end.
    pub(super) fn put(self: &Arc<Self>, connection: Connection) {
        let Connection::Http1(sender) = connection else {
            return;
        };
        let mut state = self.state.lock();
        if state.idle.len() < IDLE_MAX {
            state.idle.push((sender, Instant::now()));
            drop(state);
            self.sweep_later();
        }
    }

    /// Closes idle connections later, in one task for each pool that has some.
    fn sweep_later(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state.lock().is_swept, true) {
            return;
        }
        let pool: Weak<Pool> = Arc::downgrade(self);
        tasks::spawn(async move {
            loop {
                tokio::time::sleep(IDLE_TIME).await;
                match pool.upgrade() {
                    Some(pool) if pool.sweep() => {}
                    _ => return,
                }
            }
        });
    }

    /// Closes connections that were idle for long. Returns whether others are left.
    fn sweep(&self) -> bool {
        let mut state = self.state.lock();
        let is_fresh = |since: &Instant| since.elapsed() < IDLE_TIME;
        state
            .idle
            .retain(|(sender, since)| !sender.is_closed() && is_fresh(since));
        state.shared.sweep(IDLE_TIME);
        state.is_swept = !state.idle.is_empty() || !state.shared.is_empty();
        state.is_swept
    }

    /// The number of idle connections.
    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        let state = self.state.lock();
        state.idle.len() + state.shared.idle()
    }
}
