//! The bounds of all mailboxes, and the reason for each.
//!
//! A sender takes one of an actor's permits before it sends, and keeps it until the answer arrives
//! ([`crate::actor_ref::ActorRef::ask`]). A mailbox has room for as many messages as there are
//! permits. So it never overflows, and a sender that waits has not created its message yet.

/// A Cacher gets all messages but stop from its Reflector, which awaits every answer. The rest is
/// room for the first messages of a restarted Reflector while those of its predecessor are still
/// queued.
pub const CACHER: usize = 8;

/// A Reflector only receives requests to stop.
pub const REFLECTOR: usize = 2;

/// A shard of the Writers. Callers wait until they are queued, not for their turn. So this bounds a
/// burst between two polls of the shard. [`crate::writer::WAITING_MAX`] bounds the callers that
/// wait for a turn.
pub const WRITER: usize = 1024;

/// Compactions that operators have asked for. One runs at a time.
pub const COMPACTOR: usize = 4;

/// A Lessor only receives requests to stop.
pub const LESSOR: usize = 2;

/// Requests to stop, and to add and remove children. Exit reports have a queue of their own.
pub const SUPERVISOR: usize = 16;

/// A Dispatcher gets one hint until it has read all rings that are due.
pub const DISPATCHER: usize = 4;
