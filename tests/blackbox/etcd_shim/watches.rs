//! Watches that are many, slow, or begin on a stream with others.

use etcd_client::{EventType, WatchOptions};

use super::*;

/// A client that does not read costs a few messages, and misses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_watch_takes_little_memory_and_misses_nothing() {
    const WRITES: i64 = 96;
    let etcd = Etcd::start(&[]);
    let mut watches = Vec::new();
    for _ in 0..4 {
        // Watches of one connection share its window.
        let mut slow = etcd.client().await;
        let options = WatchOptions::new().with_prefix().with_prev_key();
        watches.push(slow.watch("/large/", Some(options)).await.unwrap());
    }
    let mut writer = etcd.client().await;
    writer.put("/other", "x", None).await.unwrap();
    let before = etcd.resident();
    let value = "x".repeat(1 << 20);
    for _ in 0..WRITES {
        writer.put("/large/a", value.as_str(), None).await.unwrap();
    }
    let grown = etcd.resident().saturating_sub(before) / 1024;
    assert!(grown < 80, "{grown} MiB for clients that do not read");
    for watch in &mut watches {
        let mut expected = 3;
        while expected < 3 + WRITES {
            let message = watch.message().await.unwrap().unwrap();
            for event in message.events() {
                let kv = event.kv().unwrap();
                assert_eq!(kv.mod_revision(), expected);
                let previous = event.prev_kv().map(|kv| kv.mod_revision());
                assert_eq!(previous, (expected > 3).then_some(expected - 1));
                expected += 1;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_watches_share_a_stream_and_each_gets_its_own() {
    let etcd = Etcd::start(&[]);
    let mut client = etcd.client().await;
    let mut stream = client
        .watch("/0/", Some(WatchOptions::new().with_prefix()))
        .await
        .unwrap();
    for number in 1..300 {
        let options = WatchOptions::new().with_prefix().with_watch_id(number);
        stream
            .watch(format!("/{number}/"), Some(options))
            .await
            .unwrap();
    }
    for created in 0..300 {
        let message = stream.message().await.unwrap().unwrap();
        assert!(
            message.created() && message.watch_id() == created,
            "{message:?}"
        );
    }
    // The number is taken.
    let taken = WatchOptions::new().with_watch_id(7);
    stream.watch("/again", Some(taken)).await.unwrap();
    let refused = stream.message().await.unwrap().unwrap();
    assert!(refused.created() && refused.canceled() && refused.watch_id() == -1);
    assert!(refused.cancel_reason().contains("duplicate watch ID"));
    let before = WatchOptions::new().with_start_revision(-1);
    stream.watch("/again", Some(before)).await.unwrap();
    let refused = stream.message().await.unwrap().unwrap();
    assert!(refused.canceled() && refused.cancel_reason().contains("has been compacted"));

    let mut writer = etcd.client().await;
    for number in 0..300 {
        writer.put(format!("/{number}/x"), "y", None).await.unwrap();
    }
    let mut seen = vec![0; 300];
    while seen.iter().sum::<i32>() < 300 {
        let message = stream.message().await.unwrap().unwrap();
        for event in message.events() {
            let wanted = format!("/{}/x", message.watch_id());
            assert_eq!(event.kv().unwrap().key(), wanted.as_bytes());
            assert_eq!(event.event_type(), EventType::Put);
            seen[message.watch_id() as usize] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count == 1));

    // All have seen everything, and say so together.
    stream.request_progress().await.unwrap();
    let progress = stream.message().await.unwrap().unwrap();
    assert_eq!((progress.watch_id(), progress.events().len()), (-1, 0));
    assert_eq!(progress.header().unwrap().revision(), 301);

    stream.cancel(7).await.unwrap();
    let canceled = stream.message().await.unwrap().unwrap();
    assert!(
        canceled.canceled() && canceled.watch_id() == 7,
        "{canceled:?}"
    );
    writer.put("/7/x", "z", None).await.unwrap();
    writer.put("/8/x", "z", None).await.unwrap();
    let next = stream.message().await.unwrap().unwrap();
    assert_eq!(next.watch_id(), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_watch_reports_progress_at_the_interval() {
    let etcd = Etcd::start(&["--watch-progress-notify-interval=50ms"]);
    let mut client = etcd.client().await;
    let options = WatchOptions::new().with_prefix().with_progress_notify();
    let mut watch = client.watch("/quiet/", Some(options)).await.unwrap();
    assert!(watch.message().await.unwrap().unwrap().created());
    client.put("/other/x", "y", None).await.unwrap();
    loop {
        let progress = watch.message().await.unwrap().unwrap();
        assert!(progress.events().is_empty() && progress.watch_id() == 0);
        if progress.header().unwrap().revision() == 2 {
            break;
        }
    }
}

/// A compaction by another client ends a watch that lags, and says from where it can go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_begins_before_a_compaction_is_canceled() {
    let etcd = Etcd::start(&[]);
    let mut client = etcd.client().await;
    for _ in 0..9 {
        client.put("/k", "x", None).await.unwrap();
    }
    client.compact(6, None).await.unwrap();
    let options = WatchOptions::new().with_start_revision(3);
    let mut watch = client.watch("/k", Some(options)).await.unwrap();
    let mut message = watch.message().await.unwrap().unwrap();
    if !message.canceled() {
        assert!(message.created());
        message = watch.message().await.unwrap().unwrap();
    }
    assert_eq!((message.canceled(), message.compact_revision()), (true, 6));
    let options = WatchOptions::new().with_start_revision(6);
    let mut watch = client.watch("/k", Some(options)).await.unwrap();
    let mut next = 6;
    while next <= 10 {
        let message = watch.message().await.unwrap().unwrap();
        for event in message.events() {
            assert_eq!(event.kv().unwrap().mod_revision(), next);
            next += 1;
        }
    }
}
