use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::{LogReader, Positions, Tail};
use crate::engine::{
    EngineError, Event, EventKind, Feed, FeedItem, HistoryChunk, HistoryRequest, Key, LeaseId,
    Origin, Position, Prefix, Prepared, Revision,
};

fn event(revision: u64, key: &str) -> Event {
    Event {
        revision: Revision(revision),
        key: Key::new(key),
        kind: EventKind::Put,
        value: Bytes::from_static(&[b'x'; 100]),
        create_revision: Revision(revision),
        prev_revision: Revision::ZERO,
        version: 1,
        lease: LeaseId(0),
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(revision),
        origin: Origin::default(),
        previous: None,
        prepared: Prepared::default(),
    }
}

/// A log of everything published, that counts how often it is read.
#[derive(Default)]
struct Log {
    events: Mutex<Vec<Event>>,
    reads: Mutex<usize>,
}

impl Log {
    fn publish(&self, tail: &Tail, keys: &[(u64, &str)]) {
        let events: Arc<[Event]> = keys.iter().map(|(r, key)| event(*r, key)).collect();
        self.events.lock().extend(events.iter().cloned());
        tail.publish(&events);
    }
}

impl LogReader for Log {
    fn read(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        *self.reads.lock() += 1;
        let events: Vec<Event> = self
            .events
            .lock()
            .iter()
            .filter(|event| event.revision > request.after && event.revision <= request.until)
            .filter(|event| request.prefix.covers(&event.key))
            .take(2)
            .cloned()
            .collect();
        let reached = match events.last() {
            Some(last) if events.len() == 2 => last.revision,
            _ => request.until,
        };
        async move { Ok(HistoryChunk { events, reached }) }.boxed()
    }
}

/// The revisions that a feed has ready, without waiting.
fn ready(feed: &mut dyn Feed) -> Vec<u64> {
    let mut revisions = Vec::new();
    while let Some(item) = feed.next().now_or_never() {
        if let FeedItem::Events(events) = item.unwrap() {
            revisions.extend(events.iter().map(|event| event.revision.0));
        }
    }
    revisions
}

fn pods() -> Prefix {
    Prefix::new("/registry/pods/")
}

#[test]
fn a_prefix_stands_at_its_last_event_and_the_store_at_its_own_st_70_pf_28() {
    let positions = Positions::new(Revision(4));
    let nodes = Prefix::new("/registry/minions/");
    assert_eq!(positions.of(&pods()).prefix_revision, Revision(4));
    positions.publish(&[
        event(5, "/registry/pods/a/b"),
        event(6, "/registry/podtemplates/a/b"),
    ]);
    let at = positions.of(&pods());
    assert_eq!(
        (at.revision, at.prefix_revision),
        (Revision(6), Revision(5))
    );
    assert_eq!(positions.of(&nodes).prefix_revision, Revision(6));
}

#[test]
fn a_prefix_that_cannot_be_followed_stands_where_the_store_is() {
    let positions = Positions::new(Revision(4));
    let odd = Prefix::new("/registry/po");
    positions.publish(&[event(5, "/registry/minions/a")]);
    assert_eq!(positions.of(&odd).prefix_revision, Revision(5));
}

#[test]
fn a_quiet_feed_never_reads_the_log_however_busy_the_store_is() {
    let (log, tail) = (Arc::new(Log::default()), Tail::new(Revision(0), 300));
    let mut feed = tail.open(pods(), Revision(0), Position::default(), log.clone());
    for revision in 1..50 {
        log.publish(&tail, &[(revision, "/registry/minions/a")]);
    }
    assert_eq!(ready(feed.as_mut()), [0; 0]);
    log.publish(
        &tail,
        &[(50, "/registry/minions/a"), (51, "/registry/pods/a/b")],
    );
    assert_eq!(ready(feed.as_mut()), [51]);
    assert_eq!(*log.reads.lock(), 0);
}

