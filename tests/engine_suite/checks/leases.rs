//! Leases: keys with a lease are deleted when it expires, and other keys stay.
//!
//! An engine whose server expires leases by itself does so a little later. The checks let time
//! pass, run the engine's expiry, and wait for the deletions.

use std::collections::BTreeSet;
use std::time::Duration;

use actors::engine::{At, EngineError, EventKind, Expect, LeaseId};
use futures_util::future::join_all;

use crate::subjects::{Subject, TTL, committed, leased, mutation, put, refused, take, told};

pub async fn a_put_replaces_the_lease_and_without_one_detaches_it_st_57(subject: Subject) {
    let (one, other) = (subject.lease().await, subject.lease().await);
    let first = subject.attach("pods/a/b", one).await;
    assert_eq!(first.lease, one);
    assert_eq!(subject.get("pods/a/b").await.unwrap().lease, one);
    let second = subject.attach("pods/a/b", other).await;
    assert_eq!(subject.get("pods/a/b").await.unwrap().lease, other);
    subject.update("pods/a/b", second.revision, "y").await;
    assert_eq!(subject.get("pods/a/b").await.unwrap().lease, LeaseId(0));
}

pub async fn keys_go_when_their_lease_runs_out_each_by_an_event_wa_23(subject: Subject) {
    let lease = subject.lease().await;
    let other = subject.create("pods/a/other", "x").await;
    let mut feed = subject.feed("pods/", other.revision).await;
    let mut put = Vec::new();
    for name in ["a", "b", "c"] {
        put.push(subject.attach(&format!("pods/a/{name}"), lease).await);
    }
    assert_eq!(told(&take(feed.as_mut(), 3).await), told(&put));
    subject.outlive_leases();
    subject.expire().await;
    let gone = take(feed.as_mut(), 3).await;
    let mut last = put[2].revision;
    let mut keys = BTreeSet::new();
    for event in &gone {
        assert_eq!((event.kind, event.value.len()), (EventKind::Delete, 0));
        assert!(event.revision >= last && event.revision > put[2].revision);
        // Not every engine knows why a key went.
        assert!([lease, LeaseId(0)].contains(&event.lease));
        last = event.revision;
        let born = put.iter().find(|put| put.key == event.key).unwrap();
        assert_eq!(event.prev_revision, born.revision);
        keys.insert(event.key.clone());
    }
    assert_eq!(keys.len(), 3);
    let (revision, left) = subject.range("pods/", At::Latest).await;
    assert!(revision >= last);
    let left: Vec<_> = left.into_iter().map(|item| item.key).collect();
    assert_eq!(left, [subject.key("pods/a/other")]);
}

pub async fn a_key_whose_lease_was_taken_away_stays_pf_5(subject: Subject) {
    let lease = subject.lease().await;
    let first = subject.attach("pods/a/stays", lease).await;
    subject.update("pods/a/stays", first.revision, "y").await;
    subject.attach("pods/a/goes", lease).await;
    subject.outlive_leases();
    subject.expire().await;
    subject.gone("pods/a/goes").await;
    assert_eq!(subject.get("pods/a/stays").await.unwrap().value, "y");
}

pub async fn a_key_lives_as_long_as_the_lease_of_its_newest_put_op_4(subject: Subject) {
    let lease = subject.lease().await;
    subject.attach("pods/a/b", lease).await;
    subject.attach("pods/a/c", lease).await;
    let long = subject.engine.grant(3600 * TTL).await.unwrap().id;
    subject.attach("pods/a/b", long).await;
    subject.outlive_leases();
    subject.expire().await;
    subject.gone("pods/a/c").await;
    assert_eq!(subject.get("pods/a/b").await.unwrap().lease, long);
    subject.engine.revoke(long).await.unwrap();
    assert_eq!(subject.get("pods/a/b").await, None);
}

