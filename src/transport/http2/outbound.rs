//! One response body on its way out through an HTTP/2 stream.
//!
//! The body is not polled for data before the client has granted window for at least one byte, so a
//! stalled stream holds no memory. Each stream keeps one byte of window reserved, which makes this
//! check cheap. A watch whose client grants enough window reserves enough for several deliveries,
//! so most deliveries need no call to h2.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use actors::dispatcher::{Caller, ReadyList, WatchFrame};
use bytes::Bytes;
use h2::{Reason, SendStream};

use super::signals::{Signals, StreamSignal};
use crate::transport::connection_state::{ConnectionState, Held};
use crate::transport::frame_batch::batch;
use crate::transport::{Ending, Pieces, WatchBody};

/// The longest rest of a frame that is copied if the frame did not fit the window. A copy is better
/// than keeping alive the whole chunk of history that the frame is a slice of.
const REST_COPIED_BYTES: usize = 4096;

/// Watch frames are joined up to this many bytes, the size that clients accept as one DATA frame.
const JOINED_BYTES: usize = 16 << 10;

/// The window that a watch keeps reserved in addition to what it sends, unless window is scarce.
const HELD_BYTES: usize = 32 << 10;

/// The source of a body.
pub(super) enum Source<W> {
    /// A watch.
    Watch(W),
    /// Pieces, and the bytes that their source holds. A body that may last counts only while its
    /// client takes nothing.
    Chunks { pieces: Pieces, held: Held },
    /// Nothing follows the pending bytes.
    Nothing(Held),
}

impl<W: WatchBody> Source<W> {
    /// Polls for the next piece, which also records whether nothing is available after it.
    fn poll_next(&mut self, caller: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        match self {
            Source::Watch(watch) => watch.poll_next(caller),
            Source::Chunks { pieces, .. } => {
                let polled = pieces.poll_next(&mut caller.context());
                polled.map(|piece| piece.map(WatchFrame::from))
            }
            Source::Nothing(_) => Poll::Ready(None),
        }
    }

    /// Returns how the body has ended.
    fn ending(&self) -> Ending {
        match self {
            Source::Chunks { pieces, .. } => pieces.ending(),
            Source::Watch(_) | Source::Nothing(_) => Ending::Complete,
        }
    }

    /// Whether the client has lost the right to a body that may last.
    fn is_revoked(&self) -> bool {
        match self {
            Source::Watch(watch) => watch.is_revoked(),
            Source::Chunks { pieces, .. } => {
                pieces.revocation().is_some_and(|is_revoked| is_revoked())
            }
            Source::Nothing(_) => false,
        }
    }
}

/// The state that the streams of one connection share.
pub(super) struct StreamContext {
    pub(super) signals: Arc<Signals>,
    /// The watches that have something to fetch.
    pub(super) ready: Rc<ReadyList>,
    /// Whether any stream, of a watch or not, has ever got less window than it asked for. From then
    /// on every stream keeps only one byte reserved. The streams of a connection share one window,
    /// so another stream may need a reserved byte, and a client returns no window for data that it
    /// was never sent.
    pub(super) is_window_short: Cell<bool>,
    /// The limits on what the connection may hold.
    pub(super) state: Rc<ConnectionState>,
    /// Watches that wait until the connection holds less.
    pub(super) withheld: RefCell<Vec<u32>>,
}

/// The outcome of a turn of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The stream waits to be woken.
    Waits,
    /// The stream sent all that it may send in one turn.
    HasMore,
    /// The body is complete, or the client no longer wants it.
    Ended,
}

/// The amounts that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Frames taken from watches.
    pub(super) watch_frames: u64,
    /// Bytes of all bodies.
    pub(super) bytes: usize,
}

/// A body and the stream that sends it.
pub(super) struct Outbound<W> {
    stream: SendStream<Bytes>,
    source: Source<W>,
    pending: Bytes,
    index: u32,
    stalled: u32,
    /// The unused window that h2 has granted to the stream.
    room: usize,
    moved: bool,
    /// Whether h2 holds the waker that reports a reset by the client. h2 drops it whenever it
    /// grants window.
    awaits_reset: bool,
    /// The rest of a watch frame. It is boxed because few streams ever have one.
    held: Option<Box<Held>>,
    /// Whether the stream waits until the connection holds less.
    withheld: bool,
    /// Whether the body has broken off. The bytes before that are framed first.
    is_broken: bool,
    signal: Arc<StreamSignal>,
    waker: Waker,
}

impl<W: WatchBody> Outbound<W> {
    pub(super) fn new(
        signals: &Arc<Signals>,
        index: u32,
        stream: SendStream<Bytes>,
        source: Source<W>,
        pending: Bytes,
    ) -> Outbound<W> {
        let signal = StreamSignal::new(signals, index);
        signal.listen();
        Outbound {
            stream,
            source,
            pending,
            index,
            stalled: 0,
            room: 0,
            moved: true,
            awaits_reset: false,
            held: None,
            withheld: false,
            is_broken: false,
            waker: Waker::from(Arc::clone(&signal)),
            signal,
        }
    }