#[test]
fn a_feed_that_lags_reads_the_log_and_neither_misses_nor_repeats_wc_44() {
    let (log, tail) = (Arc::new(Log::default()), Tail::new(Revision(0), 1000));
    let mut feed = tail.open(pods(), Revision(0), Position::default(), log.clone());
    for revision in 1..=20 {
        log.publish(&tail, &[(revision, "/registry/pods/a/b")]);
    }
    assert!(tail.held_bytes() <= 1000);
    assert_eq!(ready(feed.as_mut()), (1..=20).collect::<Vec<_>>());
    assert!(*log.reads.lock() > 0);
    assert_eq!(tail.held_bytes(), 0);
    log.publish(&tail, &[(21, "/registry/pods/a/b")]);
    assert_eq!(ready(feed.as_mut()), [21]);
}

#[test]
fn a_feed_from_the_past_starts_in_the_log_and_goes_on_in_the_tail() {
    let (log, tail) = (Arc::new(Log::default()), Tail::new(Revision(0), 10_000));
    for revision in 1..=5 {
        log.publish(&tail, &[(revision, "/registry/pods/a/b")]);
    }
    let mut feed = tail.open(pods(), Revision(2), Position::default(), log.clone());
    log.publish(
        &tail,
        &[(6, "/registry/pods/a/b"), (7, "/registry/pods2/a")],
    );
    assert_eq!(ready(feed.as_mut()), [3, 4, 5, 6]);
}

#[test]
fn a_feed_from_the_future_delivers_nothing_up_to_its_start_wa_10() {
    let (log, tail) = (Arc::new(Log::default()), Tail::new(Revision(0), 10_000));
    let mut feed = tail.open(pods(), Revision(3), Position::default(), log.clone());
    for revision in 1..=5 {
        log.publish(&tail, &[(revision, "/registry/pods/a/b")]);
    }
    assert_eq!(ready(feed.as_mut()), [4, 5]);
}

#[test]
fn a_batch_all_of_one_feed_is_shared_not_copied() {
    let (log, tail) = (Arc::new(Log::default()), Tail::new(Revision(0), 10_000));
    let mut feed = tail.open(pods(), Revision(0), Position::default(), log);
    let events: Arc<[Event]> = vec![event(1, "/registry/pods/a/b")].into();
    tail.publish(&events);
    let Some(Ok(FeedItem::Events(got))) = feed.next().now_or_never() else {
        panic!("no events")
    };
    assert!(Arc::ptr_eq(&got, &events));
}

#[test]
fn what_nobody_waits_for_is_not_kept_and_closing_ends_feeds() {
    let (log, tail) = (Arc::new(Log::default()), Tail::new(Revision(0), 10_000));
    log.publish(&tail, &[(1, "/registry/pods/a/b")]);
    assert_eq!(tail.held_bytes(), 0);
    let mut feed = tail.open(pods(), Revision(1), Position::default(), log.clone());
    let odd = tail.open(
        Prefix::new("/registry/po"),
        Revision(1),
        Position::default(),
        log.clone(),
    );
    log.publish(&tail, &[(2, "/registry/pods/a/b")]);
    assert_eq!(ready(feed.as_mut()), [2]);
    assert!(tail.held_bytes() > 0, "the other feed still wants it");
    drop(odd);
    assert_eq!(tail.held_bytes(), 0);
    tail.close();
    assert_eq!(feed.next().now_or_never(), Some(Err(EngineError::Closed)));
}

#[test]
fn a_feed_opened_between_position_and_tail_tells_of_the_position() {
    let (log, tail) = (Arc::new(Log::default()), Tail::new(Revision(0), 10_000));
    // Published to readers and not yet to feeds, and not of the feed's prefix.
    let position = Position {
        revision: Revision(1),
        prefix_revision: Revision(1),
    };
    let mut feed = tail.open(pods(), Revision(0), position, log.clone());
    log.publish(&tail, &[(1, "/registry/minions/a")]);
    let told = feed.next().now_or_never();
    assert_eq!(told, Some(Ok(FeedItem::Progress(Revision(1)))));
    log.publish(&tail, &[(2, "/registry/pods/a/b")]);
    assert_eq!(ready(feed.as_mut()), [2]);
}
