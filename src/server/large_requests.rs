//! Runs work that would block an HTTP thread: bodies and objects that take longer to read, change
//! and check than the watches of the same thread may wait.
//!
//! The whole request runs on threads for large requests only. The decoder, patches and validation
//! therefore need not know how large an object is. As many requests compute at a time as there are
//! cores, and users have turns one after the other ([`FairPolls`]). The number of such requests is
//! limited, because each holds its body and its object. One user can't have all places. A client
//! that finds no place is told to retry.

use std::sync::Arc;

use metrics::Counter;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use actors::watchdog::Watchdog;

use super::fairness::FairPolls;
use super::filters::seats::Seats;
use crate::api::status::Status;

/// Bodies and objects above this size are large. Reading this much takes about half a millisecond.
pub const LARGE_REQUEST_BYTES: usize = 64 * 1024;

/// JSON with more objects and lists than this is large, too. `[{},{},...]` has so many in 6 KB, and
/// each of them is filled in, checked and owned.
const LARGE_REQUEST_NODES: usize = 2_000;

/// The number of large requests at a time. Most take some 20 ms of a core, so the next
/// request would wait about as long as its retry delay.
const PLACES: usize = 64;

/// The number of seconds after which a refused client may retry.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Whether a body of JSON is large.
pub fn is_large(body: &[u8]) -> bool {
    let nodes = || body.iter().filter(|byte| matches!(byte, b'{' | b'['));
    body.len() > LARGE_REQUEST_BYTES || nodes().count() > LARGE_REQUEST_NODES
}

/// The threads for large requests.
pub struct LargeRequests {
    /// `Some` until the drop.
    runtime: Option<Runtime>,
    places: Arc<Seats>,
    turns: Arc<FairPolls>,
    refused: Counter,
    /// Names a request that computes for seconds.
    watchdog: Watchdog,
}

impl LargeRequests {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system cannot start the threads.
    pub fn start(watchdog: &Watchdog) -> std::io::Result<LargeRequests> {
        LargeRequests::with_places(PLACES, watchdog.clone())
    }

    fn with_places(places: usize, watchdog: Watchdog) -> std::io::Result<LargeRequests> {
        metrics::describe_counter!(
            "taffrail_heavy_requests_refused_total",
            "Requests with large bodies or objects that were answered 429 because too many others \
             were being carried out."
        );
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_multi_thread()
            // One more than compute: it has requests that come take their turns meanwhile.
            .worker_threads(threads + 1)
            .thread_name("large-requests")
            // Stores may use connections of their own here.
            .enable_all()
            .build()?;
        Ok(LargeRequests {
            runtime: Some(runtime),
            places: Seats::new(places),
            turns: FairPolls::new(threads),
            refused: metrics::counter!("taffrail_heavy_requests_refused_total"),
            watchdog,
        })
    }

    /// Runs the work of a user on these threads. It is cancelled when the caller stops waiting.
    ///
    /// # Errors
    /// The error of the work, or 429 when there is no place for it.
    pub async fn run<T: Send + 'static>(
        &self,
        user: &str,
        work: impl Future<Output = Result<T, Box<Status>>> + Send + 'static,
    ) -> Result<T, Box<Status>> {
        let (Some(runtime), Some(place)) = (&self.runtime, self.places.take(user)) else {
            self.refused.increment(1);
            return Err(Box::new(Status::too_many_requests(
                "too many requests with large bodies or objects are being carried out, please try \
                 again later",
                RETRY_AFTER_SECONDS,
            )));
        };
        let work = self.watchdog.pulse("large-request").turning(work);
        let work = self.turns.in_turn(user, work);
        let mut task = Task(runtime.spawn(async move {
            let _place = place;
            work.await
        }));
        match (&mut task.0).await {
            Ok(done) => done,
            // Pass the panic on to where panics of handlers are handled.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Box::new(Status::unavailable(
                    "the server is shutting down, please try again later",
                    RETRY_AFTER_SECONDS,
                ))),
            },
        }
    }
}

impl Drop for LargeRequests {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A thread of another runtime must not block on these threads.
            runtime.shutdown_background();
        }
    }
}

/// A task that is cancelled when the caller stops waiting.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;
    use crate::api::status::StatusReason;

    #[tokio::test]
    async fn work_is_done_on_another_thread() {
        let threads = LargeRequests::start(&Watchdog::default()).unwrap();
        let here = std::thread::current().id();
        let there = threads
            .run("ann", async { Ok(std::thread::current().id()) })
            .await;
        assert_ne!(there.unwrap(), here);
    }

    #[test]
    fn bodies_are_large_by_bytes_or_by_what_is_in_them() {
        assert!(!is_large("x".repeat(LARGE_REQUEST_BYTES).as_bytes()));
        assert!(is_large("x".repeat(LARGE_REQUEST_BYTES + 1).as_bytes()));
        assert!(!is_large("{},".repeat(LARGE_REQUEST_NODES).as_bytes()));
        assert!(is_large("{},".repeat(LARGE_REQUEST_NODES + 1).as_bytes()));
    }

    #[tokio::test]
    async fn who_takes_all_places_leaves_some_to_others() {
        let threads = LargeRequests::with_places(8, Watchdog::default()).unwrap();
        let mut running = Vec::new();
        for _ in 0..7 {
            let mut waiting = Box::pin(threads.run("ann", std::future::pending::<Result<(), _>>()));
            assert!((&mut waiting).now_or_never().is_none());
            running.push(waiting);
        }
        assert_eq!(
            threads.run("ann", async { Ok(()) }).await.unwrap_err().code,
            429
        );
        threads.run("bob", async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn who_finds_no_place_is_asked_to_come_again() {
        let threads = LargeRequests::with_places(1, Watchdog::default()).unwrap();
        let (finish, finished) = oneshot::channel::<()>();
        let mut first = Box::pin(threads.run("ann", async {
            let _ = finished.await;
            Ok(1)
        }));
        assert!((&mut first).now_or_never().is_none());
        let refused = threads.run("ann", async { Ok(2) }).await.unwrap_err();
        assert_eq!(
            (refused.code, refused.reason.clone()),
            (429, StatusReason::TOO_MANY_REQUESTS)
        );
        assert_eq!(refused.retry_after_seconds(), 1);
        finish.send(()).unwrap();
        assert_eq!(first.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_given_up_and_leaves_its_place() {
        let threads = LargeRequests::with_places(1, Watchdog::default()).unwrap();
        let waiting = threads.run("ann", std::future::pending::<Result<(), _>>());
        assert!(
            tokio::time::timeout(Duration::from_millis(10), waiting)
                .await
                .is_err()
        );
        let freed = async {
            while threads.places.take("ann").is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let freed = tokio::time::timeout(Duration::from_secs(10), freed).await;
        assert!(freed.is_ok());
    }

    #[tokio::test]
    async fn a_panic_is_the_callers() {
        let threads = LargeRequests::start(&Watchdog::default()).unwrap();
        let work = async { std::panic::resume_unwind(Box::new("gone")) };
        let outcome = std::panic::AssertUnwindSafe(threads.run::<()>("ann", work))
            .catch_unwind()
            .await;
        assert!(outcome.is_err());
    }
}
