//! Watchers that lag, quiet ones beside a busy ring, and the way from history into the ring.

use super::*;
use crate::engine::EngineError;
use crate::testing::{Heard, OneLiners, hear, hear_all, interest, key};

/// Room for a handful of events.
const SMALL_RING: usize = 3_000;

fn put_many(stage: &Stage, name: &str, from: u64, to: u64) {
    for number in from..=to {
        stage.put(name, &format!("red {number}"));
    }
}

/// A resource whose cache was filled after so many updates of one object.
fn filled_after(updates: u64, ring_bytes: usize) -> Stage {
    let stage = Stage::unfilled(ring_bytes);
    for number in 1..=updates {
        stage.engine.put(&key("ns/a"), &format!("red {number}"));
    }
    stage.fill();
    stage
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
        let stage = Stage::new(SMALL_RING);
        put_many(&stage, "ns/a", 1, 100);
        assert!(stage.cacher.ring_floor() > Revision(50));
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&stage, 3);
        assert_eq!(hear_all(&mut watcher).await.lines, lines("ns/a", 4, 100));
        put_many(&stage, "ns/a", 101, 102);
        dispatcher.take_hints();
        assert_eq!(hear_all(&mut watcher).await.lines, lines("ns/a", 101, 102));
    });
}

#[test]
fn what_happened_before_a_fill_is_read_once_for_all_who_resume_there() {
    run(async {
        // More than goes into the ring at once.
        let stage = filled_after(1_000, RING_BYTES);
        assert_eq!(stage.cacher.ring_floor(), Revision(1_000));
        let dispatcher = dispatcher();
        let engine = stage.engine.clone();
        let mut watchers = Vec::new();
        for after in [7, 12, 7, 1_000, 900, 3, 5].repeat(20) {
            let revision = Revision(after);
            stage.cacher.backfill(&*engine, &OneLiners, revision).await;
            watchers.push((after, dispatcher.watch_all(&stage, after)));
        }
        for (after, watcher) in &mut watchers {
            assert_eq!(
                hear_all(watcher).await.lines,
                lines("ns/a", *after + 1, 1_000)
            );
        }
        // Once back to 7, and once more from there to 3.
        assert_eq!(stage.engine.history_reads(), 2);
        put_many(&stage, "ns/a", 1_001, 1_002);
        dispatcher.take_hints();
        for (_, watcher) in &mut watchers {
            assert_eq!(hear(watcher).lines, lines("ns/a", 1_001, 1_002));
        }
    });
}

#[test]
fn history_that_does_not_fit_the_ring_is_left_to_who_wants_it() {
    run(async {
        let stage = filled_after(200, SMALL_RING);
        let engine = stage.engine.clone();
        for after in [0, 100] {
            let revision = Revision(after);
            stage.cacher.backfill(&*engine, &OneLiners, revision).await;
        }
        assert_eq!(stage.cacher.ring_floor(), Revision(200));
        let read = stage.engine.history_reads();
        let revision = Revision(100);
        stage.cacher.backfill(&*engine, &OneLiners, revision).await;
        assert_eq!(stage.engine.history_reads(), read, "it is known by now");
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&stage, 100);
        assert_eq!(hear_all(&mut watcher).await.lines, lines("ns/a", 101, 200));
    });
}

#[test]
fn events_that_come_while_history_is_read_are_not_missed() {
    run(async {
        let stage = Stage::new(SMALL_RING);
        put_many(&stage, "ns/a", 1, 50);
        let config = DispatcherConfig {
            history_chunk_bytes: 50,
            ..DispatcherConfig::default()
        };
        let dispatcher = LocalDispatcher::start(config, 0);
        let mut watcher = dispatcher.watch_all(&stage, 0);
        let mut heard = Vec::new();
        for number in 51..=150 {
            heard.extend(hear(&mut watcher).lines);
            stage.put("ns/a", &format!("red {number}"));
            tokio::task::yield_now().await;
        }
        dispatcher.take_hints();
        heard.extend(hear_all(&mut watcher).await.lines);
        assert_eq!(heard, lines("ns/a", 1, 150));
    });
}

