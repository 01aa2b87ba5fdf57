//! HTTP/1.1 on top of hyper, with small buffers and the same service as HTTP/2.
//!
//! This folder owns the HTTP/1.1 parsing rules, the timeouts and the request bodies of one
//! connection. It takes an accepted byte stream and an [`HttpService`], and returns when the
//! connection has ended. It must not know what a path, a resource or a user is.
//!
//! A request that is answered before its body has arrived (too large, unauthorized) ends its
//! connection, unless the rest of the body is short and available. `request` decides which.

mod lines;
mod request;
mod timeouts;

pub use request::Http1Body;

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use actors::dispatcher::{Caller, WatchFrame};
use bytes::Bytes;
use http::header::{CONNECTION, DATE, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use request::Unread;
use timeouts::{ConnectionTimeouts, Phase, TimedIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::clock;
use crate::server::auth::Access;
use crate::server::body::{
    self, ConnectionFacts, HttpService, RequestBody, ResponseBody, TOO_MANY_HOSTS, no_room,
    too_much_held,
};
use crate::server::connection_state::{ConnectionState, Held};
use crate::server::frame_batch::batch;
use crate::server::http2::COALESCED_BYTES;
use crate::server::lingering_close::lingering_close;
use crate::server::listener::thread::HttpThread;

/// Serves a connection until it ends.
pub(in crate::server) async fn serve<S, T>(
    io: T,
    facts: ConnectionFacts,
    state: &Rc<ConnectionState>,
    service: S,
    thread: HttpThread,
) -> Result<(), hyper::Error>
where
    S: HttpService,
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut membership = thread.join();
    // The access that the last watch was opened with.
    let watched = RefCell::default();
    let timeouts = ConnectionTimeouts::new(&thread);
    let mut builder = Builder::new();
    // The server keeps the time itself. hyper has one timeout for both idling and headers, and its
    // date stays in the future after the clock is set back.
    builder
        .auto_date_header(false)
        .header_read_timeout(None)
        .max_buf_size(thread.limits().header_bytes as usize);
    let io = TimedIo::new(io, timeouts.clone());
    let lingering = io.clone();
    let shared = ConnectionContext {
        facts,
        state,
        thread: &thread,
        timeouts: &timeouts,
        watched: &watched,
    };
    let answering =
        service_fn(|request: Request<Incoming>| answer(service.clone(), &shared, request));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), answering));
    let mut timer = pin!(tokio::time::sleep_until(timeouts.next_look()));
    let mut leaving = false;
    let ended = poll_fn(|context| {
        if !leaving && membership.is_draining(context) {
            leaving = true;
            connection.as_mut().graceful_shutdown();
        }
        // hyper formats the date even when it is not sent, and panics if the clock is out of range.
        if let Err(error) = clock::check(SystemTime::now()) {
            tracing::debug!(%error, "a connection was given up");
            return Poll::Ready(Ok(Ended::OutOfTime));
        }
        let has_revocations = membership.has_revocations();
        if let Poll::Ready(ended) = connection.as_mut().poll(context) {
            return Poll::Ready(ended.map(|()| Ended::InOrder));
        }
        // hyper does not ask a body for its end while the body waits for its client.
        let access = watched.borrow();
        let is_revoked = access.as_ref().is_some_and(Access::is_revoked);
        if has_revocations && is_revoked && timeouts.is_watched() {
            return Poll::Ready(Ok(Ended::OutOfTime));
        }
        if timeouts.next_look() < timer.deadline() {
            timer.as_mut().reset(timeouts.next_look());
        }
        while timer.as_mut().poll(context).is_ready() {
            if timeouts.is_over() {
                tracing::debug!("a connection was given up: its client is too slow");
                return Poll::Ready(Ok(Ended::OutOfTime));
            }
            timer.as_mut().reset(timeouts.next_look());
        }
        Poll::Pending
    })
    .await?;
    // A client that was too slow gets no last message.
    if ended == Ended::InOrder {
        lingering_close(lingering).await;
    }
    Ok(())
}

/// The state shared by the requests of one connection.
struct ConnectionContext<'c> {
    facts: ConnectionFacts,
    state: &'c Rc<ConnectionState>,
    thread: &'c HttpThread,
    timeouts: &'c ConnectionTimeouts,
    watched: &'c RefCell<Option<Access>>,
}

