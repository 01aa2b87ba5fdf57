//! The content of streams: starts, transitions, ends, and shared frames.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;

use super::*;
use crate::engine::Prefix;
use crate::object::CachedObject;
use crate::testing::{
    ColorField, Interleaving, Lines, LinesWithHeader, Received, interest, key, receive, receive_as,
};
use crate::watch::{Predicate, Projection, WatchEventKind};

fn namespace(name: &str) -> Scope {
    Scope::Namespace(Prefix::new(format!("/registry/things/{name}/")))
}

#[test]
fn events_after_the_start_come_once_in_order_wa_25() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        fake.put("ns/a", "red 1");
        fake.put("ns/b", "red 2");
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&fake, 1);
        assert_eq!(receive(&mut watcher).lines, ["ADDED ns/b@2 red 2"]);
        assert_eq!(receive(&mut watcher).lines, [""; 0]);
        fake.put("ns/a", "red 3");
        fake.delete("ns/b");
        assert_eq!(receive(&mut watcher).lines, [""; 0], "not before the hint");
        dispatcher.take_hints();
        assert_eq!(
            receive(&mut watcher).lines,
            ["MODIFIED ns/a@3 red 3", "DELETED ns/b@4 red 2"]
        );
    });
}

#[test]
fn what_happens_while_a_watch_is_being_opened_is_not_missed_wa_25() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        fake.put("ns/a", "red 1");
        let dispatcher = dispatcher();
        // Its resource has read the ring to its end, and watches only another object.
        let other = interest(Scope::Object(key("ns/other")));
        let _other = dispatcher.watch_where(&fake, 1, other);
        let start = fake.start(StartPoint::After(Revision(1)), interest(Scope::All));
        let resource = dispatcher.thread_dispatcher.resource_for(&start).unwrap();
        resource.borrow_mut().read_ring();
        // The Cacher has a thread of its own.
        fake.put("ns/a", "red 2");
        fake.put("ns/b", "red 3");
        let mut watcher = Watcher::open(
            Rc::clone(&dispatcher.thread_dispatcher.history),
            resource,
            start,
        );
        assert_eq!(
            receive(&mut watcher).lines,
            ["MODIFIED ns/a@2 red 2", "ADDED ns/b@3 red 3"]
        );
    });
}

#[test]
fn every_topic_gets_its_events_and_no_others_wa_24_wa_50() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        let scopes = [Scope::All, namespace("ns"), Scope::Object(key("ns/a"))];
        let mut watchers = scopes.map(|scope| dispatcher.watch_where(&fake, 0, interest(scope)));
        for name in ["ns/a", "ns/b", "ns-bad/a"] {
            fake.put(name, "red");
        }
        dispatcher.take_hints();
        let received = watchers
            .each_mut()
            .map(|watcher| receive(watcher).lines.len());
        assert_eq!(received, [3, 2, 1]);
    });
}

#[test]
fn what_enters_a_selection_is_added_and_what_leaves_it_deleted_wa_20_pf_2() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_where(&fake, 0, selecting(Scope::All, "red"));
        for value in ["blue 1", "red 2", "red 3", "blue 4", "red 5"] {
            fake.put("ns/a", value);
        }
        fake.delete("ns/a");
        dispatcher.take_hints();
        assert_eq!(
            receive(&mut watcher).lines,
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
            let fake = Rc::new(FakeCacher::new(RING_BYTES));
            fake.put("ns/a", "red 1");
            let dispatcher = dispatcher();
            let (dies, mut left) = (Rc::clone(&fake), step);
            let meeting = Interleaving::with(move || {
                if left == 0 {
                    dies.abandon();
                }
                left -= 1;
            });
            let mut watcher = dispatcher.watch_all(&fake, 1);
            drop(meeting);
            dispatcher.take_hints();
            let mut has_ended = false;
            for _ in 0..100 {
                has_ended |= receive(&mut watcher).has_ended;
                tokio::task::yield_now().await;
            }
            let is_dead = !fake.cacher.readiness().is_ready();
            assert_eq!(has_ended, is_dead, "it died before step {step}");
        }
    });
}

