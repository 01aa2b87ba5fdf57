//! Limits how many bytes of request bodies are in transit at a time, over all connections.
//!
//! A body is kept until its last byte arrives, and the client decides when that is. Memory for the
//! whole body is therefore reserved before its first byte is read. A client whose body does not fit
//! is told to retry. Short bodies have a budget of their own, so that a few long ones do not block
//! all other writes.

use std::sync::Arc;

use metrics::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
    refused: Counter,
}

/// A reservation. Dropping it returns the bytes.
#[derive(Debug)]
pub struct Reserved(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl Default for BodyBudget {
    fn default() -> BodyBudget {
        metrics::describe_counter!(
            "taffrail_request_bodies_refused_total",
            "Requests answered 429 because too many bytes of others' bodies were on their way."
        );
        BodyBudget {
            short: Arc::new(Semaphore::new(SHORT_BYTES_IN_ALL / UNIT_BYTES)),
            long: Arc::new(Semaphore::new(LONG_BYTES_IN_ALL / UNIT_BYTES)),
            refused: metrics::counter!("taffrail_request_bodies_refused_total"),
        }
    }
}

impl BodyBudget {
    /// Reserves room for a body of up to `bytes`.
    ///
    /// # Errors
    /// 429 when there is no room.
    pub fn reserve(&self, bytes: usize) -> Result<Reserved, Box<Status>> {
        let room = if bytes <= LARGE_REQUEST_BYTES {
            &self.short
        } else {
            &self.long
        };
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let reserved = Arc::clone(room).try_acquire_many_owned(units);
        reserved.map(Reserved).map_err(|_| {
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
    fn long_bodies_leave_room_for_short_ones() {
        let budget = BodyBudget::default();
        let long = 3 << 20;
        let held: Vec<_> = std::iter::from_fn(|| budget.reserve(long).ok()).collect();
        assert_eq!(held.len(), LONG_BYTES_IN_ALL / long);
        let refused = budget.reserve(long).unwrap_err();
        assert_eq!((refused.code, refused.retry_after_seconds()), (429, 1));
        assert!(budget.reserve(1).is_ok() && budget.reserve(LARGE_REQUEST_BYTES).is_ok());
        drop(held);
        assert!(budget.reserve(long).is_ok());
    }
}
