//! How fast resources are added to a running daemon, so that the others keep their latency.
//!
//! An addition takes some hundred microseconds on several threads. A thousand of them at once would
//! take the processors away from watches for as long. So a few begin at once, and further ones at
//! a steady rate.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The time between two additions when there are many.
const INTERVAL: Duration = Duration::from_millis(2);
/// How many begin at once after a pause.
const AT_ONCE: u32 = 16;

/// When the next addition may begin.
pub(super) struct AdditionPace(Mutex<Instant>);

/// The pace of a daemon without additions before.
impl Default for AdditionPace {
    fn default() -> AdditionPace {
        AdditionPace(Mutex::new(Instant::now()))
    }
}

impl AdditionPace {
    /// Waits until an addition may begin.
    pub(super) async fn turn(&self) {
        let begin = {
            let mut next = self.0.lock();
            let now = Instant::now();
            let earliest = now.checked_sub(INTERVAL * (AT_ONCE - 1)).unwrap_or(now);
            let begin = (*next).max(earliest);
            *next = begin + INTERVAL;
            begin
        };
        tokio::time::sleep_until(begin).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_few_additions_begin_at_once_and_many_at_a_steady_rate() {
        let pace = AdditionPace::default();
        tokio::time::advance(Duration::from_secs(1)).await;
        let begun = Instant::now();
        for _ in 0..AT_ONCE {
            pace.turn().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for _ in 0..1000 {
            pace.turn().await;
        }
        let expected = INTERVAL * 1000;
        assert!(begun.elapsed() >= expected && begun.elapsed() < expected * 11 / 10);
        // After a pause there is room again.
        tokio::time::advance(Duration::from_secs(1)).await;
        let begun = Instant::now();
        pace.turn().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
