//! HTTP/1.1: hyper, with the same service behind it and small buffers.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::body::{ConnectionFacts, HttpService, RequestBody, ResponseBody};
use super::gather::GATHER_BYTES;
use super::linger::linger;
use super::listener::thread::HttpThread;

/// Serves a connection until it ends.
pub(super) async fn serve<S, T>(
    io: T,
    facts: ConnectionFacts,
    service: S,
    thread: HttpThread,
) -> Result<(), hyper::Error>
where
    S: HttpService,
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let membership = thread.join();
    let pace = Pace::new(&thread);
    let mut builder = Builder::new();
    // We watch the time ourselves: hyper's one time-out is for idling and for headers alike.
    builder
        .header_read_timeout(None)
        .max_buf_size(thread.limits().header_bytes as usize);
    let io = PacedIo {
        io: Rc::new(RefCell::new(io)),
        pace: pace.clone(),
    };
    let lingering = io.clone();
    let answering = service_fn(|request: Request<Incoming>| {
        answer(service.clone(), facts, request, pace.clone(), &thread)
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), answering));
    let mut timer = pin!(tokio::time::sleep_until(pace.next_look()));
    let mut leaving = false;
    let ended = poll_fn(|context| {
        if !leaving && membership.is_draining(context) {
            leaving = true;
            connection.as_mut().graceful_shutdown();
        }
        if let Poll::Ready(ended) = connection.as_mut().poll(context) {
            return Poll::Ready(ended.map(|()| Ended::InOrder));
        }
        if pace.next_look() < timer.deadline() {
            timer.as_mut().reset(pace.next_look());
        }
        while timer.as_mut().poll(context).is_ready() {
            if pace.is_over() {
                return Poll::Ready(Ok(Ended::OutOfTime));
            }
            timer.as_mut().reset(pace.next_look());
        }
        Poll::Pending
    })
    .await?;
    // Who was too slow has no last words to hear.
    if ended == Ended::InOrder {
        linger(lingering).await;
    }
    Ok(())
}

async fn answer<S: HttpService>(
    service: S,
    facts: ConnectionFacts,
    request: Request<Incoming>,
    pace: Pace,
    thread: &HttpThread,
) -> Result<Response<Outgoing>, Infallible> {
    pace.enter(Phase::Busy);
    let mut request = request.map(|incoming| {
        if incoming.is_end_stream() {
            RequestBody::Empty
        } else {
            RequestBody::Http1(incoming)
        }
    });
    request.extensions_mut().insert(facts);
    let response = service.call(request).await;
    Ok(response.map(|body| Outgoing {
        body,
        thread: thread.clone(),
        pace,
    }))
}

/// How a connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    InOrder,
    OutOfTime,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Reading the header of a request, its first byte having come at the time given.
    Header(Instant),
    /// Answering.
    Busy,
    /// Waiting for the next request since then.
    Idle(Instant),
}

/// Keeps the time of a connection: a deadline for headers, another for idling, none for answers.
#[derive(Clone)]
struct Pace {
    phase: Rc<Cell<Phase>>,
    header_timeout: Duration,
    idle_timeout: Duration,
}

impl Pace {
    /// A new connection owes its first header.
    fn new(thread: &HttpThread) -> Pace {
        Pace {
            phase: Rc::new(Cell::new(Phase::Header(Instant::now()))),
            header_timeout: thread.limits().header_timeout,
            idle_timeout: thread.limits().idle_timeout,
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
    }

    /// A byte came in.
    fn hear(&self) {
        if matches!(self.phase.get(), Phase::Idle(_)) {
            self.enter(Phase::Header(Instant::now()));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.phase.get() {
            Phase::Header(since) => Some(since + self.header_timeout),
            Phase::Idle(since) => Some(since + self.idle_timeout),
            Phase::Busy => None,
        }
    }

    /// When to look at the time again; while busy only now and then, so that a request does not
    /// set and clear a timer.
    fn next_look(&self) -> Instant {
        self.deadline()
            .unwrap_or_else(|| Instant::now() + self.idle_timeout)
    }

    fn is_over(&self) -> bool {
        self.deadline()
            .is_some_and(|deadline| deadline <= Instant::now())
    }
}

/// The connection's socket, telling when bytes come. Clones share it.
struct PacedIo<T> {
    io: Rc<RefCell<T>>,
    pace: Pace,
}

impl<T> Clone for PacedIo<T> {
    fn clone(&self) -> PacedIo<T> {
        PacedIo {
            io: Rc::clone(&self.io),
            pace: self.pace.clone(),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PacedIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut *self.io.borrow_mut()).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.pace.hear();
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PacedIo<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io.borrow_mut()).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io.borrow_mut()).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.borrow().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io.borrow_mut()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io.borrow_mut()).poll_shutdown(context)
    }
}

