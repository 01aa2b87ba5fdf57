//! The writer of the embedded engine: the one thread that changes the database.
//!
//! Owns the queue of writes and everything that only one thread may touch. Callers send requests
//! and get answers through the handle ([`Writer`]). Durable events are published through
//! [`EngineState`](super::engine_state::EngineState). The writer must not know what values mean.
//!
//! | module | purpose |
//! |---|---|
//! | [`handle`], [`request`] | the bounded queue and its requests |
//! | [`thread`] | takes one request after another |
//! | [`batch`] | group commit: mutations that wait share one sync |
//! | [`durability`] | the journal and checkpoints |
//! | [`leases`], [`lease_requests`] | the existing leases; grant, revoke, expire |
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
