//! The parts of an engine that keeps its log in this process, other than the log itself.
//!
//! It owns the newest positions ([`Positions`]), the newest batches for open feeds ([`Tail`]), the
//! order in which leases expire ([`LeaseQueue`]), the number of items that remain after a page of a
//! range ([`RemainingCounts`]), and two rules: which history retention drops ([`horizon`]), and
//! which revisions can be read ([`resolve`]). An engine publishes durable events after its sync and
//! before it acknowledges them, first to the positions, then to the tail. It knows nothing of how a
//! log is stored: feeds read it through [`LogReader`].

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