    /// Handles a wake of the stream.
    pub(super) fn hear(&mut self) {
        self.signal.listen();
        self.awaits_reset = false;
    }

    /// Returns the reserved window except for one byte.
    pub(super) fn give_back(&mut self) {
        if self.room > 1 {
            // h2 wakes other streams when this one asks for less, but not this one, so wakes are
            // not muted.
            self.stream.reserve_capacity(self.pending.len() + 1);
            self.room = self.stream.capacity();
        }
    }

    /// Whether the body may wait for the client without a limit.
    pub(super) fn is_watch(&self) -> bool {
        matches!(self.source, Source::Watch(_))
    }

    /// Whether the body may last. Its client may pause for longer.
    pub(super) fn is_lasting(&self) -> bool {
        match &self.source {
            Source::Chunks { pieces, .. } => pieces.revocation().is_some(),
            Source::Watch(_) | Source::Nothing(_) => self.is_watch(),
        }
    }

    /// Returns the number of inspections in a row, including this one, in which the stream waited
    /// for the client without progress.
    pub(super) fn inspect(&mut self) -> u32 {
        let waits_for_client = self.room == 0 || !self.pending.is_empty();
        if std::mem::take(&mut self.moved) || !waits_for_client {
            self.stalled = 0;
        } else {
            self.stalled += 1;
        }
        self.stalled
    }

    /// Ends the stream if access to it is revoked, and returns whether it is. The end of a watch
    /// needs no window unless a pending frame comes first.
    pub(super) fn end_if_revoked(&mut self) -> bool {
        let is_revoked = self.source.is_revoked();
        if is_revoked && self.is_watch() && self.pending.is_empty() {
            // The client may have closed the stream at this moment.
            let _ = self.stream.send_data(Bytes::new(), true);
        } else if is_revoked {
            self.reset();
        }
        is_revoked
    }

    /// Resets the stream before its body is complete.
    pub(super) fn reset(&mut self) {
        self.stream.send_reset(Reason::CANCEL);
    }

    /// Sends the available data that fits, up to `most` bytes and one frame.
    pub(super) fn turn(&mut self, most: usize, shared: &StreamContext) -> (Turn, Sent) {
        let mut sent = Sent::default();
        if self.is_broken {
            self.stream.send_reset(Reason::INTERNAL_ERROR);
            return (Turn::Ended, sent);
        }
        // Whether the source has nothing more and will wake the stream.
        let mut is_drained = false;
        let turn = loop {
            let made = self.make_room(shared, sent);
            if let Err(turn) = made.and_then(|()| self.send_pending(shared, &mut sent)) {
                break turn;
            }
            if self.room == 0 {
                continue;
            }
            if sent.bytes >= most {
                break Turn::HasMore;
            }
            if is_drained {
                break self.wait_for_reset();
            }
            if self.is_withheld(shared) {
                break Turn::Waits;
            }
            let caller = Caller::listed(&shared.ready, self.index, &self.waker);
            match self.source.poll_next(&caller) {
                Poll::Ready(Some(frame)) if self.is_watch() => {
                    is_drained = self.join(frame, shared, &mut sent);
                }
                Poll::Ready(Some(piece)) => self.pending = piece.bytes,
                Poll::Ready(None) => break self.end(),
                Poll::Pending => break self.wait_for_reset(),
            }
        };
        self.moved |= sent.bytes > 0;
        self.hold_lasting();
        if turn != Turn::Ended && shared.is_window_short.get() {
            self.give_back();
        }
        (turn, sent)
    }

    /// Counts a body that may last as held while it waits for the client.
    fn hold_lasting(&mut self) {
        let is_waiting = self.room == 0;
        if let Source::Chunks { pieces, held } = &mut self.source
            && pieces.revocation().is_some()
        {
            held.set(if is_waiting { pieces.held() } else { 0 });
        }
    }

    /// Ends the stream as its body has ended.
    fn end(&mut self) -> Turn {
        // The client may have closed the stream at this moment. Then nobody needs the end.
        let _ = match self.source.ending() {
            Ending::Complete => self.stream.send_data(Bytes::new(), true),
            Ending::Trailers(trailers) => self.stream.send_trailers(*trailers),
            Ending::Broken => {
                self.is_broken = true;
                return Turn::HasMore;
            }
        };
        Turn::Ended
    }

