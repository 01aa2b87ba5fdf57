//! Commits and refusals.

use actors::engine::{
    Change, EngineError, EventKind, Expect, LeaseId, Mutation, Origin, Outcome, Revision, ticket,
};
use bytes::Bytes;
use futures_util::future::join_all;

use crate::subjects::{Subject, committed, mutation, put, refused};

pub async fn a_create_stores_under_an_absent_key_only_st_30(subject: Subject) {
    let event = subject.create("pods/a/b", "1").await;
    assert_eq!(event.kind, EventKind::Put);
    assert_eq!(event.create_revision, event.revision);
    assert_eq!((event.prev_revision, event.version), (Revision::ZERO, 1));
    assert_eq!(event.value, "1");
    let again = subject.commit("pods/a/b", Expect::Absent, put("2")).await;
    let (current, revision) = refused(again);
    let current = current.unwrap();
    assert_eq!(
        (current.value.as_ref(), current.revision),
        (b"1".as_slice(), event.revision)
    );
    assert!(revision >= event.revision);
    assert_eq!(subject.get("pods/a/b").await.unwrap().value, "1");
}

pub async fn an_update_needs_the_revision_it_was_computed_from_st_58(subject: Subject) {
    let first = subject.create("pods/a/b", "1").await;
    let second = subject.update("pods/a/b", first.revision, "2").await;
    assert!(second.revision > first.revision);
    assert_eq!(second.prev_revision, first.revision);
    let stale = Expect::Unchanged(first.revision);
    refused(subject.commit("pods/a/b", stale.clone(), put("3")).await);
    refused(subject.commit("pods/a/b", stale, Change::Delete).await);
    let future = Expect::Unchanged(Revision(second.revision.0 + 1));
    refused(subject.commit("pods/a/b", future, put("3")).await);
    let now = subject.get("pods/a/b").await.unwrap();
    assert_eq!(
        (now.value.as_ref(), now.revision),
        (b"2".as_slice(), second.revision)
    );
}

pub async fn a_refusal_shows_the_current_value_or_that_there_is_none_st_41_st_58(subject: Subject) {
    let first = subject.create("pods/a/b", "1").await;
    let second = subject.update("pods/a/b", first.revision, "2").await;
    let stale = Expect::Unchanged(first.revision);
    let (current, _) = refused(subject.commit("pods/a/b", stale, put("3")).await);
    assert_eq!(current, subject.get("pods/a/b").await);
    let current = current.unwrap();
    assert_eq!(
        (current.version, current.create_revision),
        (2, first.revision)
    );
    let third = subject.delete("pods/a/b", second.revision).await;
    let since = Expect::Unchanged(second.revision);
    let (current, revision) = refused(subject.commit("pods/a/b", since, put("3")).await);
    assert_eq!(current, None);
    assert!(revision >= third.revision);
}

pub async fn a_delete_has_a_revision_of_its_own_pf_1(subject: Subject) {
    let first = subject.create("pods/a/b", "1").await;
    let gone = subject.delete("pods/a/b", first.revision).await;
    assert_eq!(gone.kind, EventKind::Delete);
    assert!(gone.revision > first.revision);
    assert_eq!(gone.prev_revision, first.revision);
    assert_eq!(gone.create_revision, first.revision);
    assert_eq!((gone.version, gone.value.len()), (0, 0));
    assert_eq!(subject.get("pods/a/b").await, None);
}

pub async fn versions_count_puts_since_the_key_came_into_being(subject: Subject) {
    let mut event = subject.create("pods/a/b", "x").await;
    let born = event.revision;
    for version in 2..=4 {
        event = subject.update("pods/a/b", event.revision, "y").await;
        assert_eq!((event.version, event.create_revision), (version, born));
    }
    let item = subject.get("pods/a/b").await.unwrap();
    assert_eq!((item.version, item.create_revision), (4, born));
}