/// A response body as hyper takes it.
struct Outgoing {
    body: ResponseBody,
    thread: HttpThread,
    pace: Pace,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.pace.enter(Phase::Idle(Instant::now()));
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let next = match &mut this.body {
            ResponseBody::Empty => Poll::Ready(None),
            ResponseBody::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                this.body = ResponseBody::Empty;
                Poll::Ready((!bytes.is_empty()).then_some(bytes))
            }
            ResponseBody::Chunks(chunks) => Pin::new(chunks).poll_next(context),
            ResponseBody::Watch(watch) => {
                let gathered = gather_frames(|| watch.poll_next(context));
                this.thread.counters().sent(gathered.frames);
                gathered.bytes
            }
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            ResponseBody::Empty => true,
            ResponseBody::Full(bytes) => bytes.is_empty(),
            ResponseBody::Chunks(_) | ResponseBody::Watch(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            ResponseBody::Empty => SizeHint::with_exact(0),
            ResponseBody::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            ResponseBody::Chunks(_) | ResponseBody::Watch(_) => SizeHint::new(),
        }
    }
}

struct Gathered {
    frames: u64,
    bytes: Poll<Option<Bytes>>,
}

/// All frames that are there, in one piece of at most [`GATHER_BYTES`] and a frame. One alone is
/// not copied.
fn gather_frames(mut next: impl FnMut() -> Poll<Option<Bytes>>) -> Gathered {
    let first = match next() {
        Poll::Ready(Some(first)) => first,
        other => {
            return Gathered {
                frames: 0,
                bytes: other,
            };
        }
    };
    let mut frames = 1;
    let mut joined = BytesMut::new();
    while first.len() + joined.len() < GATHER_BYTES
        // An end is told again when it is asked for again.
        && let Poll::Ready(Some(frame)) = next()
    {
        if joined.is_empty() {
            joined.extend_from_slice(&first);
        }
        joined.extend_from_slice(&frame);
        frames += 1;
    }
    let bytes = if joined.is_empty() {
        first
    } else {
        joined.freeze()
    };
    Gathered {
        frames,
        bytes: Poll::Ready(Some(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(frames: &[&'static [u8]]) -> Gathered {
        let mut frames = frames.iter();
        gather_frames(|| match frames.next() {
            Some(frame) => Poll::Ready(Some(Bytes::from_static(frame))),
            None => Poll::Pending,
        })
    }

    #[test]
    fn a_frame_alone_is_not_copied_and_several_become_one_piece() {
        static ALONE: &[u8] = b"alone\n";
        match gather(&[ALONE]) {
            Gathered {
                frames: 1,
                bytes: Poll::Ready(Some(bytes)),
            } => assert_eq!(bytes.as_ptr(), ALONE.as_ptr()),
            _ => panic!("one frame was there"),
        }
        let several = gather(&[b"a\n", b"b\n", b"c\n"]);
        assert_eq!(several.frames, 3);
        assert_eq!(
            several.bytes,
            Poll::Ready(Some(Bytes::from_static(b"a\nb\nc\n")))
        );
        assert!(gather(&[]).bytes.is_pending());
    }

    #[test]
    fn a_piece_has_a_bound() {
        static FRAME: &[u8] = &[1; 40_000];
        let gathered = gather(&[FRAME; 5]);
        assert_eq!(gathered.frames, 2);
    }
}