#[test]
fn initial_events_come_by_key_then_their_end_then_what_happens_wa_11_wa_15() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        for name in ["ns/b", "ns/c", "other/a", "ns/a"] {
            fake.put(name, "red");
        }
        let snapshot = fake.cacher.snapshot().unwrap();
        // A write elsewhere has moved the store's revision (WA-15).
        let end_bookmark = Some(Revision(9));
        let from = StartPoint::Initial {
            snapshot,
            end_bookmark,
        };
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch(fake.start(from, interest(namespace("ns"))));
        fake.put("ns/d", "red");
        dispatcher.take_hints();
        assert_eq!(
            receive(&mut watcher).lines,
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
        let fake = FakeCacher::new(RING_BYTES);
        for number in 0..1_000 {
            fake.put(&format!("ns/{number:04}"), "blue");
        }
        fake.put("ns/0999", "red");
        let from = StartPoint::Initial {
            snapshot: fake.cacher.snapshot().unwrap(),
            end_bookmark: None,
        };
        let dispatcher = dispatcher();
        let start = fake.start(from, selecting(Scope::All, "red"));
        let mut watcher = dispatcher.watch(start);
        assert_eq!(receive(&mut watcher).lines, ["ADDED ns/0999@1001 red"]);
    });
}

#[test]
fn an_empty_idle_resource_gets_its_end_bookmark_at_once_ts_87_pf_15() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        let from = StartPoint::Initial {
            snapshot: fake.cacher.snapshot().unwrap(),
            end_bookmark: Some(Revision(3)),
        };
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch(fake.start(from, interest(Scope::All)));
        assert_eq!(receive(&mut watcher).lines, ["BOOKMARK @3 end"]);
    });
}

#[test]
fn a_start_in_the_future_drops_events_up_to_it_wa_10_ts_86() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        fake.put("ns/a", "red 1");
        let dispatcher = dispatcher();
        let mut future = dispatcher.watch_all(&fake, 3);
        let mut present = dispatcher.watch_all(&fake, 1);
        for value in ["red 2", "red 3", "red 4"] {
            fake.put("ns/a", value);
        }
        dispatcher.take_hints();
        assert_eq!(receive(&mut future).lines, ["MODIFIED ns/a@4 red 4"]);
        assert_eq!(receive(&mut present).lines.len(), 3);
    });
}

#[test]
fn only_the_first_frame_of_a_stream_has_the_header_api_74() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        fake.put("ns/a", "red 1");
        let dispatcher = dispatcher();
        let with_header = || WatchInterest {
            projection: Arc::new(LinesWithHeader),
            ..interest(Scope::All)
        };
        // One from the ring, one from the log that it shares with the other.
        let mut early = dispatcher.watch_where(&fake, 0, with_header());
        let mut late = dispatcher.watch_where(&fake, 1, with_header());
        assert_eq!(receive(&mut early).lines, ["HEADER ADDED ns/a@1 red 1"]);
        fake.put("ns/a", "red 2");
        dispatcher.take_hints();
        assert_eq!(receive(&mut early).lines, ["MODIFIED ns/a@2 red 2"]);
        assert_eq!(receive(&mut late).lines, ["HEADER MODIFIED ns/a@2 red 2"]);
        // And one from the initial events.
        let from = StartPoint::Initial {
            snapshot: fake.cacher.snapshot().unwrap(),
            end_bookmark: None,
        };
        let mut initial = dispatcher.watch(fake.start(from, with_header()));
        fake.put("ns/a", "red 3");
        dispatcher.take_hints();
        assert_eq!(
            receive(&mut initial).lines,
            ["HEADER ADDED ns/a@2 red 2", "MODIFIED ns/a@3 red 3"]
        );
    });
}

#[test]
fn watchers_of_another_generation_end_silently_wa_37() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&fake, 0);
        let from = StartPoint::Initial {
            snapshot: fake.cacher.snapshot().unwrap(),
            end_bookmark: None,
        };
        let mut initial = dispatcher.watch(fake.start(from, interest(Scope::All)));
        assert!(!receive(&mut watcher).has_ended);
        fake.abandon();
        dispatcher.take_hints();
        let end = Received {
            lines: Vec::new(),
            has_ended: true,
        };
        assert_eq!(receive(&mut watcher), end);
        assert_eq!(receive(&mut initial), end);
        // Not ready: a new one ends at once (WC-40).
        assert_eq!(receive(&mut dispatcher.watch_all(&fake, 0)), end);
        fake.fill();
        let mut watcher = dispatcher.watch_all(&fake, 0);
        fake.put("ns/a", "red 1");
        dispatcher.take_hints();
        assert_eq!(receive(&mut watcher).lines, ["ADDED ns/a@1 red 1"]);
    });
}

