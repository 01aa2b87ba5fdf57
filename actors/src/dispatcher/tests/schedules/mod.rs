//! Random schedules against a plain reference of the event log: whatever happens to the ring, to
//! the cache and to their clients, every stream is the reference's, from its start on, once and
//! in order, over however many watches its client resumes it; bookmarks pass nothing that was not
//! sent, and nothing ends without a reason.
//!
//! The Cacher has a thread of its own: it also acts between any two things that a Dispatcher does
//! with what they share ([`Interleaving`]).
//!
//! A schedule follows from its seed; a failure prints it. `TAFFRAIL_SEED` runs one of them again,
//! `TAFFRAIL_SCHEDULES` says how many there are.

mod others;
mod subject;

use std::rc::Rc;
use std::task::Waker;

use self::others::{Chance, Others};
use self::subject::{Start, Subject};
use super::*;
use crate::engine::{DataEngine, Prefix};
use crate::testing::{ColorField, Interleaving, LinesWithHeader, YIELDS_MAX, interest, key};

const SCHEDULES: u64 = 3_000;
const STEPS: usize = 120;
const COLORS: [&str; 3] = ["red", "blue", "green"];
/// More than all clients of a schedule need to receive all there is.
const POLLS_MAX: usize = 50_000;
const SUBJECTS_MAX: usize = 12;

/// A thread: its ThreadDispatcher, without the actor, and the list of its one connection.
#[derive(Clone)]
struct Thread {
    thread_dispatcher: Rc<ThreadDispatcher>,
    list: Rc<ReadyList>,
}

impl Thread {
    fn new(config: DispatcherConfig) -> Thread {
        Thread {
            thread_dispatcher: Rc::new(ThreadDispatcher::new(config)),
            list: ReadyList::new(Waker::noop().clone()),
        }
    }
}

/// The schedule's clients, the threads that serve them, and what goes on behind those.
struct World {
    chance: Chance,
    others: Rc<Others>,
    threads: Vec<Thread>,
    opened: u32,
    subjects: Vec<Subject>,
    _interleaving: Interleaving,
}

impl World {
    fn new(seed: u64) -> World {
        let chance = Chance::new(seed);
        // From a few events to more than a schedule writes.
        let ring_bytes = [1_500, 6_000, 1 << 20][chance.below(3)];
        let config = DispatcherConfig {
            history: HistoryPool::new(1 + chance.below(2), 3),
            history_chunk_bytes: 1 + chance.below(100),
        };
        let threads = 0..=chance.below(2);
        let others = Rc::new(Others::new(ring_bytes, &chance));
        let acting = Rc::clone(&others);
        World {
            // No Dispatchers: hints are taken and time passes when the schedule says so.
            threads: threads.map(|_| Thread::new(config.clone())).collect(),
            opened: 0,
            subjects: Vec::new(),
            _interleaving: Interleaving::with(move || acting.meet()),
            others,
            chance,
        }
    }

    async fn step(&mut self) {
        match self.chance.below(100) {
            0..30 => self.others.write(),
            30..38 => self.others.publish(),
            38..52 => self.some_thread().thread_dispatcher.read_due_rings(),
            52..62 => self.watch(),
            62..80 => self.listen().await,
            80..83 => self.leave(),
            83..87 => self.resume(),
            87..90 => self.some_thread().thread_dispatcher.age_logs(),
            90..94 => self.pass().await,
            94 => self.end_all(),
            95..97 => self.others.compact(),
            97 => self.others.restart(),
            98 => self.others.break_or_mend(),
            _ => tokio::task::yield_now().await,
        }
    }

    fn some_thread(&self) -> Thread {
        self.threads[self.chance.below(self.threads.len())].clone()
    }

    fn some_subject(&mut self) -> Option<&mut Subject> {
        let count = self.subjects.len();
        (count > 0).then(|| &mut self.subjects[self.chance.below(count)])
    }

    fn watch(&mut self) {
        if self.subjects.len() > SUBJECTS_MAX || !self.others.is_ready() {
            return;
        }
        let interest = self.some_interest();
        let newest = self.others.fake.engine.revision();
        let snapshot = (self.chance.below(3) == 0).then(|| self.others.fake.cacher.snapshot());
        // What can't be shown as a whole is refused to clients.
        let snapshot = snapshot.flatten().filter(|snapshot| {
            let mut unreadable = snapshot.unreadable.keys();
            !unreadable.any(|key| interest.scope.covers(key))
        });
        let start = match snapshot {
            Some(snapshot) => {
                let known = self.others.fake.engine.known(&crate::testing::prefix());
                // As a streamed list does: the newest revision that the snapshot shows.
                let end = match known.prefix_revision <= snapshot.revision {
                    true => snapshot.revision.max(known.revision),
                    false => snapshot.revision,
                };
                let end_bookmark = (self.chance.below(2) == 0).then_some(end);
                Start::Initial(snapshot, end_bookmark)
            }
            None => {
                // Also a few revisions that have not happened yet.
                let after = Revision(self.chance.below(newest.0 as usize + 4) as u64);
                Start::After(after.max(self.others.compacted()))
            }
        };
        let wants_bookmarks = self.chance.below(3) > 0;
        self.opened += 1;
        let is_listed = self.chance.below(2) == 0;
        let number = if is_listed { self.opened } else { 0 };
        let mut subject = Subject::new(start, interest, wants_bookmarks, number);
        let seconds = [3, 30, 100, 3_600][self.chance.below(4)];
        subject.open(&self.some_thread(), &self.others, seconds);
        self.subjects.push(subject);
    }

