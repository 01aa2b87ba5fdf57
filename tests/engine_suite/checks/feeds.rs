//! Feeds: each event once and in order, for every reader.

use std::sync::Arc;

use actors::engine::{EngineError, EventKind, Revision};
use futures_util::FutureExt;
use futures_util::future::join_all;

use crate::subjects::{Dice, Subject, is_silent, outline, take, told};

pub async fn a_feed_delivers_each_event_once_and_in_order(subject: Subject) {
    let mut feed = subject.feed("pods/", Revision::ZERO).await;
    let mut expected = Vec::new();
    for count in 0..30 {
        expected.push(subject.set(&format!("pods/ns/{}", count % 7), "x").await);
    }
    let events = take(feed.as_mut(), 30).await;
    assert_eq!(told(&events), told(&expected));
    assert!(is_silent(feed.as_mut()).await);
}

pub async fn a_feed_from_the_past_has_no_gap_to_the_present(subject: Subject) {
    let mut expected = Vec::new();
    for count in 0..10 {
        expected.push(subject.create(&format!("pods/ns/{count}"), "x").await);
    }
    let mut feed = subject.feed("pods/", expected[3].revision).await;
    for count in 10..20 {
        expected.push(subject.create(&format!("pods/ns/{count}"), "x").await);
    }
    let events = take(feed.as_mut(), 16).await;
    assert_eq!(outline(&events), outline(&expected[4..]));
}

pub async fn a_feed_at_the_newest_revision_delivers_only_what_comes(subject: Subject) {
    let old = subject.create("pods/ns/a", "1").await;
    let mut feed = subject.feed("pods/", old.revision).await;
    assert!(is_silent(feed.as_mut()).await);
    let new = subject.update("pods/ns/a", old.revision, "2").await;
    assert_eq!(told(&take(feed.as_mut(), 1).await), told(&[new]));
}

pub async fn a_feed_from_the_future_delivers_nothing_up_to_its_start_wa_10(subject: Subject) {
    let first = subject.create("pods/ns/a", "1").await;
    let start = Revision(first.revision.0 + 2);
    let mut feed = subject.feed("pods/", start).await;
    let mut expected = Vec::new();
    for name in ["b", "c", "d", "e", "f"] {
        let event = subject.create(&format!("pods/ns/{name}"), "x").await;
        if event.revision > start {
            expected.push(event);
        }
    }
    assert_eq!(
        outline(&take(feed.as_mut(), expected.len()).await),
        outline(&expected)
    );
}

pub async fn a_feed_keeps_to_its_prefix_wa_24(subject: Subject) {
    let mut all = subject.feed("pods/", Revision::ZERO).await;
    let mut one = subject.feed("pods/ns1/", Revision::ZERO).await;
    let mut part = subject.feed("pods/ns1", Revision::ZERO).await;
    for name in [
        "pods/ns10/a",
        "podtemplates/ns1/a",
        "pods/ns1/a",
        "pods/ns1-bad/a",
        "pods/ns1/b",
    ] {
        subject.create(name, "x").await;
    }
    let keys = |events: Vec<actors::engine::Event>| -> Vec<_> {
        events.into_iter().map(|event| event.key).collect()
    };
    let expected = [subject.key("pods/ns1/a"), subject.key("pods/ns1/b")];
    assert_eq!(keys(take(one.as_mut(), 2).await), expected);
    assert!(is_silent(one.as_mut()).await);
    assert_eq!(take(all.as_mut(), 4).await.len(), 4);
    assert_eq!(take(part.as_mut(), 4).await.len(), 4);
}

