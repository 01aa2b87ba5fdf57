//! The work that a session does in one poll. After that the other connections of its thread have
//! their turn.

use std::task::{Context, Poll};

/// The most bytes of a turn.
pub(super) const TURN_BYTES: usize = 256 << 10;

/// The most writes of a turn. Each is a record of TLS and a system call, however short its frame
/// is.
pub(super) const TURN_WRITES: usize = 64;

/// The part of a turn that is done.
#[derive(Default)]
pub(super) struct Turn {
    bytes: usize,
    writes: usize,
}

impl Turn {
    /// Counts bytes.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Counts a write of this many bytes.
    pub(super) fn add_write(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.writes += 1;
    }

    /// Whether the others have their turn.
    pub(super) fn is_over(&self) -> bool {
        self.bytes >= TURN_BYTES || self.writes >= TURN_WRITES
    }

    /// Lets the others have their turn, and then has another one.
    pub(super) fn give_way<T>(context: &mut Context<'_>) -> Poll<T> {
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
