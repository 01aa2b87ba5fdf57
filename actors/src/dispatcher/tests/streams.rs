//! What streams show: starts, transitions, ends, and what they share.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;

use super::*;
use crate::engine::Prefix;
use crate::object::CachedObject;
use crate::testing::{
    ColorField, Heard, Lines, LinesWithHeader, Meeting, hear, hear_as, interest, key,
};
use crate::watch::{Predicate, Projection, WatchEventKind};

fn namespace(name: &str) -> Scope {
    Scope::Namespace(Prefix::new(format!("/registry/things/{name}/")))
}

#[test]
fn events_after_the_start_come_once_in_order_wa_25() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        stage.put("ns/a", "red 1");
        stage.put("ns/b", "red 2");
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&stage, 1);
        assert_eq!(hear(&mut watcher).lines, ["ADDED ns/b@2 red 2"]);
        assert_eq!(hear(&mut watcher).lines, [""; 0]);
        stage.put("ns/a", "red 3");
        stage.delete("ns/b");
        assert_eq!(hear(&mut watcher).lines, [""; 0], "not before the hint");
        dispatcher.take_hints();
        assert_eq!(
            hear(&mut watcher).lines,
            ["MODIFIED ns/a@3 red 3", "DELETED ns/b@4 red 2"]
        );
    });
}

#[test]
fn what_happens_while_a_watch_is_being_opened_is_not_missed_wa_25() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        stage.put("ns/a", "red 1");
        let dispatcher = dispatcher();
        // Its desk stands where the ring ended, and wants nothing but another object.
        let other = interest(Scope::Object(key("ns/other")));
        let _other = dispatcher.watch_where(&stage, 1, other);
        let start = stage.start(StartPoint::After(Revision(1)), interest(Scope::All));
        let desk = dispatcher.hall.desk_for(&start).unwrap();
        desk.borrow_mut().look();
        // The Cacher has a thread of its own.
        stage.put("ns/a", "red 2");
        stage.put("ns/b", "red 3");
        let mut watcher = Watcher::open(Rc::clone(&dispatcher.hall), desk, start);
        assert_eq!(
            hear(&mut watcher).lines,
            ["MODIFIED ns/a@2 red 2", "ADDED ns/b@3 red 3"]
        );
    });
}

#[test]
fn every_topic_gets_its_events_and_no_others_wa_24_wa_50() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        let dispatcher = dispatcher();
        let scopes = [Scope::All, namespace("ns"), Scope::Object(key("ns/a"))];
        let mut watchers = scopes.map(|scope| dispatcher.watch_where(&stage, 0, interest(scope)));
        for name in ["ns/a", "ns/b", "ns-bad/a"] {
            stage.put(name, "red");
        }
        dispatcher.take_hints();
        let heard = watchers.each_mut().map(|watcher| hear(watcher).lines.len());
        assert_eq!(heard, [3, 2, 1]);
    });
}

#[test]
fn what_enters_a_selection_is_added_and_what_leaves_it_deleted_wa_20_pf_2() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_where(&stage, 0, selecting(Scope::All, "red"));
        for value in ["blue 1", "red 2", "red 3", "blue 4", "red 5"] {
            stage.put("ns/a", value);
        }
        stage.delete("ns/a");
        dispatcher.take_hints();
        assert_eq!(
            hear(&mut watcher).lines,
            [
                "ADDED ns/a@2 red 2",
                "MODIFIED ns/a@3 red 3",
                "DELETED ns/a@4 red 3",
                "ADDED ns/a@5 red 5",
                "DELETED ns/a@6 red 5",
            ]
        );
    });
}

#[test]
fn a_watch_ends_whenever_the_cache_dies_while_it_is_being_opened_wa_37() {
    run(async {
        for step in 0..10 {
            let stage = Rc::new(Stage::new(RING_BYTES));
            stage.put("ns/a", "red 1");
            let dispatcher = dispatcher();
            let (dies, mut left) = (Rc::clone(&stage), step);
            let meeting = Meeting::with(move || {
                if left == 0 {
                    dies.abandon();
                }
                left -= 1;
            });
            let mut watcher = dispatcher.watch_all(&stage, 1);
            drop(meeting);
            dispatcher.take_hints();
            let mut has_ended = false;
            for _ in 0..100 {
                has_ended |= hear(&mut watcher).has_ended;
                tokio::task::yield_now().await;
            }
            let is_dead = !stage.cacher.readiness().is_ready();
            assert_eq!(has_ended, is_dead, "it died before step {step}");
        }
    });
}

