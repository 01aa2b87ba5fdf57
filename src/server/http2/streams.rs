//! The response bodies of one connection, and whose turn it is.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use h2::SendStream;

use super::outbound::{Outbound, Sent, Source, Turn};
use super::signals::Signals;

/// Most bytes a stream may send before the others have their turn.
const STREAM_TURN_BYTES: usize = 64 * 1024;

/// Most bytes sent before h2 and the socket are polled, and after so many the thread's other
/// connections.
const ROUND_BYTES: usize = 256 * 1024;

/// Bodies by index; indexes are used again.
#[derive(Default)]
pub(super) struct Streams {
    slots: Vec<Option<Outbound>>,
    free: Vec<u32>,
    turns: VecDeque<u32>,
}

impl Streams {
    /// How many bodies are on their way.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none is.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether somebody waits for a turn.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Takes a body in; its first turn comes with the next round.
    pub(super) fn add(
        &mut self,
        signals: &Arc<Signals>,
        stream: SendStream<Bytes>,
        source: Source,
        pending: Bytes,
    ) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // Bounded by the streams of a connection.
            (self.slots.len() - 1) as u32
        });
        if let Some(slot) = self.slots.get_mut(index as usize) {
            *slot = Some(Outbound::new(signals, index, stream, source, pending));
            self.turns.push_back(index);
        }
    }

    /// One round: those woken since the last one and those that were not done then each have a
    /// turn, as long as the round's bytes last.
    pub(super) fn round(&mut self, signals: &Signals) -> Sent {
        signals.take_ready(&mut self.turns);
        let mut total = Sent::default();
        let mut left = self.turns.len();
        while left > 0
            && total.bytes < ROUND_BYTES
            && let Some(index) = self.turns.pop_front()
        {
            left -= 1;
            // A wake may come for a stream that has ended since.
            let Some(slot) = self.slots.get_mut(index as usize) else {
                continue;
            };
            let Some(outbound) = slot else { continue };
            let (turn, sent) = outbound.turn(STREAM_TURN_BYTES);
            total.watch_frames += sent.watch_frames;
            total.bytes += sent.bytes;
            match turn {
                Turn::Waits => {}
                Turn::HasMore => self.turns.push_back(index),
                Turn::Ended => self.remove(index),
            }
        }
        total
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

    /// Gives up bodies that are no watches and were found stalled so many times in a row; how many.
    pub(super) fn reset_stalled(&mut self, inspections_max: u32) -> usize {
        let mut stalled = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(outbound) = slot
                && !outbound.is_watch()
                && outbound.inspect() >= inspections_max
            {
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
