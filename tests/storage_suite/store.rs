//! Create, get, delete, update.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actors::engine::{At, Change, Expect, Key, LeaseId, Mutation, Outcome, Prepared, Revision};
use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt};
use serde_json::json;
use taffrail::api::status::{Status, StatusReason};
use taffrail::storage::codec::object_of;
use taffrail::storage::{
    Asked, Current, DeleteRequest, NewObject, Preconditions, StorageErrorKind, UpdateFunction,
    UpdateRequest, ValidateDeletion, WriteDecision, WriteOutcome,
};

use crate::harness::*;

const A: &str = "/pods/ns/a";

fn no(text: &str) -> Box<Status> {
    Box::new(Status::failure(409, StatusReason::CONFLICT, text))
}

fn physical(key: &str) -> Key {
    Key::new(format!("/registry{key}"))
}

pub async fn ts_1_create_answers_the_object_and_stores_no_version(h: Rc<Harness>) {
    assert!(h.get(A, Asked::Unset).await.unwrap().is_none());
    let mut pod = pod("ns", "a");
    pod.metadata_mut()
        .insert("selfLink".to_owned(), json!("/x"));
    let created = h.create(&pod).await;
    assert_eq!(created.attributes().name(), "a");
    assert!(created.revision > Revision::ZERO);
    let stored = h
        .engine
        .get(physical(A), At::Latest)
        .await
        .unwrap()
        .item
        .unwrap();
    assert_eq!(stored.revision, created.revision);
    let text = String::from_utf8(stored.value.to_vec()).unwrap();
    assert!(
        !text.contains("resourceVersion") && !text.contains("selfLink"),
        "{text}"
    );

    let mut versioned = crate::harness::pod("ns", "b");
    versioned.set_meta("resourceVersion", "1");
    let refused = h
        .storage
        .create("/pods/ns/b", versioned.clone().into(), origin())
        .await;
    assert!(matches!(kind(refused), StorageErrorKind::VersionOnCreate));
    // ST-31: 0 and what is no number are let through here.
    versioned.set_meta("resourceVersion", "0");
    h.storage
        .create("/pods/ns/b", versioned.into(), origin())
        .await
        .unwrap();
}

pub async fn ts_3_create_of_an_existing_key_is_refused(h: Rc<Harness>) {
    h.create(&pod("ns", "a")).await;
    let refused = h
        .storage
        .create(A, pod("ns", "a").into(), origin())
        .await
        .unwrap_err();
    assert!(matches!(refused.kind, StorageErrorKind::KeyExists));
    assert_eq!(refused.key, "/registry/pods/ns/a");
}

pub async fn ts_4_get_is_not_older_than_asked(h: Rc<Harness>) {
    let first = h.create(&pod("ns", "a")).await;
    let second = h.set_node(A, "n").await;
    let seen = h.get(A, Asked::Unset).await.unwrap().unwrap();
    assert_eq!(seen, second);
    for asked in [first.revision, second.revision] {
        let seen = h.get(A, Asked::At(asked)).await.unwrap().unwrap();
        assert!(seen.revision >= asked, "ST-20");
    }
    if let Some(seen) = h.get(A, Asked::Any).await.unwrap() {
        assert!(
            [first.revision, second.revision].contains(&seen.revision),
            "ST-25"
        );
    }
    let future = h.get(A, Asked::At(Revision(i64::MAX as u64))).await;
    assert!(
        matches!(kind(future), StorageErrorKind::TooLarge { .. }),
        "ST-25"
    );
    assert!(
        h.get("/pods/ns/none", Asked::Unset)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        h.get("/pods/ns/none", Asked::At(second.revision))
            .await
            .unwrap()
            .is_none(),
        "ST-24"
    );
}

pub async fn ts_5_unconditional_delete_answers_the_last_content_at_a_new_version(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let deleted = h.delete(A).await.unwrap();
    assert!(deleted.revision > created.revision, "ST-42");
    assert_eq!(deleted.stored_form(), created.stored_form());
    assert!(h.get(A, Asked::Unset).await.unwrap().is_none());
    assert!(matches!(
        kind(h.delete(A).await),
        StorageErrorKind::KeyNotFound
    ));
    let missing = h.delete_if(A, uid("x"), None, |_| Ok(())).await;
    assert!(
        matches!(kind(missing), StorageErrorKind::KeyNotFound),
        "ST-43"
    );
}

