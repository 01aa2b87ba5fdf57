//! Decides when a copy is close enough to the writers to take the log's place, and when it never
//! will be. Pure.

/// After this many steps without progress a copy is given up, because the writers write as fast as
/// it copies.
const STEPS_IN_VAIN_MAX: u32 = 200;
/// How often the writer may refuse to seal a copy that had caught up, because too many events came
/// since. Meanwhile nothing is removed from the log.
pub(super) const REFUSALS_MAX: u32 = 8;

/// A number of events, and the bytes of their records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    pub(super) events: u64,
    pub(super) bytes: u64,
}

impl Amount {
    /// Whether it is within these limits. A single event always is.
    fn is_within(self, events: u64, bytes: u64) -> bool {
        self.events <= 1 || (self.events <= events && self.bytes <= bytes)
    }
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to copy.
    Copying,
    /// It is close enough to be sealed if the writers add no more than a batch.
    CaughtUp,
    /// The writers are too fast for it.
    Hopeless,
}

/// The progress of a copy so far.
#[derive(Debug)]
pub(super) struct CatchUp {
    /// The fewest bytes that were left to copy after a step.
    fewest_left: u64,
    /// Steps since then.
    steps_in_vain: u32,
    /// How often the writer refused to seal the copy.
    refusals: u32,
}

impl Default for CatchUp {
    fn default() -> CatchUp {
        CatchUp {
            fewest_left: u64::MAX,
            steps_in_vain: 0,
            refusals: 0,
        }
    }
}

impl CatchUp {
    /// Records what a step has left to copy. Half a batch is close enough, because writers continue
    /// until they have to wait.
    pub(super) fn step(&mut self, left: Amount, batch: Amount) -> Progress {
        if left.bytes < self.fewest_left {
            self.fewest_left = left.bytes;
            self.steps_in_vain = 0;
        } else {
            self.steps_in_vain += 1;
        }
        let near = left.is_within(batch.events / 2, batch.bytes / 2);
        match near {
            _ if self.refusals >= REFUSALS_MAX => Progress::Hopeless,
            true => Progress::CaughtUp,
            false if self.steps_in_vain >= STEPS_IN_VAIN_MAX => Progress::Hopeless,
            false => Progress::Copying,
        }
    }

    /// Whether the rest may be copied while writers wait: what a step leaves, and a batch on top.
    /// This bounds the wait, however large the values are.
    pub(super) fn may_seal(&mut self, left: Amount, batch: Amount) -> bool {
        let may = left.is_within(batch.events / 2 * 3, batch.bytes / 2 * 3);
        self.refusals += u32::from(!may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: Amount = Amount {
        events: 100,
        bytes: 1000,
    };

    fn left(events: u64, bytes: u64) -> Amount {
        Amount { events, bytes }
    }

    #[test]
    fn a_copy_that_comes_no_nearer_is_given_up_and_one_that_does_is_not() {
        let mut catch_up = CatchUp::default();
        for step in 0..10 * u64::from(STEPS_IN_VAIN_MAX) {
            let progress = catch_up.step(left(500, 100_000 - step), BATCH);
            assert_eq!(progress, Progress::Copying);
        }
        let mut steps = 0;
        while catch_up.step(left(500, 200_000), BATCH) == Progress::Copying {
            steps += 1;
        }
        assert_eq!(steps, STEPS_IN_VAIN_MAX - 1);
        // The writers are gone in the meantime.
        assert_eq!(catch_up.step(left(0, 0), BATCH), Progress::CaughtUp);
    }

    #[test]
    fn what_a_step_leaves_and_a_batch_may_be_sealed() {
        let mut catch_up = CatchUp::default();
        assert_eq!(catch_up.step(left(50, 500), BATCH), Progress::CaughtUp);
        assert!(catch_up.may_seal(left(150, 1500), BATCH));
        assert!(!catch_up.may_seal(left(151, 1500), BATCH));
        assert!(!catch_up.may_seal(left(150, 1501), BATCH));
        assert!(catch_up.may_seal(left(1, 100_000), BATCH), "a single one");
    }
}
