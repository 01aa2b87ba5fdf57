//! Decides when a failure that repeats is logged again. Pure.

use std::time::{Duration, Instant};

/// The time between two log lines of a failure that repeats.
const REPEAT: Duration = Duration::from_secs(300);

/// A task that may fail again and again.
#[derive(Debug, Default)]
pub(crate) struct RepeatedFailure {
    logged_at: Option<Instant>,
}

impl RepeatedFailure {
    /// The task has failed. Returns whether to log it.
    pub(crate) fn is_worth_a_line(&mut self, now: Instant) -> bool {
        let logged_recently = |at: Instant| now.saturating_duration_since(at) < REPEAT;
        if self.logged_at.is_some_and(logged_recently) {
            return false;
        }
        self.logged_at = Some(now);
        true
    }

    /// The task has succeeded. Returns whether it had failed before.
    pub(crate) fn end(&mut self) -> bool {
        self.logged_at.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_at_once_and_every_few_minutes_until_it_ends() {
        let start = Instant::now();
        let mut failure = RepeatedFailure::default();
        assert!(!failure.end());
        let told = (0..1000)
            .filter(|second| failure.is_worth_a_line(start + Duration::from_secs(*second)));
        assert_eq!(told.collect::<Vec<_>>(), [0, 300, 600, 900]);
        assert!(failure.end());
        assert!(failure.is_worth_a_line(start), "another one");
    }
}