#[test]
fn a_watcher_that_is_dropped_leaves_nothing_behind_wa_35() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        let object = || interest(Scope::Object(key("ns/a")));
        let first = dispatcher.watch_where(&fake, 0, object());
        let mut second = dispatcher.watch_where(&fake, 0, object());
        let third = dispatcher.watch_where(&fake, 0, object());
        assert_eq!(dispatcher.watchers(), 3);
        drop(first);
        fake.put("ns/a", "red 1");
        dispatcher.take_hints();
        assert_eq!(receive(&mut second).lines, ["ADDED ns/a@1 red 1"]);
        drop((second, third));
        assert_eq!(dispatcher.watchers(), 0);
        // No group wants the topic any more, so nothing is noted for this thread.
        fake.put("ns/a", "red 2");
        assert_eq!(dispatcher.thread_dispatcher.hint_sender.take_due(), [0; 0]);
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
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        let counted = Arc::new(CountedWaker::default());
        let waker = Waker::from(Arc::clone(&counted));
        let list = ReadyList::new(waker.clone());
        let mut watchers: Vec<Watcher> = (0..50).map(|_| dispatcher.watch_all(&fake, 0)).collect();
        let caller = |number| Caller::listed(&list, number, &waker);
        for (watcher, number) in watchers.iter_mut().zip(0..) {
            receive_as(watcher, &caller(number));
        }
        assert!(list.is_empty());
        fake.put("ns/a", "red 1");
        fake.put("ns/a", "red 2");
        dispatcher.take_hints();
        fake.put("ns/a", "red 3");
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
            assert_eq!(receive_as(watcher, &caller(number)).lines.len(), 3);
        }
    });
}

#[test]
fn a_delivery_takes_one_poll_of_its_stream() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        let counted = Arc::new(CountedWaker::default());
        let waker = Waker::from(Arc::clone(&counted));
        let caller = Caller::task(&Context::from_waker(&waker));
        let mut watcher = dispatcher.watch_all(&fake, 0);
        assert_eq!(watcher.poll_next(&caller), Poll::Pending);
        for delivery in 1..=3 {
            fake.put("ns/a", "red");
            dispatcher.take_hints();
            assert_eq!(counted.0.load(Ordering::Relaxed), delivery);
            let polled = watcher.poll_next(&caller);
            assert!(
                matches!(&polled, Poll::Ready(Some(frame)) if frame.is_last_for_now),
                "{polled:?}"
            );
        }
    });
}

/// Counts rendered frames and evaluated objects.
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

    fn expired(&self, reached: Revision, oldest: Revision) -> Bytes {
        Lines.expired(reached, oldest)
    }
}

#[test]
fn an_event_is_judged_once_per_group_and_rendered_once_over_all_threads_wc_11() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        let counting = Counting::default();
        let threads = [dispatcher(), dispatcher()];
        let group_key = |scope| WatchInterest {
            scope,
            predicate: Arc::new(counting.clone()),
            projection: Arc::new(counting.clone()),
        };
        let mut watchers = Vec::new();
        for thread in &threads {
            for _ in 0..20 {
                watchers.push(thread.watch_where(&fake, 0, group_key(Scope::All)));
                watchers.push(thread.watch_where(&fake, 0, group_key(namespace("ns"))));
            }
        }
        fake.put("ns/a", "red 1");
        for thread in &threads {
            thread.take_hints();
        }
        for watcher in &mut watchers {
            assert_eq!(receive(watcher).lines, ["ADDED ns/a@1 red 1"]);
        }
        assert_eq!(counting.0.load(Ordering::Relaxed), 1, "frames made");
        assert_eq!(counting.1.load(Ordering::Relaxed), 4, "2 threads, 2 groups");
    });
}

/// Panics when it evaluates an object of a certain color.
struct Panicking;

