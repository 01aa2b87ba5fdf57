//! Feeds over etcd share streams: none of them notices the others.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{
    DataEngine, EngineError, Event, Expect, Feed, FeedItem, FeedProgress, Health, Key, Outcome,
    Prefix, Revision,
};
use etcd_client::{Client, CompactionOptions};
use taffrail::storage::etcd::{EtcdEngine, EtcdOptions};
use tokio::time::timeout;

use crate::servers::etcd::{self, Cluster};
use crate::servers::proxy::Proxy;
use crate::subjects::{mutation, put, take};

pub const WITHIN: Duration = Duration::from_secs(20);

/// Makes a test of each check over each version of etcd.
macro_rules! over_each_version {
    ($($check:ident),* $(,)?) => {
        mod etcd_3_4 {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                $crate::shared_watches::over("3.4", super::$check).await;
            })*
        }
        mod etcd_3_5 {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                $crate::shared_watches::over("3.5", super::$check).await;
            })*
        }
    };
}

/// Makes a test of each check over our own program in the place of etcd.
macro_rules! over_ours {
    ($($check:ident),* $(,)?) => {
        mod our_etcd {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                super::$check($crate::servers::etcd::OURS).await;
            })*
        }
    };
}

pub(crate) use {over_each_version, over_ours};

over_each_version! {
    many_feeds_take_few_streams_which_go_with_them,
    a_feed_that_nobody_reads_holds_up_no_other,
    a_feed_that_is_compacted_ends_alone,
    feeds_whose_stream_breaks_go_on_without_gap_or_repeat,
    progress_reaches_the_feed_that_asks,
    feeds_that_come_and_go_leave_the_others_alone,
    feeds_move_to_another_member,
    an_overrun_feed_ends_with_its_epoch,
    a_feed_that_cannot_move_keeps_its_end,
}

// It is always the only member, so no feed moves to another one.
over_ours! {
    many_feeds_take_few_streams_which_go_with_them,
    a_feed_that_nobody_reads_holds_up_no_other,
    a_feed_that_is_compacted_ends_alone,
    feeds_whose_stream_breaks_go_on_without_gap_or_repeat,
    progress_reaches_the_feed_that_asks,
    feeds_that_come_and_go_leave_the_others_alone,
    an_overrun_feed_ends_with_its_epoch,
    a_feed_that_cannot_move_keeps_its_end,
}

pub async fn over(version: &'static str, check: impl AsyncFnOnce(&'static str)) {
    if etcd::find(version).is_some() {
        check(version).await;
    }
}

pub async fn cluster(version: &'static str, members: usize) -> Cluster {
    let started = tokio::task::spawn_blocking(move || Cluster::start(version, members, &[]));
    started.await.unwrap()
}

