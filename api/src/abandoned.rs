//! Whether a client still waits for the work of the calling thread.
//!
//! Work on a large body may compute for long between two awaits, where nothing can cancel it. Such
//! work therefore checks for abandonment at the steps that it counts anyway, and stops when its
//! client is gone. The check ends with the first mutation of a request: from then on the request
//! runs to its end even if the client is gone, so that it has one outcome.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The client waits, and nothing was written.
const WANTED: u8 = 0;
/// The client is gone, and nothing was written.
const GIVEN_UP: u8 = 1;
/// A mutation was queued.
const BOUND: u8 = 2;

/// Whether the client of a request still waits for it.
#[derive(Debug, Default)]
pub struct Abandonment(AtomicU8);

impl Abandonment {
    /// Marks the request as abandoned by its client. Returns false if a mutation was already
    /// queued, so that the request runs to its end.
    pub fn give_up(&self) -> bool {
        self.leave_wanted_for(GIVEN_UP)
    }

    fn leave_wanted_for(&self, state: u8) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match self.0.compare_exchange(WANTED, state, success, failure) {
            Ok(_) => true,
            Err(before) => before == state,
        }
    }

    fn is_given_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == GIVEN_UP
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Abandonment>>> = const { RefCell::new(None) };
}

/// Runs one step of a request's work on the calling thread.
pub fn within<T>(request: Option<&Arc<Abandonment>>, step: impl FnOnce() -> T) -> T {
    /// Restores the previous request on drop, also after a panic.
    struct Restore(Option<Arc<Abandonment>>);

    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }

    let _restore = Restore(CURRENT.replace(request.cloned()));
    step()
}

/// Returns the request whose work runs on the calling thread, if any.
pub fn current() -> Option<Arc<Abandonment>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Returns whether the client of the calling thread's work is gone. Costs a nanosecond or two.
pub fn is_abandoned() -> bool {
    CURRENT.with_borrow(|request| request.as_ref().is_some_and(|of| of.is_given_up()))
}

/// Stops work whose client is gone.
///
/// # Errors
/// The client is gone.
pub fn check() -> Result<(), Abandoned> {
    if is_abandoned() {
        Err(Abandoned)
    } else {
        Ok(())
    }
}

/// The error of work that stops because its client is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client is gone")]
pub struct Abandoned;

/// Marks that the request of the calling thread is about to write. From now on it runs to its end.
///
/// # Errors
/// The request was abandoned before. Nothing may be written then.
pub fn begin_write() -> Result<(), Abandoned> {
    let may_write = |of: &Arc<Abandonment>| of.leave_wanted_for(BOUND);
    if CURRENT.with_borrow(|request| request.as_ref().is_none_or(may_write)) {
        Ok(())
    } else {
        Err(Abandoned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_nobody_waits_for_stops_and_writes_nothing() {
        let request = Arc::default();
        within(Some(&request), || {
            assert!(!is_abandoned() && check().is_ok());
            assert!(request.give_up() && request.give_up());
            assert!(is_abandoned());
            assert_eq!(check(), Err(Abandoned));
            assert!(begin_write().is_err());
        });
        assert!(
            !is_abandoned() && begin_write().is_ok(),
            "other work goes on"
        );
    }

    #[test]
    fn a_request_that_has_begun_to_write_runs_to_its_end() {
        let request = Arc::default();
        within(Some(&request), || {
            assert!(begin_write().is_ok());
            assert!(!request.give_up());
            assert!(!is_abandoned() && begin_write().is_ok());
        });
    }

    #[test]
    fn nested_steps_and_panics_restore_the_previous_request() {
        let (outer, inner) = (Arc::default(), Arc::default());
        within(Some(&outer), || {
            outer.give_up();
            within(Some(&inner), || assert!(!is_abandoned()));
            within(None, || assert!(!is_abandoned() && current().is_none()));
            let panicking = || within(Some(&inner), || std::panic::resume_unwind(Box::new(())));
            let _: Result<(), _> =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking));
            assert!(is_abandoned());
        });
    }
}