#[test]
fn a_slow_watcher_costs_the_fast_one_nothing_and_goes_on_from_history_pf_14() {
    run(async {
        let stage = Stage::new(SMALL_RING);
        let dispatcher = dispatcher();
        let mut slow = dispatcher.watch_all(&stage, 0);
        let mut fast = dispatcher.watch_all(&stage, 0);
        for number in 1..=200 {
            stage.put("ns/a", &format!("red {number}"));
            dispatcher.take_hints();
            assert_eq!(hear(&mut fast).lines, lines("ns/a", number, number));
            if number % 50 == 0 {
                // As time does: what a slow member left in the group's log goes.
                dispatcher.hall.age_logs();
            }
        }
        assert_eq!(stage.engine.history_reads(), 0);
        assert_eq!(hear_all(&mut slow).await.lines, lines("ns/a", 1, 200));
        assert!(stage.engine.history_reads() > 0);
        stage.put("ns/a", "red 201");
        dispatcher.take_hints();
        for watcher in [&mut slow, &mut fast] {
            assert_eq!(hear(watcher).lines, lines("ns/a", 201, 201));
        }
    });
}

#[test]
fn a_quiet_watcher_beside_a_ring_that_wraps_reads_no_history_and_is_not_ended() {
    run(async {
        let stage = Stage::new(SMALL_RING);
        let dispatcher = dispatcher();
        let quiet_one = interest(Scope::Object(key("ns/quiet")));
        let mut quiet = dispatcher.watch_where(&stage, 0, quiet_one);
        // No hint is taken all the while: nothing of this concerns the thread.
        put_many(&stage, "ns/busy", 1, 500);
        assert_eq!(dispatcher.hall.link.take_due(), [0; 0]);
        stage.put("ns/quiet", "red 501");
        dispatcher.take_hints();
        assert_eq!(hear(&mut quiet).lines, ["ADDED ns/quiet@501 red 501"]);
        assert_eq!(stage.engine.history_reads(), 0);
    });
}

#[test]
fn a_thread_that_sleeps_while_the_ring_wraps_goes_on_from_history() {
    run(async {
        let stage = Stage::new(SMALL_RING);
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&stage, 0);
        put_many(&stage, "ns/a", 1, 1);
        dispatcher.take_hints();
        assert_eq!(hear(&mut watcher).lines.len(), 1);
        put_many(&stage, "ns/a", 2, 300);
        dispatcher.take_hints();
        assert_eq!(hear_all(&mut watcher).await.lines, lines("ns/a", 2, 300));
    });
}

#[test]
fn a_watch_whose_history_is_compacted_ends_silently_wa_37() {
    run(async {
        let stage = Stage::new(SMALL_RING);
        put_many(&stage, "ns/a", 1, 100);
        stage.engine.compact_now(Revision(50));
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&stage, 3);
        let end = Heard {
            lines: Vec::new(),
            has_ended: true,
        };
        assert_eq!(hear_all(&mut watcher).await, end);
        // From the compacted revision itself everything is still there.
        let mut watcher = dispatcher.watch_all(&stage, 50);
        assert_eq!(hear_all(&mut watcher).await.lines, lines("ns/a", 51, 100));
    });
}

#[test]
fn history_that_cannot_be_read_for_a_moment_is_read_later() {
    run(async {
        tokio::time::pause();
        let stage = Stage::new(SMALL_RING);
        put_many(&stage, "ns/a", 1, 100);
        let down = EngineError::Unavailable("reopening".to_owned());
        stage.engine.set_down(Some(down));
        let dispatcher = dispatcher();
        let mut watcher = dispatcher.watch_all(&stage, 3);
        assert_eq!(hear_all(&mut watcher).await.lines, [""; 0]);
        stage.engine.set_down(None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(hear_all(&mut watcher).await.lines, lines("ns/a", 4, 100));
    });
}

#[test]
fn history_is_crowded_while_too_many_watches_are_behind_the_ring() {
    run(async {
        let stage = Stage::new(SMALL_RING);
        put_many(&stage, "ns/a", 1, 100);
        let config = DispatcherConfig {
            history: HistoryPool::new(1, 2),
            ..DispatcherConfig::default()
        };
        let dispatcher = LocalDispatcher::start(config, 0);
        assert!(!dispatcher.is_history_crowded());
        let mut first = dispatcher.watch_all(&stage, 3);
        let second = dispatcher.watch_all(&stage, 3);
        assert!(dispatcher.is_history_crowded());
        // Whoever has fallen behind is served all the same.
        let mut third = dispatcher.watch_all(&stage, 3);
        assert_eq!(hear_all(&mut third).await.lines, lines("ns/a", 4, 100));
        assert_eq!(hear_all(&mut first).await.lines, lines("ns/a", 4, 100));
        assert!(!dispatcher.is_history_crowded(), "two have arrived");
        drop(second);
    });
}
