//! The special cases of an engine over etcd: large messages, transactions of other clients, broken
//! connections.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{
    At, DataEngine, EngineError, EventKind, Expect, FeedItem, FeedProgress, Health, Key, Outcome,
    Prefix, RangeRequest, Revision,
};
use etcd_client::{Client, Txn, TxnOp};
use taffrail::storage::etcd::{EtcdEngine, EtcdOptions};

use crate::servers::etcd::Cluster;
use crate::servers::proxy::Proxy;
use crate::subjects::{mutation, put, take};

const MIB: usize = 1 << 20;

async fn cluster(further: &'static [&'static str]) -> Cluster {
    let started = tokio::task::spawn_blocking(move || Cluster::start("3.5", 1, further));
    started.await.unwrap()
}

async fn engine(urls: Vec<String>) -> Arc<EtcdEngine> {
    let engine = EtcdEngine::open(EtcdOptions::new(urls)).unwrap();
    let knows = async {
        while engine.health() != Health::Serving
            || engine.feed_progress() != FeedProgress::OnRequest
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), knows)
        .await
        .unwrap();
    engine
}

fn key(name: &str) -> Key {
    Key::new(format!("/registry/pods/{name}"))
}

fn pods() -> Prefix {
    Prefix::new("/registry/pods/")
}

/// Pages and batches of more than the 4 MiB that a message may have by default, of values that
/// are larger themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_over_four_mebibytes_come_in_pages_and_in_events() {
    let cluster = cluster(&["--max-request-bytes=16777216"]).await;
    let engine = engine(cluster.urls()).await;
    let mut feed = engine.feed(pods(), Revision::ZERO).await.unwrap();
    let value = "x".repeat(5 * MIB);
    for number in 0..6 {
        let request = mutation(key(&number.to_string()), Expect::Absent, put(&value));
        let outcome = engine.commit(request).await.unwrap();
        assert!(matches!(outcome, Outcome::Committed(_)), "{number}");
    }
    let events = take(feed.as_mut(), 6).await;
    assert!(events.iter().all(|event| event.value.len() == 5 * MIB));
    let mut request = RangeRequest {
        prefix: pods(),
        start: None,
        at: At::Latest,
        limit: 0,
        count_only: false,
    };
    let mut seen = 0;
    loop {
        let page = engine.range(request.clone()).await.unwrap();
        assert_eq!(page.count, 6 - seen);
        seen += page.items.len() as u64;
        let last = page.items.last().unwrap();
        request.at = At::Revision(page.revision);
        request.start = Some([last.key.as_bytes(), b"\0"].concat());
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, 6);
    // A feed of the past gets them all in one batch of the server's.
    let mut again = engine.feed(pods(), Revision::ZERO).await.unwrap();
    assert_eq!(take(again.as_mut(), 6).await.len(), 6);
}

/// A transaction of another client is one revision of many events. It arrives in fragments and is
/// delivered whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_of_many_events_is_never_split() {
    let cluster = cluster(&["--max-request-bytes=33554432", "--max-txn-ops=512"]).await;
    let engine = engine(cluster.urls()).await;
    let mut etcd = Client::connect(cluster.urls(), None).await.unwrap();
    let mut feed = engine.feed(pods(), Revision::ZERO).await.unwrap();
    for round in 0..3 {
        let value = vec![b'0' + round; 64 << 10];
        let puts =
            (0..200).map(|n| TxnOp::put(format!("/registry/pods/{n:03}"), value.clone(), None));
        let transaction = Txn::new().and_then(puts.collect::<Vec<_>>());
        let mut grown = etcd.kv_client().max_encoding_message_size(32 * MIB);
        let answer = grown.txn(transaction).await.unwrap();
        let revision = Revision(answer.header().unwrap().revision().cast_unsigned());
        // Twelve megabytes, and as much again of previous values.
        let mut whole = Vec::new();
        while whole.is_empty() {
            if let FeedItem::Events(events) = feed.next().await.unwrap() {
                whole.extend(events.iter().cloned());
            }
        }
        assert_eq!(whole.len(), 200, "round {round}");
        assert!(whole.iter().all(|event| event.revision == revision));
        assert!(whole.iter().all(|event| event.kind == EventKind::Put));
        let known = whole
            .iter()
            .all(|event| event.previous.is_some() == (round > 0));
        assert!(known, "previous values");
    }
    etcd.delete("/registry/pods/000", None).await.unwrap();
}

