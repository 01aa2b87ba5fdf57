//! The task of one HTTP/2 connection.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use h2::server::{Builder, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use super::Http2Error;
use super::keepalive::{Keepalive, KeepaliveAction, Observation};
use super::reply::{Reply, answer, refused, request_bytes};
use super::signals::Signals;
use super::socket::Http2Socket;
use super::streams::{ROUND_BYTES, STREAMS_PER_STEP, Streams};
use super::unread::Unread;
use crate::transport::connection_state::{ConnectionState, Held};
use crate::transport::host;
use crate::transport::thread::{HttpThread, Membership};
use crate::transport::{ConnectionFacts, HttpService, Refusal, RequestBody};

/// How many requests are accepted before the other connections of the thread have their turn. When
/// thousands of watches resume at once, the events of other clients wait for one such turn of each
/// connection.
const ACCEPTED_PER_ROUND: u64 = 16;

/// How many requests are read in one step. h2 keeps room for the most that ever waited in it, 240
/// bytes for each, as long as the connection lives.
const REQUESTS_PER_STEP: usize = 8;

/// The most steps of one round.
const STEPS_PER_ROUND: usize = 64;

/// The most rounds that one poll runs before the other connections of the thread have their turn.
const ROUNDS_PER_POLL: usize = 4;

/// How many sent but unread bytes an authenticated connection may have, over all uploads. The
/// window can be large because bodies are bounded and read as they arrive.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes read in one step.
const READ_BYTES: usize = 256 << 10;
/// Bytes read in one step from an unauthenticated connection.
const UNAUTHENTICATED_READ_BYTES: usize = 256;

/// How many requests are refused before an unauthenticated connection is closed. Refusing one costs
/// far less than the handshake of a new connection.
const REFUSED_MAX: u32 = 1_000;

/// Requests that the service is answering.
type Answering<W> = FuturesUnordered<LocalBoxFuture<'static, Option<Reply<W>>>>;

type H2<T> = h2::server::Connection<Http2Socket<T>, Bytes>;

/// Exchanges the connection preface. The caller must write out what h2 sends.
pub(super) async fn handshake<T>(
    builder: Builder,
    socket: Http2Socket<T>,
) -> Result<H2<T>, Http2Error>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut shaking = std::pin::pin!(builder.handshake(socket.clone()));
    std::future::poll_fn(|context| {
        socket.allow_read(UNAUTHENTICATED_READ_BYTES, REQUESTS_PER_STEP);
        let polled = shaking.as_mut().poll(context);
        if let Poll::Ready(Err(error)) = socket.poll_out(context) {
            return Poll::Ready(Err(error.into()));
        }
        polled.map_err(Http2Error::from)
    })
    .await
}

/// A connection being served.
pub(super) struct Connection<S: HttpService, T> {
    h2: H2<T>,
    socket: Http2Socket<T>,
    facts: ConnectionFacts,
    state: Rc<ConnectionState>,
    service: S,
    membership: Membership,
    signals: Arc<Signals>,
    h2_waker: Waker,
    request_waker: Waker,
    answering: Answering<S::Watch>,
    /// Requests with bodies. They are answered however much the connection holds, because other
    /// requests wait for the memory that is reserved for their bodies.
    taking_in: Answering<S::Watch>,
    /// Responses that wait for the socket.
    replies: VecDeque<(Reply<S::Watch>, Held)>,
    unread: Unread,
    streams: Streams<S::Watch>,
    accepted: u64,
    refused: u32,
    leaving: bool,
    /// Whether the client was sent GOAWAY for asking too much, so that the connection closes soon.
    abrupt: bool,
    inspection: Pin<Box<Sleep>>,
    stalled_inspections: u32,
    /// The number of inspections in a row in which nothing was sent although data was waiting.
    stalled: u32,
    written: u64,
    keepalive: Keepalive,
    pings: Option<PingPong>,
}

/// The outcome of one step.
struct Step {
    /// Bytes handed to h2.
    sent: usize,
    /// Whether there are more responses, or there was a new request.
    is_more: bool,
    /// Whether the connection held so much that no further request was answered.
    was_withheld: bool,
    /// Whether the connection is over.
    is_over: bool,
}

