//! The start, the statistics and the close of an engine.

use actors::engine::{At, EngineError, Expect, Health, LeaseId, Revision};

use crate::subjects::{Subject, TTL, mutation, put};

pub async fn a_fresh_engine_serves_and_is_empty(subject: Subject) {
    assert_eq!(subject.engine.health(), Health::Serving);
    assert_eq!(subject.engine.compacted(), Revision::ZERO);
    let (_, items) = subject.range("", At::Latest).await;
    assert!(items.is_empty());
    let first = subject.create("pods/ns/a", "1").await;
    assert!(first.revision > Revision::ZERO);
}

pub async fn a_closed_engine_answers_closed_and_ends_feeds(subject: Subject) {
    let event = subject.create("pods/ns/a", "1").await;
    let mut feed = subject.feed("pods/", event.revision).await;
    subject.engine.close().await;
    assert_eq!(feed.next().await, Err(EngineError::Closed));
    let create = mutation(subject.key("pods/ns/b"), Expect::Absent, put("1"));
    assert_eq!(
        subject.engine.commit(create).await,
        Err(EngineError::Closed)
    );
    let read = subject
        .engine
        .get(subject.key("pods/ns/a"), At::Latest)
        .await;
    assert_eq!(read, Err(EngineError::Closed));
    let opened = subject
        .engine
        .feed(subject.prefix("pods/"), event.revision)
        .await;
    assert_eq!(opened.map(|_| ()), Err(EngineError::Closed));
    assert_eq!(
        subject.engine.maintain(true).await,
        Err(EngineError::Closed)
    );
    assert_eq!(
        subject.engine.compact(event.revision).await,
        Err(EngineError::Closed)
    );
    let lease = subject.engine.grant(TTL).await;
    assert_eq!(lease, Err(EngineError::Closed));
    let revoked = subject.engine.revoke(LeaseId(1)).await;
    assert_eq!(revoked, Err(EngineError::Closed));
    assert_eq!(subject.engine.expire().await, Err(EngineError::Closed));
    assert!(matches!(subject.engine.health(), Health::Down(_)));
    subject.engine.close().await;
}

pub async fn stats_follow_puts_and_deletes_st_74(subject: Subject) {
    let count = || subject.engine.stats().live_keys;
    let a = subject.create("pods/ns/a", "1").await;
    assert_eq!(count(), 1);
    let b = subject.create("pods/ns/b", "1").await;
    subject.update("pods/ns/b", b.revision, "2").await;
    assert_eq!(count(), 2);
    subject.delete("pods/ns/a", a.revision).await;
    assert_eq!(count(), 1);
    assert!(subject.engine.stats().retained_bytes > 0);
}