pub async fn a_feed_that_does_not_read_loses_nothing_and_hinders_nobody(subject: Subject) {
    let value = "x".repeat(4096);
    let mut lazy = subject.feed("pods/", Revision::ZERO).await;
    let mut eager = subject.feed("pods/", Revision::ZERO).await;
    let mut expected = Vec::new();
    // More than any tail holds.
    for count in 0..100 {
        let event = subject.create(&format!("pods/ns/{count}"), &value).await;
        assert_eq!(take(eager.as_mut(), 1).await[0].revision, event.revision);
        expected.push(event);
    }
    assert_eq!(outline(&take(lazy.as_mut(), 100).await), outline(&expected));
    let last = subject.create("pods/ns/last", "x").await;
    assert_eq!(told(&take(lazy.as_mut(), 1).await), told(&[last]));
}

pub async fn feeds_see_an_event_before_its_commit_is_acknowledged(subject: Subject) {
    let mut feed = subject.feed("pods/", Revision::ZERO).await;
    for count in 0..20 {
        let event = subject.create(&format!("pods/ns/{count}"), "x").await;
        let item = feed
            .next()
            .now_or_never()
            .expect("the event is there already")
            .unwrap();
        let actors::engine::FeedItem::Events(events) = item else {
            panic!("{item:?}")
        };
        assert_eq!(events.as_ref(), [event]);
    }
}

pub async fn many_feeds_and_writers_agree_on_one_order(subject: Subject) {
    let subject = Arc::new(subject);
    let value = "x".repeat(700);
    let writers: Vec<_> = (0..8u64)
        .map(|writer| {
            let (subject, value) = (Arc::clone(&subject), value.clone());
            tokio::spawn(async move {
                for count in 0..40 {
                    subject
                        .set(&format!("pods/{writer}/{}", count % 5), &value)
                        .await;
                }
            })
        })
        .collect();
    let readers: Vec<_> = (0..6u64)
        .map(|reader| {
            let subject = Arc::clone(&subject);
            tokio::spawn(async move {
                let mut dice = Dice::new(reader + 1);
                let mut seen = Vec::new();
                let mut last = Revision::ZERO;
                // Opened anew now and then, as by a client that reconnects.
                while seen.len() < 320 {
                    let mut feed = subject.feed("pods/", last).await;
                    let wanted = (dice.roll(60) as usize + 1).min(320 - seen.len());
                    seen.extend(take(feed.as_mut(), wanted).await);
                    last = seen
                        .last()
                        .map_or(last, |event: &actors::engine::Event| event.revision);
                }
                outline(&seen)
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let mut orders = Vec::new();
    for reader in join_all(readers).await {
        orders.push(reader.unwrap());
    }
    assert!(orders[0].windows(2).all(|pair| pair[0].0 < pair[1].0));
    for order in &orders {
        assert_eq!(order, &orders[0]);
        assert_eq!(order.len(), 320);
    }
}

pub async fn a_deletion_is_fed_with_its_own_revision_pf_1(subject: Subject) {
    let first = subject.create("pods/ns/a", "1").await;
    let mut feed = subject.feed("pods/", first.revision).await;
    let gone = subject.delete("pods/ns/a", first.revision).await;
    let events = take(feed.as_mut(), 1).await;
    assert_eq!(
        (events[0].kind, events[0].revision),
        (EventKind::Delete, gone.revision)
    );
    assert_eq!(events[0].prev_revision, first.revision);
}

pub async fn a_feed_from_a_compacted_revision_is_refused_wa_32(subject: Subject) {
    let first = subject.create("pods/ns/a", "1").await;
    let second = subject.update("pods/ns/a", first.revision, "2").await;
    let third = subject.update("pods/ns/a", second.revision, "3").await;
    subject.engine.compact(second.revision).await.unwrap();
    let refused = subject
        .engine
        .feed(subject.prefix("pods/"), first.revision)
        .await;
    let Err(EngineError::Compacted {
        requested,
        compacted,
    }) = refused.map(|_| ())
    else {
        panic!("a feed over a gap")
    };
    assert_eq!((requested, compacted), (first.revision, second.revision));
    let mut feed = subject.feed("pods/", second.revision).await;
    assert_eq!(outline(&take(feed.as_mut(), 1).await), outline(&[third]));
}