#[test]
fn initial_events_come_by_key_then_their_end_then_what_happens_wa_11_wa_15() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        for name in ["ns/b", "ns/c", "other/a", "ns/a"] {
            stage.put(name, "red");
        }
        let snapshot = stage.cacher.snapshot().unwrap();
        // A write elsewhere has moved the store's revision (WA-15).
        let end_bookmark = Some(Revision(9));
        let from = StartPoint::Initial {
            snapshot,
            end_bookmark,
        };
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch(stage.start(from, interest(namespace("ns"))));
        stage.put("ns/d", "red");
        dispatcher.take_hints();
        assert_eq!(
            hear(&mut watcher).lines,
            [
                "ADDED ns/a@4 red",
                "ADDED ns/b@1 red",
                "ADDED ns/c@2 red",
                "BOOKMARK @9 end",
                "ADDED ns/d@5 red",
            ]
        );
    });
}

#[test]
fn initial_events_of_many_objects_are_looked_at_in_pieces() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        for number in 0..1_000 {
            stage.put(&format!("ns/{number:04}"), "blue");
        }
        stage.put("ns/0999", "red");
        let from = StartPoint::Initial {
            snapshot: stage.cacher.snapshot().unwrap(),
            end_bookmark: None,
        };
        let dispatcher = dispatcher();
        let start = stage.start(from, selecting(Scope::All, "red"));
        let mut watcher = dispatcher.watch(start);
        assert_eq!(hear(&mut watcher).lines, ["ADDED ns/0999@1001 red"]);
    });
}

#[test]
fn an_empty_idle_resource_gets_its_end_bookmark_at_once_ts_87_pf_15() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        let from = StartPoint::Initial {
            snapshot: stage.cacher.snapshot().unwrap(),
            end_bookmark: Some(Revision(3)),
        };
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch(stage.start(from, interest(Scope::All)));
        assert_eq!(hear(&mut watcher).lines, ["BOOKMARK @3 end"]);
    });
}

#[test]
fn a_start_in_the_future_drops_events_up_to_it_wa_10_ts_86() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        stage.put("ns/a", "red 1");
        let dispatcher = dispatcher();
        let mut future = dispatcher.watch_all(&stage, 3);
        let mut present = dispatcher.watch_all(&stage, 1);
        for value in ["red 2", "red 3", "red 4"] {
            stage.put("ns/a", value);
        }
        dispatcher.take_hints();
        assert_eq!(hear(&mut future).lines, ["MODIFIED ns/a@4 red 4"]);
        assert_eq!(hear(&mut present).lines.len(), 3);
    });
}

#[test]
fn only_the_first_frame_of_a_stream_has_the_header_api_74() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        stage.put("ns/a", "red 1");
        let dispatcher = dispatcher();
        let with_header = || WatchInterest {
            projection: Arc::new(LinesWithHeader),
            ..interest(Scope::All)
        };
        // One from the ring, one from the log that it shares with the other.
        let mut early = dispatcher.watch_where(&stage, 0, with_header());
        let mut late = dispatcher.watch_where(&stage, 1, with_header());
        assert_eq!(hear(&mut early).lines, ["HEADER ADDED ns/a@1 red 1"]);
        stage.put("ns/a", "red 2");
        dispatcher.take_hints();
        assert_eq!(hear(&mut early).lines, ["MODIFIED ns/a@2 red 2"]);
        assert_eq!(hear(&mut late).lines, ["HEADER MODIFIED ns/a@2 red 2"]);
        // And one from the initial events.
        let from = StartPoint::Initial {
            snapshot: stage.cacher.snapshot().unwrap(),
            end_bookmark: None,
        };
        let mut initial = dispatcher.watch(stage.start(from, with_header()));
        stage.put("ns/a", "red 3");
        dispatcher.take_hints();
        assert_eq!(
            hear(&mut initial).lines,
            ["HEADER ADDED ns/a@2 red 2", "MODIFIED ns/a@3 red 3"]
        );
    });
}

