//! Bookmarks, deadlines and drains.

use super::*;
use crate::engine::Key;
use crate::testing::{interest, receive, receive_all};

/// A watch of everything with bookmarks, for this time.
fn watch(dispatcher: &LocalDispatcher, fake: &FakeCacher, after: u64, seconds: u64) -> Watcher {
    let mut start = fake.start(StartPoint::After(Revision(after)), interest(Scope::All));
    start.bookmarks = true;
    start.deadline = Instant::now() + Duration::from_secs(seconds);
    dispatcher.watch(start)
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

/// A watch for this time that was sent the one event that there is.
fn watched(seconds: u64) -> (FakeCacher, LocalDispatcher, Watcher) {
    let fake = FakeCacher::new(RING_BYTES);
    fake.put("ns/a", "red 1");
    let dispatcher = dispatcher();
    let mut watcher = watch(&dispatcher, &fake, 0, seconds);
    assert_eq!(receive(&mut watcher).lines.len(), 1);
    (fake, dispatcher, watcher)
}

#[test]
fn a_bookmark_comes_each_minute_and_two_seconds_before_the_end_wa_42() {
    run(async {
        tokio::time::pause();
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        let mut watcher = watch(&dispatcher, &fake, 0, 100);
        fake.put("ns/a", "red 1");
        dispatcher.take_hints();
        assert_eq!(receive(&mut watcher).lines.len(), 1);
        let mut bookmarks = Vec::new();
        for second in 1..=102 {
            pass(1.0).await;
            let received = receive(&mut watcher);
            let times = received.lines.iter().map(|line| (second, line.clone()));
            bookmarks.extend(times);
            // The clock of a test advances a little more than requested.
            if second != 100 {
                assert_eq!(received.has_ended, second > 100, "at {second}");
            }
        }
        let times: Vec<i32> = bookmarks.iter().map(|(second, _)| *second).collect();
        // A tick later at most.
        assert!(
            matches!(times[..], [60 | 61, 98 | 99]),
            "bookmarks at {times:?}"
        );
        assert_eq!(bookmarks[0].1, "BOOKMARK @1");
    });
}

#[test]
fn a_watch_of_three_seconds_gets_one_after_one_second_wa_42() {
    run(async {
        tokio::time::pause();
        let (_fake, _dispatcher, mut watcher) = watched(3);
        pass(0.9).await;
        assert_eq!(receive(&mut watcher).lines, [""; 0]);
        pass(0.4).await;
        assert_eq!(receive(&mut watcher).lines, ["BOOKMARK @1"]);
        pass(1.5).await;
        assert!(!receive(&mut watcher).has_ended);
        pass(0.6).await;
        assert!(receive(&mut watcher).has_ended);
    });
}

#[test]
fn bookmarks_move_with_the_store_while_the_resource_is_idle_pf_17_ts_85() {
    run(async {
        tokio::time::pause();
        let fake = FakeCacher::new(RING_BYTES);
        fake.put("ns/a", "red 1");
        let dispatcher = dispatcher();
        let mut watcher = watch(&dispatcher, &fake, 1, 3);
        for _ in 0..41 {
            fake.engine.put(&Key::new("/registry/others/x"), "red");
        }
        pass(1.3).await;
        // The cache does not learn of writes to another resource.
        assert_eq!(receive(&mut watcher).lines, ["BOOKMARK @42"]);
    });
}

#[test]
fn a_bookmark_never_covers_what_was_not_sent_pf_17() {
    run(async {
        tokio::time::pause();
        let (fake, _dispatcher, mut watcher) = watched(3);
        // The store has the event, the cache does not have it yet.
        fake.engine.put(&crate::testing::key("ns/a"), "red 2");
        pass(1.3).await;
        assert_eq!(receive(&mut watcher).lines, ["BOOKMARK @1"]);
    });
}

#[test]
fn bookmarks_never_go_back_wa_25() {
    run(async {
        tokio::time::pause();
        let (fake, dispatcher, mut watcher) = watched(3);
        fake.engine.put(&Key::new("/registry/others/x"), "red");
        pass(1.3).await;
        assert_eq!(receive(&mut watcher).lines, ["BOOKMARK @2"]);
        // The store has the event, and the cache, which is at revision 1, does not have it yet.
        fake.engine.put(&crate::testing::key("ns/a"), "red 3");
        dispatcher.drain();
        let received = receive(&mut watcher);
        assert_eq!((received.lines.len(), received.has_ended), (0, true));
    });
}

#[test]
fn a_bookmark_due_while_the_cache_was_refilled_is_not_sent_pf_17_wa_37() {
    run(async {
        tokio::time::pause();
        let (fake, _dispatcher, mut watcher) = watched(3);
        pass(1.3).await;
        fake.engine.put(&crate::testing::key("ns/a"), "red 2");
        fake.fill();
        let received = receive(&mut watcher);
        assert_eq!((received.lines.len(), received.has_ended), (0, true));
    });
}

#[test]
fn who_is_ended_by_a_refill_stays_so_when_its_deadline_comes_wa_37() {
    run(async {
        tokio::time::pause();
        let (fake, dispatcher, mut slow) = watched(3);
        fake.engine.put(&crate::testing::key("ns/a"), "red 2");
        fake.fill();
        pass(3.5).await;
        // A bookmark would hide the gap.
        fake.put("ns/a", "red 3");
        dispatcher.take_hints();
        let received = receive(&mut slow);
        assert_eq!((received.lines.len(), received.has_ended), (0, true));
    });
}

#[test]
fn a_lagging_watcher_gets_its_events_before_its_bookmark_wa_25() {
    run(async {
        tokio::time::pause();
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        let mut watcher = watch(&dispatcher, &fake, 0, 3);
        fake.put("ns/a", "red 1");
        dispatcher.take_hints();
        pass(1.3).await;
        // Came after the bookmark was due, and before it is taken.
        fake.put("ns/a", "red 2");
        assert_eq!(
            receive(&mut watcher).lines,
            ["ADDED ns/a@1 red 1", "MODIFIED ns/a@2 red 2", "BOOKMARK @2"]
        );
    });
}

#[test]
fn nothing_up_to_the_start_is_bookmarked_wa_44() {
    run(async {
        tokio::time::pause();
        let fake = FakeCacher::new(RING_BYTES);
        fake.put("ns/a", "red 1");
        let dispatcher = dispatcher();
        let mut present = watch(&dispatcher, &fake, 1, 3);
        let mut future = watch(&dispatcher, &fake, 9, 3);
        pass(1.3).await;
        assert_eq!(receive(&mut present).lines, [""; 0]);
        assert_eq!(receive(&mut future).lines, [""; 0]);
    });
}

#[test]
fn who_did_not_ask_gets_none_and_ends_at_the_deadline_all_the_same_wa_2_wa_40() {
    run(async {
        tokio::time::pause();
        let fake = FakeCacher::new(RING_BYTES);
        fake.put("ns/a", "red 1");
        let dispatcher = dispatcher();
        let mut start = fake.start(StartPoint::After(Revision(0)), interest(Scope::All));
        start.deadline = Instant::now() + Duration::from_secs(3);
        let mut watcher = dispatcher.watch(start);
        assert_eq!(receive(&mut watcher).lines.len(), 1);
        pass(2.9).await;
        let received = receive(&mut watcher);
        assert_eq!((received.lines.len(), received.has_ended), (0, false));
        pass(0.4).await;
        assert!(receive(&mut watcher).has_ended);
    });
}

#[test]
fn a_drain_ends_streams_with_a_last_bookmark_after_what_they_still_have_to_get() {
    run(async {
        let (fake, dispatcher, mut current) = watched(300);
        let mut lagging = watch(&dispatcher, &fake, 0, 300);
        let mut plain = dispatcher.watch_all(&fake, 1);
        dispatcher.drain();
        let received = receive(&mut current);
        assert_eq!(received.lines, ["BOOKMARK @1"]);
        assert!(received.has_ended);
        let received = receive(&mut lagging);
        assert_eq!(received.lines, ["ADDED ns/a@1 red 1", "BOOKMARK @1"]);
        assert!(received.has_ended);
        let received = receive(&mut plain);
        assert_eq!((received.lines.len(), received.has_ended), (0, true));
        assert!(receive(&mut dispatcher.watch_all(&fake, 0)).has_ended);
    });
}

/// A ring with room for a handful of events.
const SMALL_RING: usize = 3_000;

/// A watch of a missing object, from before the ring, for this time.
fn watch_for_nothing(dispatcher: &LocalDispatcher, fake: &FakeCacher, seconds: u64) -> Watcher {
    for number in 1..=100 {
        fake.put("ns/a", &format!("red {number}"));
    }
    assert!(fake.cacher.ring_floor() > Revision(50));
    let interest = selecting(Scope::All, "blue");
    let mut start = fake.start(StartPoint::After(Revision(3)), interest);
    start.bookmarks = true;
    start.deadline = Instant::now() + Duration::from_secs(seconds);
    dispatcher.watch(start)
}

#[test]
fn who_found_nothing_in_history_is_told_how_far_it_looked_wa_44() {
    run(async {
        tokio::time::pause();
        let fake = FakeCacher::new(SMALL_RING);
        let dispatcher = dispatcher();
        let mut watcher = watch_for_nothing(&dispatcher, &fake, 3);
        assert_eq!(receive_all(&mut watcher).await.lines, [""; 0]);
        pass(1.3).await;
        assert_eq!(receive_all(&mut watcher).await.lines, ["BOOKMARK @100"]);
    });
}

#[test]
fn a_bookmark_does_not_wait_for_the_end_of_history() {
    run(async {
        tokio::time::pause();
        let fake = FakeCacher::new(SMALL_RING);
        let config = DispatcherConfig {
            history_chunk_bytes: 50,
            ..DispatcherConfig::default()
        };
        let dispatcher = LocalDispatcher::start(config, 0);
        let mut watcher = watch_for_nothing(&dispatcher, &fake, 3);
        // Some chunks, not all.
        for _ in 0..5 {
            assert_eq!(receive(&mut watcher).lines, [""; 0]);
            tokio::task::yield_now().await;
        }
        pass(1.3).await;
        let lines = receive_all(&mut watcher).await.lines;
        let [bookmark] = &lines[..] else {
            panic!("{lines:?}");
        };
        let revision = bookmark.strip_prefix("BOOKMARK @");
        let revision: u64 = revision.unwrap().parse().unwrap();
        assert!((4..100).contains(&revision), "{bookmark}");
    });
}

#[test]
fn watches_that_came_and_went_are_forgotten_long_before_their_deadline() {
    run(async {
        tokio::time::pause();
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        for _ in 0..100 {
            let mut start = fake.start(StartPoint::After(Revision(0)), interest(Scope::All));
            start.deadline = Instant::now() + Duration::from_secs(315_360_000);
            drop(dispatcher.watch(start));
        }
        assert_eq!(dispatcher.thread_dispatcher.scheduled(), 100);
        pass(61.0).await;
        assert_eq!(dispatcher.thread_dispatcher.scheduled(), 0);
    });
}

#[test]
fn a_watch_without_bookmarks_ends_at_a_deadline_far_away_wa_2() {
    run(async {
        tokio::time::pause();
        let fake = FakeCacher::new(RING_BYTES);
        let dispatcher = dispatcher();
        let mut start = fake.start(StartPoint::After(Revision(0)), interest(Scope::All));
        start.deadline = Instant::now() + Duration::from_secs(200);
        let mut watcher = dispatcher.watch(start);
        for _ in 0..199 {
            pass(1.0).await;
            let received = receive(&mut watcher);
            assert!(received.lines.is_empty() && !received.has_ended);
        }
        pass(1.5).await;
        assert!(receive(&mut watcher).has_ended);
    });
}
