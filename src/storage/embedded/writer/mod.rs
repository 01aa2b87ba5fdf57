//! The writer of the embedded engine: the one thread that changes the database.
//!
//! Owns the queue of writes and everything that only one thread may touch. Requests enter through
//! the handle ([`Writer`]); answers leave through it, and durable events leave through
//! [`EngineState`](super::engine_state::EngineState). The writer must not know what values mean.
//!
//! | module | what it does |
//! |---|---|
//! | [`handle`], [`request`] | the bounded queue and what may be in it |
//! | [`thread`] | takes one request after another |
//! | [`batch`] | group commit: mutations that wait share one sync |
//! | [`durability`] | the journal and checkpoints |
//! | [`leases`], [`lease_requests`] | which leases there are; grant, revoke, expire |
//! | [`scrub`] | compaction, removal of compacted records, the switch to a defragmented file |
//! | [`recovery`] | reopens the database after a failure |

mod batch;
mod durability;
mod handle;
mod lease_requests;
mod leases;
mod recovery;
mod request;
mod scrub;
mod thread;

pub use handle::Writer;
pub use request::{LeaseRequest, Promotion, WriterRequest};
