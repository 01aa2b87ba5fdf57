//! Measures how much time a user has used recently. Pure.

/// The length of a window in nanoseconds: 67 ms, short enough that heavy use is soon forgotten.
const WINDOW: u64 = 1 << 26;

/// A user who has used less than this part of a window is served at once, so up to eight busy users
/// never wait.
const MUCH: u64 = WINDOW / 8;

/// The time used in this window and in the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// The number of the window.
    window: u64,
    current: u64,
    before: u64,
}

impl Usage {
    /// Adds time that was used before `now`. Both are in nanoseconds.
    pub(super) fn add(&mut self, now: u64, used: u64) {
        let window = now / WINDOW;
        if window != self.window {
            self.before = self.of_window_before(window);
            self.current = 0;
            self.window = window;
        }
        self.current = self.current.saturating_add(used);
    }

    /// Returns approximately the nanoseconds used in the last window before `now`. The use of the
    /// earlier window counts in proportion.
    pub(super) fn lately(&self, now: u64) -> u64 {
        let window = now / WINDOW;
        let current = if window == self.window {
            self.current
        } else {
            0
        };
        let left = WINDOW - now % WINDOW;
        let before = self.of_window_before(window).min(WINDOW);
        current.saturating_add(before * left / WINDOW)
    }

    fn of_window_before(&self, window: u64) -> u64 {
        match window.wrapping_sub(self.window) {
            0 => self.before,
            1 => self.current,
            _ => 0,
        }
    }
}

/// Whether a user who has recently used `own` of the `total` nanoseconds of all users must wait for
/// turns. A user who is alone never waits.
pub(super) fn is_much(own: u64, total: u64) -> bool {
    own > MUCH && total > own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_for_one_window_and_fades() {
        let mut usage = Usage::default();
        usage.add(WINDOW / 2, 1000);
        assert_eq!(usage.lately(WINDOW / 2), 1000);
        assert_eq!(usage.lately(WINDOW), 1000);
        assert_eq!(usage.lately(WINDOW + WINDOW / 2), 500);
        assert_eq!(usage.lately(2 * WINDOW), 0);
        usage.add(WINDOW + WINDOW / 2, 200);
        assert_eq!(usage.lately(WINDOW + WINDOW / 2), 700);
        usage.add(9 * WINDOW, 1);
        assert_eq!(usage.lately(9 * WINDOW), 1, "old use is forgotten");
    }

    #[test]
    fn a_clock_that_stands_and_a_poll_that_lasts_for_ever_are_no_trouble() {
        let mut usage = Usage::default();
        usage.add(0, u64::MAX);
        usage.add(0, u64::MAX);
        assert_eq!(usage.lately(0), u64::MAX);
        assert!(usage.lately(WINDOW) <= WINDOW);
    }

    #[test]
    fn little_is_never_much_and_nobody_is_in_the_way_of_himself() {
        assert!(!is_much(MUCH, 9 * MUCH));
        assert!(is_much(MUCH + 1, 2 * MUCH));
        assert!(!is_much(WINDOW, WINDOW), "nobody else wanted any time");
    }
}
