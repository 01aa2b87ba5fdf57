//! Compaction: the data that may be removed, and the data that must stay.

use std::time::Duration;

use actors::engine::{At, EngineError, HistoryRequest, Retention, Revision};

use crate::subjects::{Dice, Subject, take, told};

pub async fn a_compacted_revision_can_be_read_and_older_ones_not_li_50_op_13(subject: Subject) {
    let first = subject.create("pods/ns/a", "1").await;
    let second = subject.update("pods/ns/a", first.revision, "2").await;
    subject.update("pods/ns/a", second.revision, "3").await;
    assert_eq!(subject.engine.compacted(), Revision::ZERO);
    subject.engine.compact(second.revision).await.unwrap();
    assert_eq!(subject.engine.compacted(), second.revision);
    for _ in 0..2 {
        let key = subject.key("pods/ns/a");
        let error = subject.engine.get(key, At::Revision(first.revision)).await;
        let expected = EngineError::Compacted {
            requested: first.revision,
            compacted: second.revision,
        };
        assert_eq!(error, Err(expected.clone()));
        let request = subject.range_request("pods/", At::Revision(first.revision), 0);
        assert_eq!(subject.engine.range(request).await, Err(expected));
        assert_eq!(
            subject
                .get_at("pods/ns/a", second.revision)
                .await
                .unwrap()
                .value,
            "2"
        );
        assert_eq!(subject.get("pods/ns/a").await.unwrap().value, "3");
        subject.maintain().await;
    }
}

pub async fn compaction_keeps_what_is_alive(subject: Subject) {
    for name in ["a", "b", "c"] {
        subject.create(&format!("pods/ns/{name}"), name).await;
    }
    let last = subject.set("pods/ns/b", "B").await;
    subject.engine.compact(last.revision).await.unwrap();
    subject.maintain().await;
    let (_, items) = subject.range("pods/", At::Latest).await;
    let values: Vec<_> = items.iter().map(|item| item.value.clone()).collect();
    assert_eq!(values, ["a", "B", "c"]);
}

pub async fn compaction_removes_what_was_superseded(subject: Subject) {
    let mut last = subject.create("pods/ns/a", "0").await;
    for count in 0..50 {
        last = subject
            .update("pods/ns/a", last.revision, &count.to_string())
            .await;
    }
    let before = subject.engine.stats();
    subject.engine.compact(last.revision).await.unwrap();
    assert_eq!(subject.maintain().await, 50);
    let after = subject.engine.stats();
    assert_eq!(after.live_keys, 1);
    assert!(
        after.retained_bytes * 20 < before.retained_bytes,
        "{before:?} {after:?}"
    );
    assert_eq!(subject.maintain().await, 0);
}

pub async fn previous_values_survive_as_long_as_their_events(subject: Subject) {
    let first = subject.create("pods/ns/a", "1").await;
    let other = subject.create("pods/ns/b", "x").await;
    let second = subject.update("pods/ns/a", first.revision, "2").await;
    subject.engine.compact(other.revision).await.unwrap();
    assert_eq!(
        subject.maintain().await,
        0,
        "the version at the horizon stays"
    );
    let request = HistoryRequest {
        prefix: subject.prefix("pods/"),
        after: other.revision,
        until: second.revision,
        bytes_max: usize::MAX,
    };
    let chunk = subject.engine.history(request).await.unwrap();
    assert_eq!(chunk.events[0].previous.as_deref(), Some(b"1".as_slice()));
    assert_eq!(
        subject
            .get_at("pods/ns/a", other.revision)
            .await
            .unwrap()
            .value,
        "1"
    );
}

pub async fn compacting_the_future_is_refused_and_the_past_is_no_error(subject: Subject) {
    let first = subject.create("pods/ns/a", "1").await;
    let second = subject.update("pods/ns/a", first.revision, "2").await;
    let future = Revision(second.revision.0 + 1_000_000);
    let error = subject.engine.compact(future).await;
    assert!(
        matches!(error, Err(EngineError::FutureRevision { .. })),
        "{error:?}"
    );
    subject.engine.compact(second.revision).await.unwrap();
    subject.engine.compact(first.revision).await.unwrap();
    assert_eq!(subject.engine.compacted(), second.revision);
}

