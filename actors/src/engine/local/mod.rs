//! What an engine that keeps its log in this process needs in addition to the log.
//!
//! It owns the newest positions ([`Positions`]), the newest batches for open feeds ([`Tail`]), the
//! order in which leases run out ([`LeaseQueue`]), what remains of ranges that are read in pages
//! ([`RemainingCounts`]), and two rules: what retention forgets
//! ([`horizon`]), and which revisions can be read ([`resolve`]). Durable events enter: an engine
//! publishes them after its sync and before it acknowledges, first to the positions, then to the
//! tail. Positions and feeds leave. It knows nothing of how a log is stored: feeds read it through
//! [`LogReader`].

mod lease_queue;
mod positions;
mod remaining_counts;
mod retention;
mod revision_check;
mod tail;
#[cfg(test)]
mod tests;

pub use lease_queue::{LeaseQueue, LeaseTime};
pub use positions::Positions;
pub use remaining_counts::{PageStart, RemainingCounts};
pub use retention::{TimelineMark, horizon};
pub use revision_check::{check_after, check_future, resolve};
pub use tail::{LogReader, Tail};
