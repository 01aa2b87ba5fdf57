//! Progress of feeds over etcd that share streams: it is true, survives the end of a stream, and
//! brings feeds back to shared streams. Openings that etcd does not answer concern no other feed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actors::engine::{DataEngine, EngineError, Event, FeedItem, Revision};
use taffrail::storage::etcd::EtcdEngine;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::servers::proxy::Proxy;
use crate::shared_watches::{
    WITHIN, cluster, engine, feeds, now, over_each_version, over_ours, overrun, prefix, reaches,
    streams, until, write,
};
use crate::subjects::take;

over_each_version! {
    an_answer_that_a_new_watch_overtakes_is_not_its_progress,
    progress_never_comes_before_the_events_that_precede_it,
    an_idle_feed_knows_the_progress_of_a_stream_that_breaks,
    a_feed_that_has_caught_up_shares_a_stream_again,
    openings_without_an_answer_fail_alone_and_leave_nothing_behind,
}

over_ours! {
    an_answer_that_a_new_watch_overtakes_is_not_its_progress,
    progress_never_comes_before_the_events_that_precede_it,
    an_idle_feed_knows_the_progress_of_a_stream_that_breaks,
    a_feed_that_has_caught_up_shares_a_stream_again,
    openings_without_an_answer_fail_alone_and_leave_nothing_behind,
}