/// All readable data is read before and after each step of removal.
pub async fn removal_in_steps_changes_no_answer(subject: Subject) {
    let mut dice = Dice::new(11);
    let mut revisions = Vec::new();
    for count in 0..600 {
        let name = format!("pods/ns/{}", dice.roll(20));
        let event = match subject.get(&name).await {
            Some(current) if dice.roll(3) == 0 => subject.delete(&name, current.revision).await,
            _ => subject.set(&name, &count.to_string()).await,
        };
        revisions.push(event.revision);
    }
    let horizon = revisions[400];
    subject.engine.compact(horizon).await.unwrap();
    let look = async || {
        let mut seen = Vec::new();
        for revision in [horizon, revisions[450], revisions[599]] {
            seen.push(subject.range("pods/", At::Revision(revision)).await.1);
        }
        let request = HistoryRequest {
            prefix: subject.prefix("pods/"),
            after: horizon,
            until: revisions[599],
            bytes_max: usize::MAX,
        };
        (seen, subject.engine.history(request).await.unwrap())
    };
    let before = look().await;
    loop {
        let step = subject.engine.maintain(false).await.unwrap();
        assert!(look().await == before);
        if !step.more {
            break;
        }
    }
}

pub async fn a_deleted_key_is_forgotten_entirely(subject: Subject) {
    let first = subject.create("pods/ns/a", "1").await;
    let gone = subject.delete("pods/ns/a", first.revision).await;
    let other = subject.create("pods/ns/b", "1").await;
    subject.engine.compact(gone.revision).await.unwrap();
    assert_eq!(subject.maintain().await, 2);
    assert_eq!(subject.get_at("pods/ns/a", gone.revision).await, None);
    assert_eq!(subject.get("pods/ns/a").await, None);
    let (_, items) = subject.range("pods/", At::Revision(other.revision)).await;
    assert_eq!(items.len(), 1);
    subject.create("pods/ns/a", "2").await;
}

pub async fn the_horizon_follows_age_and_bytes(subject: Subject) {
    let horizon = async |age: u64, bytes: u64| {
        let retention = Retention {
            age: Duration::from_secs(age),
            bytes,
        };
        subject
            .engine
            .horizon(retention, subject.clock.now())
            .await
            .unwrap()
    };
    assert_eq!(horizon(10, u64::MAX).await, Revision::ZERO);
    let value = "x".repeat(1000);
    let mut event = subject.create("pods/ns/a", &value).await;
    let mut revisions = vec![event.revision];
    for _ in 0..19 {
        subject.clock.pass(2);
        event = subject.update("pods/ns/a", event.revision, &value).await;
        revisions.push(event.revision);
    }
    assert_eq!(horizon(1000, u64::MAX).await, Revision::ZERO);
    // By age: what is ten seconds old and older goes.
    let by_age = horizon(10, u64::MAX).await;
    assert_eq!(by_age, revisions[14]);
    // By bytes: about five superseded values may stay, however young.
    let by_bytes = horizon(1000, 5500).await;
    assert!(
        by_bytes >= revisions[12] && by_bytes <= revisions[16],
        "{by_bytes}"
    );
    subject.engine.compact(by_bytes).await.unwrap();
    subject.maintain().await;
    assert!(subject.engine.stats().retained_bytes <= 5500 + 1500);
    assert_eq!(
        horizon(1000, 5500).await.max(by_bytes),
        by_bytes,
        "it is enough"
    );
    subject.clock.pass(100);
    assert_eq!(
        horizon(10, u64::MAX).await,
        revisions[19],
        "idle stores age too"
    );
}

pub async fn compacting_up_to_the_newest_revision_leaves_the_state(subject: Subject) {
    let first = subject.create("pods/ns/a", "1").await;
    let gone = subject.delete("pods/ns/a", first.revision).await;
    subject.engine.compact(gone.revision).await.unwrap();
    subject.maintain().await;
    let (revision, items) = subject.range("pods/", At::Latest).await;
    assert!(revision >= gone.revision && items.is_empty());
    let mut feed = subject.feed("pods/", gone.revision).await;
    let next = subject.create("pods/ns/b", "1").await;
    assert!(next.revision > gone.revision, "revisions go on");
    assert_eq!(told(&take(feed.as_mut(), 1).await), told(&[next]));
}
