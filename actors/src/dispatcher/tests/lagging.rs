//! Watchers that lag, quiet watchers of a busy ring, and the change from history to the ring.

use super::*;
use crate::engine::EngineError;
use crate::testing::{OneLiners, Received, interest, key, receive, receive_all};

/// Room for a handful of events.
const SMALL_RING: usize = 3_000;

fn put_many(fake: &FakeCacher, name: &str, from: u64, to: u64) {
    for number in from..=to {
        fake.put(name, &format!("red {number}"));
    }
}

/// A resource whose cache was filled after so many updates of one object.
fn filled_after(updates: u64, ring_bytes: usize) -> FakeCacher {
    let fake = FakeCacher::unfilled(ring_bytes);
    for number in 1..=updates {
        fake.engine.put(&key("ns/a"), &format!("red {number}"));
    }
    fake.fill();
    fake
}

/// The lines of updates of one object whose values are their revisions.
fn lines(name: &str, from: u64, to: u64) -> Vec<String> {
    let line = |number| match number {
        1 => format!("ADDED {name}@1 red 1"),
        number => format!("MODIFIED {name}@{number} red {number}"),
    };
    (from..=to).map(line).collect()
}

#[test]
fn a_watch_older_than_the_ring_reads_history_and_goes_over_without_gap_or_repeat() {
    run(async {
        let fake = FakeCacher::new(SMALL_RING);
        put_many(&fake, "ns/a", 1, 100);
        assert!(fake.cacher.ring_floor() > Revision(50));
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&fake, 3);
        assert_eq!(receive_all(&mut watcher).await.lines, lines("ns/a", 4, 100));
        put_many(&fake, "ns/a", 101, 102);
        dispatcher.take_hints();
        assert_eq!(
            receive_all(&mut watcher).await.lines,
            lines("ns/a", 101, 102)
        );
    });
}

#[test]
fn what_happened_before_a_fill_is_read_once_for_all_who_resume_there() {
    run(async {
        // More events than the ring takes at once.
        let fake = filled_after(1_000, RING_BYTES);
        assert_eq!(fake.cacher.ring_floor(), Revision(1_000));
        let dispatcher = dispatcher();
        let engine = fake.engine.clone();
        let mut watchers = Vec::new();
        for after in [7, 12, 7, 1_000, 900, 3, 5].repeat(20) {
            let revision = Revision(after);
            fake.cacher.backfill(&*engine, &OneLiners, revision).await;
            watchers.push((after, dispatcher.watch_all(&fake, after)));
        }
        for (after, watcher) in &mut watchers {
            assert_eq!(
                receive_all(watcher).await.lines,
                lines("ns/a", *after + 1, 1_000)
            );
        }
        // Once back to 7, and once more from there to 3.
        assert_eq!(fake.engine.history_reads(), 2);
        put_many(&fake, "ns/a", 1_001, 1_002);
        dispatcher.take_hints();
        for (_, watcher) in &mut watchers {
            assert_eq!(receive(watcher).lines, lines("ns/a", 1_001, 1_002));
        }
    });
}

#[test]
fn history_that_does_not_fit_the_ring_is_left_to_who_wants_it() {
    run(async {
        let fake = filled_after(200, SMALL_RING);
        let engine = fake.engine.clone();
        for after in [0, 100] {
            let revision = Revision(after);
            fake.cacher.backfill(&*engine, &OneLiners, revision).await;
        }
        assert_eq!(fake.cacher.ring_floor(), Revision(200));
        let read = fake.engine.history_reads();
        let revision = Revision(100);
        fake.cacher.backfill(&*engine, &OneLiners, revision).await;
        assert_eq!(fake.engine.history_reads(), read, "it is known by now");
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&fake, 100);
        assert_eq!(
            receive_all(&mut watcher).await.lines,
            lines("ns/a", 101, 200)
        );
    });
}

#[test]
fn events_that_come_while_history_is_read_are_not_missed() {
    run(async {
        let fake = FakeCacher::new(SMALL_RING);
        put_many(&fake, "ns/a", 1, 50);
        let config = DispatcherConfig {
            history_chunk_bytes: 50,
            ..DispatcherConfig::default()
        };
        let dispatcher = LocalDispatcher::start(config, 0);
        let mut watcher = dispatcher.watch_all(&fake, 0);
        let mut received = Vec::new();
        for number in 51..=150 {
            received.extend(receive(&mut watcher).lines);
            fake.put("ns/a", &format!("red {number}"));
            tokio::task::yield_now().await;
        }
        dispatcher.take_hints();
        received.extend(receive_all(&mut watcher).await.lines);
        assert_eq!(received, lines("ns/a", 1, 150));
    });
}

