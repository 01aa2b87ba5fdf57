//! The clock of a server: the clock of the machine, unless a test has moved it forward.
//!
//! A server for tests has a clock of its own. Its first thread installs it by [`own`], and all
//! threads that are started by [`crate::threads`] inherit it, so several servers in one process
//! have different times. Threads of other servers have none, which costs a look into the memory of
//! the thread.
//!
//! Times and dates that a server shows, or that decide what expires, come from here. The time that
//! requests take, and pauses between attempts, are measured by the machine.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;

thread_local! {
    static CLOCK: Cell<Option<OwnClock>> = const { Cell::new(None) };
}

/// The clock of a server for tests. It lives as long as the process, as a thread may end at any
/// time.
#[derive(Clone, Copy, Debug)]
pub struct OwnClock {
    state: &'static State,
}

#[derive(Debug)]
struct State {
    /// How far it is ahead of the machine, in microseconds.
    ahead: AtomicU64,
    /// The same, for those who wait.
    jumps: watch::Sender<u64>,
}

/// The clock would pass the latest time that it may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the clock would show a time that is too late")]
pub struct TooLate;

impl OwnClock {
    /// Returns how far the clock is ahead of the machine.
    pub fn ahead(self) -> Duration {
        Duration::from_micros(self.state.ahead.load(Ordering::Acquire))
    }

    /// Moves the clock forward, by whole microseconds, at least one.
    ///
    /// # Errors
    /// [`TooLate`] if it would show a later time than `latest`. It has not moved.
    pub fn advance(self, by: Duration, latest: SystemTime) -> Result<(), TooLate> {
        let micros = u64::try_from(by.as_micros()).map_err(|_| TooLate)?.max(1);
        let mut outcome = Err(TooLate);
        // Advances follow each other under the lock of the channel.
        self.state.jumps.send_if_modified(|ahead| {
            let sum = ahead.checked_add(micros);
            let time = |ahead: &u64| SystemTime::now().checked_add(Duration::from_micros(*ahead));
            let Some(sum) = sum.filter(|sum| time(sum).is_some_and(|time| time <= latest)) else {
                return false;
            };
            self.state.ahead.store(sum, Ordering::Release);
            *ahead = sum;
            outcome = Ok(());
            true
        });
        outcome
    }
}

/// Returns the clock of this thread's server. The first call gives the server one.
pub fn own() -> OwnClock {
    CLOCK.get().unwrap_or_else(|| {
        let clock = OwnClock {
            state: Box::leak(Box::new(State {
                ahead: AtomicU64::new(0),
                jumps: watch::Sender::new(0),
            })),
        };
        CLOCK.set(Some(clock));
        clock
    })
}

/// Returns the clock of this thread's server, if it has one, for the threads that it starts.
pub(crate) fn of_thread() -> Option<OwnClock> {
    CLOCK.get()
}

/// Gives this thread the clock of the thread that has started it.
pub(crate) fn inherit(clock: Option<OwnClock>) {
    CLOCK.set(clock);
}

fn ahead() -> Duration {
    CLOCK.get().map_or(Duration::ZERO, OwnClock::ahead)
}

/// Returns the date.
pub fn now() -> SystemTime {
    SystemTime::now() + ahead()
}

/// Returns the moment: what passes between two moments includes the jumps of the clock.
pub fn moment() -> Instant {
    Instant::now() + ahead()
}

/// Waits until a moment of [`moment`] has come, by time that passes or by a jump.
pub async fn reached(moment: Instant) {
    // The channel is subscribed to before the clock is read, so no jump is missed.
    let mut jumps = CLOCK.get().map(|clock| clock.state.jumps.subscribe());
    loop {
        let now = self::moment();
        if now >= moment {
            return;
        }
        let passes = tokio::time::sleep(moment - now);
        match &mut jumps {
            None => return passes.await,
            Some(jumps) => {
                tokio::select! {
                    () = passes => return,
                    // The sender lives as long as the process.
                    _ = jumps.changed() => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads;

    const HOUR: Duration = Duration::from_secs(3600);
    const LATEST: Duration = Duration::from_secs(7_000 * 365 * 86_400);

    fn latest() -> SystemTime {
        SystemTime::UNIX_EPOCH + LATEST
    }

    fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        threads::spawn("clock", work).unwrap().join().unwrap()
    }

    #[test]
    fn a_clock_belongs_to_its_thread_and_the_threads_that_it_starts() {
        on_a_thread(|| {
            let clock = own();
            assert_eq!(clock.ahead(), Duration::ZERO);
            clock.advance(HOUR, latest()).unwrap();
            clock.advance(HOUR, latest()).unwrap();
            assert_eq!((clock.ahead(), own().ahead()), (2 * HOUR, 2 * HOUR));
            let (begun, date) = (Instant::now(), SystemTime::now());
            assert!(moment() >= begun + 2 * HOUR && now() >= date + 2 * HOUR);
            assert_eq!(on_a_thread(ahead), 2 * HOUR);
            let other = std::thread::spawn(ahead).join().unwrap();
            assert_eq!(other, Duration::ZERO, "it was started otherwise");
        });
        assert_eq!(on_a_thread(ahead), Duration::ZERO);
        let [one, other] = [0, 1].map(|hours| {
            on_a_thread(move || {
                let clock = own();
                let _ = clock.advance(HOUR * hours, latest());
                clock
            })
        });
        assert_eq!(one.ahead(), Duration::from_micros(1), "the least");
        assert_eq!(other.ahead(), HOUR);
    }

    #[test]
    fn it_never_passes_the_latest_time() {
        on_a_thread(|| {
            let clock = own();
            for by in [LATEST, Duration::MAX, Duration::from_micros(u64::MAX)] {
                assert_eq!(clock.advance(by, latest()), Err(TooLate));
            }
            assert_eq!(clock.ahead(), Duration::ZERO);
            let left = latest().duration_since(SystemTime::now()).unwrap();
            clock.advance(left - HOUR, latest()).unwrap();
            assert_eq!(clock.advance(2 * HOUR, latest()), Err(TooLate));
            assert!(now() < latest());
        });
    }

    #[test]
    fn who_waits_for_a_moment_notices_a_jump() {
        on_a_thread(|| {
            let clock = own();
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_time().build().unwrap();
            runtime.block_on(async {
                reached(moment()).await;
                let due = moment() + HOUR;
                let waits = tokio::spawn(reached(due));
                tokio::task::yield_now().await;
                clock.advance(HOUR / 2, latest()).unwrap();
                tokio::task::yield_now().await;
                assert!(!waits.is_finished());
                clock.advance(HOUR / 2, latest()).unwrap();
                waits.await.unwrap();
                assert!(moment() >= due);
            });
        });
    }
}