    fn some_interest(&self) -> WatchInterest {
        let scope = match self.chance.below(4) {
            0 => Scope::Namespace(Prefix::new("/registry/things/ns/")),
            1 => Scope::Object(key("other/a")),
            _ => Scope::All,
        };
        let interest = match self.chance.below(3) {
            0 => interest(scope),
            1 => WatchInterest {
                predicate: Arc::new(ColorField::new(COLORS[self.chance.below(2)])),
                ..interest(scope)
            },
            _ => selecting(scope, COLORS[self.chance.below(2)]),
        };
        match self.chance.below(3) {
            0 => WatchInterest {
                projection: Arc::new(LinesWithHeader),
                ..interest
            },
            _ => interest,
        }
    }

    /// Those that were woken have turns.
    fn take_woken(&mut self) {
        let mut woken = Vec::new();
        for thread in &self.threads {
            thread.list.take(&mut woken);
        }
        for subject in &mut self.subjects {
            subject.has_turn |= woken.contains(&subject.number);
            subject.receive();
        }
    }

    /// One client that has a turn takes some frames, or all there are. Some ask when they were
    /// not woken, too: so does one who was woken for something else.
    async fn listen(&mut self) {
        self.take_woken();
        let (frames, asks) = (self.chance.below(8), self.chance.below(4) == 0);
        let others = Rc::clone(&self.others);
        let Some(subject) = self.some_subject() else {
            return;
        };
        if subject.has_turn || asks {
            let frames = if frames == 0 { usize::MAX } else { frames };
            subject.poll(frames, &others);
        }
        if frames == 0 {
            // Sometimes all is still meanwhile: nobody may go round in circles.
            self.others.set_quiet(self.chance.below(2) == 0);
            self.listen_all().await;
            self.others.set_quiet(false);
        }
    }

    /// Everybody takes what there is when he is woken, until nobody is woken any more.
    async fn listen_all(&mut self) {
        let others = Rc::clone(&self.others);
        let (mut turns, mut polls) = (0, 0);
        while turns < YIELDS_MAX {
            polls += 1;
            assert!(polls < POLLS_MAX, "somebody is woken again and again");
            self.take_woken();
            let mut waiting = self.subjects.iter_mut().filter(|subject| subject.has_turn);
            match waiting.next() {
                Some(subject) => {
                    subject.poll(usize::MAX, &others);
                    turns = 0;
                }
                None => turns += 1,
            }
            tokio::task::yield_now().await;
        }
    }

    /// A client goes, for good or to come again.
    fn leave(&mut self) {
        let is_for_good = self.chance.below(3) == 0;
        if let Some(subject) = self.some_subject() {
            subject.watcher = None;
            subject.has_turn = false;
            if is_for_good {
                subject.is_over = true;
            }
        }
        self.forget_those_over();
    }

    /// A client whose stream is over comes again, where it was, maybe on another thread.
    fn resume(&mut self) {
        if !self.others.is_ready() {
            return;
        }
        let (thread, others) = (self.some_thread(), Rc::clone(&self.others));
        let seconds = [3, 100][self.chance.below(2)];
        if let Some(subject) = self.some_subject()
            && subject.watcher.is_none()
        {
            subject.resume(&thread, &others, seconds);
        }
        self.forget_those_over();
    }

    /// A Dispatcher dies, and with it its streams.
    fn end_all(&mut self) {
        let thread = self.some_thread();
        thread.thread_dispatcher.close_all();
        for subject in &mut self.subjects {
            let is_there =
                |there: &Rc<ThreadDispatcher>| Rc::ptr_eq(there, &thread.thread_dispatcher);
            subject.is_sent_away |= subject.thread.as_ref().is_some_and(is_there);
        }
    }

    fn forget_those_over(&mut self) {
        let log = self.others.log();
        self.subjects.retain(|subject| {
            if subject.is_over {
                subject.judge(&log, false);
            }
            !subject.is_over
        });
    }

    /// Time passes, and not every thread is on time.
    async fn pass(&mut self) {
        let millis = [250, 1_300, 2_000, 61_000][self.chance.below(4)];
        tokio::time::advance(Duration::from_millis(millis)).await;
        for thread in &self.threads {
            if self.chance.below(2) == 0 {
                thread.thread_dispatcher.tick(Instant::now());
            }
        }
    }

    /// Everybody receives everything there is, half of the time in the next life of the daemon.
    async fn finish(mut self) {
        let others = Rc::clone(&self.others);
        others.settle();
        // Who waits to read history again does so.
        tokio::time::advance(Duration::from_secs(1)).await;
        for thread in &self.threads {
            thread.thread_dispatcher.read_due_rings();
        }
        let drains = self.chance.below(2) == 0;
        if drains {
            self.threads
                .iter()
                .for_each(|thread| thread.thread_dispatcher.drain());
        }
        for subject in &mut self.subjects {
            subject.is_sent_away |= drains;
        }
        self.listen_all().await;
        self.threads = vec![Thread::new(DispatcherConfig::default())];
        for subject in &mut self.subjects {
            if subject.watcher.is_none() {
                subject.resume(&self.threads[0], &others, 3_600);
            } else {
                assert!(!drains, "a drain ends all");
            }
        }
        self.listen_all().await;
        let log = others.log();
        for subject in &self.subjects {
            subject.judge(&log, !subject.is_over);
        }
    }
}

async fn run_schedule(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step().await;
    }
    world.finish().await;
}

#[test]
fn every_stream_is_the_log_s_from_its_start_on_once_and_in_order_wa_25_ts_82_ts_83() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match number("TAFFRAIL_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("TAFFRAIL_SCHEDULES").unwrap_or(SCHEDULES),
    };
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_time().start_paused(true).build().unwrap();
            tokio::task::LocalSet::new().block_on(&runtime, run_schedule(seed));
        });
        assert!(outcome.is_ok(), "run again with TAFFRAIL_SEED={seed}");
    }
}
