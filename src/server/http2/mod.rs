//! HTTP/2 on top of the h2 crate, with one task per connection.
//!
//! This folder owns the task, the response streams and the buffering of one connection. It takes an
//! accepted byte stream and an [`HttpService`], and returns when the
//! connection has ended. It must not know what a path, a resource or a user is.
//!
//! One poll of the task does all work of a connection. Requests in progress continue, every ready
//! stream sends what it has, h2 turns it into frames, and the frames leave in one write
//! ([`socket`]).

mod connection;
mod inbound;
mod keepalive;
mod outbound;
mod reply;
mod signals;
mod socket;
mod streams;
mod unread;

use std::io;
use std::rc::Rc;

use h2::server::Builder;
use tokio::io::{AsyncRead, AsyncWrite};

use super::body::{ConnectionFacts, HttpService};
use super::connection_state::ConnectionState;
use super::limits::Limits;
use super::lingering_close::lingering_close;
use super::listener::thread::HttpThread;

use socket::Http2Socket;
pub(super) use socket::{BufferPool, COALESCED_BYTES};
pub use unread::Http2Body;

/// Why an HTTP/2 connection ended with an error.
#[derive(Debug, thiserror::Error)]
pub(super) enum Http2Error {
    /// The client did not send the preface in time.
    #[error("the HTTP/2 preface did not come in time")]
    HandshakeTimeout,
    /// The client broke the protocol, or the connection failed.
    #[error(transparent)]
    Protocol(#[from] h2::Error),
    /// Writing failed.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// The peer was silent for too long.
    #[error("the peer is silent, pings included")]
    Dead,
    /// The client asked for more than it may, or sent a flood of frames that carry nothing.
    #[error("the client asks too much")]
    AskedTooMuch,
    /// The peer took no data for too long.
    #[error("the peer takes nothing")]
    Stalled,
}

/// Serves a connection until it ends. It is no async function, which would keep the memory of `io`
/// a second time while the connection lives.
pub(super) fn serve<S, T>(
    io: T,
    facts: ConnectionFacts,
    state: &Rc<ConnectionState>,
    service: S,
    thread: HttpThread,
) -> impl Future<Output = Result<(), Http2Error>> + use<S, T>
where
    S: HttpService,
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let socket = Http2Socket::new(io, thread.buffers().clone());
    let state = Rc::clone(state);
    async move {
        let handshake = connection::handshake(builder(thread.limits()), socket.clone());
        let h2 = tokio::time::timeout(thread.limits().handshake_timeout, handshake)
            .await
            .map_err(|_| Http2Error::HandshakeTimeout)??;
        // The thread must not count as empty before the last messages are sent.
        let _lingering = thread.join();
        connection::Connection::new(h2, socket.clone(), facts, state, service, thread).await?;
        socket.allow_read(usize::MAX, usize::MAX);
        lingering_close(socket).await;
        Ok(())
    }
}

fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_bytes)
        // Until the connection is authenticated, its own window is the smaller limit.
        .initial_window_size(256 * 1024)
        // What h2 may hold until it is framed. Streams are asked for more only when the socket has
        // taken what came before.
        .max_send_buffer_size(128 * 1024)
        // A flood of opened and reset streams ends the connection, whoever resets them.
        .max_concurrent_reset_streams(50)
        .max_pending_accept_reset_streams(50)
        // Counted over the whole life of a connection, which may last for months.
        .max_local_error_reset_streams(Some(1024));
    builder
}
