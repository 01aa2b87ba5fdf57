//! The revisions of the store and of a prefix.

use actors::engine::Revision;
use futures_util::future::join_all;

use crate::subjects::Subject;

pub async fn the_position_is_the_stores_and_not_the_prefixs_st_70_pf_28(subject: Subject) {
    let pods = subject.prefix("pods/");
    subject.engine.known(&pods);
    subject.create("pods/ns/a", "1").await;
    let node = subject.create("minions/a", "1").await;
    let current = subject.engine.current(&pods).await.unwrap();
    assert!(current.revision >= node.revision);
    assert!(current.prefix_revision <= current.revision);
    let known = subject.engine.known(&pods);
    assert!(known.revision >= node.revision);
}

/// A reader of the prefix up to `prefix_revision` has seen all of it up to `revision`.
pub async fn a_quiet_prefix_stays_where_its_last_event_was(subject: Subject) {
    let pods = subject.prefix("pods/");
    subject.engine.known(&pods);
    let pod = subject.create("pods/ns/a", "1").await;
    let mut feed = subject.feed("pods/", pod.revision).await;
    for count in 0..20 {
        subject.create(&format!("minions/{count}"), "1").await;
    }
    let position = subject.engine.current(&pods).await.unwrap();
    assert!(position.prefix_revision >= pod.revision);
    if position.prefix_revision == pod.revision {
        assert!(crate::subjects::is_silent(feed.as_mut()).await);
    }
    let moved = subject.update("pods/ns/a", pod.revision, "2").await;
    let position = subject.engine.current(&pods).await.unwrap();
    assert!(position.prefix_revision >= moved.revision);
}

pub async fn the_position_covers_every_acknowledged_commit_st_70(subject: Subject) {
    let subject = &subject;
    let writers = (0..8).map(|writer| async move {
        let prefix = subject.prefix(&format!("pods/{writer}/"));
        for count in 0..20 {
            let event = subject.create(&format!("pods/{writer}/{count}"), "x").await;
            let position = subject.engine.current(&prefix).await.unwrap();
            assert!(position.revision >= event.revision);
            assert!(position.prefix_revision >= event.revision);
        }
    });
    join_all(writers).await;
    let everything = subject.engine.current(&subject.prefix("")).await.unwrap();
    assert!(everything.revision > Revision::ZERO);
}