    /// Makes a frame pending, together with the frames after it that fit into one DATA frame.
    /// Returns whether nothing more is available.
    fn join(&mut self, first: WatchFrame, shared: &StreamContext, sent: &mut Sent) -> bool {
        let Outbound { stream, source, .. } = self;
        // Frames that exceed the client's window would be held here, one copy for each client
        // that does not read.
        let (signal, room, awaits_reset) = (&self.signal, &mut self.room, &mut self.awaits_reset);
        let make_room = || {
            if *room < JOINED_BYTES {
                *room = reserve(stream, signal, JOINED_BYTES);
                if *room < JOINED_BYTES {
                    // Window that is granted later is left to streams that need it.
                    *room = reserve(stream, signal, *room);
                }
                *awaits_reset = false;
            }
            *room
        };
        let caller = Caller::listed(&shared.ready, self.index, &self.waker);
        let joined = batch(first, JOINED_BYTES, make_room, || source.poll_next(&caller));
        sent.watch_frames += joined.frames;
        self.pending = joined.bytes;
        joined.is_last_for_now
    }

    fn reserve(&mut self, bytes: usize) {
        self.room = reserve(&mut self.stream, &self.signal, bytes);
        self.awaits_reset = false;
    }

    /// Ensures that a byte can be sent, or waits for window.
    fn make_room(&mut self, shared: &StreamContext, sent: Sent) -> Result<(), Turn> {
        while self.room == 0 {
            self.reserve(self.pending.len() + 1);
            if self.room > 0 {
                break;
            }
            let mut context = Context::from_waker(&self.waker);
            match self.stream.poll_capacity(&mut context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return Err(Turn::Ended),
                // The data already sent may only have to be framed first.
                Poll::Pending if sent.bytes > 0 => return Err(Turn::HasMore),
                Poll::Pending => {
                    shared.is_window_short.set(true);
                    return Err(Turn::Waits);
                }
            }
        }
        Ok(())
    }

    /// Sends pending bytes as far as the window allows.
    fn send_pending(&mut self, shared: &StreamContext, sent: &mut Sent) -> Result<(), Turn> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let needed = self.pending.len() + 1;
        if self.room < needed {
            self.widen(needed, shared);
        }
        let part = self.pending.split_to(self.room.min(self.pending.len()));
        self.room -= part.len();
        if part.is_empty() {
            return Ok(());
        }
        sent.bytes += part.len();
        if !self.pending.is_empty() && self.pending.len() <= REST_COPIED_BYTES {
            self.pending = Bytes::copy_from_slice(&self.pending);
        }
        let last = match &mut self.source {
            Source::Nothing(held) => {
                held.set(self.pending.len());
                self.pending.is_empty()
            }
            Source::Watch(_) => {
                self.hold_rest(shared);
                false
            }
            Source::Chunks { .. } => false,
        };
        match self.stream.send_data(part, last) {
            Ok(()) if last => Err(Turn::Ended),
            Ok(()) => Ok(()),
            Err(_) => Err(Turn::Ended),
        }
    }

    /// Whether a watch has to wait until its connection holds less. Frames that exceed the client's
    /// window would be held too.
    fn is_withheld(&mut self, shared: &StreamContext) -> bool {
        if !self.is_watch() || shared.state.may_answer() {
            return false;
        }
        self.reserve(JOINED_BYTES);
        if self.room >= JOINED_BYTES {
            return false;
        }
        self.reserve(self.room.min(1));
        if !std::mem::replace(&mut self.withheld, true) {
            shared.withheld.borrow_mut().push(self.index);
        }
        true
    }

    /// Continues after the connection holds less.
    pub(super) fn go_on(&mut self) {
        self.withheld = false;
    }

    /// Counts the rest of a watch frame as held.
    fn hold_rest(&mut self, shared: &StreamContext) {
        let rest = self.pending.len();
        match &mut self.held {
            None if rest == 0 => {}
            None => self.held = Some(Box::new(shared.state.hold_answer(rest))),
            Some(_) if rest == 0 => self.held = None,
            Some(held) => held.set(rest),
        }
    }

    /// Requests the needed window. For a watch with frames of ordinary size it also requests what
    /// the next few frames need.
    fn widen(&mut self, needed: usize, shared: &StreamContext) {
        if !self.is_watch() || needed > HELD_BYTES || shared.is_window_short.get() {
            return self.reserve(needed);
        }
        self.reserve(needed + HELD_BYTES);
        if self.room < needed + HELD_BYTES {
            shared.is_window_short.set(true);
            self.reserve(needed);
        }
    }

    fn wait_for_reset(&mut self) -> Turn {
        if self.awaits_reset {
            return Turn::Waits;
        }
        let mut context = Context::from_waker(&self.waker);
        match self.stream.poll_reset(&mut context) {
            Poll::Ready(_) => Turn::Ended,
            Poll::Pending => {
                self.awaits_reset = true;
                Turn::Waits
            }
        }
    }
}

/// Requests window from h2 and returns how much is available. h2 wakes a stream whenever it grants
/// window, even for this very request. Such wakes are ignored.
fn reserve(stream: &mut SendStream<Bytes>, signal: &StreamSignal, bytes: usize) -> usize {
    signal.mute();
    stream.reserve_capacity(bytes);
    signal.listen();
    stream.capacity()
}