#[test]
fn a_slow_watcher_costs_the_fast_one_nothing_and_goes_on_from_history_pf_14() {
    run(async {
        let fake = FakeCacher::new(SMALL_RING);
        let dispatcher = dispatcher();
        let mut slow = dispatcher.watch_all(&fake, 0);
        let mut fast = dispatcher.watch_all(&fake, 0);
        for number in 1..=200 {
            fake.put("ns/a", &format!("red {number}"));
            dispatcher.take_hints();
            assert_eq!(receive(&mut fast).lines, lines("ns/a", number, number));
            if number % 50 == 0 {
                // As the timer does: entries that a slow member has left in the log are dropped.
                dispatcher.thread_dispatcher.age_logs();
            }
        }
        assert_eq!(fake.engine.history_reads(), 0);
        assert_eq!(receive_all(&mut slow).await.lines, lines("ns/a", 1, 200));
        assert!(fake.engine.history_reads() > 0);
        fake.put("ns/a", "red 201");
        dispatcher.take_hints();
        for watcher in [&mut slow, &mut fast] {
            assert_eq!(receive(watcher).lines, lines("ns/a", 201, 201));
        }
    });
}

#[test]
fn a_quiet_watcher_beside_a_ring_that_wraps_reads_no_history_and_is_not_ended() {
    run(async {
        let fake = FakeCacher::new(SMALL_RING);
        let dispatcher = dispatcher();
        let quiet_one = interest(Scope::Object(key("ns/quiet")));
        let mut quiet = dispatcher.watch_where(&fake, 0, quiet_one);
        // No hint is taken meanwhile, because no event concerns the thread.
        put_many(&fake, "ns/busy", 1, 500);
        assert_eq!(dispatcher.thread_dispatcher.hint_sender.take_due(), [0; 0]);
        fake.put("ns/quiet", "red 501");
        dispatcher.take_hints();
        assert_eq!(receive(&mut quiet).lines, ["ADDED ns/quiet@501 red 501"]);
        assert_eq!(fake.engine.history_reads(), 0);
    });
}

#[test]
fn a_thread_that_sleeps_while_the_ring_wraps_goes_on_from_history() {
    run(async {
        let fake = FakeCacher::new(SMALL_RING);
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&fake, 0);
        put_many(&fake, "ns/a", 1, 1);
        dispatcher.take_hints();
        assert_eq!(receive(&mut watcher).lines.len(), 1);
        put_many(&fake, "ns/a", 2, 300);
        dispatcher.take_hints();
        assert_eq!(receive_all(&mut watcher).await.lines, lines("ns/a", 2, 300));
    });
}

#[test]
fn a_watch_whose_history_is_compacted_ends_silently_wa_37() {
    run(async {
        let fake = FakeCacher::new(SMALL_RING);
        put_many(&fake, "ns/a", 1, 100);
        fake.engine.compact_now(Revision(50));
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&fake, 3);
        let end = Received {
            lines: Vec::new(),
            has_ended: true,
        };
        assert_eq!(receive_all(&mut watcher).await, end);
        // From the compacted revision itself everything is still there.
        let mut watcher = dispatcher.watch_all(&fake, 50);
        assert_eq!(
            receive_all(&mut watcher).await.lines,
            lines("ns/a", 51, 100)
        );
    });
}

#[test]
fn history_that_cannot_be_read_for_a_moment_is_read_later() {
    run(async {
        tokio::time::pause();
        let fake = FakeCacher::new(SMALL_RING);
        put_many(&fake, "ns/a", 1, 100);
        let down = EngineError::Unavailable("reopening".to_owned());
        fake.engine.set_down(Some(down));
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&fake, 3);
        assert_eq!(receive_all(&mut watcher).await.lines, [""; 0]);
        fake.engine.set_down(None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(receive_all(&mut watcher).await.lines, lines("ns/a", 4, 100));
    });
}

#[test]
fn many_watches_behind_the_ring_wait_for_their_reads_and_none_is_refused() {
    run(async {
        let fake = FakeCacher::new(SMALL_RING);
        put_many(&fake, "ns/a", 1, 100);
        let config = DispatcherConfig {
            history: HistoryPool::new(1),
            ..DispatcherConfig::default()
        };
        let dispatcher = LocalDispatcher::start(config, 0);
        let mut watchers: Vec<_> = (0..600).map(|_| dispatcher.watch_all(&fake, 3)).collect();
        // The first one reads, the others wait. A watch that ends releases its place in the queue.
        for watcher in &mut watchers[..3] {
            assert_eq!(receive(watcher).lines, [""; 0]);
        }
        tokio::task::yield_now().await;
        drop(watchers.drain(..2));
        for watcher in &mut watchers {
            assert_eq!(receive_all(watcher).await.lines, lines("ns/a", 4, 100));
        }
    });
}
