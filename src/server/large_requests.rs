//! Runs work that would block an HTTP thread: bodies and objects that take longer to read, change
//! and check than the watches of that thread may wait.
//!
//! The whole request runs on separate threads, so the decoder, patches and validation need not know
//! how large an object is. At most one request per core computes at a time, and users take turns
//! ([`FairPolls`]). The number of such requests is limited, because each holds its body and its
//! object in memory. One user can use at most seven eighths of the places. A request over the limit
//! gets a 429.

use std::sync::Arc;

use metrics::Counter;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use actors::tasks;
use actors::threads::inherited;
use actors::watchdog::Watchdog;

use super::filters::seats::{Seat, Seats};
use crate::api::status::Status;
use crate::transport::fairness::FairPolls;

/// The limit on concurrent large requests. Most take some 20 ms of a core, so with a full queue the
/// next one would wait about as long as its retry delay.
const PLACES: usize = 64;

/// The `Retry-After` of a refusal, in seconds.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The threads for large requests.
pub struct LargeRequests {
    /// `Some` until dropped.
    runtime: Option<Runtime>,
    places: Arc<Seats>,
    turns: Arc<FairPolls>,
    refused: Counter,
    /// Reports a request that computes for seconds.
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
            "Requests with large bodies or objects that were rejected with 429 because too many \
             others were running."
        );
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut builder = Builder::new_multi_thread();
        let runtime = inherited(&mut builder)
            // One more thread than requests that compute: it lets new requests queue meanwhile.
            .worker_threads(threads + 1)
            .thread_name("large-requests")
            // Stores may open their own connections here.
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

    /// Runs a user's work on these threads. Dropping the returned future cancels the work.
    ///
    /// # Errors
    /// The error of the work, or 429 when all places are taken.
    pub async fn run<T: Send + 'static>(
        &self,
        user: &str,
        work: impl Future<Output = Result<T, Box<Status>>> + Send + 'static,
    ) -> Result<T, Box<Status>> {
        match self.place(user) {
            Some(place) => self.in_place(place, user, work).await,
            None => {
                self.refused.increment(1);
                Err(Box::new(Status::too_many_requests(
                    "too many requests with large bodies or objects are running, please try again \
                     later",
                    RETRY_AFTER_SECONDS,
                )))
            }
        }
    }

    /// Returns a place for work of a user, or `None` when all are taken.
    pub fn place(&self, user: &str) -> Option<Place> {
        self.runtime.as_ref()?;
        self.places.take(user).map(Place)
    }

    /// Runs a user's work in a place of these threads. Dropping the returned future cancels the
    /// work.
    ///
    /// # Errors
    /// The error of the work, or 503 while the daemon ends.
    pub async fn in_place<T: Send + 'static>(
        &self,
        place: Place,
        user: &str,
        work: impl Future<Output = Result<T, Box<Status>>> + Send + 'static,
    ) -> Result<T, Box<Status>> {
        let ending = || {
            Err(Box::new(Status::unavailable(
                "the server is shutting down, please try again later",
                RETRY_AFTER_SECONDS,
            )))
        };
        let Some(runtime) = &self.runtime else {
            return ending();
        };
        let work = self.watchdog.pulse("large-request").turning(work);
        let work = self.turns.in_turn(user, work);
        let mut task = Task(tasks::spawn_on(runtime.handle(), async move {
            let _place = place;
            work.await
        }));
        match (&mut task.0).await {
            Ok(done) => done,
            // Propagate the panic to the filter that handles panics of handlers.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => ending(),
            },
        }
    }
}

/// A place on the threads for large requests. It is free again when this is dropped.
pub struct Place(#[expect(dead_code, reason = "held, not read")] Seat);

impl Drop for LargeRequests {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Tokio forbids blocking on a runtime's shutdown from inside another runtime.
            runtime.shutdown_background();
        }
    }
}

/// A task that is aborted when this is dropped.
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
