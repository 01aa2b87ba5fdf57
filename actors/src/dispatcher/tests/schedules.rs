//! Random schedules against a plain reference of the event log: whatever happens to the ring, to
//! the cache and to their clients, every stream is the reference's, from its start on, once and
//! in order, until it ends.
//!
//! A schedule follows from its seed; a failure prints it. `TAFFRAIL_SEED` runs one of them again,
//! `TAFFRAIL_SCHEDULES` says how many there are.

use super::*;
use crate::engine::{Event, EventKind, Key, Prefix};
use crate::object::{CachedObject, Decode};
use crate::testing::{ColorField, Lines, OneLiners, hear_all, interest, key};
use crate::watch::{Projection, transition};

const SCHEDULES: u64 = 100;
const STEPS: usize = 120;
const COLORS: [&str; 3] = ["red", "blue", "green"];

/// Numbers that follow from a seed (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// A watch, and what it ought to say.
struct Subject {
    watcher: Watcher,
    interest: WatchInterest,
    start: Start,
    heard: Vec<String>,
    has_ended: bool,
}

#[derive(Debug)]
enum Start {
    After(u64),
    Initial(u64),
}

impl Subject {
    /// All lines that the log holds for this watch.
    fn expected(&self, log: &[Event]) -> Vec<String> {
        let mut state: Vec<CachedObject> = Vec::new();
        let mut lines = Vec::new();
        let from = match self.start {
            Start::After(revision) | Start::Initial(revision) => revision,
        };
        for event in log {
            if event.revision.0 > from {
                break;
            }
            apply(&mut state, event);
        }
        if let Start::Initial(_) = self.start {
            let wanted = state.iter().filter(|object| {
                self.interest.scope.covers(&object.key) && self.interest.predicate.matches(object)
            });
            let mut initial: Vec<&CachedObject> = wanted.collect();
            initial.sort_by(|one, other| one.key.cmp(&other.key));
            for object in initial {
                lines.push(line(
                    crate::watch::WatchEventKind::Added,
                    object,
                    object.revision,
                ));
            }
        }
        for event in log.iter().filter(|event| event.revision.0 > from) {
            let (current, previous) = apply(&mut state, event);
            let (scope, predicate) = (&self.interest.scope, &*self.interest.predicate);
            let judged = transition(scope, predicate, current.as_ref(), previous.as_ref());
            if let Some((kind, object)) = judged {
                lines.push(line(kind, object, event.revision));
            }
        }
        lines
    }
}

/// Folds an event into a state; says what the object was and is.
fn apply(
    state: &mut Vec<CachedObject>,
    event: &Event,
) -> (Option<CachedObject>, Option<CachedObject>) {
    let at = state.iter().position(|object| object.key == event.key);
    let previous = at.map(|at| state.swap_remove(at));
    let current = (event.kind == EventKind::Put && prefix_covers(&event.key)).then(|| {
        let decoded = OneLiners.decode(&event.key, event.revision, &event.value);
        decoded.unwrap()
    });
    state.extend(current.clone());
    (current, previous)
}

fn prefix_covers(key: &Key) -> bool {
    crate::testing::prefix().covers(key)
}

fn line(kind: crate::watch::WatchEventKind, object: &CachedObject, revision: Revision) -> String {
    String::from_utf8_lossy(&Lines.frame(kind, object, revision, false)).into_owned()
}

