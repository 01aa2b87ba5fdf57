//! One response body on its way out of an HTTP/2 stream.
//!
//! Nothing is asked of its source before the client has room for a byte of it, so that a stalled
//! stream pins nothing. To know that cheaply each stream keeps one byte of window reserved, its
//! foot in the door.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::LocalBoxStream;
use h2::{Reason, SendStream};

use super::signals::{Signals, StreamSignal};
use crate::server::join::join;
use crate::server::metrics::MeteredWatch;

/// Of a frame that did not fit the window, the rest is copied when it is no longer than this:
/// better than to hold on to the chunk of history that it is a slice of.
const REST_COPIED_BYTES: usize = 4096;

/// Frames of watches are joined up to so many bytes: what clients take as one DATA frame.
const JOINED_BYTES: usize = 16 << 10;

/// Where a body comes from.
pub(super) enum Source {
    /// A watch.
    Watch(MeteredWatch),
    /// Pieces.
    Chunks(LocalBoxStream<'static, Bytes>),
    /// What is pending is all.
    Nothing,
}

impl Source {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            Source::Watch(watch) => watch.poll_next(context),
            Source::Chunks(chunks) => Pin::new(chunks).poll_next(context),
            Source::Nothing => Poll::Ready(None),
        }
    }
}

/// What became of a stream's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It waits to be woken.
    Waits,
    /// It used up what it may send in one turn.
    HasMore,
    /// The body is out, or nobody wants it any more.
    Ended,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Frames taken from watches.
    pub(super) watch_frames: u64,
    /// Bytes of all bodies.
    pub(super) bytes: usize,
}

/// A body and the stream it goes out of.
pub(super) struct Outbound {
    stream: SendStream<Bytes>,
    source: Source,
    pending: Bytes,
    has_room: bool,
    moved: bool,
    stalled: u32,
    signal: Arc<StreamSignal>,
    waker: Waker,
}

impl Outbound {
    pub(super) fn new(
        signals: &Arc<Signals>,
        index: u32,
        stream: SendStream<Bytes>,
        source: Source,
        pending: Bytes,
    ) -> Outbound {
        let signal = StreamSignal::new(signals, index);
        Outbound {
            stream,
            source,
            pending,
            has_room: false,
            moved: true,
            stalled: 0,
            waker: Waker::from(Arc::clone(&signal)),
            signal,
        }
    }

    /// Whether it may wait for the client for ever.
    pub(super) fn is_watch(&self) -> bool {
        matches!(self.source, Source::Watch(_))
    }

    /// In how many inspections in a row, this one included, it was found waiting for the client
    /// without having moved.
    pub(super) fn inspect(&mut self) -> u32 {
        let waits_for_client = !self.has_room || !self.pending.is_empty();
        if std::mem::take(&mut self.moved) || !waits_for_client {
            self.stalled = 0;
        } else {
            self.stalled += 1;
        }
        self.stalled
    }

    /// Ends the stream before its body is out.
    pub(super) fn reset(&mut self) {
        self.stream.send_reset(Reason::CANCEL);
    }

    /// Sends what is there and fits, up to `most` bytes and a frame.
    pub(super) fn turn(&mut self, most: usize) -> (Turn, Sent) {
        let mut sent = Sent::default();
        // Whether the source has nothing more and will wake the stream, which goes on listening.
        let mut rests = false;
        let turn = loop {
            if !rests {
                self.signal.mute();
            }
            if let Err(turn) = self.make_room().and_then(|()| self.send_pending(&mut sent)) {
                break turn;
            }
            if !self.has_room {
                continue;
            }
            if sent.bytes >= most {
                break Turn::HasMore;
            }
            if rests {
                break self.wait_for_reset();
            }
            self.signal.listen();
            match self.source.poll_next(&mut Context::from_waker(&self.waker)) {
                Poll::Ready(Some(frame)) if self.is_watch() => {
                    rests = self.join(frame, &mut sent);
                }
                Poll::Ready(Some(piece)) => self.pending = piece,
                Poll::Ready(None) => {
                    // The client may have gone in this very moment; then there is none to tell.
                    let _ = self.stream.send_data(Bytes::new(), true);
                    break Turn::Ended;
                }
                Poll::Pending => break self.wait_for_reset(),
            }
        };
        self.moved |= sent.bytes > 0;
        (turn, sent)
    }

    /// Makes a frame pending, with those that are there behind it as long as they fit one DATA
    /// frame. Answers whether there is nothing more.
    fn join(&mut self, first: Bytes, sent: &mut Sent) -> bool {
        let Outbound { stream, source, .. } = self;
        // What the client has no room for would be held here, a copy for each client that does
        // not read.
        let room = || {
            stream.reserve_capacity(JOINED_BYTES);
            stream.capacity()
        };
        let mut context = Context::from_waker(&self.waker);
        let joined = join(first, JOINED_BYTES, room, || source.poll_next(&mut context));
        sent.watch_frames += joined.frames;
        self.pending = joined.bytes;
        joined.rests
    }

    /// Sees to it that a byte can be sent, or waits for window.
    fn make_room(&mut self) -> Result<(), Turn> {
        while !self.has_room {
            self.stream.reserve_capacity(self.pending.len() + 1);
            if self.stream.capacity() > 0 {
                self.has_room = true;
                break;
            }
            self.signal.listen();
            let polled = self
                .stream
                .poll_capacity(&mut Context::from_waker(&self.waker));
            match polled {
                Poll::Ready(Some(Ok(_))) => self.signal.mute(),
                Poll::Ready(_) => return Err(Turn::Ended),
                Poll::Pending => return Err(Turn::Waits),
            }
        }
        Ok(())
    }

    /// Sends what is pending, as much as there is window for.
    fn send_pending(&mut self, sent: &mut Sent) -> Result<(), Turn> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.stream.reserve_capacity(self.pending.len() + 1);
        let room = self.stream.capacity();
        let part = self.pending.split_to(room.min(self.pending.len()));
        self.has_room = room > part.len();
        if part.is_empty() {
            return Ok(());
        }
        sent.bytes += part.len();
        if !self.pending.is_empty() && self.pending.len() <= REST_COPIED_BYTES {
            self.pending = Bytes::copy_from_slice(&self.pending);
        }
        let last = matches!(self.source, Source::Nothing) && self.pending.is_empty();
        match self.stream.send_data(part, last) {
            Ok(()) if last => Err(Turn::Ended),
            Ok(()) => Ok(()),
            Err(_) => Err(Turn::Ended),
        }
    }

    fn wait_for_reset(&mut self) -> Turn {
        match self
            .stream
            .poll_reset(&mut Context::from_waker(&self.waker))
        {
            Poll::Ready(_) => Turn::Ended,
            Poll::Pending => Turn::Waits,
        }
    }
}
