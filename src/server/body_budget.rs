//! Limits the bytes of request bodies that are in transit at a time, over all connections.
//!
//! A body is kept until its last byte arrives, and the client decides when that is. Memory for the
//! whole body is therefore reserved before its first byte is read. A client whose body does not fit
//! gets a 429. Short bodies have their own budget, so that a few long ones do not block all other
//! writes. One user can use at most seven eighths of each budget.

use std::sync::Arc;

use metrics::Counter;

use super::filters::seats::{Seat, Seats};
use crate::api::large::LARGE_BYTES;
use crate::api::status::Status;

/// The unit of the budget in bytes.
const UNIT_BYTES: usize = 1024;
/// The budget for bodies up to [`LARGE_BYTES`].
const SHORT_BYTES_IN_ALL: usize = 32 << 20;
/// The budget for longer bodies.
const LONG_BYTES_IN_ALL: usize = 64 << 20;

/// The `Retry-After` of a refusal, in seconds.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The remaining budgets.
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
            "Requests rejected with 429 because other request bodies in transit used up the budget."
        );
        BodyBudget {
            short: Seats::new(SHORT_BYTES_IN_ALL / UNIT_BYTES),
            long: Seats::new(LONG_BYTES_IN_ALL / UNIT_BYTES),
            refused: metrics::counter!("taffrail_request_bodies_refused_total"),
        }
    }
}

impl BodyBudget {
    /// Reserves room for a user's body of at most `bytes`.
    ///
    /// # Errors
    /// 429 when the budget is used up.
    pub fn reserve(&self, user: &str, bytes: usize) -> Result<Reserved, Box<Status>> {
        let room = if bytes <= LARGE_BYTES {
            &self.short
        } else {
            &self.long
        };
        let units = bytes.div_ceil(UNIT_BYTES);
        let reserved = room.take(user).filter(|seat| seat.widen(units));
        reserved.map(Reserved).ok_or_else(|| {
            self.refused.increment(1);
            Box::new(Status::too_many_requests(
                "too many bytes of request bodies are in transit, please try again later",
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
        assert!(budget.reserve("ann", LARGE_BYTES).is_ok());
        let others = all_of("bob");
        assert_eq!(others.len(), 2);
        drop(held);
        assert!(budget.reserve("ann", long).is_ok());
    }
}
