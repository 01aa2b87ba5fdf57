//! Limits how many bytes of request bodies are in transit at a time, over all connections.
//!
//! A body is kept until its last byte arrives, and the client decides when that is. Memory for the
//! whole body is therefore reserved before its first byte is read. A client whose body does not fit
//! is told to retry. Short bodies have a budget of their own, so that a few long ones do not block
//! all other writes. Of each budget one user can't have the last eighth.

use std::sync::Arc;

use metrics::Counter;

use super::filters::seats::{Seat, Seats};
use super::large_requests::LARGE_REQUEST_BYTES;
use crate::api::status::Status;

/// The unit of the budget in bytes.
const UNIT_BYTES: usize = 1024;
/// For bodies up to [`LARGE_REQUEST_BYTES`].
const SHORT_BYTES_IN_ALL: usize = 32 << 20;
/// For longer bodies.
const LONG_BYTES_IN_ALL: usize = 64 << 20;

/// The number of seconds after which a refused client may retry.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The remaining budget.
pub struct BodyBudget {
    short: Arc<Seats>,
    long: Arc<Seats>,
    refused: Counter,
}

/// A reservation. Dropping it returns the bytes.
#[derive(Debug)]
pub struct Reserved(#[expect(dead_code, reason = "held, not read")] Seat);

impl Default for BodyBudget {
    fn default() -> BodyBudget {
        metrics::describe_counter!(
            "taffrail_request_bodies_refused_total",
            "Requests answered 429 because too many bytes of others' bodies were on their way."
        );
        BodyBudget {
            short: Seats::new(SHORT_BYTES_IN_ALL / UNIT_BYTES),
            long: Seats::new(LONG_BYTES_IN_ALL / UNIT_BYTES),
            refused: metrics::counter!("taffrail_request_bodies_refused_total"),
        }
    }
}

impl BodyBudget {
    /// Reserves room for a user's body of up to `bytes`.
    ///
    /// # Errors
    /// 429 when there is no room.
    pub fn reserve(&self, user: &str, bytes: usize) -> Result<Reserved, Box<Status>> {
        let room = if bytes <= LARGE_REQUEST_BYTES {
            &self.short
        } else {
            &self.long
        };
        let units = bytes.div_ceil(UNIT_BYTES);
        let reserved = room.take(user).filter(|seat| seat.widen(units));
        reserved.map(Reserved).ok_or_else(|| {
            self.refused.increment(1);
            Box::new(Status::too_many_requests(
                "too many bytes of other request bodies are on their way, please try again later",
                RETRY_AFTER_SECONDS,
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_bodies_leave_room_for_short_ones_and_for_those_of_other_users() {
        let budget = BodyBudget::default();
        let long = 3 << 20;
        let all_of = |user: &str| -> Vec<Reserved> {
            std::iter::from_fn(|| budget.reserve(user, long).ok()).collect()
        };
        let held = all_of("ann");
        assert_eq!(held.len(), LONG_BYTES_IN_ALL / 8 * 7 / long);
        let refused = budget.reserve("ann", long).unwrap_err();
        assert_eq!((refused.code, refused.retry_after_seconds()), (429, 1));
        assert!(budget.reserve("ann", LARGE_REQUEST_BYTES).is_ok());
        let others = all_of("bob");
        assert_eq!(others.len(), 2);
        drop(held);
        assert!(budget.reserve("ann", long).is_ok());
    }
}
