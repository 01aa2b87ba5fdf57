//! HTTP/1.1: hyper, with the same service behind it and small buffers.
//!
//! A request that is answered before its body has come (too large, unauthorized) ends its
//! connection, unless the rest of the body is short and here: `request` says which.

mod pace;
mod request;

pub use request::Http1Body;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use actors::dispatcher::{Caller, WatchFrame};
use bytes::Bytes;
use futures_util::Stream;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pace::{Pace, PacedIo, Phase};
use request::Unread;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::server::body::{ConnectionFacts, HttpService, RequestBody, ResponseBody};
use crate::server::gather::GATHER_BYTES;
use crate::server::join::join;
use crate::server::linger::linger;
use crate::server::listener::thread::HttpThread;

/// Serves a connection until it ends.
pub(in crate::server) async fn serve<S, T>(
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
    let io = PacedIo::new(io, pace.clone());
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
                tracing::debug!("a connection was given up: its client is too slow");
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
    let unread = Unread::of(&request);
    let mut request = request.map(|incoming| {
        if incoming.is_end_stream() {
            RequestBody::Empty
        } else {
            RequestBody::Http1(unread.watch(incoming))
        }
    });
    request.extensions_mut().insert(facts);
    // In a box: hyper keeps the room of this future for as long as the connection lives, and a
    // watch lives for hours.
    let mut response = Box::pin(service.call(request)).await;
    if !unread.is_drained().await {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    if matches!(response.body(), ResponseBody::Watch(_)) {
        pace.enter(Phase::Watched);
    }
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
                let caller = Caller::task(context);
                let gathered = gather_frames(|| watch.poll_next(&caller));
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
fn gather_frames(mut next: impl FnMut() -> Poll<Option<WatchFrame>>) -> Gathered {
    let nothing = |bytes| Gathered { frames: 0, bytes };
    let first = match next() {
        Poll::Ready(Some(first)) => first,
        Poll::Ready(None) => return nothing(Poll::Ready(None)),
        Poll::Pending => return nothing(Poll::Pending),
    };
    // The copy holds the first frame too; it counts once more for itself.
    let left = GATHER_BYTES.saturating_sub(first.bytes.len());
    let joined = join(first, GATHER_BYTES, || left, next);
    Gathered {
        frames: joined.frames,
        bytes: Poll::Ready(Some(joined.bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(frames: &[&'static [u8]]) -> Gathered {
        let mut frames = frames.iter();
        gather_frames(|| match frames.next() {
            Some(frame) => Poll::Ready(Some(Bytes::from_static(frame).into())),
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