#[test]
fn watchers_of_another_generation_end_silently_wa_37() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&stage, 0);
        let from = StartPoint::Initial {
            snapshot: stage.cacher.snapshot().unwrap(),
            end_bookmark: None,
        };
        let mut initial = dispatcher.watch(stage.start(from, interest(Scope::All)));
        assert!(!hear(&mut watcher).has_ended);
        stage.abandon();
        dispatcher.take_hints();
        let end = Heard {
            lines: Vec::new(),
            has_ended: true,
        };
        assert_eq!(hear(&mut watcher), end);
        assert_eq!(hear(&mut initial), end);
        // Not ready: a new one ends at once (WC-40).
        assert_eq!(hear(&mut dispatcher.watch_all(&stage, 0)), end);
        stage.fill();
        let mut watcher = dispatcher.watch_all(&stage, 0);
        stage.put("ns/a", "red 1");
        dispatcher.take_hints();
        assert_eq!(hear(&mut watcher).lines, ["ADDED ns/a@1 red 1"]);
    });
}

#[test]
fn a_watcher_that_is_dropped_leaves_nothing_behind_wa_35() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        let dispatcher = dispatcher();
        let object = || interest(Scope::Object(key("ns/a")));
        let first = dispatcher.watch_where(&stage, 0, object());
        let mut second = dispatcher.watch_where(&stage, 0, object());
        let third = dispatcher.watch_where(&stage, 0, object());
        assert_eq!(dispatcher.watchers(), 3);
        drop(first);
        stage.put("ns/a", "red 1");
        dispatcher.take_hints();
        assert_eq!(hear(&mut second).lines, ["ADDED ns/a@1 red 1"]);
        drop((second, third));
        assert_eq!(dispatcher.watchers(), 0);
        // Nobody wants the topic any more, so nothing is noted for this thread.
        stage.put("ns/a", "red 2");
        assert_eq!(dispatcher.hall.link.take_due(), [0; 0]);
    });
}

#[derive(Default)]
struct CountedWaker(AtomicUsize);

impl Wake for CountedWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn streams_of_one_connection_are_woken_with_one_call_and_only_if_they_wait() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        let dispatcher = dispatcher();
        let counted = Arc::new(CountedWaker::default());
        let waker = Waker::from(Arc::clone(&counted));
        let list = ReadyList::new(waker.clone());
        let mut watchers: Vec<Watcher> = (0..50).map(|_| dispatcher.watch_all(&stage, 0)).collect();
        let caller = |number| Caller::listed(&list, number, &waker);
        for (watcher, number) in watchers.iter_mut().zip(0..) {
            hear_as(watcher, &caller(number));
        }
        assert!(list.is_empty());
        stage.put("ns/a", "red 1");
        stage.put("ns/a", "red 2");
        dispatcher.take_hints();
        stage.put("ns/a", "red 3");
        dispatcher.take_hints();
        assert_eq!(counted.0.load(Ordering::Relaxed), 1);
        let mut ready: Vec<u32> = Vec::new();
        list.take(&mut ready);
        assert_eq!(
            ready,
            Vec::from_iter(0..50),
            "each is listed once, in order"
        );
        for (watcher, number) in watchers.iter_mut().zip(0..) {
            assert_eq!(hear_as(watcher, &caller(number)).lines.len(), 3);
        }
    });
}

#[test]
fn a_delivery_takes_one_poll_of_its_stream() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        let dispatcher = dispatcher();
        let counted = Arc::new(CountedWaker::default());
        let waker = Waker::from(Arc::clone(&counted));
        let caller = Caller::task(&Context::from_waker(&waker));
        let mut watcher = dispatcher.watch_all(&stage, 0);
        assert_eq!(watcher.poll_next(&caller), Poll::Pending);
        for delivery in 1..=3 {
            stage.put("ns/a", "red");
            dispatcher.take_hints();
            assert_eq!(counted.0.load(Ordering::Relaxed), delivery);
            let polled = watcher.poll_next(&caller);
            assert!(
                matches!(&polled, Poll::Ready(Some(frame)) if frame.rests),
                "{polled:?}"
            );
        }
    });
}

/// Counts how often frames are made and objects judged.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>, Arc<AtomicUsize>);

impl Predicate for Counting {
    fn matches(&self, _: &CachedObject) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn identity(&self) -> &str {
        "counted"
    }
}

impl Projection for Counting {
    fn identity(&self) -> &str {
        "counted"
    }

