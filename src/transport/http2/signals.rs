//! Tracks which parts of a connection need a poll: many wakers cause one wake of the task.
//!
//! Every stream has its own waker. The waker puts the index of the stream on the list of the
//! connection and wakes the task once, however many streams are ready. A wake during a poll causes
//! no further wake, because the task sees it before it rests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Wake, Waker};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

/// The task is being polled. It checks again before it rests.
const POLLING: u8 = 1;
/// h2 has something to read, to write or to settle.
const CONNECTION: u8 = 2;
/// A request or a stream can continue.
const WORK: u8 = 4;

/// The wake list of one connection.
#[derive(Default)]
pub(super) struct Signals {
    woken: AtomicU8,
    task: AtomicWaker,
    ready: Mutex<Vec<u32>>,
}

impl Signals {
    fn raise(&self, part: u8) {
        if self.woken.fetch_or(part, Ordering::AcqRel) == 0 {
            self.task.wake();
        }
    }

    /// Begins a poll of the task.
    pub(super) fn begin(&self, context: &Context<'_>) {
        self.task.register(context.waker());
        self.woken.store(POLLING, Ordering::Release);
    }

    /// Records that h2 is about to be polled, which clears its requests for a poll.
    pub(super) fn connection_served(&self) {
        self.woken.fetch_and(!CONNECTION, Ordering::AcqRel);
    }

    /// Records that requests and streams are about to be polled.
    pub(super) fn work_served(&self) {
        self.woken.fetch_and(!WORK, Ordering::AcqRel);
    }

    /// Ends the poll. Returns false when something was woken in the meantime and must be handled
    /// first.
    pub(super) fn rest(&self) -> bool {
        self.woken
            .compare_exchange(POLLING, 0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Ends the poll although there is more to do. The caller must have woken the task.
    pub(super) fn leave(&self) {
        self.woken.store(0, Ordering::Release);
    }

    /// Moves the indexes of ready streams to the end of `into`.
    pub(super) fn take_ready(&self, into: &mut impl Extend<u32>) {
        into.extend(self.ready.lock().drain(..));
    }

    /// The waker for h2 itself.
    pub(super) fn connection_waker(self: &Arc<Self>) -> Waker {
        self.part(CONNECTION)
    }

    /// The waker for the requests being answered.
    pub(super) fn request_waker(self: &Arc<Self>) -> Waker {
        self.part(WORK)
    }

    fn part(self: &Arc<Self>, bit: u8) -> Waker {
        let signals = Arc::clone(self);
        Waker::from(Arc::new(Part { signals, bit }))
    }
}

struct Part {
    signals: Arc<Signals>,
    bit: u8,
}

impl Wake for Part {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.signals.raise(self.bit);
    }
}

/// The signal of one stream.
pub(super) struct StreamSignal {
    signals: Arc<Signals>,
    index: u32,
    listed: AtomicBool,
}

impl StreamSignal {
    /// The signal of the stream at `index`. It counts as listed until [`StreamSignal::listen`] is
    /// called.
    pub(super) fn new(signals: &Arc<Signals>, index: u32) -> Arc<StreamSignal> {
        Arc::new(StreamSignal {
            signals: Arc::clone(signals),
            index,
            listed: AtomicBool::new(true),
        })
    }

    /// From now on a wake puts the stream on the list.
    pub(super) fn listen(&self) {
        self.listed.store(false, Ordering::Release);
    }

    /// From now on wakes are ignored. The stream is being handled, and h2 wakes it whenever it
    /// grants the window that was just requested.
    pub(super) fn mute(&self) {
        self.listed.store(true, Ordering::Release);
    }
}

impl Wake for StreamSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            self.signals.ready.lock().push(self.index);
            self.signals.raise(WORK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn signals() -> (Arc<Signals>, Arc<Task>) {
        let (signals, task) = (Arc::new(Signals::default()), Arc::new(Task::default()));
        begin(&signals, &task);
        assert!(signals.rest());
        (signals, task)
    }

    fn begin(signals: &Signals, task: &Arc<Task>) {
        let waker = Waker::from(Arc::clone(task));
        signals.begin(&Context::from_waker(&waker));
    }

    fn ready(signals: &Signals) -> Vec<u32> {
        let mut ready = Vec::new();
        signals.take_ready(&mut ready);
        ready
    }

    #[test]
    fn many_streams_wake_the_task_once() {
        let (signals, task) = signals();
        for index in 0..50 {
            let signal = StreamSignal::new(&signals, index);
            signal.listen();
            let waker = Waker::from(signal);
            waker.wake_by_ref();
            waker.wake();
        }
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
        assert_eq!(ready(&signals), (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn a_muted_stream_is_not_listed() {
        let (signals, task) = signals();
        let signal = StreamSignal::new(&signals, 3);
        signal.listen();
        signal.mute();
        Waker::from(signal).wake();
        assert_eq!(task.0.load(Ordering::SeqCst), 0);
        assert!(ready(&signals).is_empty());
    }

    #[test]
    fn what_is_woken_during_a_poll_is_seen_before_it_rests() {
        let (signals, task) = signals();
        begin(&signals, &task);
        let signal = StreamSignal::new(&signals, 0);
        signal.listen();
        Waker::from(signal).wake();
        assert!(!signals.rest());
        signals.work_served();
        assert!(signals.rest());
        assert_eq!(task.0.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn what_h2_asks_for_before_it_is_polled_costs_no_second_poll() {
        let (signals, task) = signals();
        begin(&signals, &task);
        signals.connection_waker().wake();
        signals.connection_served();
        assert!(signals.rest());
        signals.connection_waker().wake();
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
    }
}
