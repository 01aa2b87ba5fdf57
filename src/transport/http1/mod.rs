//! HTTP/1.1 on top of hyper, with small buffers and the same service as HTTP/2.
//!
//! This folder applies the HTTP/1.1 parsing rules, keeps the timeouts and reads the request bodies
//! of one connection. It takes an accepted byte stream and an [`HttpService`], and returns when the
//! connection has ended. It does not know paths, resources or users.
//!
//! A request that is answered before its body has arrived (too large, unauthorized) ends its
//! connection, unless the rest of the body is short and available. `request` decides which.

mod lines;
mod request;
mod timeouts;

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use actors::dispatcher::{Caller, WatchFrame};
use bytes::Bytes;
use http::header::{CONNECTION, DATE, HOST, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use request::Unread;
use timeouts::{ConnectionTimeouts, Phase, TimedIo};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep};

use crate::clock;
use crate::transport::buffer_pool::COALESCED_BYTES;
use crate::transport::connection_state::{ConnectionState, Held};
use crate::transport::frame_batch::batch;
use crate::transport::host;
use crate::transport::lingering_close::lingering_close;
use crate::transport::session::SessionParts;
use crate::transport::thread::{HttpThread, Membership};
use crate::transport::{
    ClientStream, ConnectionFacts, Ending, HttpService, Refusal, RequestBody, ResponseBody,
    Session, WatchBody,
};
use crate::upgraded::ReadAhead;

/// How long the shutdown of a connection may take whose session has ended.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);