pub async fn ts_6_conditional_delete(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let refused = h.delete_if(A, uid("other"), None, |_| Ok(())).await;
    assert!(
        matches!(kind(refused), StorageErrorKind::InvalidObject(text)
        if text.contains("UID in precondition: other, UID in object meta: uid-a")),
        "API-100"
    );
    assert!(h.get(A, Asked::Unset).await.unwrap().is_some());
    let version = Preconditions {
        uid: None,
        resource_version: Some("999999".to_owned()),
    };
    let refused = h.delete_if(A, version, None, |_| Ok(())).await;
    assert!(matches!(kind(refused), StorageErrorKind::InvalidObject(_)));
    let right = Preconditions {
        uid: Some("uid-a".to_owned()),
        resource_version: Some(created.revision.to_string()),
    };
    h.delete_if(A, right, None, |_| Ok(())).await.unwrap();
}

pub async fn ts_7_delete_with_a_current_suggestion(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    h.delete_if(A, Preconditions::default(), Some(created), |_| Ok(()))
        .await
        .unwrap();
    assert!(h.get(A, Asked::Unset).await.unwrap().is_none());
}

pub async fn ts_8_delete_with_a_stale_suggestion_answers_the_newest_content(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let updated = h.set_node(A, "n").await;
    let deleted = h
        .delete_if(A, Preconditions::default(), Some(created), |_| Ok(()))
        .await
        .unwrap();
    assert_eq!(deleted.stored_form(), updated.stored_form());
}