/// The outcome of a round.
enum PollRound {
    /// There may be more to do.
    Again,
    /// There is nothing to do until a waker fires.
    Rested,
    /// The connection is over.
    Over,
}

impl<S, T> Connection<S, T>
where
    S: HttpService,
    T: AsyncRead + AsyncWrite + Unpin,
{
    pub(super) fn new(
        mut h2: H2<T>,
        socket: Http2Socket<T>,
        facts: ConnectionFacts,
        state: Rc<ConnectionState>,
        service: S,
        thread: HttpThread,
    ) -> Connection<S, T> {
        let signals = Arc::new(Signals::default());
        let limits = thread.limits();
        Connection {
            pings: h2.ping_pong(),
            inspection: Box::pin(tokio::time::sleep(limits.inspection_interval)),
            keepalive: Keepalive::new(limits),
            stalled_inspections: limits.stalled_inspections(),
            streams: Streams::new(&signals, &state),
            h2_waker: signals.connection_waker(),
            request_waker: signals.request_waker(),
            h2,
            socket,
            facts,
            state,
            service,
            membership: thread.join(),
            signals,
            answering: Answering::new(),
            taking_in: Answering::new(),
            replies: VecDeque::new(),
            stalled: 0,
            written: 0,
            unread: Unread::default(),
            accepted: 0,
            refused: 0,
            leaving: false,
            abrupt: false,
        }
    }

    fn leave(&mut self) {
        if !self.leaving {
            self.leaving = true;
            self.h2.graceful_shutdown();
        }
    }

    /// Continues requests in progress, and starts to send finished responses if the socket is
    /// clear. Returns how many bytes h2 was given, and whether there may be more.
    fn answer_requests(&mut self, is_clear: bool) -> (usize, bool) {
        let mut sent = 0;
        for _ in 0..STREAMS_PER_STEP {
            if sent >= ROUND_BYTES {
                break;
            }
            if is_clear && let Some((reply, _held)) = self.replies.pop_front() {
                sent += self.start(reply);
                continue;
            }
            let Poll::Ready(reply) = self.poll_answering() else {
                return (sent, false);
            };
            let Some(reply) = reply else { continue };
            if is_clear {
                sent += self.start(reply);
            } else {
                let held = self.state.hold_answer(reply.held_bytes());
                self.replies.push_back((reply, held));
            }
        }
        (sent, true)
    }

    /// Returns the next finished response, or `None` for a request that its client cancelled.
    fn poll_answering(&mut self) -> Poll<Option<Reply<S::Watch>>> {
        let mut context = Context::from_waker(&self.request_waker);
        if let Poll::Ready(Some(reply)) = Pin::new(&mut self.taking_in).poll_next(&mut context) {
            return Poll::Ready(reply);
        }
        if !self.state.may_answer() {
            return Poll::Pending;
        }
        match Pin::new(&mut self.answering).poll_next(&mut context) {
            Poll::Ready(Some(reply)) => Poll::Ready(reply),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Starts a response. Returns how many of its bytes h2 now holds.
    fn start(&mut self, reply: Reply<S::Watch>) -> usize {
        let date = self.membership.thread().date();
        let started = match reply.start(date, &self.state) {
            Ok(started) => started,
            Err(error) => {
                tracing::debug!(%error, "a response could not start");
                return 0;
            }
        };
        if let Some((stream, source, pending)) = started.body {
            self.streams.add(stream, source, pending);
        }
        if started.is_window_short {
            self.streams.window_is_short();
        }
        if started.close {
            self.leave();
        }
        started.sent
    }

    /// Accepts a request.
    fn accept(&mut self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        self.accepted += 1;
        if !self.state.is_authenticated()
            && let Some(owner) = self.service.owner(request.headers(), &self.facts)
        {
            if !self.state.authenticate(&owner) {
                let response = self.service.refuse(Refusal::TooManyConnections);
                self.start(refused(respond, response));
                return self.leave();
            }
            self.h2.set_target_window_size(CONNECTION_WINDOW_BYTES);
        }
        if let Some(refusal) = host::refused(request.headers()) {
            let response = self.service.refuse(refusal);
            self.start(refused(respond, response));
            return;
        }
        let bytes = request_bytes(&request);
        let streams = self.answering.len()
            + self.taking_in.len()
            + self.replies.len()
            + self.streams.len()
            + self.unread.len();
        if !self.state.may_ask(bytes, streams) {
            return self.refuse(&mut respond);
        }
        let request = request.map(|stream| {
            if stream.is_end_stream() {
                RequestBody::Empty
            } else {
                self.unread.body(stream)
            }
        });
        let held = self.state.hold_request(bytes);
        let answering = match request.body() {
            RequestBody::Arriving(_) => &mut self.taking_in,
            _ => &mut self.answering,
        };
        let service = self.service.clone();
        answering.push(Box::pin(answer(
            service,
            self.facts.clone(),
            request,
            respond,
            held,
        )));
    }

    /// Refuses a request that the connection has no room for. The request was not processed, so the
    /// client may send it again. An unauthenticated connection that keeps asking is closed.
    fn refuse(&mut self, respond: &mut SendResponse<Bytes>) {
        respond.send_reset(Reason::REFUSED_STREAM);
        self.membership.thread().counters().refused_request();
        self.refused += 1;
        if self.refused > REFUSED_MAX && !self.state.is_authenticated() {
            self.shut_down_abruptly();
        }
    }

    /// Closes the connection of a client that asks for too much.
    fn shut_down_abruptly(&mut self) {
        if !self.abrupt {
            self.abrupt = true;
            self.h2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            // Another round writes the message out.
            self.h2_waker.wake_by_ref();
        }
    }

    /// Reads, accepts requests, and lets h2 frame outgoing data.
    fn poll_h2(&mut self) -> Poll<Result<(), h2::Error>> {
        for _ in 0..ACCEPTED_PER_ROUND {
            let mut context = Context::from_waker(&self.h2_waker);
            match self.h2.poll_accept(&mut context) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.accept(request, respond);
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
        // More requests may be waiting: poll again after the next round.
        self.h2_waker.wake_by_ref();
        Poll::Pending
    }

    /// Lets requests and streams do a little, and h2 frame their data. The frames are written to
    /// the socket at the end of the round.
    fn step(&mut self, was_clear: bool) -> Result<Step, Http2Error> {
        self.signals.work_served();
        let (mut sent, mut is_more) = self.answer_requests(was_clear);
        let was_withheld = !self.state.may_answer();
        if self.leaving {
            self.unread.give_up();
        } else {
            let mut context = Context::from_waker(&self.request_waker);
            self.unread.take_in(&mut context);
        }
        if was_clear {
            let streams = self.streams.step();
            self.membership
                .thread()
                .counters()
                .sent(streams.watch_frames);
            sent += streams.bytes;
        }
        let accepted = self.accepted;
        let readable = match self.state.is_authenticated() {
            true => READ_BYTES,
            false => UNAUTHENTICATED_READ_BYTES,
        };
        self.socket.allow_read(readable, REQUESTS_PER_STEP);
        self.signals.connection_served();
        let is_over = match self.poll_h2() {
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(error)) => return Err(error.into()),
            Poll::Pending => false,
        };
        is_more |= accepted != self.accepted;
        Ok(Step {
            sent,
            is_more,
            was_withheld,
            is_over,
        })
    }

    fn round(&mut self) -> Result<PollRound, Http2Error> {
        // A full socket means that the client is slower than the server. Pulling more from its
        // streams would only buffer it here.
        let was_clear = self.socket.is_clear();
        let accepted_before = self.accepted;
        let (mut sent, mut more, mut was_withheld) = (0, false, false);
        for _ in 0..STEPS_PER_ROUND {
            let step = self.step(was_clear)?;
            if step.is_over {
                self.let_out()?;
                return Ok(PollRound::Over);
            }
            sent += step.sent;
            more = step.is_more;
            was_withheld = step.was_withheld;
            if !(more || (was_clear && self.streams.has_turns()))
                || sent >= ROUND_BYTES
                || self.accepted - accepted_before >= ACCEPTED_PER_ROUND
                || (self.socket.is_full() && !self.let_out()?)
            {
                break;
            }
        }
        self.membership.carries(self.streams.len());
        let clear = self.let_out()?;
        if self.socket.is_flooded() && !self.abrupt {
            tracing::debug!(peer = %self.facts.peer, "closing a connection, because it is flooded");
            self.membership.thread().counters().flooded();
            self.shut_down_abruptly();
        }
        more |= (clear && (self.streams.has_turns() || !was_clear))
            // The bytes just sent have made room for further responses.
            || (was_withheld && self.state.may_answer());
        Ok(if more || !self.signals.rest() {
            PollRound::Again
        } else {
            PollRound::Rested
        })
    }

    fn let_out(&mut self) -> io::Result<bool> {
        let mut context = Context::from_waker(&self.h2_waker);
        match self.socket.poll_out(&mut context) {
            Poll::Ready(Ok(())) => Ok(true),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(false),
        }
    }

    /// Does the work that depends on time alone.
    fn inspect(&mut self, context: &mut Context<'_>) -> Result<(), Http2Error> {
        while self.inspection.as_mut().poll(context).is_ready() {
            let interval = self.membership.thread().limits().inspection_interval;
            let next = tokio::time::Instant::now() + interval;
            self.inspection.as_mut().reset(next);
            let verdict = self.keepalive.inspect(Observation {
                bytes_read: self.socket.bytes_read(),
                requests: self.accepted,
                busy: !self.answering.is_empty()
                    || !self.taking_in.is_empty()
                    || !self.replies.is_empty()
                    || !self.streams.is_empty(),
            });
            match verdict {
                KeepaliveAction::Well => {}
                KeepaliveAction::Ping => self.ping(context),
                // The client was sent GOAWAY one inspection ago and does not respond.
                KeepaliveAction::Idle if self.leaving => return Err(Http2Error::Dead),
                KeepaliveAction::Idle => self.leave(),
                KeepaliveAction::Dead => return Err(Http2Error::Dead),
            }
            self.unread.inspect();
            let stalled = self.streams.reset_stalled(self.stalled_inspections);
            self.inspect_socket()?;
            if stalled > 0 {
                tracing::debug!(
                    stalled,
                    "dropping responses, because the client reads nothing"
                );
            }
        }
        Ok(())
    }

    /// Closes a socket that takes no bytes while responses other than watches wait, as a stalled
    /// response is dropped in [`Streams::reset_stalled`].
    fn inspect_socket(&mut self) -> Result<(), Http2Error> {
        let written = std::mem::replace(&mut self.written, self.socket.bytes_out());
        if self.socket.is_clear() || written != self.written || self.replies.is_empty() {
            self.stalled = 0;
        } else {
            self.stalled += 1;
        }
        if self.stalled < self.stalled_inspections {
            return Ok(());
        }
        if self.streams.is_empty() {
            return Err(Http2Error::Stalled);
        }
        self.replies.clear();
        Ok(())
    }

    fn ping(&mut self, context: &mut Context<'_>) {
        if let Some(pings) = &mut self.pings {
            // Take the acknowledgement of the earlier ping first, or h2 refuses another ping.
            let _ = pings.poll_pong(context);
            if let Err(error) = pings.send_ping(Ping::opaque()) {
                tracing::debug!(%error, "the last ping is not answered yet");
            }
        }
    }
}

impl<S, T> Future for Connection<S, T>
where
    S: HttpService + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    type Output = Result<(), Http2Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.signals.begin(context);
        if this.membership.is_draining(context) {
            this.leave();
        }
        if this.membership.has_revocations() {
            this.streams.end_revoked();
        }
        this.inspect(context)?;
        let accepted_before = this.accepted;
        let rounds = match this.state.has_turn() {
            true => 1,
            false => ROUNDS_PER_POLL,
        };
        for _ in 0..rounds {
            match this.round()? {
                PollRound::Again if this.accepted - accepted_before >= ACCEPTED_PER_ROUND => break,
                PollRound::Again => {}
                PollRound::Rested => return Poll::Pending,
                // Nothing more is read from a client that asks for too much.
                PollRound::Over if this.abrupt => {
                    return Poll::Ready(Err(Http2Error::AskedTooMuch));
                }
                PollRound::Over => return Poll::Ready(Ok(())),
            }
        }
        context.waker().wake_by_ref();
        this.signals.leave();
        Poll::Pending
    }
}
