//! A client: its stream over one or more watches, and the expected content of the stream.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::Thread;
use super::background::Background;
use crate::dispatcher::thread_dispatcher::ThreadDispatcher;
use crate::dispatcher::{Caller, ReadyList, StartPoint, Watcher};
use crate::engine::{Event, EventKind, Key, Revision};
use crate::object::{CachedObject, Decode};
use crate::snapshot::Snapshot;
use crate::testing::{Lines, OneLiners, WakeFlag, prefix};
use crate::watch::{Projection, WatchEventKind, WatchInterest, transition};

/// Where a stream begins.
pub(super) enum Start {
    After(Revision),
    /// With this snapshot, and a bookmark of this revision after it.
    Initial(Arc<Snapshot>, Option<Revision>),
}

/// A client, its stream so far, and its current watch.
pub(super) struct Client {
    /// `None` while it is away.
    pub(super) watcher: Option<Watcher>,
    /// Its number on the list of its connection; 0 for a task of its own.
    pub(super) number: u32,
    list: Option<Rc<ReadyList>>,
    wake_flag: Arc<WakeFlag>,
    /// Whether it was woken, or has not taken all frames.
    pub(super) has_turn: bool,
    /// Frames of its watch so far.
    frames: usize,
    pub(super) thread: Option<Rc<ThreadDispatcher>>,
    /// Whether its thread ends all streams.
    pub(super) is_ended_by_thread: bool,
    /// Whether it does not resume.
    pub(super) is_over: bool,
    /// Whether it received an ERROR event, after which its stream ends.
    has_failed: bool,
    interest: WatchInterest,
    start: Start,
    wants_bookmarks: bool,
    received: Vec<String>,
    /// The last revision that it saw, where it would resume; `None` before the end of its initial
    /// events.
    at: Option<Revision>,
    /// Where its watch began.
    opened_at: Revision,
    deadline: Instant,
    /// The refills of the cache when its watch began.
    refills: u64,
}

/// A line that is expected, and the revision of its event; zero in the initial state.
type Expected = (Revision, String);

impl Client {
    pub(super) fn new(
        start: Start,
        interest: WatchInterest,
        wants_bookmarks: bool,
        number: u32,
    ) -> Client {
        Client {
            watcher: None,
            number,
            list: None,
            wake_flag: Arc::default(),
            has_turn: false,
            frames: 0,
            thread: None,
            is_ended_by_thread: false,
            is_over: false,
            has_failed: false,
            at: match start {
                Start::After(revision) => Some(revision),
                Start::Initial(..) => None,
            },
            opened_at: Revision::ZERO,
            interest,
            start,
            wants_bookmarks,
            received: Vec::new(),
            deadline: Instant::now(),
            refills: 0,
        }
    }

    /// The revision that the stream starts after.
    fn from(&self) -> Revision {
        match &self.start {
            Start::After(revision) => *revision,
            Start::Initial(snapshot, _) => snapshot.revision,
        }
    }

    /// Opens its first watch.
    pub(super) fn open(&mut self, thread: &Thread, background: &Background, seconds: u64) {
        let from = match &self.start {
            Start::After(revision) => StartPoint::After(*revision),
            Start::Initial(snapshot, end_bookmark) => StartPoint::Initial {
                snapshot: Arc::clone(snapshot),
                end_bookmark: *end_bookmark,
            },
        };
        self.watch(from, thread, background, seconds);
    }

    /// Opens a watch after the last revision that it saw. It opens none if the daemon would refuse
    /// it.
    pub(super) fn resume(&mut self, thread: &Thread, background: &Background, seconds: u64) {
        let Some(at) = self.at.filter(|_| !self.has_failed) else {
            self.is_over = true;
            return;
        };
        if at < background.fake.cacher.ring_floor() && at < background.compacted() {
            self.is_over = true;
            return;
        }
        self.watch(StartPoint::After(at), thread, background, seconds);
    }

    /// Whether this thread serves, or served last, its watches.
    pub(super) fn is_of(&self, thread: &Thread) -> bool {
        let is_it = |own: &Rc<ThreadDispatcher>| Rc::ptr_eq(own, &thread.thread_dispatcher);
        self.thread.as_ref().is_some_and(is_it)
    }

