//! Work that would hold up the watches of an HTTP thread.
//!
//! A server decides by the body and by the stored object whether a request is large, and then runs
//! it elsewhere. Some requests turn out to be large only on the way, by the answer of a webhook for
//! example. Such work calls [`leave_thread`], and whoever polls it by [`poll_movable`] learns that,
//! and continues it on a thread for large requests.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

/// Bodies and objects above this size are large. Reading this much takes about half a millisecond.
pub const LARGE_BYTES: usize = 64 * 1024;

/// JSON with more objects and lists than this is large, too. `[{},{},...]` has this many in 6 KB,
/// and each of them needs defaulting, validation and field ownership.
const LARGE_NODES: usize = 2_000;

/// Whether JSON is large.
pub fn is_large(json: &[u8]) -> bool {
    let nodes = || json.iter().filter(|byte| matches!(byte, b'{' | b'['));
    json.len() > LARGE_BYTES || nodes().count() > LARGE_NODES
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody can move the work that runs.
    Fixed,
    /// The work that runs can be moved.
    Movable,
    /// It has asked for that.
    Leaving,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::Fixed) };
}

/// Asks for the work that calls it to be continued on a thread for large requests, and waits until
/// it is. Returns at once where the work can't be moved, or has been.
pub async fn leave_thread() {
    poll_fn(|context| match STATE.get() {
        State::Fixed => Poll::Ready(()),
        State::Movable | State::Leaving => {
            STATE.set(State::Leaving);
            // The caller may be one of several futures, of which only woken ones are polled.
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Polls work that can be moved. Returns what `poll` returns, and whether the work asks for another
/// thread. It must be polled again then.
pub fn poll_movable<T>(poll: impl FnOnce() -> T) -> (T, bool) {
    /// Restores the state on drop, also after a panic.
    struct Restore(State);

    impl Drop for Restore {
        fn drop(&mut self) {
            STATE.set(self.0);
        }
    }

    let _restore = Restore(STATE.replace(State::Movable));
    let polled = poll();
    (polled, STATE.get() == State::Leaving)
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn bodies_are_large_by_bytes_or_by_what_is_in_them() {
        assert!(!is_large("x".repeat(LARGE_BYTES).as_bytes()));
        assert!(is_large("x".repeat(LARGE_BYTES + 1).as_bytes()));
        assert!(!is_large("{},".repeat(LARGE_NODES).as_bytes()));
        assert!(is_large("{},".repeat(LARGE_NODES + 1).as_bytes()));
    }

    #[test]
    fn work_leaves_the_thread_where_it_can_be_moved() {
        let mut context = Context::from_waker(Waker::noop());
        let mut work = pin!(leave_thread());
        let (polled, leaves) = poll_movable(|| work.as_mut().poll(&mut context));
        assert!(polled.is_pending() && leaves);
        assert!(work.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn work_that_cannot_be_moved_goes_on() {
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(leave_thread()).poll(&mut context).is_ready());
        let ((), leaves) = poll_movable(|| ());
        assert!(!leaves);
    }
}
