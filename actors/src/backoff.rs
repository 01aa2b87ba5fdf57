//! How long to wait before the next attempt: exponential, with jitter. Pure.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The wait doubles from `first` to `most` while attempts fail. A success resets it.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
}

impl Backoff {
    /// A backoff between these two waits.
    pub fn new(first: Duration, most: Duration) -> Backoff {
        Backoff {
            first,
            most,
            failures: 0,
        }
    }

    /// The wait after one more failure. `random`, from 0 to 1, spreads it from half of the full
    /// wait to all of it, so that tasks that failed together are not repeated together.
    pub fn failed(&mut self, random: f64) -> Duration {
        let full = self
            .first
            .saturating_mul(1 << self.failures.min(20))
            .min(self.most);
        self.failures = self.failures.saturating_add(1);
        full.mul_f64(0.5 + 0.5 * random.clamp(0.0, 1.0))
    }

    /// The last attempt succeeded.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

/// A random number from 0 to 1, for jitter and not for secrets.
pub fn random_unit() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_most_and_start_anew_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350));
        let waits: Vec<u128> = (0..4).map(|_| backoff.failed(1.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 350, 350]);
        backoff.succeeded();
        assert_eq!(backoff.failed(1.0).as_millis(), 100);
    }

    #[test]
    fn jitter_takes_off_at_most_half() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        assert_eq!(backoff.failed(0.0).as_millis(), 50);
        let random = random_unit();
        assert!((0.0..=1.0).contains(&random), "{random}");
    }
}