pub async fn ts_9_a_change_during_validation_validates_again(h: Rc<Harness>) {
    h.create(&pod("ns", "a")).await;
    let calls = AtomicUsize::new(0);
    let engine = h.engine.clone();
    let changed = h.codec.encode(&with_node(pod("ns", "a"), "changed"));
    let deleted = h
        .delete_if(A, Preconditions::default(), None, |current| {
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                let mutation = put(Expect::Unchanged(current.revision), changed.clone());
                let outcome = wait(engine.commit(mutation)).unwrap();
                assert!(matches!(outcome, Outcome::Committed(_)));
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(
        deleted.stored_form(),
        h.codec.encode(&with_node(pod("ns", "a"), "changed"))
    );
}

pub async fn ts_10_delete_with_a_suggestion_of_a_deleted_object(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    h.delete(A).await.unwrap();
    let missing = h
        .delete_if(A, Preconditions::default(), Some(created), |_| Ok(()))
        .await;
    assert!(matches!(kind(missing), StorageErrorKind::KeyNotFound));
}

/// PF-19.
pub async fn ts_11_a_failing_validation_is_checked_on_fresh_data(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let calls = AtomicUsize::new(0);
    let refused = h
        .delete_if(A, Preconditions::default(), Some(created.clone()), |_| {
            calls.fetch_add(1, Ordering::SeqCst);
            Err(no("never"))
        })
        .await;
    assert!(
        matches!(kind(refused), StorageErrorKind::Refused(status) if status.message == "never")
    );
    assert_eq!(
        calls.swap(0, Ordering::SeqCst),
        1,
        "ST-45: once for a current suggestion"
    );

    let updated = h.set_node(A, "n").await;
    h.delete_if(A, Preconditions::default(), Some(created), |current| {
        calls.fetch_add(1, Ordering::SeqCst);
        if current.revision == updated.revision {
            Ok(())
        } else {
            Err(no("stale"))
        }
    })
    .await
    .unwrap();
    assert!(calls.load(Ordering::SeqCst) <= 2, "ST-45");
}

pub async fn ts_12_validation_passing_only_on_the_suggestion(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let updated = h.set_node(A, "n").await;
    let calls = AtomicUsize::new(0);
    let refused = h
        .delete_if(
            A,
            Preconditions::default(),
            Some(created.clone()),
            |current| {
                calls.fetch_add(1, Ordering::SeqCst);
                if current.revision == created.revision {
                    Ok(())
                } else {
                    Err(no("current"))
                }
            },
        )
        .await;
    assert!(matches!(kind(refused), StorageErrorKind::Refused(s) if s.message == "current"));
    assert!(calls.load(Ordering::SeqCst) <= 2);
    assert_eq!(h.get(A, Asked::Unset).await.unwrap().unwrap(), updated);
}

pub async fn ts_13_precondition_failing_only_on_the_suggestion(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let mut other = pod("ns", "a");
    other.set_meta("uid", "uid-new");
    h.update(A, |_| Ok(other.clone())).await.unwrap();
    h.delete_if(A, uid("uid-new"), Some(created), |_| Ok(()))
        .await
        .unwrap();
    assert!(h.get(A, Asked::Unset).await.unwrap().is_none());
}

pub async fn ts_14_precondition_passing_only_on_the_suggestion(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let mut other = pod("ns", "a");
    other.set_meta("uid", "uid-new");
    let updated = h.update(A, |_| Ok(other.clone())).await.unwrap();
    let refused = h
        .delete_if(A, uid("uid-a"), Some(created), |_| Ok(()))
        .await;
    assert!(matches!(kind(refused), StorageErrorKind::InvalidObject(_)));
    assert_eq!(h.get(A, Asked::Unset).await.unwrap().unwrap(), updated);
}

pub async fn ts_24_guaranteed_update(h: Rc<Harness>) {
    let missing = h
        .update(A, |_| panic!("ST-51: not called for an absent key"))
        .await;
    assert!(matches!(kind(missing), StorageErrorKind::KeyNotFound));

    let create = UpdateRequest {
        ignore_not_found: true,
        ..update_of(A)
    };
    let created = h
        .update_with(create, |current| {
            assert!(current.is_none());
            Ok(pod("ns", "a"))
        })
        .await
        .unwrap();
    let changed = h.set_node(A, "n").await;
    assert!(changed.revision > created.revision);

    let same = h.update(A, |current| Ok(current.unwrap())).await.unwrap();
    assert_eq!(same.revision, changed.revision, "ST-55, PF-3");
    let linked = h
        .update(A, |current| {
            let mut object = current.unwrap();
            object.set_meta("selfLink", "/x");
            Ok(object)
        })
        .await
        .unwrap();
    assert_eq!(linked.revision, changed.revision, "ST-62");
    assert_eq!(object_of(&linked).unwrap().meta("selfLink"), "");

    let right = UpdateRequest {
        preconditions: uid("uid-a"),
        ..update_of(A)
    };
    let same = h
        .update_with(right, |current| Ok(current.unwrap()))
        .await
        .unwrap();
    assert_eq!(same.revision, changed.revision);
    let wrong = UpdateRequest {
        preconditions: uid("x"),
        ..update_of(A)
    };
    let refused = h.update_with(wrong, |current| Ok(current.unwrap())).await;
    assert!(matches!(kind(refused), StorageErrorKind::InvalidObject(_)));
}

pub async fn ts_26_update_compares_stored_bytes(h: Rc<Harness>) {
    // The same object in another form of bytes, as another server may have stored it.
    let canonical = h.codec.encode(&pod("ns", "a"));
    let padded = [b"   ", canonical.as_slice()].concat();
    let outcome = h.engine.commit(put(Expect::Absent, padded)).await.unwrap();
    let Outcome::Committed(event) = outcome else {
        panic!("{outcome:?}")
    };
    let rewritten = h.update(A, |current| Ok(current.unwrap())).await.unwrap();
    assert!(rewritten.revision > event.revision, "ST-60: a real write");
    let suggested = UpdateRequest {
        suggestion: Some(rewritten.clone()),
        ..update_of(A)
    };
    let same = h
        .update_with(suggested, |current| Ok(current.unwrap()))
        .await
        .unwrap();
    assert_eq!(same.revision, rewritten.revision);
}

pub async fn ts_27_the_loser_of_a_race_is_called_twice(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let calls = AtomicUsize::new(0);
    let engine = h.engine.clone();
    let winner = h.codec.encode(&with_node(pod("ns", "a"), "winner"));
    let updated = h
        .update(A, |current| {
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                let mutation = put(Expect::Unchanged(created.revision), winner.clone());
                wait(engine.commit(mutation)).unwrap();
            }
            let mut object = current.unwrap();
            object.0.insert("loser".to_owned(), json!(true));
            Ok(object)
        })
        .await
        .unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    let object = object_of(&updated).unwrap();
    assert_eq!(object.text(&["spec", "nodeName"]), "winner");
    assert_eq!(object.at(&["loser"]), Some(&json!(true)));
}

/// PF-19.
pub async fn ts_28_errors_on_stale_suggestions_are_hidden(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let calls = AtomicUsize::new(0);
    h.set_node(A, "n").await;
    let stale = UpdateRequest {
        suggestion: Some(created),
        ..update_of(A)
    };
    let updated = h
        .update_with(stale, |current| {
            calls.fetch_add(1, Ordering::SeqCst);
            let mut object = current.unwrap();
            if object.text(&["spec", "nodeName"]) != "n" {
                return Err(no("stale"));
            }
            object.0.insert("more".to_owned(), json!(1));
            Ok(object)
        })
        .await
        .unwrap();
    assert!(calls.swap(0, Ordering::SeqCst) <= 2);
    let current = UpdateRequest {
        suggestion: Some(updated),
        ..update_of(A)
    };
    let refused = h
        .update_with(current, |_| {
            calls.fetch_add(1, Ordering::SeqCst);
            Err(no("really"))
        })
        .await;
    assert!(matches!(kind(refused), StorageErrorKind::Refused(s) if s.message == "really"));
    assert!(calls.load(Ordering::SeqCst) <= 2, "ST-53");
}

/// ST-52: of an object that was deleted and came again with another uid. Behind a cache the
/// caller's suggestion counts for nothing, the cache's own does (ST-44, ST-63).
pub async fn st_52_a_precondition_that_fails_on_a_suggestion_is_checked_on_the_state(
    h: Rc<Harness>,
) {
    let old = h.create(&pod("ns", "a")).await;
    h.delete(A).await.unwrap();
    let mut again = pod("ns", "a");
    again.set_meta("uid", "uid-other");
    h.create(&again).await;
    let wished = |uid: &str| UpdateRequest {
        suggestion: Some(old.clone()),
        preconditions: Preconditions {
            uid: Some(uid.to_owned()),
            ..Preconditions::default()
        },
        ..update_of(A)
    };
    let updated = h
        .update_with(wished("uid-other"), |current| {
            Ok(with_node(current.unwrap(), "n"))
        })
        .await
        .unwrap();
    assert_eq!(object_of(&updated).unwrap().uid(), "uid-other");
    let refused = h
        .update_with(wished("uid-a"), |current| Ok(current.unwrap()))
        .await;
    assert!(matches!(kind(refused), StorageErrorKind::InvalidObject(_)));
}

pub async fn ts_29_transformation_failures(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    // The cache, where there is one, has seen it; from now on nothing can be read from below.
    h.list(List::below("/pods")).await.unwrap();
    *h.faulty.fails.lock().unwrap() = true;
    let suggested = UpdateRequest {
        suggestion: Some(created),
        ..update_of(A)
    };
    let same = h
        .update_with(suggested, |current| Ok(current.unwrap()))
        .await;
    assert!(
        matches!(kind(same), StorageErrorKind::Internal(_)),
        "a no-op reads anew (ST-55)"
    );
    let created = h
        .storage
        .create("/pods/ns/b", pod("ns", "b").into(), origin())
        .await;
    assert!(
        matches!(kind(created), StorageErrorKind::Internal(_)),
        "ST-33"
    );
    if !h.layer.is_cached() {
        let got = h.get(A, Asked::Unset).await;
        assert!(
            matches!(kind(got), StorageErrorKind::Internal(text) if text.contains(A)),
            "ST-22"
        );
        let listed = h.list(List::below("/pods")).await;
        assert!(matches!(kind(listed), StorageErrorKind::Internal(text) if text.contains(A)));
        let deleted = h.delete(A).await;
        assert!(matches!(kind(deleted), StorageErrorKind::Internal(_)));
        let updated = h.update(A, |current| Ok(current.unwrap())).await;
        assert!(matches!(kind(updated), StorageErrorKind::Internal(_)));
    }
    *h.faulty.fails.lock().unwrap() = false;
    assert!(
        h.get(A, Asked::Unset).await.unwrap().is_some(),
        "nothing was deleted"
    );
}

pub async fn ts_30_stats_follow_creates_and_deletes(h: Rc<Harness>) {
    async fn count(h: &Harness) -> u64 {
        h.storage.stats().await.unwrap().object_count
    }
    assert_eq!(count(&h).await, 0);
    h.create(&pod("ns", "a")).await;
    assert_eq!(count(&h).await, 1);
    h.create(&pod("other", "b")).await;
    assert_eq!(count(&h).await, 2);
    h.set_node(A, "n").await;
    assert_eq!(count(&h).await, 2);
    h.delete(A).await.unwrap();
    assert_eq!(count(&h).await, 1);
    assert!(h.delete(A).await.is_err());
    assert_eq!(count(&h).await, 1);
    let average = h.storage.stats().await.unwrap().average_object_bytes;
    assert_eq!(
        average > 0,
        h.catches_up(),
        "ST-74: estimated where a cache is"
    );
    h.delete("/pods/other/b").await.unwrap();
    assert_eq!(count(&h).await, 0);
}

pub async fn ts_34_keys_are_checked_by_every_method(h: Rc<Harness>) {
    for bad in ["/", "", "/pods/../a", "/pods/./a", "/services/ns/a"] {
        let created = h.storage.create(bad, pod("ns", "a").into(), origin()).await;
        assert!(
            matches!(kind(created), StorageErrorKind::InvalidKey(_)),
            "{bad}"
        );
        assert!(matches!(
            kind(h.get(bad, Asked::Unset).await),
            StorageErrorKind::InvalidKey(_)
        ));
        assert!(matches!(
            kind(h.delete(bad).await),
            StorageErrorKind::InvalidKey(_)
        ));
        let listed = h.list(List::below(bad)).await;
        assert!(
            matches!(kind(listed), StorageErrorKind::InvalidKey(_)),
            "{bad}"
        );
        let updated = h.update(bad, |_| Ok(pod("ns", "a"))).await;
        assert!(matches!(kind(updated), StorageErrorKind::InvalidKey(_)));
        let watched = h.watch(Watch::below(bad)).await.map(|_| ());
        assert!(matches!(kind(watched), StorageErrorKind::InvalidKey(_)));
    }
    // ST-3: the bare prefix is a key that is always absent.
    assert!(h.get("/pods", Asked::Unset).await.unwrap().is_none());
}

pub async fn st_64_many_writers_of_one_key_lose_nothing(h: Rc<Harness>) {
    h.create(&pod("ns", "a")).await;
    let writers = (0..16).map(|writer| {
        let h = h.clone();
        async move {
            for turn in 0..5 {
                h.update(A, |current| {
                    let mut object = current.unwrap();
                    object.0.insert(format!("w{writer}-{turn}"), json!(1));
                    Ok(object)
                })
                .await
                .unwrap();
            }
        }
    });
    futures_util::future::join_all(writers).await;
    let object = object_of(&h.get(A, Asked::Unset).await.unwrap().unwrap()).unwrap();
    let marks = object.0.keys().filter(|name| name.starts_with('w')).count();
    assert_eq!(marks, 80);
}

pub async fn st_56_a_stale_value_is_written_anew(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    *h.faulty.stale.lock().unwrap() = true;
    let rewritten = h.update(A, |current| Ok(current.unwrap())).await.unwrap();
    assert!(rewritten.revision > created.revision, "ST-56, PF-4");
    *h.faulty.stale.lock().unwrap() = false;
    let same = h.update(A, |current| Ok(current.unwrap())).await.unwrap();
    assert_eq!(same.revision, rewritten.revision);
}

fn put(expect: Expect, value: Vec<u8>) -> Mutation {
    Mutation {
        key: physical(A),
        expect,
        change: Change::Put {
            value: value.into(),
            lease: LeaseId::default(),
        },
        origin: origin(),
        prepared: Prepared::default(),
    }
}

/// Waits for an engine inside a synchronous callback. It uses a separate runtime, because this
/// thread is blocked and an engine may answer on the runtime of the caller.
fn wait<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().unwrap().block_on(future)
        });
        waiting.join().unwrap()
    })
}

