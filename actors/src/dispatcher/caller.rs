//! The caller that polls a watch, how it is woken, and what it receives.
//!
//! A stream with a task of its own is woken by the task's waker. The streams of one connection
//! share a task. Each of them adds its number to the connection's list, and the first entry wakes
//! the task. A list never leaves its thread. Therefore it needs no atomics, and no allocation for
//! each stream, which would cost one more cache miss for each delivery.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Instant;

use bytes::Bytes;

/// The watches of one task that are to be polled.
#[derive(Debug)]
pub struct ReadyList {
    ready: RefCell<Vec<u32>>,
    task: Waker,
}

impl ReadyList {
    /// A list whose first entry wakes this task.
    pub fn new(task: Waker) -> Rc<ReadyList> {
        Rc::new(ReadyList {
            ready: RefCell::default(),
            task,
        })
    }

    /// Moves the numbers of the watches to the end of `into`. A number may occur more than once,
    /// and its watch may have ended.
    pub fn take(&self, into: &mut impl Extend<u32>) {
        into.extend(self.ready.borrow_mut().drain(..));
    }

    /// Whether no watch waits to be polled.
    pub fn is_empty(&self) -> bool {
        self.ready.borrow().is_empty()
    }

    fn add(&self, number: u32) {
        let mut ready = self.ready.borrow_mut();
        if ready.is_empty() {
            self.task.wake_by_ref();
        }
        ready.push(number);
    }
}

/// The caller that polls a watch.
#[derive(Debug)]
pub struct Caller<'a> {
    waker: &'a Waker,
    listed: Option<(&'a Rc<ReadyList>, u32)>,
}

impl<'a> Caller<'a> {
    /// A task with one stream.
    pub fn task(context: &Context<'a>) -> Caller<'a> {
        Caller {
            waker: context.waker(),
            listed: None,
        }
    }

    /// The stream with this number in the list. `waker` is for futures that other threads wake.
    pub fn listed(list: &'a Rc<ReadyList>, number: u32, waker: &'a Waker) -> Caller<'a> {
        Caller {
            waker,
            listed: Some((list, number)),
        }
    }

    /// A context for futures that the watch waits for.
    pub fn context(&self) -> Context<'a> {
        Context::from_waker(self.waker)
    }

    /// Asks to be polled again.
    pub(super) fn wake(&self) {
        match self.listed {
            Some((list, number)) => list.add(number),
            None => self.waker.wake_by_ref(),
        }
    }
}

/// How a waiting stream is woken.
#[derive(Debug)]
pub(super) enum StreamWaker {
    /// It is boxed because most streams are listed.
    Task(Box<Waker>),
    Listed(Rc<ReadyList>, u32),
}

impl StreamWaker {
    pub(super) fn of(caller: &Caller<'_>) -> StreamWaker {
        match caller.listed {
            Some((list, number)) => StreamWaker::Listed(Rc::clone(list), number),
            None => StreamWaker::Task(Box::new(caller.waker.clone())),
        }
    }

    /// Whether it wakes this caller.
    pub(super) fn is_of(&self, caller: &Caller<'_>) -> bool {
        match (self, caller.listed) {
            (StreamWaker::Listed(list, number), Some((callers, of_caller))) => {
                *number == of_caller && Rc::ptr_eq(list, callers)
            }
            (StreamWaker::Task(waker), None) => waker.will_wake(caller.waker),
            _ => false,
        }
    }

    pub(super) fn wake(&self) {
        match self {
            StreamWaker::Listed(list, number) => list.add(*number),
            StreamWaker::Task(waker) => waker.wake_by_ref(),
        }
    }
}

/// A piece of a watch's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchFrame {
    /// The frame, ready for the wire.
    pub bytes: Bytes,
    /// Whether nothing follows for now. The caller need not poll again before it is woken.
    pub is_last_for_now: bool,
    /// When the watch cache got the event, if this process saw it happen.
    pub since: Option<Instant>,
}

impl From<Bytes> for WatchFrame {
    /// A frame that others may follow.
    fn from(bytes: Bytes) -> WatchFrame {
        WatchFrame {
            bytes,
            is_last_for_now: false,
            since: None,
        }
    }
}
