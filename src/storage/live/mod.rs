//! What an engine inside this process keeps in memory beside its log: how far each prefix has come
//! ([`Positions`]) and the newest batches for whoever listens ([`Tail`]).
//!
//! [`horizon`] decides what retention forgets, [`resolve`] which revisions can be asked for,
//! [`Leases`] which leases have run out. Positions and tail hold only what is durable: an
//! engine publishes to them after its sync and before it acknowledges, first positions, then the
//! tail.

mod leases;
mod positions;
mod reach;
mod tail;
#[cfg(test)]
mod tests;
mod timeline;

pub use leases::{LeaseTime, Leases};
pub use positions::Positions;
pub use reach::{check_after, check_future, resolve};
pub use tail::{Backlog, Tail};
pub use timeline::{Mark, horizon};

/// The parts of a key up to and including each of its slashes, shortest first.
fn directories(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    key.iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .filter_map(|(at, _)| key.get(..=at))
}