/// However often the connection breaks during writes, an unknown outcome never counts as a failure,
/// so a client never conflicts with its own write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_is_lost_is_unknown_and_not_sent_again() {
    let cluster = cluster(&[]).await;
    let proxy = Proxy::to(cluster.members[0].address()).await;
    let engine = engine(vec![format!("http://{}", proxy.address)]).await;
    let (mut committed, mut unknown) = (0, 0);
    for number in 0..400 {
        let name = format!("n{number}");
        let request = mutation(key(&name), Expect::Absent, put("x"));
        let commit = engine.commit(request);
        if number % 4 == 0 {
            proxy.cut();
        }
        match commit.await {
            Ok(Outcome::Committed(_)) => committed += 1,
            Ok(Outcome::Refused { current, .. }) => {
                panic!("{name}: its own write stood in its way: {current:?}")
            }
            Err(EngineError::OutcomeUnknown(_)) => unknown += 1,
            Err(EngineError::Unavailable(_)) => {
                let read = engine.get(key(&name), At::Latest).await.unwrap();
                assert_eq!(read.item, None, "{name} was said not to be done");
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
    assert!(committed > 250, "{committed} committed, {unknown} unknown");
}

/// A feed whose connection breaks in a burst is opened again after its last event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_that_was_cut_goes_on_without_gap_or_repeat() {
    let cluster = cluster(&[]).await;
    let proxy = Proxy::to(cluster.members[0].address()).await;
    let cut_off = engine(vec![format!("http://{}", proxy.address)]).await;
    let straight = engine(cluster.urls()).await;
    let writing = tokio::spawn(async move {
        for number in 0..500 {
            let request = mutation(key(&format!("n{number:03}")), Expect::Absent, put("x"));
            straight.commit(request).await.unwrap();
        }
    });
    let (mut seen, mut last, mut cuts) = (Vec::new(), Revision::ZERO, 0);
    while seen.len() < 500 {
        let Ok(mut feed) = cut_off.feed(pods(), last).await else {
            continue;
        };
        let mut taken = 0;
        while let Ok(item) = feed.next().await {
            if let FeedItem::Events(events) = item {
                taken += events.len();
                last = events.last().unwrap().revision;
                seen.extend(events.iter().map(|event| event.key.clone()));
            }
            if taken > 40 {
                proxy.cut();
                cuts += 1;
            }
            if seen.len() >= 500 {
                break;
            }
        }
    }
    writing.await.unwrap();
    let expected: Vec<Key> = (0..500).map(|n| key(&format!("n{n:03}"))).collect();
    assert_eq!(seen, expected);
    assert!(cuts > 3, "{cuts} cuts");
}

/// A feed that is not read does not delay anything else on the same daemon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feeds_that_nobody_reads_hold_up_nothing() {
    let cluster = cluster(&[]).await;
    let engine = engine(cluster.urls()).await;
    let mut unread = Vec::new();
    for _ in 0..8 {
        unread.push(engine.feed(pods(), Revision::ZERO).await.unwrap());
    }
    let mut read = engine.feed(pods(), Revision::ZERO).await.unwrap();
    let value = "x".repeat(512 << 10);
    for number in 0..60 {
        let request = mutation(key(&number.to_string()), Expect::Absent, put(&value));
        let committing = tokio::time::timeout(Duration::from_secs(10), engine.commit(request));
        committing.await.expect("writes go on").unwrap();
        take(read.as_mut(), 1).await;
    }
    for feed in &mut unread {
        assert_eq!(take(feed.as_mut(), 60).await.len(), 60, "nothing is lost");
    }
}