async fn answer<S: HttpService>(
    service: S,
    shared: &ConnectionContext<'_>,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, Infallible> {
    let facts = &shared.facts;
    let ConnectionContext {
        state,
        thread,
        timeouts,
        watched,
        ..
    } = *shared;
    timeouts.enter(Phase::Busy);
    let unread = Unread::of(&request);
    let mut request = request.map(|incoming| {
        if incoming.is_end_stream() {
            RequestBody::Empty
        } else {
            RequestBody::Http1(unread.watch(incoming))
        }
    });
    request.extensions_mut().insert(facts.clone());
    let is_admitted = state.is_authenticated()
        || service
            .user(request.headers(), facts)
            .is_none_or(|user| state.authenticate(&user));
    // Boxed, because hyper keeps the memory of this future while the connection lives, and a watch
    // lives for hours.
    let may_ask = state.may_ask(0, 0);
    let mut response = match refused(&request, is_admitted, may_ask) {
        Some(refusal) => refusal,
        None => Box::pin(service.call(request)).await,
    };
    response
        .headers_mut()
        .entry(DATE)
        .or_insert_with(|| thread.date().now());
    if !unread.is_drained().await {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    if let ResponseBody::Watch(watch) = response.body() {
        watched.replace(Some(watch.access().clone()));
        timeouts.enter(Phase::Watched);
    }
    let mut held = None;
    match response.body() {
        ResponseBody::Full(bytes) => timeouts.send(state.hold_answer(bytes.len())),
        ResponseBody::Chunks(pieces) => held = Some(state.hold_answer(pieces.held())),
        ResponseBody::Empty | ResponseBody::Watch(_) => {}
    }
    Ok(response.map(|body| Outgoing {
        body,
        _held: held,
        thread: thread.clone(),
        timeouts: timeouts.clone(),
    }))
}

/// The response to a request that is refused before it reaches the service.
fn refused<B>(
    request: &Request<B>,
    is_admitted: bool,
    may_ask: bool,
) -> Option<Response<ResponseBody>> {
    let headers = request.headers();
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_other_coding = |coding: &HeaderValue| {
        let coding = coding.as_bytes().trim_ascii();
        !coding.eq_ignore_ascii_case(b"chunked")
    };
    if codings.next().is_some_and(is_other_coding) || codings.next().is_some() {
        return Some(not_implemented());
    }
    let mut hosts = headers.get_all(HOST).iter();
    let wants_host = request.version() == Version::HTTP_11;
    match (hosts.next(), hosts.next()) {
        (None, _) if wants_host => Some(bad_request("missing required Host header")),
        (_, Some(_)) => Some(bad_request(TOO_MANY_HOSTS)),
        (Some(host), _) if !is_host(host.as_bytes()) => Some(bad_request("malformed Host header")),
        _ if !is_admitted => Some(no_room()),
        _ => (!may_ask).then(too_much_held),
    }
}

/// Whether a text may be a host and a port, by the bytes that Go takes there.
fn is_host(text: &[u8]) -> bool {
    let is_allowed =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;=[']_~".contains(byte);
    text.iter().all(is_allowed)
}

/// A refusal by HTTP itself that ends the connection.
fn bad_request(reason: &str) -> Response<ResponseBody> {
    closing(body::bad_request(reason))
}

/// The refusal of a body in another coding than chunks, in the words of Go's server.
fn not_implemented() -> Response<ResponseBody> {
    let code = StatusCode::NOT_IMPLEMENTED;
    closing(body::plain(code, "Unsupported transfer encoding"))
}

fn closing(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    InOrder,
    OutOfTime,
}

/// A response body in the form that hyper takes.
struct Outgoing {
    body: ResponseBody,
    /// What a body in pieces holds. A complete one is handed over at once, and counts until it has
    /// left.
    _held: Option<Held>,
    thread: HttpThread,
    timeouts: ConnectionTimeouts,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.timeouts.enter(Phase::Idle(Instant::now()));
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
            ResponseBody::Chunks(pieces) => pieces.poll_next(context),
            ResponseBody::Watch(watch) if watch.access().is_revoked() => Poll::Ready(None),
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

/// Collects all available frames into one piece of at most [`COALESCED_BYTES`] plus one frame. A
/// single frame is not copied.
fn gather_frames(mut next: impl FnMut() -> Poll<Option<WatchFrame>>) -> Gathered {
    let nothing = |bytes| Gathered { frames: 0, bytes };
    let first = match next() {
        Poll::Ready(Some(first)) => first,
        Poll::Ready(None) => return nothing(Poll::Ready(None)),
        Poll::Pending => return nothing(Poll::Pending),
    };
    // The copy contains the first frame too, so that frame counts once more.
    let left = COALESCED_BYTES.saturating_sub(first.bytes.len());
    let joined = batch(first, COALESCED_BYTES, || left, next);
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
