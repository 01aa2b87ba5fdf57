//! Counts the work of a thread, for tests that search for work that grows faster than its input.
//! Release builds count nothing.

/// The work of a thread so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Values visited by a decoder, a validation rule or any other walk through an object.
    pub nodes: u64,
    /// Comparisons of items with others, in look-ups and searches for duplicates.
    pub comparisons: u64,
    /// Field errors that were created.
    pub errors: u64,
}

impl Counts {
    /// Returns the work done since an earlier count.
    pub fn since(self, before: Counts) -> Counts {
        Counts {
            nodes: self.nodes - before.nodes,
            comparisons: self.comparisons - before.comparisons,
            errors: self.errors - before.errors,
        }
    }
}

#[cfg(debug_assertions)]
mod thread {
    use std::cell::Cell;

    use crate::cost::Counts;

    thread_local! {
        static COUNTS: Cell<Counts> = const {
            Cell::new(Counts { nodes: 0, comparisons: 0, errors: 0 })
        };
    }

    pub(super) fn add(more: Counts) {
        COUNTS.set({
            let counts = COUNTS.get();
            Counts {
                nodes: counts.nodes + more.nodes,
                comparisons: counts.comparisons + more.comparisons,
                errors: counts.errors + more.errors,
            }
        });
    }

    pub(super) fn counts() -> Counts {
        COUNTS.get()
    }
}

#[cfg(not(debug_assertions))]
mod thread {
    use crate::cost::Counts;

    #[inline(always)]
    pub(super) fn add(_: Counts) {}

    pub(super) fn counts() -> Counts {
        Counts::default()
    }
}

/// Counts one visited value.
#[inline]
pub fn visited() {
    thread::add(Counts {
        nodes: 1,
        ..Counts::default()
    });
}

/// Counts comparisons of one item with this many others.
#[inline]
pub fn compared(others: usize) {
    thread::add(Counts {
        comparisons: others as u64,
        ..Counts::default()
    });
}

/// Counts one field error.
#[inline]
pub fn error_made() {
    thread::add(Counts {
        errors: 1,
        ..Counts::default()
    });
}

/// Returns the work that the calling thread has counted so far. Release builds count nothing.
pub fn counts() -> Counts {
    thread::counts()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_its_own_work() {
        let before = counts();
        visited();
        compared(3);
        error_made();
        std::thread::spawn(visited).join().unwrap();
        let expected = Counts {
            nodes: 1,
            comparisons: 3,
            errors: 1,
        };
        assert_eq!(counts().since(before), expected);
    }
}
