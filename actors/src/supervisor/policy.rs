//! Decides whether and when a failed actor is restarted. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::backoff::Backoff;

/// How often an actor may fail before it is degraded for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartBudget {
    /// The number of restarts allowed within the window.
    pub restarts: usize,
    /// The window. An actor that needs more restarts is degraded until the window has passed.
    pub window: Duration,
    /// The wait before the first restart. It doubles with each further restart in the window.
    pub first_wait: Duration,
    /// The longest wait before a restart within the budget.
    pub longest_wait: Duration,
}

impl Default for RestartBudget {
    /// Five restarts a minute, after 50 ms to 2 s. That is enough for a panic that one event
    /// caused, and keeps a panic that always recurs from using a whole core.
    fn default() -> RestartBudget {
        RestartBudget {
            restarts: 5,
            window: Duration::from_secs(60),
            first_wait: Duration::from_millis(50),
            longest_wait: Duration::from_secs(2),
        }
    }
}

/// The reaction to the end of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartDecision {
    /// Restart it after this time.
    Restart(Duration),
    /// The budget is used up. The actor is degraded and restarted only after this time.
    Degrade(Duration),
}

/// When one child ended unexpectedly within the window.
#[derive(Debug, Default)]
pub(crate) struct RecentExits {
    recent: VecDeque<Instant>,
}

impl RecentExits {
    /// Records an end at this time. `random`, from 0 to 1, adds jitter to the wait.
    pub(crate) fn ended_unexpectedly(
        &mut self,
        now: Instant,
        budget: &RestartBudget,
        random: f64,
    ) -> RestartDecision {
        while let Some(first) = self.recent.front() {
            if now.saturating_duration_since(*first) < budget.window {
                break;
            }
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        if self.recent.len() > budget.restarts {
            return RestartDecision::Degrade(budget.window);
        }
        let mut backoff = Backoff::new(budget.first_wait, budget.longest_wait);
        let waits = self.recent.iter().map(|_| backoff.failed(random));
        RestartDecision::Restart(waits.last().unwrap_or(budget.first_wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: RestartBudget = RestartBudget {
        restarts: 3,
        window: Duration::from_secs(60),
        first_wait: Duration::from_millis(100),
        longest_wait: Duration::from_millis(300),
    };

    #[test]
    fn restarts_wait_longer_and_longer_until_the_budget_is_used_up() {
        let start = Instant::now();
        let mut recent_exits = RecentExits::default();
        let mut decision = |second| {
            let now = start + Duration::from_secs(second);
            recent_exits.ended_unexpectedly(now, &BUDGET, 1.0)
        };
        assert_eq!(
            decision(0),
            RestartDecision::Restart(Duration::from_millis(100))
        );
        assert_eq!(
            decision(1),
            RestartDecision::Restart(Duration::from_millis(200))
        );
        assert_eq!(
            decision(2),
            RestartDecision::Restart(Duration::from_millis(300))
        );
        assert_eq!(decision(3), RestartDecision::Degrade(BUDGET.window));
    }

    #[test]
    fn deaths_before_the_window_are_forgiven() {
        let start = Instant::now();
        let mut recent_exits = RecentExits::default();
        for second in [0, 1, 2, 3] {
            recent_exits.ended_unexpectedly(start + Duration::from_secs(second), &BUDGET, 1.0);
        }
        let later = start + Duration::from_secs(120);
        assert_eq!(
            recent_exits.ended_unexpectedly(later, &BUDGET, 1.0),
            RestartDecision::Restart(Duration::from_millis(100))
        );
    }
}
