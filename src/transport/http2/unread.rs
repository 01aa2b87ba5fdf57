//! Reads and discards request bodies that no handler read.
//!
//! The server may answer a request before its body arrives, for example when it refuses it by its
//! headers or because of too many requests. It could reset the stream, but the rest of the body is
//! on its way. h2 counts late data as errors of the client, and after a thousand errors it ends the
//! connection with all its watches. Short bodies are therefore read.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;

use crate::transport::{BodySource, RequestBody};

/// The most bytes that are read of one body. A longer body is reset.
const BYTES_MAX: usize = 256 * 1024;

/// A body that is incomplete after this many inspections is reset.
const INSPECTIONS_MAX: u8 = 2;

type Dropped = Rc<RefCell<Vec<RecvStream>>>;

/// The body of an HTTP/2 request. A body dropped before its end moves to the [`Unread`] of its
/// connection.
struct Http2Body {
    stream: Option<RecvStream>,
    dropped: Dropped,
}

impl BodySource for Http2Body {
    /// Always zero, because h2 does not report the announced length. The limit is checked as pieces
    /// arrive.
    fn announced(&self) -> u64 {
        0
    }

    /// Polls for the next piece, and returns its window to the client.
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(None);
        };
        let polled = poll_data(stream, context);
        polled.map(|data| data.map(|data| data.map_err(|error| error.to_string())))
    }
}

impl Drop for Http2Body {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take().filter(|stream| !stream.is_end_stream()) {
            self.dropped.borrow_mut().push(stream);
        }
    }
}

fn poll_data(
    stream: &mut RecvStream,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, h2::Error>>> {
    let polled = stream.poll_data(context);
    if let Poll::Ready(Some(Ok(data))) = &polled
        && let Err(error) = stream.flow_control().release_capacity(data.len())
    {
        return Poll::Ready(Some(Err(error)));
    }
    polled
}

/// The unread bodies of one connection.
#[derive(Default)]
pub(super) struct Unread {
    dropped: Dropped,
    bodies: Vec<Rest>,
}

struct Rest {
    stream: RecvStream,
    bytes: usize,
    inspections: u8,
}

impl Rest {
    /// Reads what is available. Returns whether more is to come.
    fn take_in(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            match poll_data(&mut self.stream, context) {
                Poll::Ready(Some(Ok(data))) => {
                    self.bytes += data.len();
                    if self.bytes > BYTES_MAX {
                        return false;
                    }
                }
                Poll::Ready(_) => return false,
                Poll::Pending => return true,
            }
        }
    }
}

impl Unread {
    /// Wraps a body for the service.
    pub(super) fn body(&self, stream: RecvStream) -> RequestBody {
        RequestBody::Arriving(Box::new(Http2Body {
            stream: Some(stream),
            dropped: Rc::clone(&self.dropped),
        }))
    }

    /// The number of unread bodies.
    pub(super) fn len(&self) -> usize {
        self.bodies.len() + self.dropped.borrow().len()
    }

    /// Reads what is available.
    pub(super) fn take_in(&mut self, context: &mut Context<'_>) {
        let dropped = self.dropped.borrow_mut().drain(..).collect::<Vec<_>>();
        self.bodies.extend(dropped.into_iter().map(|stream| Rest {
            stream,
            bytes: 0,
            inspections: 0,
        }));
        self.bodies.retain_mut(|body| body.take_in(context));
    }

    /// Drops all unread bodies because the connection is about to close.
    pub(super) fn give_up(&mut self) {
        self.dropped.borrow_mut().clear();
        self.bodies.clear();
    }

    /// Resets bodies that take too long.
    pub(super) fn inspect(&mut self) {
        self.bodies.retain_mut(|body| {
            body.inspections += 1;
            body.inspections <= INSPECTIONS_MAX
        });
    }
}