    fn watch(&mut self, from: StartPoint, thread: &Thread, background: &Background, seconds: u64) {
        if !background.is_ready() {
            return;
        }
        self.refills = background.refills();
        self.opened_at = self.at.unwrap_or(self.from());
        self.deadline = Instant::now() + Duration::from_secs(seconds);
        self.is_ended_by_thread = false;
        self.thread = Some(Rc::clone(&thread.thread_dispatcher));
        self.list = (self.number > 0).then(|| Rc::clone(&thread.list));
        self.has_turn = true;
        self.frames = 0;
        let mut start = background.fake.start(from, self.interest.clone());
        start.bookmarks = self.wants_bookmarks;
        start.deadline = self.deadline;
        self.watcher = Some(thread.thread_dispatcher.watch(start));
    }

    /// Takes notice of a wake.
    pub(super) fn receive(&mut self) {
        self.has_turn |= self.wake_flag.take();
    }

    /// Takes frames as the server does: until nothing follows, at most so many.
    pub(super) fn poll(&mut self, frames: usize, background: &Background) {
        let waker = Waker::from(Arc::clone(&self.wake_flag));
        let list = self.list.clone();
        let context = Context::from_waker(&waker);
        let caller = match &list {
            Some(list) => Caller::listed(list, self.number, &waker),
            None => Caller::task(&context),
        };
        for _ in 0..frames {
            let Some(watcher) = &mut self.watcher else {
                // The wake was for a watch that has ended.
                self.has_turn = false;
                return;
            };
            match watcher.poll_next(&caller) {
                Poll::Ready(Some(frame)) => {
                    self.has_turn = !frame.is_last_for_now;
                    self.take(&String::from_utf8_lossy(&frame.bytes), background);
                    if frame.is_last_for_now {
                        return;
                    }
                }
                Poll::Ready(None) => return self.take_end(background),
                Poll::Pending => {
                    self.has_turn = false;
                    return;
                }
            }
        }
    }

    /// Takes a frame, and checks one that is not an event. Only the first frame has the header
    /// (API-74).
    fn take(&mut self, frame: &str, background: &Background) {
        self.frames += 1;
        assert!(!self.has_failed, "after an error: {frame}");
        if frame.starts_with("ERROR ") {
            self.has_failed = true;
            self.is_over = true;
            self.received.push(ERROR.to_owned());
            return;
        }
        let (header, line) = match frame.strip_prefix("HEADER ") {
            Some(line) => (true, line),
            None => (false, frame),
        };
        match line.strip_prefix("BOOKMARK @") {
            Some(bookmark) => self.take_bookmark(bookmark, background),
            None => {
                let differs = self.interest.projection.first_differs();
                assert_eq!(header, differs && self.frames == 1, "{frame}");
                self.take_event(line.to_owned());
            }
        }
    }

    fn take_event(&mut self, line: String) {
        let revision = revision_of(&line);
        // Initial events come in key order, not in order of revisions.
        if revision > self.from() {
            self.at = Some(revision);
        }
        self.received.push(line);
    }

    /// A bookmark covers all events up to its revision (PF-17), and is newer than the start
    /// (WA-44).
    fn take_bookmark(&mut self, bookmark: &str, background: &Background) {
        assert!(self.wants_bookmarks || self.ends_initial(bookmark));
        let revision = revision_of(bookmark);
        assert!(
            Some(revision) >= self.at,
            "a bookmark of {revision} after {:?}",
            self.at
        );
        let is_end = bookmark.ends_with(" end");
        assert!(
            is_end || revision > self.opened_at,
            "{bookmark} brings nothing new"
        );
        let log = background.log();
        let expected = self.expected(&log);
        let mut covered = expected.iter().filter(|(at, _)| *at <= revision);
        let unsent = covered.nth(self.received.len());
        assert_eq!(unsent, None, "a bookmark of {revision} passes this");
        self.at = Some(revision);
    }

    fn ends_initial(&self, bookmark: &str) -> bool {
        let Start::Initial(_, Some(end)) = &self.start else {
            return false;
        };
        bookmark == format!("{end} end")
    }

    /// A stream ends because its cache was refilled, its deadline has passed, its thread ends it,
    /// or the next events are compacted (WA-2, WA-37).
    fn take_end(&mut self, background: &Background) {
        self.watcher = None;
        self.has_turn = false;
        let at = self.at.unwrap_or(self.from());
        let is_forgotten = background.compacted() > at;
        assert!(
            self.has_failed
                || self.refills != background.refills()
                || Instant::now() >= self.deadline
                || self.is_ended_by_thread
                || is_forgotten,
            "the stream {} ended at {at} for no reason",
            self.name()
        );
    }

    fn name(&self) -> String {
        match &self.start {
            Start::After(revision) => format!("after {revision}"),
            Start::Initial(snapshot, _) => format!("with the state at {}", snapshot.revision),
        }
    }