struct World {
    chance: Chance,
    stage: Stage,
    threads: Vec<LocalDispatcher>,
    subjects: Vec<Subject>,
    compacted: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // From a few events to more than a schedule writes.
        let ring_bytes = [1_500, 6_000, 1 << 20][chance.below(3)];
        let threads = 0..=chance.below(2);
        let config = DispatcherConfig {
            history: HistoryPool::new(1 + chance.below(2), 3),
            history_chunk_bytes: 1 + chance.below(100),
        };
        World {
            stage: Stage::new(ring_bytes),
            threads: threads
                .map(|id| LocalDispatcher::start(config.clone(), id))
                .collect(),
            subjects: Vec::new(),
            compacted: 0,
            chance,
        }
    }

    async fn step(&mut self) {
        match self.chance.below(100) {
            0..35 => self.write(),
            35..45 => self.stage.publish(),
            45..60 => self.hint(),
            60..70 => self.watch(),
            70..90 => self.listen().await,
            90..93 => self.leave(),
            93..96 => self.age(),
            96..98 => self.compact(),
            98 => self.refill(),
            _ => tokio::task::yield_now().await,
        }
    }

    fn write(&mut self) {
        let names = ["ns/a", "ns/b", "other/a", "other/c"];
        for _ in 0..=self.chance.below(6) {
            let name = key(names[self.chance.below(names.len())]);
            let color = COLORS[self.chance.below(COLORS.len())];
            match self.chance.below(10) {
                0..2 => {
                    let exists = self.stage.engine.exists(&name);
                    if exists {
                        self.stage.engine.delete(&name);
                    }
                }
                2 => {
                    self.stage
                        .engine
                        .put(&Key::new("/registry/others/x"), "red");
                }
                _ => {
                    self.stage.engine.put(&name, color);
                }
            }
        }
        if self.chance.below(2) == 0 {
            self.stage.publish();
        }
    }

    fn hint(&mut self) {
        let thread = self.chance.below(self.threads.len());
        self.threads[thread].take_hints();
    }

    fn watch(&mut self) {
        if self.subjects.len() > 12 {
            return;
        }
        let interest = self.some_interest();
        let revision = self.stage.engine.revision().0;
        let (from, start) = if self.chance.below(3) == 0 {
            let snapshot = self.stage.cacher.snapshot().unwrap();
            let start = Start::Initial(snapshot.revision.0);
            let end_bookmark = None;
            (
                StartPoint::Initial {
                    snapshot,
                    end_bookmark,
                },
                start,
            )
        } else {
            // Also a few revisions that have not happened yet.
            let after = self.chance.below(revision as usize + 4) as u64;
            let after = after.max(self.compacted);
            (StartPoint::After(Revision(after)), Start::After(after))
        };
        let thread = self.chance.below(self.threads.len());
        let start_of = self.stage.start(from, interest.clone());
        self.subjects.push(Subject {
            watcher: self.threads[thread].watch(start_of),
            interest,
            start,
            heard: Vec::new(),
            has_ended: false,
        });
    }

    fn some_interest(&mut self) -> WatchInterest {
        let scope = match self.chance.below(4) {
            0 => Scope::Namespace(Prefix::new("/registry/things/ns/")),
            1 => Scope::Object(key("other/a")),
            _ => Scope::All,
        };
        match self.chance.below(3) {
            0 => interest(scope),
            1 => WatchInterest {
                predicate: Arc::new(ColorField::new(COLORS[self.chance.below(2)])),
                ..interest(scope)
            },
            _ => selecting(scope, COLORS[self.chance.below(2)]),
        }
    }

    /// One client takes some frames, or all there are.
    async fn listen(&mut self) {
        if self.subjects.is_empty() {
            return;
        }
        let subject = self.chance.below(self.subjects.len());
        let frames = self.chance.below(8);
        let subject = &mut self.subjects[subject];
        if frames == 0 {
            let heard = hear_all(&mut subject.watcher).await;
            subject.heard.extend(heard.lines);
            subject.has_ended |= heard.has_ended;
            return;
        }
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..frames {
            match subject.watcher.poll_next(&mut context) {
                std::task::Poll::Ready(Some(frame)) => {
                    let line = String::from_utf8_lossy(&frame).into_owned();
                    subject.heard.push(line);
                }
                std::task::Poll::Ready(None) => subject.has_ended = true,
                std::task::Poll::Pending => break,
            }
        }
    }

    fn leave(&mut self) {
        if !self.subjects.is_empty() {
            let subject = self.chance.below(self.subjects.len());
            let subject = self.subjects.swap_remove(subject);
            self.judge(&subject, false);
        }
    }

    fn age(&mut self) {
        for thread in &self.threads {
            thread.hall.age_logs();
        }
    }

    fn compact(&mut self) {
        let newest = self.stage.engine.revision().0 as usize;
        let up_to = self.chance.below(newest + 1) as u64;
        self.compacted = self.compacted.max(up_to);
        self.stage.engine.forget_up_to(Revision(self.compacted));
    }

    fn refill(&mut self) {
        self.stage.abandon();
        self.stage.fill();
    }

    /// What was heard must be the beginning of what there is to say; all of it for a stream that
    /// goes on and has nothing more to fetch.
    fn judge(&self, subject: &Subject, is_complete: bool) {
        let log = self.stage.engine.events_after(Revision::ZERO);
        let expected = subject.expected(&log);
        let heard = &subject.heard;
        let same = heard.iter().zip(&expected).take_while(|(h, e)| h == e);
        let same = same.count();
        assert_eq!(
            heard.get(same),
            None,
            "after {same} lines the stream {:?} differs from the log, which goes on with {:?}",
            subject.start,
            expected.get(same)
        );
        if is_complete && !subject.has_ended {
            assert_eq!(heard, &expected, "a stream misses the end of the log");
        }
    }

    /// Everybody hears everything there is.
    async fn finish(mut self) {
        self.stage.publish();
        for thread in &self.threads {
            thread.take_hints();
        }
        for mut subject in std::mem::take(&mut self.subjects) {
            if !subject.has_ended {
                let heard = hear_all(&mut subject.watcher).await;
                subject.heard.extend(heard.lines);
                subject.has_ended = heard.has_ended;
            }
            self.judge(&subject, true);
        }
    }
}

fn run_schedule(seed: u64) {
    actix_rt::System::new().block_on(async {
        let mut world = World::new(seed);
        // Lets the Dispatchers start.
        tokio::task::yield_now().await;
        for _ in 0..STEPS {
            world.step().await;
        }
        world.finish().await;
    });
}

#[test]
fn every_stream_is_the_log_s_from_its_start_on_once_and_in_order_wa_25_ts_82_ts_83() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match number("TAFFRAIL_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("TAFFRAIL_SCHEDULES").unwrap_or(SCHEDULES),
    };
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| run_schedule(seed));
        assert!(outcome.is_ok(), "run again with TAFFRAIL_SEED={seed}");
    }
}
