//! HTTP/2 on top of the h2 crate, with one task per connection.
//!
//! This folder runs the task, the response streams and the buffers of one connection. It takes an
//! accepted byte stream and an [`HttpService`], and returns when the connection has ended. It does
//! not know paths, resources or users.
//!
//! One poll of the task does all work of a connection. Requests in progress continue, every ready
//! stream sends its data, h2 turns the data into frames, and one write sends the frames
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

use super::connection_state::ConnectionState;
use super::limits::Limits;
use super::lingering_close::lingering_close;
use super::thread::HttpThread;
use super::{ConnectionFacts, HttpService};

use socket::Http2Socket;

/// The reason why an HTTP/2 connection ended with an error.
#[derive(Debug, thiserror::Error)]
pub(super) enum Http2Error {
    /// The client did not send the preface in time.
    #[error("the client did not send the HTTP/2 preface in time")]
    HandshakeTimeout,
    /// The client broke the protocol, or the connection failed.
    #[error(transparent)]
    Protocol(#[from] h2::Error),
    /// Writing failed.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// The peer was silent for too long.
    #[error("the peer did not answer a ping")]
    Dead,
    /// The client asked for more than it may, or sent a flood of frames without data.
    #[error("the client sent too many requests or frames")]
    AskedTooMuch,
    /// The peer took no data for too long.
    #[error("the peer stopped reading")]
    Stalled,
}

/// Serves a connection until it ends. It is not an async function, which would keep the memory of
/// `io` twice while the connection lives.
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
        // The most bytes that h2 may hold until it frames them. Streams are polled for more only
        // when the socket has taken the earlier bytes.
        .max_send_buffer_size(128 * 1024)
        // A flood of opened and reset streams ends the connection, whichever side resets them.
        .max_concurrent_reset_streams(50)
        .max_pending_accept_reset_streams(50)
        // h2 counts these over the whole life of a connection, which may last for months.
        .max_local_error_reset_streams(Some(1024));
    builder
}
