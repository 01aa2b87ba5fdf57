//! The body of a response.
//!
//! Its variants differ in how they are written: at once, in pieces that respect back-pressure, or
//! as a watch that lives as long as its connection allows. After a session the connection is not
//! HTTP any more.

use std::cell::Cell;
use std::fmt;
use std::future::ready;
use std::rc::Rc;
use std::task::{Context, Poll};

use actors::dispatcher::{Caller, WatchFrame};
use bytes::Bytes;
use futures_util::stream::{LocalBoxStream, Stream, StreamExt};
use http::HeaderMap;
use http_body::Frame;

use super::session::Session;

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

/// How a body in pieces ends.
#[derive(Debug, Default)]
pub enum Ending {
    /// The body is complete.
    #[default]
    Complete,
    /// The body is complete, and these headers follow it.
    Trailers(Box<HeaderMap>),
    /// The body has broken off. The client must not take it for a complete one.
    Broken,
}

/// A body that is produced piece by piece. The next piece is requested only when the client has
/// room for it.
pub struct Pieces {
    stream: LocalBoxStream<'static, Bytes>,
    held: usize,
    /// Set at the end of a body that is passed on.
    ending: Option<Rc<Cell<Ending>>>,
    /// Whether the client has lost the right to a body that may last.
    revocation: Option<Rc<dyn Fn() -> bool>>,
}

impl Pieces {
    /// Makes a body of a stream. `held` is the most bytes that the stream and one of its pieces may
    /// take while the client reads nothing. They count as held for the connection.
    pub fn new(stream: impl Stream<Item = Bytes> + 'static, held: usize) -> Pieces {
        Pieces {
            stream: stream.boxed_local(),
            held,
            ending: None,
            revocation: None,
        }
    }

    /// Makes a body of what another server sends. An error breaks the response off, and nothing
    /// after trailers is sent.
    pub fn passed_on(
        frames: impl Stream<Item = Result<Frame<Bytes>, String>> + 'static,
        held: usize,
    ) -> Pieces {
        let ending = Rc::new(Cell::default());
        let end = Rc::clone(&ending);
        let data = frames.scan((), move |(), frame| {
            ready(match frame.map(Frame::into_data) {
                Ok(Ok(bytes)) => Some(bytes),
                Ok(Err(frame)) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    end.set(Ending::Trailers(Box::new(trailers)));
                    None
                }
                Err(error) => {
                    tracing::debug!(error, "breaking a response off");
                    end.set(Ending::Broken);
                    None
                }
            })
        });
        Pieces {
            ending: Some(ending),
            ..Pieces::new(data, held)
        }
    }

    /// The same body, which may last as long as a watch. The sender breaks it off when
    /// `is_revoked` is true.
    #[must_use]
    pub fn lasting(self, is_revoked: impl Fn() -> bool + 'static) -> Pieces {
        Pieces {
            revocation: Some(Rc::new(is_revoked)),
            ..self
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

    /// Returns how the body has ended, after its last piece.
    pub fn ending(&self) -> Ending {
        self.ending
            .as_ref()
            .map(|ending| ending.take())
            .unwrap_or_default()
    }

    /// Returns the function that says whether the client has lost the right to a body that may
    /// last.
    pub fn revocation(&self) -> Option<&Rc<dyn Fn() -> bool>> {
        self.revocation.as_ref()
    }

    /// Returns the same body, which calls `show` with each piece when it is made, and drops `show`
    /// at its end.
    #[must_use]
    pub fn inspected(self, show: impl FnMut(&Bytes) + 'static) -> Pieces {
        Pieces {
            stream: self.stream.inspect(show).boxed_local(),
            ..self
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
    /// The session that continues on the connection after the response, which is 101.
    Session(Session),
}

impl<W> fmt::Debug for ResponseBody<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseBody::Empty => formatter.write_str("Empty"),
            ResponseBody::Full(bytes) => write!(formatter, "Full({} bytes)", bytes.len()),
            ResponseBody::Chunks(_) => formatter.write_str("Chunks(..)"),
            ResponseBody::Watch(_) => formatter.write_str("Watch(..)"),
            ResponseBody::Session(_) => formatter.write_str("Session(..)"),
        }
    }
}