pub async fn st_34_what_was_acknowledged_is_read_at_once(h: Rc<Harness>) {
    // The cache learns of a write by its watch; who reads after the answer must not notice.
    let mut newest = h.create(&pod("ns", "a")).await;
    for number in 0..50 {
        let seen = h.get(A, Asked::Unset).await.unwrap().unwrap();
        assert_eq!(seen, newest, "ST-23");
        let seen = h.get(A, Asked::At(newest.revision)).await.unwrap().unwrap();
        assert_eq!(seen, newest, "ST-23");
        newest = h.set_node(A, &format!("n{number}")).await;
    }
    h.delete(A).await.unwrap();
    assert_eq!(h.get(A, Asked::Unset).await.unwrap(), None);
}

pub async fn st_61_updates_see_the_current_version_and_answer_the_new_one(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let mut versions = Vec::new();
    let updated = h
        .update(A, |current| {
            let mut object = current.unwrap();
            versions.push(object.meta("resourceVersion").to_owned());
            object.set_meta("resourceVersion", "1");
            Ok(with_node(object, "n"))
        })
        .await
        .unwrap();
    assert_eq!(versions, [created.revision.to_string()], "ST-8, ST-61");
    assert_eq!(updated.revision, h.revision().await, "ST-59");
    let answered = object_of(&updated).unwrap();
    let version = updated.revision.to_string();
    assert_eq!(answered.meta("resourceVersion"), version, "ST-59");
    let stored = h
        .engine
        .get(actors::engine::Key::new("/registry/pods/ns/a"), At::Latest);
    let stored = stored.await.unwrap().item.unwrap();
    let stored: serde_json::Value = serde_json::from_slice(&stored.value).unwrap();
    let kept = &stored["metadata"]["resourceVersion"];
    assert!(kept.is_null(), "ST-54: {stored}");
}