    /// Checks that the received lines are a beginning of the expected ones, or all of them if the
    /// stream is complete.
    pub(super) fn check(&self, log: &[Event], is_complete: bool) {
        let expected: Vec<String> = self.expected(log).into_iter().map(|(_, l)| l).collect();
        let received = &self.received;
        let same = received.iter().zip(&expected).take_while(|(h, e)| h == e);
        let same = same.count();
        assert_eq!(
            received.get(same),
            None,
            "after {same} lines the stream {} differs from the log, which goes on with {:?}",
            self.name(),
            expected.get(same)
        );
        if is_complete {
            assert_eq!(received, &expected, "a stream misses the end of the log");
        }
    }

    /// All lines of the log for this stream.
    fn expected(&self, log: &[Event]) -> Vec<Expected> {
        let WatchInterest {
            scope, predicate, ..
        } = &self.interest;
        let mut state = ReferenceState::default();
        let mut lines = Vec::new();
        let (before, after) = log.split_at(log.partition_point(|e| e.revision <= self.from()));
        for event in before {
            state.apply(event);
        }
        if let Start::Initial(..) = self.start {
            let selected =
                |object: &&CachedObject| scope.covers(object.key()) && predicate.matches(object);
            let mut initial: Vec<&CachedObject> = state.objects.iter().filter(selected).collect();
            initial.sort_by(|one, other| one.key().cmp(other.key()));
            lines.extend(initial.into_iter().map(|object| {
                let line = line(WatchEventKind::Added, object, object.revision);
                (Revision::ZERO, line)
            }));
        }
        for event in after {
            let AppliedEvent {
                current,
                previous,
                is_unreadable,
                was_unreadable,
            } = state.apply(event);
            let selects_all = predicate.identity().is_empty();
            let needs_previous = !selects_all || current.is_none();
            let fails = is_unreadable || (was_unreadable && needs_previous);
            if fails && scope.covers(event.key.as_bytes()) {
                lines.push((event.revision, ERROR.to_owned()));
                return lines;
            }
            if let Some(object) = current.as_ref().filter(|_| was_unreadable)
                && scope.covers(event.key.as_bytes())
            {
                // The value before is unreadable. It is enough to know that there was one.
                let line = line(WatchEventKind::Modified, object, event.revision);
                lines.push((event.revision, line));
                continue;
            }
            let judged = transition(scope, &**predicate, current.as_ref(), previous.as_ref());
            if let Some((kind, object)) = judged {
                lines.push((event.revision, line(kind, object, event.revision)));
            }
        }
        lines
    }
}

/// The revision in a line, or at the beginning of the text after its `@`.
fn revision_of(line: &str) -> Revision {
    let number = line.split_once('@').map_or(line, |(_, number)| number);
    let number = number.split(' ').next().unwrap();
    Revision(number.parse().unwrap())
}

/// The line for any ERROR event.
const ERROR: &str = "ERROR";

/// The object at some revision.
#[derive(Default)]
struct ReferenceState {
    objects: Vec<CachedObject>,
    unreadable: Vec<Key>,
}

/// The effect of an event.
struct AppliedEvent {
    current: Option<CachedObject>,
    previous: Option<CachedObject>,
    is_unreadable: bool,
    was_unreadable: bool,
}

impl ReferenceState {
    /// Applies an event. Returns the object before and after it.
    fn apply(&mut self, event: &Event) -> AppliedEvent {
        let at = self
            .objects
            .iter()
            .position(|object| object.key() == event.key.as_bytes());
        let previous = at.map(|at| self.objects.swap_remove(at));
        let unreadable = self.unreadable.len();
        self.unreadable.retain(|key| *key != event.key);
        let was_unreadable = self.unreadable.len() < unreadable;
        let is_put = event.kind == EventKind::Put && prefix().covers(&event.key);
        let decoded = is_put.then(|| OneLiners.decode(&event.key, event.revision, &event.value));
        let is_unreadable = matches!(decoded, Some(Err(_)));
        if is_unreadable {
            self.unreadable.push(event.key.clone());
        }
        let current = decoded.and_then(Result::ok);
        self.objects.extend(current.clone());
        AppliedEvent {
            current,
            previous,
            is_unreadable,
            was_unreadable,
        }
    }
}

fn line(kind: WatchEventKind, object: &CachedObject, revision: Revision) -> String {
    String::from_utf8_lossy(&Lines.frame(kind, object, revision, false)).into_owned()
}
