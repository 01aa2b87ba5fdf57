//! Decides which parts are stalled. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

/// A part that is stalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The name of the part.
    pub part: String,
    /// How long its turn had lasted when it was found.
    pub lasting: Duration,
}

/// A change that a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A part is stalled now.
    Stalled(Stall),
    /// A part that was stalled turns again, or is gone.
    Turns {
        /// The name of the part.
        part: String,
        /// How long its turn lasted, at least.
        lasted: Duration,
    },
}

/// The turns that were seen at the last look.
pub(super) struct Stalls {
    limit: Duration,
    /// By name of the part: when its turn began, and the stall that was reported.
    turns: BTreeMap<String, (Duration, Option<Stall>)>,
}

impl Stalls {
    pub(super) fn new(limit: Duration) -> Stalls {
        Stalls {
            limit,
            turns: BTreeMap::new(),
        }
    }

    /// Looks at the parts that are in a turn, with the times when these began.
    ///
    /// A turn must be seen twice before it counts as stalled. After the whole process was stopped
    /// for a while, every turn looks long once.
    pub(super) fn look<'p>(
        &mut self,
        now: Duration,
        turns: impl Iterator<Item = (&'p str, Duration)>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut before = std::mem::take(&mut self.turns);
        for (part, since) in turns {
            let told = match before.remove(part) {
                Some((began, Some(stall))) if began == since => Some(stall),
                Some((began, Some(stall))) => {
                    changes.push(turns_again(stall, now, began));
                    None
                }
                Some((began, None)) if began == since && lasting(now, since) >= self.limit => {
                    let part = part.to_owned();
                    let lasting = lasting(now, since);
                    let stall = Stall { part, lasting };
                    changes.push(Change::Stalled(stall.clone()));
                    Some(stall)
                }
                _ => None,
            };
            self.turns.insert(part.to_owned(), (since, told));
        }
        let gone = before.into_values();
        let gone = gone.filter_map(|(began, stall)| Some(turns_again(stall?, now, began)));
        changes.extend(gone);
        changes
    }

    /// The parts that are stalled.
    pub(super) fn list(&self) -> Vec<Stall> {
        let turns = self.turns.values();
        turns.filter_map(|(_, stall)| stall.clone()).collect()
    }
}

/// A turn may have begun after the look did.
fn lasting(now: Duration, since: Duration) -> Duration {
    now.saturating_sub(since)
}

fn turns_again(stall: Stall, now: Duration, began: Duration) -> Change {
    Change::Turns {
        part: stall.part,
        lasted: lasting(now, began),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn stalled(part: &str, lasting: u64) -> Change {
        Change::Stalled(Stall {
            part: part.to_owned(),
            lasting: seconds(lasting),
        })
    }

    fn turns(part: &str, lasted: u64) -> Change {
        Change::Turns {
            part: part.to_owned(),
            lasted: seconds(lasted),
        }
    }

    #[test]
    fn a_long_turn_is_told_once_and_so_is_its_end() {
        let mut stalls = Stalls::new(seconds(5));
        let mut look = |now: u64, parts: &[(&str, u64)]| {
            let parts = parts.iter().map(|(part, since)| (*part, seconds(*since)));
            stalls.look(seconds(now), parts)
        };
        assert_eq!(look(4, &[("a", 0), ("b", 3)]), []);
        assert_eq!(look(5, &[("a", 0), ("b", 4)]), [stalled("a", 5)]);
        assert_eq!(look(6, &[("a", 0), ("b", 6)]), []);
        assert_eq!(look(7, &[("b", 6)]), [turns("a", 7)]);
        assert_eq!(look(11, &[("b", 6)]), [stalled("b", 5)]);
        // It is in a turn again, but in another one.
        assert_eq!(look(12, &[("b", 11)]), [turns("b", 6)]);
        assert_eq!(stalls.list(), []);
    }

    #[test]
    fn a_turn_that_is_seen_for_the_first_time_is_not_stalled_however_long_it_is() {
        let mut stalls = Stalls::new(seconds(5));
        let parts = || [("a", seconds(0))].into_iter();
        assert_eq!(stalls.look(seconds(100), parts()), []);
        assert_eq!(stalls.look(seconds(101), parts()), [stalled("a", 101)]);
        assert_eq!(stalls.list().len(), 1);
    }
}
