//! Connections of HTTP/2, each of which many requests share.
//!
//! A server says how many requests it takes at a time on a connection. The library would let
//! further ones wait for the end of earlier ones, and watches have none. So a connection is used
//! up to that number, and the next request opens another one, as Go's client does.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use actors::tasks;
use futures_util::task::AtomicWaker;
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::{Instant, timeout_at};

use super::dial::{self, HEAD_BYTES_MAX, STREAM_WINDOW_BYTES};
use super::error::Failure;
use super::outgoing::OutgoingBody;
use super::wire::Wire;

/// The time after which a silent connection is asked whether it lives, and that for its answer.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// The most bytes that wait for the readers of all answers of a connection. One reader that is slow
/// must not stop the others.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

/// The most requests at a time on a connection whose server permits more.
const REQUESTS_MAX: usize = 1000;

/// Sends requests on a connection. Its clones share the connection.
pub(super) type Sender = http2::SendRequest<OutgoingBody>;

/// An open connection.
pub(super) struct Opened {
    pub(super) sender: Sender,
    /// The requests that the server permits at a time.
    limit: Arc<AtomicUsize>,
}

/// Begins HTTP/2, and waits until the server has said how many requests it permits.
pub(super) async fn open(wire: Wire, until: Instant) -> Result<Opened, Failure> {
    let turns = Arc::new(AtomicWaker::new());
    let (sender, mut connection) = http2::Builder::new(Parts(Arc::clone(&turns)))
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        // Before the server has said more.
        .initial_max_send_streams(0)
        .handshake(TokioIo::new(wire))
        .await
        .map_err(|error| Failure::Transport(error.to_string()))?;
    let beginning = poll_fn(|context| {
        turns.register(context.waker());
        match Pin::new(&mut connection).poll(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(dial::of_exchange(&error))),
            Poll::Ready(Ok(())) => Poll::Ready(Err(Failure::Closed)),
            Poll::Pending if connection.current_max_send_streams() == 0 => Poll::Pending,
            Poll::Pending => Poll::Ready(Ok(())),
        }
    });
    let late = |_| Failure::Transport("http2: timeout awaiting the server's settings".to_owned());
    timeout_at(until, beginning).await.map_err(late)??;
    let limit = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
    let changing = Arc::clone(&limit);
    // A server may change the limit. It is read again with each request.
    tasks::spawn(poll_fn(move |context| {
        let polled = Pin::new(&mut connection).poll(context);
        changing.store(connection.current_max_send_streams(), Ordering::Relaxed);
        polled
    }));
    Ok(Opened { sender, limit })
}

/// Runs the parts of a connection, and wakes its sender after each turn of one. The sender knows
/// the settings of the server, and one of the parts reads them.
#[derive(Clone)]
struct Parts(Arc<AtomicWaker>);

impl<F> Executor<F> for Parts
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, part: F) {
        let turns = Arc::clone(&self.0);
        tasks::spawn(async move {
            let mut part = pin!(part);
            poll_fn(|context| {
                let polled = part.as_mut().poll(context);
                turns.wake();
                polled
            })
            .await;
        });
    }
}

/// The connections to one target, by the order in which they were opened.
#[derive(Default)]
pub(super) struct Shared {
    connections: BTreeMap<u64, Connection>,
    opened: u64,
}

struct Connection {
    opened: Opened,
    requests: usize,
    /// When a request was begun or ended last.
    used: Instant,
}

impl Connection {
    fn has_room(&self) -> bool {
        let limit = self.opened.limit.load(Ordering::Relaxed);
        self.requests < limit.min(REQUESTS_MAX)
    }
}

impl Shared {
    /// Adds a connection with one request. Returns its number.
    pub(super) fn add(&mut self, opened: Opened) -> u64 {
        self.opened += 1;
        let connection = Connection {
            opened,
            requests: 1,
            used: Instant::now(),
        };
        self.connections.insert(self.opened, connection);
        self.opened
    }

    /// Adds a request to the oldest connection that has room, so that those are idle which only a
    /// peak has needed.
    pub(super) fn take(&mut self) -> Option<(Sender, u64)> {
        self.connections
            .retain(|_, connection| !connection.opened.sender.is_closed());
        // linear: all but the last few are at their limit, and each has a request or was opened
        // less than a minute and a half ago.
        let mut connections = self.connections.iter_mut();
        let (number, connection) = connections.find(|(_, connection)| connection.has_room())?;
        connection.requests += 1;
        connection.used = Instant::now();
        Some((connection.opened.sender.clone(), *number))
    }

    /// Ends a request. Of the idle connections so many are kept.
    pub(super) fn give_back(&mut self, number: u64, idle_max: usize) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.requests = connection.requests.saturating_sub(1);
        connection.used = Instant::now();
        if connection.requests == 0 && self.idle() > idle_max {
            self.connections.remove(&number);
        }
    }

    /// Closes the connections that were idle for so long.
    pub(super) fn sweep(&mut self, idle_time: Duration) {
        self.connections.retain(|_, connection| {
            let is_idle = connection.requests == 0 && connection.used.elapsed() >= idle_time;
            !is_idle && !connection.opened.sender.is_closed()
        });
    }

    /// Whether it has no connection.
    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// The number of idle connections.
    pub(super) fn idle(&self) -> usize {
        let connections = self.connections.values();
        connections.filter(|one| one.requests == 0).count()
    }
}
