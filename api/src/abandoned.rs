//! Whether the work of the calling thread is still wanted.
//!
//! Work on a large body may compute for long between two awaits, where nothing can cancel it. So it
//! asks here at the steps that it counts anyway, and stops when its client is gone. The first
//! mutation of a request ends that: from there on the request is carried out to its end, whoever
//! waits for it, so that it has one outcome.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::status::Status;

/// Somebody waits, and nothing was written.
const WANTED: u8 = 0;
/// Nobody waits, and nothing was written.
const GIVEN_UP: u8 = 1;
/// A mutation was queued.
const BOUND: u8 = 2;

/// Whether a request is still wanted.
#[derive(Debug, Default)]
pub struct Abandonment(AtomicU8);

impl Abandonment {
    /// Nobody waits for the request any more. Returns false if it is carried out to its end all the
    /// same.
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

/// Does one step of the work of a request on the calling thread.
pub fn within<T>(request: Option<&Arc<Abandonment>>, step: impl FnOnce() -> T) -> T {
    /// Puts back what was there before, after a panic too.
    struct Restore(Option<Arc<Abandonment>>);

    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }

    let _restore = Restore(CURRENT.replace(request.cloned()));
    step()
}

/// The request whose work runs on the calling thread, if any.
pub fn current() -> Option<Arc<Abandonment>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Whether nobody waits any more for the work of the calling thread. It costs a nanosecond or two.
pub fn is_abandoned() -> bool {
    CURRENT.with_borrow(|request| request.as_ref().is_some_and(|of| of.is_given_up()))
}

/// Ends work for which nobody waits any more.
///
/// # Errors
/// 504, which nobody sees.
pub fn check() -> Result<(), Box<Status>> {
    match is_abandoned() {
        true => Err(Box::new(Status::timeout(NOBODY))),
        false => Ok(()),
    }
}

/// The error of work that ends because nobody waits for it.
pub const NOBODY: &str = "the client is gone";

/// The request of the calling thread is about to write. From now on it is carried out to its end.
///
/// # Errors
/// 504, which nobody sees, if it was given up before. Then nothing may be written.
pub fn begin_write() -> Result<(), Box<Status>> {
    let may_write = |of: &Arc<Abandonment>| of.leave_wanted_for(BOUND);
    match CURRENT.with_borrow(|request| request.as_ref().is_none_or(may_write)) {
        true => Ok(()),
        false => Err(Box::new(Status::timeout(NOBODY))),
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
            assert_eq!(check().unwrap_err().code, 504);
            assert!(begin_write().is_err());
        });
        assert!(
            !is_abandoned() && begin_write().is_ok(),
            "other work goes on"
        );
    }

    #[test]
    fn what_has_begun_to_write_is_carried_out_to_its_end() {
        let request = Arc::default();
        within(Some(&request), || {
            assert!(begin_write().is_ok());
            assert!(!request.give_up());
            assert!(!is_abandoned() && begin_write().is_ok());
        });
    }

    #[test]
    fn steps_inside_others_and_panics_leave_what_was_there() {
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
