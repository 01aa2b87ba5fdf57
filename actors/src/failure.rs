//! When a failure that lasts is worth another line in the log. Pure.

use std::time::{Duration, Instant};

/// Often enough to be seen by whoever looks, rarely enough to be read.
const REPEAT: Duration = Duration::from_secs(300);

/// A failure of round after round.
#[derive(Debug, Default)]
pub(crate) struct RepeatedFailure {
    said_at: Option<Instant>,
}

impl RepeatedFailure {
    /// A round has failed: whether to say so.
    pub(crate) fn is_worth_a_line(&mut self, now: Instant) -> bool {
        let said_lately = |at: Instant| now.saturating_duration_since(at) < REPEAT;
        if self.said_at.is_some_and(said_lately) {
            return false;
        }
        self.said_at = Some(now);
        true
    }

    /// A round has gone well; says whether the one before had not.
    pub(crate) fn end(&mut self) -> bool {
        self.said_at.take().is_some()
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
