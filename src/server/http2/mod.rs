//! HTTP/2: the h2 crate driven directly, one task to a connection.
//!
//! Everything of a connection happens in one poll of its task: the requests being answered go
//! on, all streams that are ready send what they have, h2 puts it into frames, and the frames
//! leave in one write ([`socket`]).

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

/// Why an HTTP/2 connection ended otherwise than in good order.
#[derive(Debug, thiserror::Error)]
pub(super) enum Http2Error {
    /// The client did not send the preface in time.
    #[error("the HTTP/2 preface did not come in time")]
    HandshakeTimeout,
    /// The protocol was broken, or the connection.
    #[error(transparent)]
    Protocol(#[from] h2::Error),
    /// Writing failed.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// Nothing was heard of the peer for too long.
    #[error("the peer is silent, pings included")]
    Dead,
    /// The client asked for more than it may, or sent a flood of frames that carry nothing.
    #[error("the client asks too much")]
    AskedTooMuch,
    /// For too long the peer took nothing of what it was sent.
    #[error("the peer takes nothing")]
    Stalled,
}

/// Serves a connection until it ends.
pub(super) async fn serve<S, T>(
    io: T,
    facts: ConnectionFacts,
    state: &Rc<ConnectionState>,
    service: S,
    thread: HttpThread,
) -> Result<(), Http2Error>
where
    S: HttpService,
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let limits = thread.limits();
    let socket = Http2Socket::new(io, thread.buffers().clone());
    let handshake = connection::handshake(builder(limits), socket.clone());
    let h2 = tokio::time::timeout(limits.handshake_timeout, handshake)
        .await
        .map_err(|_| Http2Error::HandshakeTimeout)??;
    // The thread must not count as empty before the last words are through.
    let _lingering = thread.join();
    let state = Rc::clone(state);
    connection::Connection::new(h2, socket.clone(), facts, state, service, thread).await?;
    socket.allow_read(usize::MAX);
    lingering_close(socket).await;
    Ok(())
}

fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_bytes)
        // The connection's own window is the least there is until it is authenticated.
        .initial_window_size(256 * 1024)
        // What waits in h2 for its turn to be framed; streams are asked for more only when the
        // socket has taken the last.
        .max_send_buffer_size(128 * 1024)
        // Floods of streams opened and reset, by them or for their errors, end the connection.
        .max_concurrent_reset_streams(50)
        .max_pending_accept_reset_streams(50)
        // Counted over the whole life of a connection, which may last for months.
        .max_local_error_reset_streams(Some(1024));
    builder
}
