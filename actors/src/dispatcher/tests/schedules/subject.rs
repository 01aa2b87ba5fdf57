//! A client: its stream over one watch or more, and what it ought to say.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::Thread;
use super::others::Others;
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

/// See the module's documentation.
pub(super) struct Subject {
    /// `None` while it is away.
    pub(super) watcher: Option<Watcher>,
    /// Its number on the list of its connection; 0 for a task of its own.
    pub(super) number: u32,
    list: Option<Rc<ReadyList>>,
    called: Arc<WakeFlag>,
    /// It was woken, or has not taken all there was.
    pub(super) has_turn: bool,
    /// Frames of its watch so far.
    frames: usize,
    pub(super) thread: Option<Rc<ThreadDispatcher>>,
    /// Its thread ends all streams.
    pub(super) is_sent_away: bool,
    /// It does not come again.
    pub(super) is_over: bool,
    /// It was told of a value that can't be read: its stream has nothing more to say.
    has_failed: bool,
    interest: WatchInterest,
    start: Start,
    wants_bookmarks: bool,
    received: Vec<String>,
    /// The last revision that it saw, where it would resume; `None` while it has not seen all of
    /// its initial state.
    at: Option<Revision>,
    /// Where its watch began, when that ends, and in which life of the cache.
    opened_at: Revision,
    deadline: Instant,
    life: u64,
}

/// A line that is expected, and the revision of its event; zero in the initial state.
type Expected = (Revision, String);

impl Subject {
    pub(super) fn new(
        start: Start,
        interest: WatchInterest,
        wants_bookmarks: bool,
        number: u32,
    ) -> Subject {
        Subject {
            watcher: None,
            number,
            list: None,
            called: Arc::default(),
            has_turn: false,
            frames: 0,
            thread: None,
            is_sent_away: false,
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
            life: 0,
        }
    }

    /// The revision that the stream starts after.
    fn from(&self) -> Revision {
        match &self.start {
            Start::After(revision) => *revision,
            Start::Initial(snapshot, _) => snapshot.revision,
        }
    }

    /// Its first watch.
    pub(super) fn open(&mut self, thread: &Thread, others: &Others, seconds: u64) {
        let from = match &self.start {
            Start::After(revision) => StartPoint::After(*revision),
            Start::Initial(snapshot, end_bookmark) => StartPoint::Initial {
                snapshot: Arc::clone(snapshot),
                end_bookmark: *end_bookmark,
            },
        };
        self.watch(from, thread, others, seconds);
    }

    /// One watch more, after what it saw last; none where it would be told that this is gone, or
    /// that it has to begin anew, or to wait.
    pub(super) fn resume(&mut self, thread: &Thread, others: &Others, seconds: u64) {
        let Some(at) = self.at.filter(|_| !self.has_failed) else {
            self.is_over = true;
            return;
        };
        if at < others.fake.cacher.ring_floor() && at < others.compacted() {
            self.is_over = true;
            return;
        }
        self.watch(StartPoint::After(at), thread, others, seconds);
    }

    fn watch(&mut self, from: StartPoint, thread: &Thread, others: &Others, seconds: u64) {
        if !others.is_ready() {
            return;
        }
        self.life = others.lives();
        self.opened_at = self.at.unwrap_or(self.from());
        self.deadline = Instant::now() + Duration::from_secs(seconds);
        self.is_sent_away = false;
        self.thread = Some(Rc::clone(&thread.thread_dispatcher));
        self.list = (self.number > 0).then(|| Rc::clone(&thread.list));
        self.has_turn = true;
        self.frames = 0;
        let mut start = others.fake.start(from, self.interest.clone());
        start.bookmarks = self.wants_bookmarks;
        start.deadline = self.deadline;
        self.watcher = Some(thread.thread_dispatcher.watch(start));
    }

    /// Its connection or its task is told that it was woken.
    pub(super) fn receive(&mut self) {
        self.has_turn |= self.called.take();
    }