impl Predicate for Panicking {
    fn matches(&self, object: &CachedObject) -> bool {
        assert_ne!(object.attributes().label("color"), Some("black"));
        true
    }

    fn identity(&self) -> &str {
        "panicking"
    }
}

#[test]
fn a_dispatcher_that_panics_ends_its_streams_and_starts_anew() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        // Lets the actor start.
        tokio::task::yield_now().await;
        let group_key = WatchInterest {
            predicate: Arc::new(Panicking),
            ..interest(Scope::All)
        };
        let mut fatal = dispatcher.watch_where(&fake, 0, group_key);
        let mut other = dispatcher.watch_all(&fake, 0);
        assert!(!receive(&mut other).has_ended);
        fake.put("ns/a", "black");
        let deadline = Instant::now() + Duration::from_secs(5);
        while !receive(&mut other).has_ended {
            assert!(Instant::now() < deadline, "the stream never ended");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(receive(&mut fatal).has_ended);
        let mut next = dispatcher.watch_all(&fake, 1);
        fake.put("ns/a", "red 2");
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let received = receive(&mut next);
            if !received.lines.is_empty() {
                assert_eq!(received.lines, ["MODIFIED ns/a@2 red 2"]);
                break;
            }
            assert!(Instant::now() < deadline, "the new life receives no hints");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_watch_of_a_field_sees_objects_come_and_go_wa_52_wa_53() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        let mut colors: Vec<Watcher> = ["", "red", "blue"]
            .into_iter()
            .map(|color| {
                let of_color = WatchInterest {
                    predicate: Arc::new(ColorField::new(color)),
                    ..interest(Scope::All)
                };
                dispatcher.watch_where(&fake, 0, of_color)
            })
            .collect();
        let mut received = |fake: &FakeCacher, text: &str| {
            fake.put("ns/a", text);
            dispatcher.take_hints();
            let lines = colors
                .iter_mut()
                .map(|watcher| receive(watcher).lines.concat());
            lines.collect::<Vec<String>>()
        };
        assert_eq!(received(&fake, " 1"), ["ADDED ns/a@1  1", "", ""]);
        assert_eq!(
            received(&fake, "red 2"),
            ["DELETED ns/a@2  1", "ADDED ns/a@2 red 2", ""]
        );
        assert_eq!(received(&fake, "red 3"), ["", "MODIFIED ns/a@3 red 3", ""]);
        assert_eq!(
            received(&fake, "blue 4"),
            ["", "DELETED ns/a@4 red 3", "ADDED ns/a@4 blue 4"]
        );
    });
}

#[test]
fn a_reset_ends_each_watch_with_an_error_wherever_it_is_in_its_stream() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        fake.put("ns/a", "red 1");
        fake.put("ns/b", "red 2");
        let dispatcher = dispatcher();
        let mut current = dispatcher.watch_all(&fake, 2);
        assert_eq!(receive(&mut current).lines, [""; 0]);
        let mut initial = {
            let snapshot = fake.cacher.snapshot().unwrap();
            let from = StartPoint::Initial {
                snapshot,
                end_bookmark: None,
            };
            dispatcher.watch(fake.start(from, interest(Scope::All)))
        };
        fake.put("ns/a", "red 3");
        dispatcher.take_hints();
        let mut lagging = dispatcher.watch_all(&fake, 1);
        fake.engine.put(&key("ns/a"), "red 4");
        fake.reset();
        dispatcher.take_hints();
        for (watcher, reached) in [(&mut current, 2), (&mut initial, 2), (&mut lagging, 1)] {
            let received = receive(watcher);
            assert_eq!(received.lines, [format!("EXPIRED @{reached} 4")]);
            assert!(received.has_ended);
        }
        // A refill that follows hides nothing, and a watch from then on goes on.
        let mut late = dispatcher.watch_all(&fake, 4);
        fake.reset();
        fake.fill();
        dispatcher.take_hints();
        assert_eq!(receive(&mut late).lines, ["EXPIRED @4 4"]);
        let mut next = dispatcher.watch_all(&fake, 4);
        fake.put("ns/a", "red 5");
        dispatcher.take_hints();
        assert_eq!(receive(&mut next).lines, ["MODIFIED ns/a@5 red 5"]);
    });
}
