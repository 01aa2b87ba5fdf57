//! When a stream of watches is asked for progress, and when it is dead. Pure.

use std::time::Duration;

use actors::engine::Revision;
use tokio::time::Instant;

/// When an unanswered request for progress is repeated (WC-30): etcd drops it while it catches up.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// The pause after an answer that was not recent enough. The member may lag behind, and what a
/// reader waits for may never come.
const PAUSE_AFTER_ANSWER: Duration = Duration::from_millis(10);
/// How often a quiet stream is asked for progress, so that bookmarks of idle resources move
/// (PF-17).
pub(super) const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// A stream is dead after it was asked for progress for this long without any message.
const DEAD_AFTER: Duration = Duration::from_secs(30);

/// The state of one stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgressPace {
    /// The newest request for progress sent to etcd.
    newest: Option<ProgressRequest>,
    /// The requests since the last answer.
    unanswered: u64,
    /// The last message of any kind.
    silent_since: Instant,
    /// The last message that counts as an answer.
    quiet_since: Instant,
}

/// A request for progress sent to etcd.
#[derive(Clone, Copy, Debug)]
struct ProgressRequest {
    sent_at: Instant,
    /// The revision that readers waited for.
    up_to: Revision,
}

impl ProgressPace {
    /// A stream that was opened now.
    pub(super) fn new(now: Instant) -> ProgressPace {
        ProgressPace {
            newest: None,
            unanswered: 0,
            silent_since: now,
            quiet_since: now,
        }
    }

    /// A message has come that is not an answer, or the stream was not read until now.
    pub(super) fn is_alive(&mut self, now: Instant) {
        self.silent_since = now;
    }

    /// A message has come that counts as an answer.
    pub(super) fn answered(&mut self, now: Instant) {
        (self.silent_since, self.quiet_since) = (now, now);
        self.unanswered = 0;
    }

    /// The requests that were sent since the last answer.
    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Progress was requested, for readers that wait for a revision.
    pub(super) fn requested(&mut self, wanted: Option<Revision>, now: Instant) {
        self.newest = Some(ProgressRequest {
            sent_at: now,
            up_to: wanted.unwrap_or_default(),
        });
        self.unanswered += 1;
    }

    /// When to request progress for readers that wait for a revision. An answer under way may be
    /// enough for all of them. A member whose answers are not true is asked too, to see that the
    /// stream is alive.
    pub(super) fn due_at(&self, wanted: Option<Revision>, now: Instant) -> Instant {
        let waits = self.unanswered > 0;
        match (wanted, self.newest) {
            (None, Some(newest)) if waits => newest.sent_at + IDLE_INTERVAL,
            (None, _) => self.quiet_since + IDLE_INTERVAL,
            (Some(_), None) => now,
            (Some(_), Some(newest)) if waits => newest.sent_at + REPEAT_AFTER,
            (Some(up_to), Some(newest)) if up_to > newest.up_to => now,
            (Some(_), Some(newest)) => newest.sent_at + PAUSE_AFTER_ANSWER,
        }
    }

    /// Whether the stream no longer works.
    pub(super) fn is_dead(&self, now: Instant) -> bool {
        self.unanswered > 0 && now.duration_since(self.silent_since) > DEAD_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: Option<Revision> = Some(Revision(9));

    #[tokio::test(start_paused = true)]
    async fn a_reader_is_served_at_once_and_an_unanswered_request_repeated_wc_30() {
        let now = Instant::now();
        let mut pace = ProgressPace::new(now);
        assert_eq!(pace.due_at(None, now), now + IDLE_INTERVAL);
        assert_eq!(pace.due_at(READER, now), now);
        pace.requested(READER, now);
        pace.requested(READER, now);
        // Other messages do not answer it.
        pace.is_alive(now);
        assert_eq!(pace.due_at(READER, now), now + REPEAT_AFTER);
        assert_eq!(pace.unanswered(), 2);
        pace.answered(now);
        assert_eq!(pace.unanswered(), 0);
        assert_eq!(pace.due_at(READER, now), now + PAUSE_AFTER_ANSWER);
        assert_eq!(pace.due_at(Some(Revision(10)), now), now);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_stream_is_asked_for_idle_watches_too_pf_17() {
        let now = Instant::now();
        let mut pace = ProgressPace::new(now);
        pace.is_alive(now + IDLE_INTERVAL / 2);
        assert_eq!(pace.due_at(None, now), now + IDLE_INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_dead_that_says_nothing_to_a_request() {
        let now = Instant::now();
        let mut pace = ProgressPace::new(now);
        let late = now + DEAD_AFTER * 2;
        assert!(!pace.is_dead(late));
        pace.requested(None, now);
        assert!(pace.is_dead(late));
        pace.is_alive(late);
        assert!(!pace.is_dead(late));
    }
}