async fn an_answer_that_a_new_watch_overtakes_is_not_its_progress(version: &'static str) {
    if version == "3.4" {
        return;
    }
    let cluster = cluster(version, 1).await;
    let proxy = Proxy::to(cluster.members[0].address()).await;
    let engine = engine(vec![format!("http://{}", proxy.address)], version).await;
    let straight = self::engine(cluster.urls(), version).await;
    let mut all = feeds(&engine, 0..2).await;
    let large = "x".repeat(400 << 10);
    for round in 0..10 {
        let before = write(&straight, 2, &format!("n{round}"), "x").await;
        reaches(&engine, all[0].as_mut(), 0, before).await;
        // etcd can't send all of this, so that an answer waits behind it. It sends the message that
        // a watch was created by another queue.
        proxy.hold_answers();
        for number in 0..6 {
            write(&straight, 1, &format!("n{round}-{number}"), &large).await;
        }
        let written = write(&straight, 3, &format!("n{round}"), "x").await;
        engine.request_progress(&prefix(0), written);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let opening = Arc::clone(&engine);
        let opening = tokio::spawn(async move { opening.feed(prefix(3), before).await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        proxy.release();
        let mut late = timeout(WITHIN, opening).await.unwrap().unwrap().unwrap();
        match timeout(WITHIN, late.next()).await.unwrap().unwrap() {
            FeedItem::Events(events) => assert_eq!(events[0].revision, written),
            reset @ FeedItem::Reset { .. } => panic!("{reset:?}"),
            FeedItem::Progress(revision) => panic!("{round}: {revision} before {written}"),
        }
        assert_eq!(take(all[1].as_mut(), 6).await.len(), 6);
    }
}

/// The resources that are written and read.
const RESOURCES: usize = 12;

/// Reads a resource by one feed after another until an event, and checks the order of each item.
/// Returns the revisions of all events.
async fn read(
    engine: Arc<EtcdEngine>,
    number: usize,
    begin: Revision,
    end: tokio::sync::watch::Receiver<Revision>,
) -> Vec<Revision> {
    let (mut seen, mut reached) = (Vec::new(), begin);
    loop {
        // It begins in the past, so that answers to earlier requests may come after its creation.
        let mut feed = engine.feed(prefix(number), reached).await.unwrap();
        for _ in 0..30 {
            let Ok(item) = timeout(Duration::from_millis(200), feed.next()).await else {
                break;
            };
            match item.unwrap() {
                reset @ FeedItem::Reset { .. } => panic!("{reset:?}"),
                FeedItem::Progress(revision) => reached = reached.max(revision),
                FeedItem::Events(events) => {
                    let first = events[0].revision;
                    assert!(first > reached, "{number}: {first} came after {reached}");
                    seen.extend(events.iter().map(|event| event.revision));
                    reached = seen[seen.len() - 1];
                }
            }
        }
        let end = *end.borrow();
        if end != Revision::ZERO && seen.last() >= Some(&end) {
            return seen;
        }
    }
}

async fn progress_never_comes_before_the_events_that_precede_it(version: &'static str) {
    let cluster = cluster(version, 1).await;
    let engine = engine(cluster.urls(), version).await;
    let begin = now(&engine).await;
    let ends: Vec<_> = (0..RESOURCES)
        .map(|_| tokio::sync::watch::Sender::new(Revision::ZERO))
        .collect();
    let mut readers = Vec::new();
    for (number, end) in ends.iter().enumerate() {
        let reading = read(Arc::clone(&engine), number, begin, end.subscribe());
        readers.push(tokio::spawn(reading));
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let mut others = JoinSet::new();
    let (asking, asked) = (Arc::clone(&engine), Arc::clone(&is_over));
    others.spawn(async move {
        while !asked.load(Ordering::SeqCst) {
            for number in 0..RESOURCES {
                let newest = asking.known(&prefix(number)).revision;
                asking.request_progress(&prefix(number), newest);
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    });
    // Each resource has two writers. Some rest at times, so that their feeds live on progress.
    let mut writers = JoinSet::new();
    for writer in 0..2 * RESOURCES {
        let engine = Arc::clone(&engine);
        writers.spawn(async move {
            let (number, mut written) = (writer / 2, Vec::new());
            for round in 0..60 {
                let name = format!("w{writer}-{round}");
                written.push(write(&engine, number, &name, "x").await);
                let pause = if round % 20 == number { 100 } else { 5 };
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            (number, written)
        });
    }
    let mut expected = vec![Vec::new(); RESOURCES];
    while let Some(written) = writers.join_next().await {
        let (number, revisions) = written.unwrap();
        expected[number].extend(revisions);
    }
    for (number, end) in ends.iter().enumerate() {
        expected[number].sort();
        end.send_replace(*expected[number].last().unwrap());
    }
    for (number, reader) in readers.into_iter().enumerate() {
        let seen = timeout(WITHIN, reader).await.unwrap().unwrap();
        assert_eq!(seen, expected[number], "{number}");
    }
    is_over.store(true, Ordering::SeqCst);
    others.join_all().await;
}

async fn an_idle_feed_knows_the_progress_of_a_stream_that_breaks(version: &'static str) {
    if version == "3.4" {
        return;
    }
    let cluster = cluster(version, 1).await;
    let proxy = Proxy::to(cluster.members[0].address()).await;
    let engine = engine(vec![format!("http://{}", proxy.address)], version).await;
    let mut all = feeds(&engine, 0..20).await;
    let mut newest = Revision::ZERO;
    for round in 0..2 {
        newest = write(&engine, 0, &format!("n{round}"), "x").await;
        // All others get the first answer, and no further one for which nobody waits.
        reaches(&engine, all[5].as_mut(), 5, newest).await;
    }
    proxy.cut();
    for (number, feed) in all.iter_mut().enumerate().skip(1) {
        // This one has passed it on already.
        let mut reached = if number == 5 { newest } else { Revision::ZERO };
        let end = loop {
            match timeout(WITHIN, feed.next()).await.unwrap() {
                Ok(reset @ FeedItem::Reset { .. }) => panic!("{reset:?}"),
                Ok(FeedItem::Progress(revision)) => reached = revision,
                Ok(FeedItem::Events(events)) => panic!("{number}: {events:?}"),
                Err(end) => break end,
            }
        };
        assert!(matches!(end, EngineError::Unavailable(_)), "{end:?}");
        assert!(reached >= newest, "{number}: {reached} of {newest}");
    }
}

async fn a_feed_that_has_caught_up_shares_a_stream_again(version: &'static str) {
    // The other one says after ten minutes that a watch has caught up.
    if version == "3.4" {
        return;
    }
    let cluster = cluster(version, 1).await;
    let engine = engine(cluster.urls(), version).await;
    let mut other = feeds(&engine, 1..2).await;
    let mut feed = overrun(&cluster, &engine, 2).await;
    let writing = Arc::clone(&engine);
    let writer = tokio::spawn(async move {
        // etcd is asked every ten seconds whether a watch has caught up.
        for number in 0..600 {
            write(&writing, 0, &format!("m{number:03}"), "x").await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut seen: Vec<Event> = Vec::new();
    while seen
        .last()
        .is_none_or(|last| !last.key.to_text().ends_with("/m599"))
    {
        match timeout(WITHIN, feed.next()).await.unwrap().unwrap() {
            FeedItem::Events(events) => seen.extend(events.iter().cloned()),
            reset @ FeedItem::Reset { .. } => panic!("{reset:?}"),
            FeedItem::Progress(revision) => {
                assert!(seen.last().is_none_or(|last| last.revision <= revision));
            }
        }
    }
    writer.await.unwrap();
    let names: Vec<_> = seen.iter().map(|event| event.key.to_text()).collect();
    let large = (0..20).map(|number| format!("/registry/r000/n{number:03}"));
    let small = (0..600).map(|number| format!("/registry/r000/m{number:03}"));
    assert_eq!(names, large.chain(small).collect::<Vec<_>>());
    // One stream is the engine's own.
    until(&cluster, |(streams, watches)| (streams, watches) == (2, 3)).await;
    for (number, feed) in [&mut feed, &mut other[0]].into_iter().enumerate() {
        write(&engine, number, "last", "x").await;
        assert_eq!(take(feed.as_mut(), 1).await.len(), 1);
    }
}

async fn openings_without_an_answer_fail_alone_and_leave_nothing_behind(version: &'static str) {
    let cluster = cluster(version, 1).await;
    let proxy = Proxy::to(cluster.members[0].address()).await;
    let engine = engine(vec![format!("http://{}", proxy.address)], version).await;
    let straight = self::engine(cluster.urls(), version).await;
    let mut all = feeds(&engine, 0..3).await;
    for (number, feed) in all.iter_mut().enumerate() {
        write(&straight, number, "first", "x").await;
        assert_eq!(take(feed.as_mut(), 1).await.len(), 1);
    }
    until(&cluster, |(streams, watches)| (streams, watches) == (3, 5)).await;
    let after = now(&engine).await;
    proxy.hold(Duration::ZERO);
    let openings = (10..13).map(|number| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move { engine.feed(prefix(number), after).await.err() })
    });
    let mut openings: Vec<_> = openings.collect();
    // Its reader goes away before etcd answers.
    tokio::time::sleep(Duration::from_millis(100)).await;
    openings.swap_remove(1).abort();
    for round in 0.. {
        if openings.iter().all(|opening| opening.is_finished()) {
            break;
        }
        // More requests than a stream may have without an answer.
        let revision = write(&straight, 3, &format!("n{round}"), "x").await;
        engine.request_progress(&prefix(0), revision);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for opening in openings {
        let end = opening.await.unwrap();
        assert!(matches!(end, Some(EngineError::Unavailable(_))), "{end:?}");
    }
    for (number, feed) in all.iter_mut().enumerate() {
        write(&straight, number, "second", "x").await;
        assert_eq!(take(feed.as_mut(), 1).await.len(), 1);
    }
    proxy.release();
    // The stream takes watches again once etcd has answered a request for progress, which an idle
    // stream sends every ten seconds. Until then a watch has another stream.
    let taking_again = async {
        loop {
            let feed = engine.feed(prefix(19), after).await.unwrap();
            if streams(&cluster).await.0 == 3 {
                return;
            }
            drop(feed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WITHIN, taking_again).await.unwrap();
    // etcd has cancelled those that were given up.
    until(&cluster, |(streams, watches)| (streams, watches) == (3, 5)).await;
    let mut more = Vec::new();
    for number in 20..25 {
        let mut feed = engine.feed(prefix(number), after).await.unwrap();
        write(&straight, number, "first", "x").await;
        assert_eq!(take(feed.as_mut(), 1).await.len(), 1, "{number}");
        more.push(feed);
    }
    until(&cluster, |(streams, watches)| (streams, watches) == (3, 10)).await;
}
