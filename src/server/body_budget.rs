//! How many bytes of request bodies may be on their way at a time, over all connections.
//!
//! A body is kept until its last byte is here, and its client decides when that is. So room for all
//! of it is set aside before its first byte is read; who finds none is asked to come again. Short
//! bodies have room of their own, so that a few long ones don't keep everybody else from writing.

use std::sync::Arc;

use metrics::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::large_requests::LARGE_REQUEST_BYTES;
use crate::api::status::Status;

/// Room is counted in units of so many bytes.
const UNIT_BYTES: usize = 1024;
/// For bodies up to [`LARGE_REQUEST_BYTES`].
const SHORT_BYTES_IN_ALL: usize = 32 << 20;
/// For longer ones.
const LONG_BYTES_IN_ALL: usize = 64 << 20;

/// Seconds after which a client that found no room may come again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The room that is left.
pub struct BodyBudget {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
    refused: Counter,
}

/// Room set aside until this is dropped.
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
    /// Sets room aside for a body that may have so many bytes.
    ///
    /// # Errors
    /// 429 when there is none.
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