    /// Takes frames as its server does: until there is nothing more, or so many.
    pub(super) fn poll(&mut self, frames: usize, others: &Others) {
        let waker = Waker::from(Arc::clone(&self.called));
        let list = self.list.clone();
        let context = Context::from_waker(&waker);
        let caller = match &list {
            Some(list) => Caller::listed(list, self.number, &waker),
            None => Caller::task(&context),
        };
        for _ in 0..frames {
            let Some(watcher) = &mut self.watcher else {
                // A wake may come for a watch that is gone.
                self.has_turn = false;
                return;
            };
            match watcher.poll_next(&caller) {
                Poll::Ready(Some(frame)) => {
                    self.has_turn = !frame.rests;
                    self.take(&String::from_utf8_lossy(&frame.bytes), others);
                    if frame.rests {
                        return;
                    }
                }
                Poll::Ready(None) => return self.take_end(others),
                Poll::Pending => {
                    self.has_turn = false;
                    return;
                }
            }
        }
    }

    /// Takes a frame, and judges what is not an event. The first one alone has the header (API-74).
    fn take(&mut self, frame: &str, others: &Others) {
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
            Some(bookmark) => self.take_bookmark(bookmark, others),
            None => {
                let differs = self.interest.projection.first_differs();
                assert_eq!(header, differs && self.frames == 1, "{frame}");
                self.take_event(line.to_owned());
            }
        }
    }

    fn take_event(&mut self, line: String) {
        let revision = revision_of(&line);
        // Objects of the initial state come in order of their keys.
        if revision > self.from() {
            self.at = Some(revision);
        }
        self.received.push(line);
    }

    /// A bookmark stands for all events up to its revision (PF-17), and tells something new
    /// (WA-44).
    fn take_bookmark(&mut self, bookmark: &str, others: &Others) {
        assert!(self.wants_bookmarks || self.ends_initial(bookmark));
        let revision = revision_of(bookmark);
        assert!(
            Some(revision) >= self.at,
            "a bookmark of {revision} after {:?}",
            self.at
        );
        let is_end = bookmark.ends_with(" end");
        assert!(is_end || revision > self.opened_at, "{bookmark} is no news");
        let log = others.log();
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

    /// A stream ends because its cache was refilled, its time is over, its thread says so, or
    /// what comes next is forgotten (WA-2, WA-37).
    fn take_end(&mut self, others: &Others) {
        self.watcher = None;
        self.has_turn = false;
        let at = self.at.unwrap_or(self.from());
        let is_forgotten = others.compacted() > at;
        assert!(
            self.has_failed
                || self.life != others.lives()
                || Instant::now() >= self.deadline
                || self.is_sent_away
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

    /// What was received must be the beginning of what there is to say; all of it for a stream that
    /// goes on and has nothing more to fetch.
    pub(super) fn judge(&self, log: &[Event], is_complete: bool) {
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

    /// All lines that the log holds for this stream.
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
                |object: &&CachedObject| scope.covers(&object.key) && predicate.matches(object);
            let mut initial: Vec<&CachedObject> = state.objects.iter().filter(selected).collect();
            initial.sort_by(|one, other| one.key.cmp(&other.key));
            lines.extend(initial.into_iter().map(|object| {
                let line = line(WatchEventKind::Added, object, object.revision);
                (Revision::ZERO, line)
            }));
        }
        for event in after {
            let Applied {
                current,
                previous,
                is_unreadable,
                was_unreadable,
            } = state.apply(event);
            let selects_all = predicate.identity().is_empty();
            let needs_previous = !selects_all || current.is_none();
            let fails = is_unreadable || (was_unreadable && needs_previous);
            if fails && scope.covers(&event.key) {
                lines.push((event.revision, ERROR.to_owned()));
                return lines;
            }
            if let Some(object) = current.as_ref().filter(|_| was_unreadable)
                && scope.covers(&event.key)
            {
                // That something was there is all that is known, and enough.
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

/// The revision in a line, or at the beginning of what is behind its `@`.
fn revision_of(line: &str) -> Revision {
    let number = line.split_once('@').map_or(line, |(_, number)| number);
    let number = number.split(' ').next().unwrap();
    Revision(number.parse().unwrap())
}

/// What stands for any error in what was received.
const ERROR: &str = "ERROR";

/// What is stored at some revision.
#[derive(Default)]
struct ReferenceState {
    objects: Vec<CachedObject>,
    unreadable: Vec<Key>,
}

/// What an event did.
struct Applied {
    current: Option<CachedObject>,
    previous: Option<CachedObject>,
    is_unreadable: bool,
    was_unreadable: bool,
}

impl ReferenceState {
    /// Takes in an event; says what the object was and is.
    fn apply(&mut self, event: &Event) -> Applied {
        let at = self
            .objects
            .iter()
            .position(|object| object.key == event.key);
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
        Applied {
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