pub async fn a_deleted_key_can_be_created_again(subject: Subject) {
    let first = subject.create("pods/a/b", "1").await;
    let gone = subject.delete("pods/a/b", first.revision).await;
    let again = subject.create("pods/a/b", "2").await;
    assert!(again.revision > gone.revision);
    assert_eq!(again.create_revision, again.revision);
    assert_eq!((again.prev_revision, again.version), (Revision::ZERO, 1));
}

pub async fn nothing_is_deleted_under_an_absent_key(subject: Subject) {
    let other = subject.create("pods/a/b", "1").await;
    for expect in [Expect::Absent, Expect::Unchanged(other.revision)] {
        let outcome = subject.commit("pods/a/none", expect, Change::Delete).await;
        assert_eq!(refused(outcome).0, None);
    }
    let next = subject.create("pods/a/c", "1").await;
    assert!(next.revision > other.revision);
}

pub async fn revisions_strictly_increase_over_all_keys_and_writers(subject: Subject) {
    let subject = &subject;
    let writers = (0..16).map(|writer| async move {
        let mut revisions = Vec::new();
        for count in 0..10 {
            let event = subject.create(&format!("pods/{writer}/{count}"), "x").await;
            assert!(revisions.last().is_none_or(|last| *last < event.revision));
            revisions.push(event.revision);
        }
        revisions
    });
    let mut all: Vec<Revision> = join_all(writers).await.concat();
    all.sort();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "a revision was used twice");
}

pub async fn queued_mutations_follow_each_other_before_they_are_durable_st_58(subject: Subject) {
    let first = subject.create("pods/a/b", "0").await;
    let mut expect = Expect::Unchanged(first.revision);
    let mut outcomes = Vec::new();
    for value in ["1", "2", "3"] {
        let (issuer, ticket) = ticket();
        let queued = mutation(subject.key("pods/a/b"), expect, put(value));
        // Nobody waits for the followers of the last one for ever: there are none.
        let issuer = issuer.with_followers();
        outcomes.push(subject.engine.queue(queued, issuer).await);
        expect = Expect::LeftBy(ticket);
    }
    let last = expect.clone();
    let mut before = first;
    for (outcome, value) in outcomes.into_iter().zip(["1", "2", "3"]) {
        let event = committed(outcome.await.unwrap());
        assert_eq!(
            (event.prev_revision, &*event.value),
            (before.revision, value.as_bytes())
        );
        before = event;
    }
    // What it has left is known by its revision from now on.
    let Expect::LeftBy(ticket) = &last else {
        panic!("{last:?}");
    };
    assert_eq!(ticket.settled().await, Some(before.revision));
    let next = committed(subject.commit("pods/a/b", last.clone(), put("4")).await);
    assert_eq!(next.prev_revision, before.revision);
    let (current, _) = refused(subject.commit("pods/a/b", last, put("5")).await);
    assert_eq!(current.unwrap().revision, next.revision);
}

pub async fn nothing_follows_a_mutation_that_failed_st_58(subject: Subject) {
    let created = subject.create("pods/a/b", "0").await;
    let changed = subject.update("pods/a/b", created.revision, "1").await;
    let (issuer, void) = ticket();
    let stale = Expect::Unchanged(created.revision);
    let stale = mutation(subject.key("pods/a/b"), stale, put("2"));
    let failing = subject.engine.queue(stale, issuer).await;
    for change in [put("3"), Change::Delete] {
        let (issuer, ticket) = ticket();
        let expect = Expect::LeftBy(void.clone());
        let next = mutation(subject.key("pods/a/b"), expect, change);
        let outcome = subject.engine.queue(next, issuer).await.await;
        assert_eq!(
            refused(outcome.unwrap()).0.unwrap().revision,
            changed.revision
        );
        assert_eq!(ticket.settled().await, None);
    }
    refused(failing.await.unwrap());
    // Nor is a key created that was absent.
    let nothing = subject
        .commit("pods/a/c", Expect::LeftBy(void), put("3"))
        .await;
    assert_eq!(refused(nothing).0, None);
}