pub async fn st_30_what_was_written_is_decoded_once(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let updated = h.set_node(A, "n").await;
    for written in [&created, &updated] {
        let codec = h.codec.decode_stored(
            &physical(A),
            written.revision,
            &h.codec.stored_form(written),
        );
        assert_eq!(**written, codec.unwrap());
    }
    h.settled(updated.revision).await;
    let seen = h.get(A, Asked::Any).await.unwrap().unwrap();
    assert_eq!(seen, updated);
    // An engine in this process passes on what the writer knows, so the cache reads no value.
    let is_here = !matches!(h.layer.engine, EngineKind::Etcd(_));
    *h.faulty.unreadable.lock().unwrap() = Some("/b");
    let unread = h.create(&pod("ns", "b")).await;
    let seen = h.get("/pods/ns/b", Asked::Unset).await;
    assert_eq!(seen.is_ok(), h.layer.is_cached() && is_here);
    if let Ok(seen) = seen {
        assert_eq!(seen.unwrap(), unread);
    }
}

pub async fn st_51_an_update_of_a_hot_key_that_is_deleted_finds_nothing(h: Rc<Harness>) {
    h.create(&pod("ns", "a")).await;
    // Beaten writers take turns and leave what they wrote for the next one.
    let writers = (0..8).map(|writer| {
        let h = h.clone();
        async move { h.set_node(A, &format!("n{writer}")).await }
    });
    let written = futures_util::future::join_all(writers).await;
    let last = written.iter().max_by_key(|object| object.revision).unwrap();
    h.delete(A).await.unwrap();
    let late = UpdateRequest {
        suggestion: Some(last.clone()),
        ..update_of(A)
    };
    let mut calls = 0;
    let answer = h
        .update_with(late, |current| {
            calls += 1;
            Ok(with_node(current.unwrap(), "late"))
        })
        .await;
    assert!(matches!(kind(answer), StorageErrorKind::KeyNotFound));
    assert!(calls <= 2, "called {calls} times");
}