pub async fn engine(urls: Vec<String>, version: &str) -> Arc<EtcdEngine> {
    let engine = EtcdEngine::open(EtcdOptions::new(urls)).unwrap();
    let progress = match version {
        "3.4" => FeedProgress::Seldom,
        _ => FeedProgress::OnRequest,
    };
    let knows = async {
        while engine.health() != Health::Serving || engine.feed_progress() != progress {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WITHIN, knows).await.unwrap();
    engine
}

pub fn prefix(number: usize) -> Prefix {
    Prefix::new(format!("/registry/r{number:03}/"))
}

pub async fn write(engine: &EtcdEngine, number: usize, name: &str, value: &str) -> Revision {
    let key = Key::new(format!("/registry/r{number:03}/{name}"));
    let commit = engine.commit(mutation(key, Expect::Absent, put(value)));
    match timeout(WITHIN, commit).await.unwrap().unwrap() {
        Outcome::Committed(event) => event.revision,
        Outcome::Refused { .. } => panic!("{name} is there already"),
    }
}

pub async fn now(engine: &EtcdEngine) -> Revision {
    engine.current(&prefix(0)).await.unwrap().revision
}

pub async fn feeds(engine: &EtcdEngine, numbers: std::ops::Range<usize>) -> Vec<Box<dyn Feed>> {
    let after = now(engine).await;
    let opening = numbers.map(|number| engine.feed(prefix(number), after));
    let opened = futures_util::future::try_join_all(opening).await;
    opened.unwrap()
}

/// The streams of watches that etcd has, and their watches.
pub async fn streams(cluster: &Cluster) -> (usize, usize) {
    let number = |name: &str| {
        let value = cluster.members[0].metric(&format!("etcd_debugging_mvcc_{name} "));
        value.parse::<f64>().unwrap() as usize
    };
    tokio::task::block_in_place(|| (number("watch_stream_total"), number("watcher_total")))
}

pub async fn until(cluster: &Cluster, wanted: impl Fn((usize, usize)) -> bool) {
    let mut last = (0, 0);
    let waiting = async {
        loop {
            last = streams(cluster).await;
            if wanted(last) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let reached = timeout(WITHIN, waiting).await.is_ok();
    assert!(reached, "{last:?}");
}

async fn many_feeds_take_few_streams_which_go_with_them(version: &'static str) {
    let cluster = cluster(version, 1).await;
    let engine = engine(cluster.urls(), version).await;
    // The engine follows compactions with a watch of its own.
    until(&cluster, |(streams, watches)| (streams, watches) == (1, 1)).await;
    let mut all = feeds(&engine, 0..200).await;
    until(&cluster, |(streams, watches)| {
        streams <= 8 && watches == 201
    })
    .await;
    for (number, feed) in all.iter_mut().enumerate() {
        let revision = write(&engine, number, "a", "x").await;
        let events = take(feed.as_mut(), 1).await;
        assert_eq!(events[0].revision, revision, "{number}");
    }
    all.truncate(1);
    until(&cluster, |(streams, watches)| streams == 2 && watches == 2).await;
    drop(all);
    until(&cluster, |(streams, watches)| (streams, watches) == (1, 1)).await;
}

async fn a_feed_that_nobody_reads_holds_up_no_other(version: &'static str) {
    const COUNT: usize = 40;
    let cluster = cluster(version, 1).await;
    let engine = engine(cluster.urls(), version).await;
    let mut both = feeds(&engine, 0..2).await;
    let value = "x".repeat(512 << 10);
    for number in 0..COUNT {
        let name = format!("n{number:03}");
        write(&engine, 0, &name, &value).await;
        write(&engine, 1, &name, "x").await;
        let read = timeout(Duration::from_secs(5), take(both[1].as_mut(), 1));
        assert_eq!(read.await.unwrap().len(), 1);
    }
    // It was cancelled, and its reader goes on with a stream of its own.
    let names = |events: Vec<Event>| -> Vec<String> {
        let keys = events.iter().map(|event| event.key.to_text().into_owned());
        keys.collect()
    };
    let seen = names(take(both[0].as_mut(), COUNT).await);
    let expected = (0..COUNT).map(|number| format!("/registry/r000/n{number:03}"));
    assert_eq!(seen, expected.collect::<Vec<_>>());
    for number in [0, 1] {
        write(&engine, number, "last", "x").await;
        assert_eq!(take(both[number].as_mut(), 1).await.len(), 1);
    }
}

async fn a_feed_that_is_compacted_ends_alone(version: &'static str) {
    let cluster = cluster(version, 1).await;
    let engine = engine(cluster.urls(), version).await;
    let begin = now(&engine).await;
    let mut others = feeds(&engine, 1..4).await;
    for (number, feed) in others.iter_mut().enumerate() {
        // They have caught up once they have this one, so they need no older events.
        write(&engine, number + 1, "first", "x").await;
        assert_eq!(take(feed.as_mut(), 1).await.len(), 1);
    }
    for number in 0..20 {
        write(&engine, 0, &number.to_string(), "x").await;
    }
    // Another client compacts, which the engine does not learn.
    let mut client = Client::connect(cluster.urls(), None).await.unwrap();
    let compacted = now(&engine).await;
    let options = CompactionOptions::new().with_physical();
    let up_to = i64::try_from(compacted.0).unwrap();
    client.compact(up_to, Some(options)).await.unwrap();
    let mut late = engine.feed(prefix(0), begin.next()).await.unwrap();
    let ended = timeout(WITHIN, late.next()).await.unwrap();
    assert!(
        matches!(ended, Err(EngineError::Compacted { compacted: at, .. }) if at == compacted),
        "{ended:?}"
    );
    for (number, feed) in others.iter_mut().enumerate() {
        write(&engine, number + 1, "a", "x").await;
        assert_eq!(take(feed.as_mut(), 1).await.len(), 1);
    }
    // etcd has forgotten it too, although its reader has not gone away.
    until(&cluster, |(streams, watches)| (streams, watches) == (2, 4)).await;
    if version == "3.4" {
        return;
    }
    let revision = write(&engine, 0, "last", "x").await;
    for (number, feed) in others.iter_mut().enumerate() {
        reaches(&engine, feed.as_mut(), number + 1, revision).await;
    }
    drop(late);
}

async fn feeds_whose_stream_breaks_go_on_without_gap_or_repeat(version: &'static str) {
    const FEEDS: usize = 50;
    const EVENTS: usize = 12;
    let cluster = cluster(version, 1).await;
    let proxy = Proxy::to(cluster.members[0].address()).await;
    let cut_off = engine(vec![format!("http://{}", proxy.address)], version).await;
    let straight = engine(cluster.urls(), version).await;
    let begin = now(&straight).await;
    let readers = (0..FEEDS).map(|number| {
        let engine = Arc::clone(&cut_off);
        tokio::spawn(async move {
            let (mut seen, mut last, mut breaks) = (Vec::new(), begin, 0);
            while seen.len() < EVENTS {
                let Ok(mut feed) = engine.feed(prefix(number), last).await else {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                };
                while seen.len() < EVENTS {
                    match feed.next().await {
                        Ok(FeedItem::Events(events)) => {
                            last = events.last().unwrap().revision;
                            seen.extend(events.iter().map(|event| event.key.clone()));
                        }
                        Ok(reset @ FeedItem::Reset { .. }) => panic!("{reset:?}"),
                        Ok(FeedItem::Progress(revision)) => last = last.max(revision),
                        Err(EngineError::Unavailable(_)) => {
                            breaks += 1;
                            break;
                        }
                        Err(other) => panic!("{number}: {other}"),
                    }
                }
            }
            (seen, breaks)
        })
    });
    let readers: Vec<_> = readers.collect();
    for event in 0..EVENTS {
        for number in 0..FEEDS {
            write(&straight, number, &format!("n{event:03}"), "x").await;
        }
        if event % 3 == 1 {
            proxy.cut();
        }
    }
    let mut breaks = 0;
    for (number, reader) in readers.into_iter().enumerate() {
        let (seen, broke) = timeout(WITHIN, reader).await.unwrap().unwrap();
        let key = |event| Key::new(format!("/registry/r{number:03}/n{event:03}"));
        let expected: Vec<Key> = (0..EVENTS).map(key).collect();
        assert_eq!(seen, expected, "{number}");
        breaks += broke;
    }
    assert!(breaks > FEEDS, "{breaks} breaks");
}

/// Whether a feed reports a revision in time, after a request.
pub async fn reaches(engine: &EtcdEngine, feed: &mut dyn Feed, number: usize, up_to: Revision) {
    let waiting = async {
        loop {
            engine.request_progress(&prefix(number), up_to);
            let next = timeout(Duration::from_secs(2), feed.next()).await;
            let item = next.expect("an answer").unwrap();
            if matches!(item, FeedItem::Progress(revision) if revision >= up_to) {
                return;
            }
        }
    };
    timeout(WITHIN, waiting).await.unwrap();
}

async fn progress_reaches_the_feed_that_asks(version: &'static str) {
    // The other one does not report progress on request (ST-72).
    if version == "3.4" {
        return;
    }
    let cluster = cluster(version, 1).await;
    let engine = engine(cluster.urls(), version).await;
    let mut all = feeds(&engine, 0..20).await;
    for round in 0..10 {
        let revision = write(&engine, 0, &format!("n{round}"), "x").await;
        reaches(&engine, all[5].as_mut(), 5, revision).await;
    }
    // A feed that begins at the newest revision of an idle store does not hold it up, nor does one
    // that begins earlier.
    let revision = write(&engine, 0, "last", "x").await;
    let late = engine.feed(prefix(30), revision).await.unwrap();
    reaches(&engine, all[6].as_mut(), 6, revision).await;
    let before = Revision(revision.0 - 5);
    let mut early = engine.feed(prefix(31), before).await.unwrap();
    reaches(&engine, early.as_mut(), 31, revision).await;
    reaches(&engine, all[7].as_mut(), 7, revision).await;
    drop(late);
}

async fn feeds_that_come_and_go_leave_the_others_alone(version: &'static str) {
    let cluster = cluster(version, 1).await;
    let engine = engine(cluster.urls(), version).await;
    let mut kept = feeds(&engine, 0..1).await;
    let churn = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move {
            for round in 0..30 {
                let mut all = feeds(&engine, 1..40).await;
                // Some go before they have read anything, and some openings are given up.
                let after = now(&engine).await;
                let opening = engine.feed(prefix(50), after);
                let _ = timeout(Duration::from_micros(round * 50), opening).await;
                let mut feed = all.swap_remove(20);
                drop(all);
                write(&engine, 21, &format!("n{round}"), "x").await;
                assert_eq!(take(feed.as_mut(), 1).await.len(), 1);
            }
        }
    });
    for number in 0..200 {
        write(&engine, 0, &format!("n{number}"), "x").await;
        let events = timeout(WITHIN, take(kept[0].as_mut(), 1)).await.unwrap();
        assert_eq!(events[0].key, Key::new(format!("/registry/r000/n{number}")));
    }
    timeout(WITHIN, churn).await.unwrap().unwrap();
    until(&cluster, |(streams, watches)| streams <= 2 && watches == 2).await;
}

async fn feeds_move_to_another_member(version: &'static str) {
    let mut cluster = cluster(version, 3).await;
    let engine = engine(cluster.urls(), version).await;
    let mut all = feeds(&engine, 0..40).await;
    let revision = write(&engine, 0, "a", "x").await;
    take(all[0].as_mut(), 1).await;
    let killed = tokio::task::spawn_blocking(move || {
        cluster.members[0].kill();
        cluster
    });
    let _cluster = killed.await.unwrap();
    for (number, feed) in all.iter_mut().enumerate() {
        let ended = timeout(WITHIN, feed.next()).await.unwrap();
        assert!(
            matches!(ended, Err(EngineError::Unavailable(_))),
            "{number}: {ended:?}"
        );
        let reopened = async {
            loop {
                if let Ok(feed) = engine.feed(prefix(number), revision).await {
                    return feed;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        *feed = timeout(WITHIN, reopened).await.unwrap();
    }
    for (number, feed) in all.iter_mut().enumerate() {
        write(&engine, number, "b", "x").await;
        assert_eq!(take(feed.as_mut(), 1).await.len(), 1);
    }
}

/// The events of a feed until its end, and its end.
async fn drain(feed: &mut dyn Feed) -> (Vec<Event>, EngineError) {
    let mut events = Vec::new();
    loop {
        match timeout(WITHIN, feed.next()).await.unwrap() {
            Ok(FeedItem::Events(more)) => events.extend(more.iter().cloned()),
            Ok(reset @ FeedItem::Reset { .. }) => panic!("{reset:?}"),
            Ok(FeedItem::Progress(_)) => {}
            Err(end) => return (events, end),
        }
    }
}

/// A feed that nobody reads, whose watch was cancelled for that, so that etcd has this many watches
/// on two streams at most. Its reader has not noticed yet.
pub async fn overrun(cluster: &Cluster, engine: &EtcdEngine, left: usize) -> Box<dyn Feed> {
    let mut feeds = feeds(engine, 0..1).await;
    // The watch that follows compactions comes a second late. Until then it would be the missing
    // one.
    until(cluster, |(_, watches)| watches == left + 1).await;
    let value = "x".repeat(512 << 10);
    for number in 0..20 {
        write(engine, 0, &format!("n{number:03}"), &value).await;
    }
    until(cluster, |(streams, watches)| {
        streams <= 2 && watches == left
    })
    .await;
    feeds.remove(0)
}

async fn an_overrun_feed_ends_with_its_epoch(version: &'static str) {
    let mut cluster = cluster(version, 1).await;
    let engine = engine(cluster.urls(), version).await;
    let mut feed = overrun(&cluster, &engine, 1).await;
    let replaced = tokio::task::spawn_blocking(move || {
        cluster.members[0].kill();
        cluster.members[0].begin_anew();
        cluster.members[0].restart();
        cluster.members[0].wait();
        cluster
    });
    let _cluster = replaced.await.unwrap();
    let notices = async {
        while engine.epoch() == 0 {
            let _ = engine.current(&prefix(0)).await;
        }
    };
    timeout(WITHIN, notices).await.unwrap();
    for number in 0..40 {
        write(&engine, 0, &format!("new{number}"), "x").await;
    }
    let (events, end) = drain(feed.as_mut()).await;
    let keys = events.iter().map(|event| event.key.to_text().into_owned());
    let keys: Vec<_> = keys.collect();
    assert!(!keys.iter().any(|key| key.contains("/new")), "{keys:?}");
    // The stream may break before the queue is full. Then its reader compares the epochs itself.
    let is_end = matches!(
        end,
        EngineError::Compacted { .. } | EngineError::Unavailable(_)
    );
    assert!(is_end, "{end:?}");
}

async fn a_feed_that_cannot_move_keeps_its_end(version: &'static str) {
    let mut cluster = cluster(version, 1).await;
    let engine = engine(cluster.urls(), version).await;
    let mut feed = overrun(&cluster, &engine, 1).await;
    let killed = tokio::task::spawn_blocking(move || {
        cluster.members[0].kill();
        cluster
    });
    let _cluster = killed.await.unwrap();
    let (events, end) = drain(feed.as_mut()).await;
    assert!(!events.is_empty());
    assert!(matches!(end, EngineError::Unavailable(_)), "{end:?}");
    let again = timeout(WITHIN, feed.next()).await.unwrap();
    assert_eq!(again.err(), Some(end));
}