/// Serves a connection until it ends.
pub(in crate::transport) async fn serve<S, T>(
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
    // Returns whether access to the last watch has been revoked.
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
    let mut lingering = io.clone();
    let session = RefCell::new(None);
    let start_session = |started: Session| {
        io.leave_http();
        session.replace(Some(started));
    };
    let shared = ConnectionContext {
        facts,
        state,
        thread: &thread,
        timeouts: &timeouts,
        watched: &watched,
        start_session: &start_session,
    };
    let answering =
        service_fn(|request: Request<Incoming>| answer(service.clone(), &shared, request));
    let mut connection = builder.serve_connection(TokioIo::new(io.clone()), answering);
    let mut timer = pin!(tokio::time::sleep_until(timeouts.next_look()));
    let mut leaving = false;
    let ended = poll_fn(|context| {
        if !leaving && membership.is_draining(context) {
            leaving = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        // hyper formats the date even if it is not sent, and panics if the clock is out of
        // range.
        if let Err(error) = clock::check(SystemTime::now()) {
            tracing::debug!(%error, "closing a connection, because the clock is out of range");
            return Poll::Ready(Ok(Ended::OutOfTime));
        }
        let has_revocations = membership.has_revocations();
        if let Poll::Ready(ended) = Pin::new(&mut connection).poll(context) {
            return Poll::Ready(ended.map(|()| Ended::InOrder));
        }
        // hyper does not poll a body while the body waits for its client, so its end is polled
        // here.
        let revocation = watched.borrow();
        let is_revoked = || revocation.as_ref().is_some_and(|is_revoked| is_revoked());
        if has_revocations && timeouts.is_watched() && is_revoked() {
            return Poll::Ready(Ok(Ended::OutOfTime));
        }
        match is_over(&timeouts, timer.as_mut(), context) {
            true => Poll::Ready(Ok(Ended::OutOfTime)),
            false => Poll::Pending,
        }
    })
    .await?;
    // A client that was too slow gets no last message.
    if ended != Ended::InOrder {
        return Ok(());
    }
    if let Some(session) = session.take() {
        let early = connection.into_parts().read_buf;
        let session = session.into_parts();
        timeouts.enter(match session.is_one_way {
            true => Phase::Watched,
            false => Phase::Session,
        });
        let client = Box::new(ReadAhead::new(early, lingering.clone()));
        let is_over = |context: &mut Context<'_>| is_over(&timeouts, timer.as_mut(), context);
        run_session(session, client, &mut membership, is_over).await;
        // The last bytes may still be on their way. The client of a session that was cut may read
        // nothing.
        let _ = tokio::time::timeout(CLOSES_WITHIN, lingering.shutdown()).await;
    }
    lingering_close(lingering).await;
    Ok(())
}

/// Runs a session until it ends, its user has lost access, or the time of its client is over.
async fn run_session(
    session: SessionParts,
    client: ClientStream,
    membership: &mut Membership,
    mut is_over: impl FnMut(&mut Context<'_>) -> bool,
) {
    let SessionParts {
        run,
        is_revoked,
        at_end: _at_end,
        ..
    } = session;
    membership.carries(1);
    let mut running = run(client);
    poll_fn(|context| {
        // This registers the connection for revocations, too.
        let _ = membership.is_draining(context);
        if membership.has_revocations() && is_revoked() {
            tracing::debug!("ending a session, because its user has lost access");
            return Poll::Ready(());
        }
        match running.as_mut().poll(context).is_ready() || is_over(context) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    membership.carries(0);
}

/// Whether the time of the current phase is over. If not, the timer wakes the task at the next
/// look.
fn is_over(
    timeouts: &ConnectionTimeouts,
    mut timer: Pin<&mut Sleep>,
    context: &mut Context<'_>,
) -> bool {
    if timeouts.next_look() < timer.deadline() {
        timer.as_mut().reset(timeouts.next_look());
    }
    while timer.as_mut().poll(context).is_ready() {
        if timeouts.is_over() {
            tracing::debug!("closing a connection, because its client is too slow");
            return true;
        }
        timer.as_mut().reset(timeouts.next_look());
    }
    false
}

/// Returns whether a watch has been revoked.
type Revocation = Box<dyn Fn() -> bool>;

/// The state shared by the requests of one connection.
struct ConnectionContext<'c> {
    facts: ConnectionFacts,
    state: &'c Rc<ConnectionState>,
    thread: &'c HttpThread,
    timeouts: &'c ConnectionTimeouts,
    watched: &'c RefCell<Option<Revocation>>,
    /// Has a session continue on the connection after the response.
    start_session: &'c dyn Fn(Session),
}

async fn answer<S: HttpService>(
    service: S,
    shared: &ConnectionContext<'_>,
    request: Request<Incoming>,
) -> Result<Response<Outgoing<S::Watch>>, Infallible> {
    let facts = &shared.facts;
    let ConnectionContext {
        state,
        thread,
        timeouts,
        watched,
        start_session,
        ..
    } = *shared;
    timeouts.enter(Phase::Busy);
    let unread = Unread::of(&request);
    let may_upgrade =
        request.version() == Version::HTTP_11 && request.headers().contains_key(UPGRADE);
    let mut request = request.map(|incoming| {
        if incoming.is_end_stream() {
            RequestBody::Empty
        } else {
            unread.watch(incoming)
        }
    });
    request.extensions_mut().insert(facts.clone());
    let is_admitted = state.is_authenticated()
        || service
            .owner(request.headers(), facts)
            .is_none_or(|owner| state.authenticate(&owner));
    // Boxed, because hyper keeps the memory of this future while the connection lives, and a watch
    // lives for hours.
    let may_ask = state.may_ask(0, 0);
    let mut response = match refused(&request, is_admitted, may_ask) {
        Some(refusal) => refused_by(&service, refusal),
        None => Box::pin(service.call(request)).await,
    };
    response
        .headers_mut()
        .entry(DATE)
        .or_insert_with(|| thread.date().now());
    let is_drained = unread.is_drained().await;
    if matches!(response.body(), ResponseBody::Session(_)) && !(may_upgrade && is_drained) {
        // The service upgrades nothing that can't be upgraded.
        response = Response::new(ResponseBody::Empty);
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    if !is_drained {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    let mut held = None;
    match response.body_mut() {
        ResponseBody::Full(bytes) => timeouts.send(state.hold_answer(bytes.len())),
        ResponseBody::Chunks(pieces) => {
            held = Some(state.hold_answer(pieces.held()));
            if let Some(revocation) = pieces.revocation().cloned() {
                watched.replace(Some(Box::new(move || revocation())));
                timeouts.enter(Phase::Watched);
            }
        }
        ResponseBody::Watch(watch) => {
            watched.replace(Some(watch.revocation()));
            timeouts.enter(Phase::Watched);
        }
        ResponseBody::Session(session) => {
            let held = state.hold_answer(session.held());
            session.at_end(move || drop(held));
        }
        ResponseBody::Empty => {}
    }
    let (head, body) = response.into_parts();
    let body = match body {
        ResponseBody::Session(session) => {
            start_session(session);
            ResponseBody::Empty
        }
        body => body,
    };
    let outgoing = Outgoing {
        body,
        is_broken: false,
        _held: held,
        thread: thread.clone(),
        timeouts: timeouts.clone(),
    };
    Ok(Response::from_parts(head, outgoing))
}

/// The reason to refuse a request before it reaches the service.
fn refused<B>(request: &Request<B>, is_admitted: bool, may_ask: bool) -> Option<Refusal> {
    let headers = request.headers();
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_other_coding = |coding: &HeaderValue| {
        let coding = coding.as_bytes().trim_ascii();
        !coding.eq_ignore_ascii_case(b"chunked")
    };
    if codings.next().is_some_and(is_other_coding) || codings.next().is_some() {
        return Some(Refusal::TransferEncoding);
    }
    let wants_host = request.version() == Version::HTTP_11;
    match host::refused(headers) {
        Some(refusal) => Some(refusal),
        None if wants_host && !headers.contains_key(HOST) => Some(Refusal::MissingHost),
        None if !is_admitted => Some(Refusal::TooManyConnections),
        None => (!may_ask).then_some(Refusal::TooManyUnread),
    }
}

/// Returns the response to a refused request. The connection then closes, except after
/// [`Refusal::TooManyUnread`], because that client may ask again once it has read its responses.
fn refused_by<S: HttpService>(service: &S, refusal: Refusal) -> Response<ResponseBody<S::Watch>> {
    let mut response = service.refuse(refusal);
    if refusal != Refusal::TooManyUnread {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    InOrder,
    OutOfTime,
}

/// A response body in the form that hyper takes.
struct Outgoing<W> {
    body: ResponseBody<W>,
    /// Whether the body has broken off.
    is_broken: bool,
    /// The bytes that a body in pieces holds. A complete body goes to hyper at once, and counts
    /// until all of it is sent.
    _held: Option<Held>,
    thread: HttpThread,
    timeouts: ConnectionTimeouts,
}

impl<W> Drop for Outgoing<W> {
    fn drop(&mut self) {
        self.timeouts.enter(Phase::Idle(Instant::now()));
    }
}

/// The body of a response has broken off, and so the connection has to.
#[derive(Debug, thiserror::Error)]
#[error("the body of the response broke off")]
struct BrokenOff;

impl<W: WatchBody> Outgoing<W> {
    /// Ends a body in pieces.
    fn end(&mut self, ending: Ending, context: &Context<'_>) -> Poll<Option<FrameOrBroken>> {
        self.body = ResponseBody::Empty;
        match ending {
            Ending::Complete => Poll::Ready(None),
            Ending::Trailers(trailers) => Poll::Ready(Some(Ok(Frame::trailers(*trailers)))),
            Ending::Broken => {
                // hyper writes what it has before it looks again.
                self.is_broken = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

type FrameOrBroken = Result<Frame<Bytes>, BrokenOff>;

impl<W: WatchBody> Body for Outgoing<W> {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<FrameOrBroken>> {
        let this = &mut *self;
        if this.is_broken {
            return Poll::Ready(Some(Err(BrokenOff)));
        }
        let next = match &mut this.body {
            ResponseBody::Empty | ResponseBody::Session(_) => Poll::Ready(None),
            ResponseBody::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                this.body = ResponseBody::Empty;
                Poll::Ready((!bytes.is_empty()).then_some(bytes))
            }
            ResponseBody::Chunks(pieces) => match ready!(pieces.poll_next(context)) {
                None => {
                    let ending = pieces.ending();
                    return this.end(ending, context);
                }
                piece => Poll::Ready(piece),
            },
            ResponseBody::Watch(watch) if watch.is_revoked() => Poll::Ready(None),
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
            ResponseBody::Empty | ResponseBody::Session(_) => !self.is_broken,
            ResponseBody::Full(bytes) => bytes.is_empty(),
            ResponseBody::Chunks(_) | ResponseBody::Watch(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            ResponseBody::Empty | ResponseBody::Session(_) => SizeHint::with_exact(0),
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
            _ => panic!("there was one frame"),
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