pub async fn a_key_that_was_deleted_is_detached(subject: Subject) {
    let lease = subject.lease().await;
    let first = subject.attach("pods/a/b", lease).await;
    subject.delete("pods/a/b", first.revision).await;
    subject.create("pods/a/b", "again").await;
    let second = subject.attach("pods/a/c", lease).await;
    subject.delete("pods/a/c", second.revision).await;
    subject.engine.revoke(lease).await.unwrap();
    assert_eq!(subject.get("pods/a/b").await.unwrap().value, "again");
    let (revision, _) = subject.range("pods/", At::Latest).await;
    subject.expire().await;
    assert_eq!(subject.range("pods/", At::Latest).await.0, revision);
}

pub async fn a_put_that_names_a_lease_that_is_gone_is_refused_and_nothing_is_done(
    subject: Subject,
) {
    let lease = subject.lease().await;
    let first = subject.attach("pods/a/b", lease).await;
    let other = subject.lease().await;
    subject.engine.revoke(other).await.unwrap();
    for gone in [other, LeaseId(u64::MAX >> 1)] {
        let wishes = [
            ("pods/a/none", Expect::Absent),
            ("pods/a/b", Expect::Unchanged(first.revision)),
        ];
        for (name, expect) in wishes {
            let request = mutation(subject.key(name), expect, leased("new", gone));
            let answer = subject.engine.commit(request).await;
            assert_eq!(answer, Err(EngineError::LeaseNotFound(gone)));
        }
    }
    assert_eq!(subject.get("pods/a/none").await, None);
    let kept = subject.get("pods/a/b").await.unwrap();
    assert_eq!((kept.revision, kept.lease), (first.revision, lease));
}

pub async fn a_refusal_comes_before_the_lease_is_looked_at_st_58(subject: Subject) {
    let first = subject.create("pods/a/b", "1").await;
    let gone = subject.lease().await;
    subject.engine.revoke(gone).await.unwrap();
    let outcome = subject
        .commit("pods/a/b", Expect::Absent, leased("2", gone))
        .await;
    assert_eq!(refused(outcome).0.unwrap().revision, first.revision);
}

pub async fn revoking_deletes_before_it_answers_and_only_once(subject: Subject) {
    let (lease, other) = (subject.lease().await, subject.lease().await);
    let kept = subject.attach("pods/a/kept", other).await;
    let mut feed = subject.feed("pods/", kept.revision).await;
    for name in ["a", "b"] {
        subject.attach(&format!("pods/a/{name}"), lease).await;
    }
    subject.engine.revoke(lease).await.unwrap();
    let (_, left) = subject.range("pods/", At::Latest).await;
    assert_eq!(left.len(), 1);
    let events = take(feed.as_mut(), 4).await;
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    let expected = [
        EventKind::Put,
        EventKind::Put,
        EventKind::Delete,
        EventKind::Delete,
    ];
    assert_eq!(kinds, expected);
    for gone in [lease, LeaseId(u64::MAX >> 1)] {
        let again = subject.engine.revoke(gone).await;
        assert_eq!(again, Err(EngineError::LeaseNotFound(gone)));
    }
    subject.attach("pods/a/kept", other).await;
}

pub async fn a_lease_without_keys_vanishes_when_its_time_is_over(subject: Subject) {
    let lease = subject.lease().await;
    let other = subject.lease().await;
    subject.attach("pods/a/b", other).await;
    subject.outlive_leases();
    subject.expire().await;
    subject.gone("pods/a/b").await;
    // The other one has gone before, or goes within the same moment.
    subject.ended(lease).await;
    let request = mutation(subject.key("pods/a/c"), Expect::Absent, leased("x", lease));
    let answer = subject.engine.commit(request).await;
    assert_eq!(answer, Err(EngineError::LeaseNotFound(lease)));
    assert_eq!(subject.engine.expire().await.unwrap().next, None);
}

pub async fn a_lease_is_granted_for_at_least_so_long_and_its_number_is_its_own_op_2(
    subject: Subject,
) {
    let mut numbers = BTreeSet::new();
    for seconds in [1, 20, 3660, 366 * 24 * 3600] {
        let ttl = Duration::from_secs(seconds);
        let lease = subject.engine.grant(ttl).await.unwrap();
        assert!(lease.ttl >= ttl && lease.id != LeaseId(0));
        assert!(numbers.insert(lease.id), "{lease:?}");
    }
    let granted = join_all((0..16).map(|_| subject.lease())).await;
    numbers.extend(granted);
    assert_eq!(numbers.len(), 20);
}