pub async fn of_rivals_for_one_revision_exactly_one_wins_st_58(subject: Subject) {
    let mut current = subject.create("pods/a/b", "0").await;
    for round in 0..10 {
        let expect = Expect::Unchanged(current.revision);
        let rivals = (0..8).map(|rival| {
            let change = put(&format!("{round}-{rival}"));
            subject.commit("pods/a/b", expect.clone(), change)
        });
        let outcomes = join_all(rivals).await;
        let (won, lost): (Vec<_>, Vec<_>) = outcomes
            .into_iter()
            .partition(|outcome| matches!(outcome, Outcome::Committed(_)));
        assert_eq!((won.len(), lost.len()), (1, 7));
        current = committed(won.into_iter().next().unwrap());
        for outcome in lost {
            let seen = refused(outcome).0.unwrap();
            assert_eq!(
                (seen.revision, &seen.value),
                (current.revision, &current.value)
            );
        }
    }
}

pub async fn empty_and_large_values_come_back_as_they_were(subject: Subject) {
    let large = "x".repeat(1_200_000);
    let binary = Bytes::from((0..=255).collect::<Vec<u8>>());
    subject.create("pods/a/empty", "").await;
    subject.create("pods/a/large", &large).await;
    let change = Change::Put {
        value: binary.clone(),
        lease: LeaseId(0),
    };
    subject
        .commit("pods/a/binary", Expect::Absent, change)
        .await;
    assert_eq!(subject.get("pods/a/empty").await.unwrap().value, "");
    assert_eq!(subject.get("pods/a/large").await.unwrap().value, large);
    assert_eq!(subject.get("pods/a/binary").await.unwrap().value, binary);
    let (_, all) = subject.range("pods/", actors::engine::At::Latest).await;
    assert_eq!(all.len(), 3);
}

pub async fn what_is_too_large_is_refused_and_nothing_is_done(subject: Subject) {
    // Memory has no limit to meet; every other engine has.
    for mebibytes in [3, 64] {
        let name = format!("pods/a/huge{mebibytes}");
        let huge = put(&"x".repeat(mebibytes << 20));
        let request = mutation(subject.key(&name), Expect::Absent, huge);
        match subject.engine.commit(request).await {
            Ok(_) => assert!(subject.get(&name).await.is_some()),
            Err(EngineError::TooLarge(_)) => assert_eq!(subject.get(&name).await, None),
            Err(other) => panic!("{other}"),
        }
    }
    subject.create("pods/a/next", "1").await;
}

pub async fn dropping_the_future_does_not_cancel_the_commit(subject: Subject) {
    let mut feed = subject.feed("pods/", Revision::ZERO).await;
    let mut request =
        subject
            .engine
            .commit(mutation(subject.key("pods/a/b"), Expect::Absent, put("1")));
    // Polled once: the request is sent.
    let _ = futures_util::poll!(&mut request);
    drop(request);
    let events = crate::subjects::take(feed.as_mut(), 1).await;
    assert_eq!(events[0].key, subject.key("pods/a/b"));
    assert!(subject.get("pods/a/b").await.is_some());
}

pub async fn origin_and_time_are_kept(subject: Subject) {
    let origin = Origin {
        user: "admin".into(),
        manager: "kubectl-create".into(),
        audit_id: "0000-11".into(),
    };
    let request = Mutation {
        origin: origin.clone(),
        ..mutation(subject.key("pods/a/b"), Expect::Absent, put("1"))
    };
    let event = committed(subject.engine.commit(request).await.unwrap());
    assert_eq!((&event.origin, event.time), (&origin, subject.clock.now()));
    let mut feed = subject.feed("pods/", Revision(event.revision.0 - 1)).await;
    assert_eq!(crate::subjects::take(feed.as_mut(), 1).await, [event]);
}