    fn frame(
        &self,
        kind: WatchEventKind,
        object: &CachedObject,
        at: Revision,
        first: bool,
    ) -> Bytes {
        self.0.fetch_add(1, Ordering::Relaxed);
        Lines.frame(kind, object, at, first)
    }

    fn bookmark(&self, revision: Revision, end: bool, first: bool) -> Bytes {
        Lines.bookmark(revision, end, first)
    }

    fn error(&self, message: &str) -> Bytes {
        Lines.error(message)
    }
}

#[test]
fn an_event_is_judged_once_per_group_and_rendered_once_over_all_threads_wc_11() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        let counting = Counting::default();
        let threads = [dispatcher(), dispatcher()];
        let wish = |scope| WatchInterest {
            scope,
            predicate: Arc::new(counting.clone()),
            projection: Arc::new(counting.clone()),
        };
        let mut watchers = Vec::new();
        for thread in &threads {
            for _ in 0..20 {
                watchers.push(thread.watch_where(&stage, 0, wish(Scope::All)));
                watchers.push(thread.watch_where(&stage, 0, wish(namespace("ns"))));
            }
        }
        stage.put("ns/a", "red 1");
        for thread in &threads {
            thread.take_hints();
        }
        for watcher in &mut watchers {
            assert_eq!(hear(watcher).lines, ["ADDED ns/a@1 red 1"]);
        }
        assert_eq!(counting.0.load(Ordering::Relaxed), 1, "frames made");
        assert_eq!(counting.1.load(Ordering::Relaxed), 4, "2 threads, 2 groups");
    });
}

/// Panics when it judges a certain color.
struct Panicking;

impl Predicate for Panicking {
    fn matches(&self, object: &CachedObject) -> bool {
        assert_ne!(object.attributes.label("color"), Some("black"));
        true
    }

    fn identity(&self) -> &str {
        "panicking"
    }
}

#[test]
fn a_dispatcher_that_panics_ends_its_streams_and_starts_anew() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        let dispatcher = dispatcher();
        // Lets the actor start.
        tokio::task::yield_now().await;
        let wish = WatchInterest {
            predicate: Arc::new(Panicking),
            ..interest(Scope::All)
        };
        let mut fatal = dispatcher.watch_where(&stage, 0, wish);
        let mut other = dispatcher.watch_all(&stage, 0);
        assert!(!hear(&mut other).has_ended);
        stage.put("ns/a", "black");
        let deadline = Instant::now() + Duration::from_secs(5);
        while !hear(&mut other).has_ended {
            assert!(Instant::now() < deadline, "the stream never ended");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(hear(&mut fatal).has_ended);
        let mut next = dispatcher.watch_all(&stage, 1);
        stage.put("ns/a", "red 2");
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let heard = hear(&mut next);
            if !heard.lines.is_empty() {
                assert_eq!(heard.lines, ["MODIFIED ns/a@2 red 2"]);
                break;
            }
            assert!(Instant::now() < deadline, "the new life hears no hints");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_watch_of_a_field_sees_objects_come_and_go_wa_52_wa_53() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        let dispatcher = dispatcher();
        let mut colors: Vec<Watcher> = ["", "red", "blue"]
            .into_iter()
            .map(|color| {
                let of_color = WatchInterest {
                    predicate: Arc::new(ColorField::new(color)),
                    ..interest(Scope::All)
                };
                dispatcher.watch_where(&stage, 0, of_color)
            })
            .collect();
        let mut heard = |stage: &Stage, text: &str| {
            stage.put("ns/a", text);
            dispatcher.take_hints();
            let lines = colors
                .iter_mut()
                .map(|watcher| hear(watcher).lines.concat());
            lines.collect::<Vec<String>>()
        };
        assert_eq!(heard(&stage, " 1"), ["ADDED ns/a@1  1", "", ""]);
        assert_eq!(
            heard(&stage, "red 2"),
            ["DELETED ns/a@2  1", "ADDED ns/a@2 red 2", ""]
        );
        assert_eq!(heard(&stage, "red 3"), ["", "MODIFIED ns/a@3 red 3", ""]);
        assert_eq!(
            heard(&stage, "blue 4"),
            ["", "DELETED ns/a@4 red 3", "ADDED ns/a@4 blue 4"]
        );
    });
}
