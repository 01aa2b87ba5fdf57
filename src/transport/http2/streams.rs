//! Schedules the response bodies of one connection.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use actors::dispatcher::ReadyList;
use bytes::Bytes;
use h2::SendStream;

use super::outbound::{Outbound, Sent, Source, StreamContext, Turn};
use super::signals::Signals;
use crate::transport::WatchBody;
use crate::transport::connection_state::ConnectionState;

/// The most bytes that a stream may send before the other streams have their turn.
const STREAM_TURN_BYTES: usize = 64 * 1024;

/// The most bytes sent in one round. After that the other connections of the thread have their
/// turn.
pub(super) const ROUND_BYTES: usize = 256 * 1024;

/// How many streams have a turn before h2 is polled. h2 keeps room for the most frames that ever
/// waited in it, 300 bytes for each, as long as the connection lives.
pub(super) const STREAMS_PER_STEP: usize = 16;

/// How much longer the client of a body that may last is waited for.
const LASTING_PATIENCE: u32 = 10;

/// The most slots that are added at a time when all are in use. A vector by itself would double.
const SLOTS_ADDED_MAX: usize = 8;

/// Bodies by index. Indexes are reused.
pub(super) struct Streams<W> {
    shared: StreamContext,
    slots: Vec<Option<Outbound<W>>>,
    free: Vec<u32>,
    turns: VecDeque<u32>,
    /// Whether the streams have returned the window they had reserved.
    gave_back: bool,
}

impl<W: WatchBody> Streams<W> {
    /// Creates an empty schedule.
    pub(super) fn new(signals: &Arc<Signals>, state: &Rc<ConnectionState>) -> Streams<W> {
        Streams {
            shared: StreamContext {
                state: Rc::clone(state),
                withheld: RefCell::default(),
                signals: Arc::clone(signals),
                ready: ReadyList::new(signals.request_waker()),
                is_window_short: Cell::new(false),
            },
            slots: Vec::new(),
            free: Vec::new(),
            turns: VecDeque::new(),
            gave_back: false,
        }
    }

    /// The number of bodies being sent.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no body is being sent.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a body waits for a turn.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Adds a body. Its first turn comes with the next step.
    pub(super) fn add(&mut self, stream: SendStream<Bytes>, source: Source<W>, pending: Bytes) {
        let index = self.free.pop().unwrap_or_else(|| {
            if self.slots.len() == self.slots.capacity() {
                let added = self.slots.len().clamp(1, SLOTS_ADDED_MAX);
                self.slots.reserve_exact(added);
            }
            self.slots.push(None);
            // The number of streams of a connection is limited.
            (self.slots.len() - 1) as u32
        });
        if let Some(slot) = self.slots.get_mut(index as usize) {
            let signals = &self.shared.signals;
            *slot = Some(Outbound::new(signals, index, stream, source, pending));
            self.turns.push_back(index);
        }
    }

    /// Records that a response outside this schedule got less window than it needs.
    pub(super) fn window_is_short(&self) {
        self.shared.is_window_short.set(true);
    }

    /// Runs one step. The streams that were woken, and those that were not done, have their turns
    /// until the step's limit of streams or bytes is reached. The rest follows in the next step.
    pub(super) fn step(&mut self) -> Sent {
        self.take_woken();
        let mut total = Sent::default();
        let mut left = self.turns.len().min(STREAMS_PER_STEP);
        while left > 0
            && total.bytes < ROUND_BYTES
            && let Some(index) = self.turns.pop_front()
        {
            left -= 1;
            // A wake may arrive for a stream that has ended in the meantime.
            let Some(slot) = self.slots.get_mut(index as usize) else {
                continue;
            };
            let Some(outbound) = slot else { continue };
            let (turn, sent) = outbound.turn(STREAM_TURN_BYTES, &self.shared);
            total.watch_frames += sent.watch_frames;
            total.bytes += sent.bytes;
            match turn {
                Turn::Waits => {}
                Turn::HasMore => self.turns.push_back(index),
                Turn::Ended => self.remove(index),
            }
        }
        if self.shared.is_window_short.get() && !self.gave_back {
            self.gave_back = true;
            for outbound in self.slots.iter_mut().flatten() {
                outbound.give_back();
            }
        }
        total
    }

    /// Schedules the streams woken since the last step.
    fn take_woken(&mut self) {
        let known = self.turns.len();
        self.shared.signals.take_ready(&mut self.turns);
        for index in self.turns.range(known..) {
            if let Some(Some(outbound)) = self.slots.get_mut(*index as usize) {
                outbound.hear();
            }
        }
        self.shared.ready.take(&mut self.turns);
        let mut withheld = self.shared.withheld.borrow_mut();
        if !withheld.is_empty() && self.shared.state.may_answer() {
            for index in withheld.drain(..) {
                if let Some(Some(outbound)) = self.slots.get_mut(index as usize) {
                    outbound.go_on();
                }
                self.turns.push_back(index);
            }
        }
    }

    fn remove(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize)
            && slot.take().is_some()
        {
            self.free.push(index);
        }
        if self.is_empty() {
            self.slots = Vec::new();
            self.free = Vec::new();
        }
    }

    /// Ends the watches whose access is revoked, including those that wait for their client.
    pub(super) fn end_revoked(&mut self) {
        for index in 0..self.slots.len() {
            if let Some(Some(outbound)) = self.slots.get_mut(index)
                && outbound.end_if_revoked()
            {
                self.remove(index as u32);
            }
        }
    }

    /// Resets bodies, other than watches, that were stalled in this many inspections in a row.
    /// Returns their number.
    pub(super) fn reset_stalled(&mut self, inspections_max: u32) -> usize {
        let mut stalled = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let Some(outbound) = slot else { continue };
            let most = match outbound.is_lasting() {
                true => inspections_max.saturating_mul(LASTING_PATIENCE),
                false => inspections_max,
            };
            if !outbound.is_watch() && outbound.inspect() >= most {
                outbound.reset();
                stalled.push(index as u32);
            }
        }
        for index in &stalled {
            self.remove(*index);
        }
        stalled.len()
    }
}
