//! The bounds of all mailboxes, in one table, and the reason for each.
//!
//! Whoever asks an actor takes one of its permits first and keeps it until the answer is there
//! ([`crate::actor_ref::ActorRef::ask`]); a mailbox has as much room as there are permits, so that it
//! never overflows and whoever waits, waits before the message exists.

/// A Cacher receives of its Reflector alone, which awaits every answer; the rest is spare room for
/// the first asks of a restarted Reflector while those of the dead one are still there.
pub const CACHER: usize = 8;

/// A Reflector is only ever told to stop.
pub const REFLECTOR: usize = 2;

/// A Writer shard: callers wait for the answer that they are queued, not for their turn, so this
/// bounds a burst between two polls of the shard. Who waits for a turn is bounded by
/// [`crate::writer::WAITING_MAX`].
pub const WRITER: usize = 1024;

/// Compactions asked for by operators; one runs at a time.
pub const COMPACTOR: usize = 4;

/// A Lessor is only ever told to stop.
pub const LESSOR: usize = 2;

/// Stop; exits come through a channel of their own.
pub const SUPERVISOR: usize = 16;

/// A Dispatcher is sent one hint until it has looked after all of its desks.
pub const DISPATCHER: usize = 4;