pub async fn expiry_has_nothing_to_do_before_anything_is_due(subject: Subject) {
    assert_eq!(subject.engine.expire().await.unwrap().next, None);
    let lease = subject.engine.grant(3600 * TTL).await.unwrap();
    let event = subject.attach("pods/a/b", lease.id).await;
    let idle = subject.engine.expire().await.unwrap();
    assert_eq!((idle.expired, idle.more), (0, false));
    assert!(idle.next.is_none_or(|next| next <= lease.ttl));
    assert_eq!(
        subject.get("pods/a/b").await.unwrap().revision,
        event.revision
    );
}

pub async fn many_keys_go_in_steps_and_none_is_left_or_deleted_twice(subject: Subject) {
    const KEYS: usize = 500;
    let leases = [subject.lease().await, subject.lease().await];
    let start = subject.create("pods/a/start", "x").await;
    let mut feed = subject.feed("pods/", start.revision).await;
    let puts = (0..KEYS).map(|count| {
        let key = subject.key(&format!("pods/b/{count}"));
        let change = leased("x", leases[count % 2]);
        subject.engine.commit(mutation(key, Expect::Absent, change))
    });
    for outcome in join_all(puts).await {
        committed(outcome.unwrap());
    }
    take(feed.as_mut(), KEYS).await;
    subject.outlive_leases();
    let expired = subject.expire().await;
    assert!(expired == 0 || expired == KEYS as u64, "{expired}");
    let mut gone = BTreeSet::new();
    for event in take(feed.as_mut(), KEYS).await {
        assert_eq!(event.kind, EventKind::Delete);
        assert!(gone.insert(event.key), "deleted twice");
    }
    assert_eq!(gone.len(), KEYS);
    let (_, left) = subject.range("pods/", At::Latest).await;
    assert_eq!(left.len(), 1);
    assert_eq!(subject.expire().await, 0);
}

pub async fn compaction_forgets_no_lease_that_is_alive(subject: Subject) {
    let lease = subject.engine.grant(3600 * TTL).await.unwrap().id;
    let unused = subject.engine.grant(3600 * TTL).await.unwrap().id;
    subject.attach("pods/a/once", lease).await;
    for _ in 0..20 {
        subject.attach("pods/a/often", lease).await;
    }
    let first = subject.attach("pods/a/deleted", lease).await;
    subject.delete("pods/a/deleted", first.revision).await;
    let last = subject.create("pods/a/other", "1").await;
    subject.engine.compact(last.revision).await.unwrap();
    // What a server of its own removes is not told.
    let removed = subject.maintain().await;
    assert!(removed == 0 || removed > 20, "{removed}");
    subject.attach("pods/a/later", lease).await;
    subject.attach("pods/a/unused", unused).await;
    for lease in [lease, unused] {
        subject.engine.revoke(lease).await.unwrap();
    }
    let (_, left) = subject.range("pods/", At::Latest).await;
    let left: Vec<_> = left.into_iter().map(|item| item.key).collect();
    assert_eq!(left, [subject.key("pods/a/other")]);
}

pub async fn readers_and_writers_go_on_while_keys_expire(subject: Subject) {
    let lease = subject.lease().await;
    // The keys of more than two steps of an expiry, and all at once, because an etcd on a slow
    // disk ends the lease meanwhile.
    let names: Vec<String> = (0..150).map(|count| format!("pods/b/{count}")).collect();
    join_all(names.iter().map(|name| subject.attach(name, lease))).await;
    subject.outlive_leases();
    let writes = async {
        for count in 0..50 {
            let name = format!("pods/c/{count}");
            let request = mutation(subject.key(&name), Expect::Absent, put("1"));
            committed(subject.engine.commit(request).await.unwrap());
            assert!(subject.get(&name).await.is_some());
        }
    };
    futures_util::join!(writes, subject.expire());
    // An engine may delete them in steps, in any order.
    for name in &names {
        subject.gone(name).await;
    }
    let (_, left) = subject.range("pods/", At::Latest).await;
    assert_eq!(left.len(), 50);
}