/// Leaves every object unchanged, and remembers its versions.
#[derive(Default)]
struct Leave(Vec<Revision>);

impl UpdateFunction for Leave {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<NewObject>, Box<Status>>> {
        self.0.push(current.object.unwrap().revision);
        std::future::ready(Ok(WriteDecision::Leave)).boxed()
    }
}

impl ValidateDeletion for Leave {
    fn call(
        &mut self,
        current: &Arc<CachedObject>,
    ) -> BoxFuture<'_, Result<WriteDecision<()>, Box<Status>>> {
        self.0.push(current.revision);
        std::future::ready(Ok(WriteDecision::Leave)).boxed()
    }
}

pub async fn st_53_an_object_is_left_only_in_its_current_state(h: Rc<Harness>) {
    let old = h.create(&pod("ns", "a")).await;
    let new = h.set_node(A, "n").await;
    for suggestion in [&old, &new] {
        let mut leave = Leave::default();
        let update = UpdateRequest {
            suggestion: Some(suggestion.clone()),
            ..update_of(A)
        };
        let outcome = h.storage.guaranteed_update(update, &mut leave).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Left)), "{outcome:?}");
        assert_eq!(leave.0.last(), Some(&new.revision));
        let mut leave = Leave::default();
        let deletion = DeleteRequest {
            key: A.to_owned(),
            preconditions: Preconditions::default(),
            suggestion: Some(suggestion.clone()),
            origin: origin(),
        };
        let outcome = h.storage.delete(deletion, &mut leave).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Left)), "{outcome:?}");
        assert_eq!(leave.0.last(), Some(&new.revision));
    }
    assert_eq!(h.get(A, Asked::Unset).await.unwrap(), Some(new));
}
