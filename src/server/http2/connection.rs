//! The task of one HTTP/2 connection.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use h2::server::Builder;
use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use super::Http2Error;
use super::reply::{Reply, Started, answer};
use super::signals::Signals;
use super::streams::Streams;
use super::unread::Unread;
use super::vitality::{Sight, Verdict, Vitality};
use crate::server::body::{ConnectionFacts, HttpService, RequestBody};
use crate::server::gather::Gather;
use crate::server::listener::thread::{HttpThread, Membership};

/// Requests taken in before those already there go on.
const ACCEPTED_PER_ROUND: usize = 64;

/// Rounds in one poll before the thread's other connections have their turn.
const ROUNDS_PER_POLL: usize = 4;

type H2<T> = h2::server::Connection<Gather<T>, Bytes>;

/// Speaks the preface. What h2 wants to say must be let out by us.
pub(super) async fn handshake<T>(builder: Builder, gather: Gather<T>) -> Result<H2<T>, Http2Error>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut shaking = std::pin::pin!(builder.handshake(gather.clone()));
    std::future::poll_fn(|context| {
        let polled = shaking.as_mut().poll(context);
        if let Poll::Ready(Err(error)) = gather.poll_out(context) {
            return Poll::Ready(Err(error.into()));
        }
        polled.map_err(Http2Error::from)
    })
    .await
}

/// A connection being served.
pub(super) struct Connection<S, T> {
    h2: H2<T>,
    gather: Gather<T>,
    facts: ConnectionFacts,
    service: S,
    membership: Membership,
    signals: Arc<Signals>,
    h2_waker: Waker,
    request_waker: Waker,
    answering: FuturesUnordered<LocalBoxFuture<'static, Option<Reply>>>,
    unread: Unread,
    streams: Streams,
    accepted: u64,
    leaving: bool,
    inspection: Pin<Box<Sleep>>,
    stalled_inspections: u32,
    vitality: Vitality,
    pings: Option<PingPong>,
}

/// What a round came to.
enum Round {
    /// There may be more to do.
    Again,
    /// Nothing more until something is woken.
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
        gather: Gather<T>,
        facts: ConnectionFacts,
        service: S,
        thread: HttpThread,
    ) -> Connection<S, T> {
        let signals = Arc::new(Signals::default());
        let limits = thread.limits();
        Connection {
            pings: h2.ping_pong(),
            inspection: Box::pin(tokio::time::sleep(limits.inspection_interval)),
            vitality: Vitality::new(limits),
            stalled_inspections: limits.stalled_inspections(),
            streams: Streams::new(&signals),
            h2_waker: signals.connection_waker(),
            request_waker: signals.request_waker(),
            h2,
            gather,
            facts,
            service,
            membership: thread.join(),
            signals,
            answering: FuturesUnordered::new(),
            unread: Unread::default(),
            accepted: 0,
            leaving: false,
        }
    }

    fn leave(&mut self) {
        if !self.leaving {
            self.leaving = true;
            self.h2.graceful_shutdown();
        }
    }

    /// Requests that are being answered go on; what is answered starts to be sent.
    fn answer_requests(&mut self) {
        while let Poll::Ready(Some(reply)) = self.poll_answering() {
            let Some(started) = reply.and_then(|reply| self.start(reply)) else {
                continue;
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
        }
    }

    fn poll_answering(&mut self) -> Poll<Option<Option<Reply>>> {
        let mut context = Context::from_waker(&self.request_waker);
        Pin::new(&mut self.answering).poll_next(&mut context)
    }

    fn start(&self, reply: Reply) -> Option<Started> {
        reply
            .start(self.membership.thread().date())
            .inspect_err(|error| tracing::debug!(%error, "a response could not start"))
            .ok()
    }

    /// Reads, takes requests in, and lets h2 frame what is to be sent.
    fn poll_h2(&mut self) -> Poll<Result<(), h2::Error>> {
        for _ in 0..ACCEPTED_PER_ROUND {
            let mut context = Context::from_waker(&self.h2_waker);
            match self.h2.poll_accept(&mut context) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.accepted += 1;
                    let request = request.map(|stream| {
                        if stream.is_end_stream() {
                            RequestBody::Empty
                        } else {
                            RequestBody::Http2(self.unread.body(stream))
                        }
                    });
                    let service = self.service.clone();
                    let answering = answer(service, self.facts, request, respond);
                    self.answering.push(Box::pin(answering));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
        // More may wait: look again after the next round.
        self.h2_waker.wake_by_ref();
        Poll::Pending
    }

    fn round(&mut self) -> Result<Round, Http2Error> {
        self.signals.work_served();
        self.answer_requests();
        if self.leaving {
            self.unread.give_up();
        } else {
            let mut context = Context::from_waker(&self.request_waker);
            self.unread.take_in(&mut context);
        }
        // A socket that is full means a client that is slower than we are: pulling more from its
        // streams would only pile it up here.
        let was_clear = self.gather.is_clear();
        if was_clear {
            let sent = self.streams.round();
            self.membership.thread().counters().sent(sent.watch_frames);
        }
        self.membership.carries(self.streams.len());

        let accepted = self.accepted;
        self.signals.connection_served();
        let over = match self.poll_h2() {
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(error)) => return Err(error.into()),
            Poll::Pending => false,
        };
        let clear = self.let_out()?;
        if over {
            return Ok(Round::Over);
        }
        let more = accepted != self.accepted || (clear && (self.streams.has_turns() || !was_clear));
        Ok(if more || !self.signals.rest() {
            Round::Again
        } else {
            Round::Rested
        })
    }

    fn let_out(&mut self) -> io::Result<bool> {
        let mut context = Context::from_waker(&self.h2_waker);
        match self.gather.poll_out(&mut context) {
            Poll::Ready(Ok(())) => Ok(true),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(false),
        }
    }

    /// Looks after what only time brings.
    fn inspect(&mut self, context: &mut Context<'_>) -> Result<(), Http2Error> {
        while self.inspection.as_mut().poll(context).is_ready() {
            let interval = self.membership.thread().limits().inspection_interval;
            let next = tokio::time::Instant::now() + interval;
            self.inspection.as_mut().reset(next);
            let verdict = self.vitality.inspect(Sight {
                bytes_read: self.gather.bytes_read(),
                requests: self.accepted,
                busy: !self.answering.is_empty() || !self.streams.is_empty(),
            });
            match verdict {
                Verdict::Well => {}
                Verdict::Ping => self.ping(context),
                // It was asked to go an inspection ago and does not even answer.
                Verdict::Idle if self.leaving => return Err(Http2Error::Dead),
                Verdict::Idle => self.leave(),
                Verdict::Dead => return Err(Http2Error::Dead),
            }
            self.unread.inspect();
            let stalled = self.streams.reset_stalled(self.stalled_inspections);
            if stalled > 0 {
                tracing::debug!(stalled, "responses were given up: the client takes nothing");
            }
        }
        Ok(())
    }

    fn ping(&mut self, context: &mut Context<'_>) {
        if let Some(pings) = &mut self.pings {
            // The answer to an earlier ping is taken first, or h2 refuses another.
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
        this.inspect(context)?;
        for _ in 0..ROUNDS_PER_POLL {
            match this.round()? {
                Round::Again => {}
                Round::Rested => return Poll::Pending,
                Round::Over => return Poll::Ready(Ok(())),
            }
        }
        context.waker().wake_by_ref();
        this.signals.leave();
        Poll::Pending
    }
}
