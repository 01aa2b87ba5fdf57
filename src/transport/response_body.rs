//! The body of a response.
//!
//! Its variants differ in how they are written: at once, in pieces that respect back-pressure, or
//! as a watch that lives as long as its connection allows.

use std::fmt;
use std::task::{Context, Poll};

use actors::dispatcher::{Caller, WatchFrame};
use bytes::Bytes;
use futures_util::stream::{LocalBoxStream, Stream, StreamExt};

/// The frames of a watch.
pub trait WatchBody: Unpin + 'static {
    /// Polls for the next frame, or `None` at the end.
    fn poll_next(&mut self, caller: &Caller<'_>) -> Poll<Option<WatchFrame>>;

    /// Whether the client has lost the right to watch. The sender then ends the watch.
    fn is_revoked(&self) -> bool;

    /// Returns a function for [`WatchBody::is_revoked`], for a protocol that has handed over the
    /// body.
    fn revocation(&self) -> Box<dyn Fn() -> bool>;
}

/// The size of one piece of a body, to which at most one indivisible part, such as a list item, is
/// added.
pub const PIECE_BYTES: usize = 64 * 1024;

/// A body that is produced piece by piece. The next piece is requested only when the client has
/// room for it.
pub struct Pieces {
    stream: LocalBoxStream<'static, Bytes>,
    held: usize,
}

impl Pieces {
    /// Makes a body of a stream. `held` is the most bytes that the stream and one of its pieces may
    /// take while the client reads nothing. They count as held for the connection.
    pub fn new(stream: impl Stream<Item = Bytes> + 'static, held: usize) -> Pieces {
        Pieces {
            stream: stream.boxed_local(),
            held,
        }
    }

    /// The most bytes that the body may take while the client reads nothing.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Polls for the next piece.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.stream.poll_next_unpin(context)
    }

    /// Returns the same body, which calls `show` with each piece when it is made, and drops `show`
    /// at its end.
    pub fn inspected(self, show: impl FnMut(&Bytes) + 'static) -> Pieces {
        Pieces {
            stream: self.stream.inspect(show).boxed_local(),
            held: self.held,
        }
    }
}

#[cfg(test)]
impl Pieces {
    /// Returns all pieces.
    pub async fn collect(self) -> Vec<Bytes> {
        self.stream.collect().await
    }
}

/// The body of a response, with a watch as its service has them.
#[derive(Default)]
pub enum ResponseBody<W> {
    /// No body.
    #[default]
    Empty,
    /// The complete body.
    Full(Bytes),
    /// Pieces that are produced as the client reads.
    Chunks(Pieces),
    /// A watch. The headers are sent at once, and frames as they arrive (WA-1). A frame is
    /// requested only when the client has room for it.
    Watch(W),
}

impl<W> fmt::Debug for ResponseBody<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseBody::Empty => formatter.write_str("Empty"),
            ResponseBody::Full(bytes) => write!(formatter, "Full({} bytes)", bytes.len()),
            ResponseBody::Chunks(_) => formatter.write_str("Chunks(..)"),
            ResponseBody::Watch(_) => formatter.write_str("Watch(..)"),
        }
    }
}
