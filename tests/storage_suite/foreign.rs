//! Values that are not objects of the daemon: protobuf of another server, or unreadable bytes.

use std::rc::Rc;
use std::time::Duration;

use actors::engine::{At, Change, Expect, Key, LeaseId, Mutation, Outcome, Prepared, Revision};
use bytes::Bytes;
use serde_json::json;
use taffrail::storage::{Asked, StorageErrorKind};

use crate::harness::{Harness, List, Watch, kind, names, origin, pod, uid, update_of, with_node};

/// What kube-apiserver stores unless told otherwise, cut short.
const PROTOBUF: &[u8] = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00\x1a\x00\x22\x00";
const GARBAGE: &[u8] = b"\xff\x00 nothing at all";

fn key(name: &str) -> Key {
    Key::new(format!("/registry/pods/{name}"))
}

/// Another client writes a value without the storage.
pub async fn put(h: &Harness, name: &str, value: &[u8]) -> Revision {
    let current = h.engine.get(key(name), At::Latest).await.unwrap().item;
    let mutation = Mutation {
        key: key(name),
        expect: current.map_or(Expect::Absent, |item| Expect::Unchanged(item.revision)),
        change: Change::Put {
            value: Bytes::copy_from_slice(value),
            lease: LeaseId::default(),
        },
        origin: origin(),
        prepared: Prepared::default(),
    };
    match h.engine.commit(mutation).await.unwrap() {
        Outcome::Committed(event) => event.revision,
        refused => panic!("{refused:?}"),
    }
}

async fn raw(h: &Harness, name: &str) -> Option<Bytes> {
    let answer = h.engine.get(key(name), At::Latest).await.unwrap();
    answer.item.map(|item| item.value)
}

/// A 500 that names the key.
fn names_it<T>(answer: Result<T, taffrail::storage::StorageError>, name: &str) {
    let key = key(name).to_string();
    match kind(answer.map(|_| ())) {
        StorageErrorKind::Unreadable(text) | StorageErrorKind::Internal(text) => {
            assert!(text.contains(&key), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

pub async fn pf_20_a_value_that_cannot_be_read_fails_what_shows_it_and_nothing_else(
    h: Rc<Harness>,
) {
    let first = h.create(&pod("ns", "a")).await;
    h.create(&pod("ns", "c")).await;
    h.create(&pod("other", "d")).await;
    for value in [PROTOBUF, GARBAGE] {
        put(&h, "ns/b", value).await;
        names_it(h.list(List::below("/pods")).await, "ns/b");
        // Any state may be one of before where the server can't say how far it is (etcd 3.4).
        while h.list(List::below("/pods").any()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for list in [
            List::below("/pods/ns"),
            List::below("/pods").any(),
            List::below("/pods").not_older(first.revision),
            List::below("/pods").exact(h.revision().await),
            List::below("/pods").limit(2),
            List::below("/pods").select("app=web", ""),
            List::of("/pods/ns/b"),
        ] {
            // Whatever was before does not stay in the cache.
            h.list(List::below("/pods/other")).await.unwrap();
            names_it(h.list(list).await, "ns/b");
        }
        for asked in [Asked::Unset, Asked::Any, Asked::At(first.revision)] {
            names_it(h.get("/pods/ns/b", asked).await, "ns/b");
            let other = h.get("/pods/ns/a", asked).await.unwrap().unwrap();
            assert_eq!(other.attributes().name(), "a");
        }
        let elsewhere = h.list(List::below("/pods/other")).await.unwrap();
        assert_eq!(names(&elsewhere), ["other/d"]);
        let page = h.list(List::below("/pods").limit(1)).await.unwrap();
        assert_eq!(names(&page), ["ns/a"], "it ends before what can't be read");
        let token = page.continue_token.unwrap();
        let rest = List::below("/pods").limit(1).token(token);
        names_it(h.list(rest).await, "ns/b");
        let before = h.list(List::below("/pods").exact(first.revision)).await;
        assert_eq!(names(&before.unwrap()), ["ns/a"], "the past is as it was");
        h.set_node("/pods/ns/a", "n").await;
        assert_eq!(h.storage.stats().await.unwrap().object_count, 4);
        assert!(h.storage.readiness_check().is_ok());
    }
    // Somebody who can read it overwrites it: everything is there again at once.
    put(&h, "ns/b", &h.codec.encode(&pod("ns", "b"))).await;
    let all = h.list(List::below("/pods")).await.unwrap();
    assert_eq!(names(&all), ["ns/a", "ns/b", "ns/c", "other/d"]);
    assert!(h.get("/pods/ns/b", Asked::Unset).await.unwrap().is_some());
}

pub async fn li_40_a_page_ends_before_a_value_that_cannot_be_read_and_counts_it(h: Rc<Harness>) {
    h.create(&pod("ns", "a")).await;
    put(&h, "ns/b", PROTOBUF).await;
    names_it(h.list(List::below("/pods")).await, "ns/b");
    // The limit is the number of what can be read: what can't be is still behind it.
    let page = h.list(List::below("/pods").limit(1)).await.unwrap();
    assert_eq!(
        (names(&page), page.remaining_item_count),
        (vec!["ns/a".to_owned()], Some(1))
    );
    let rest = List::below("/pods")
        .limit(1)
        .token(page.continue_token.unwrap());
    names_it(h.list(rest).await, "ns/b");
    h.create(&pod("other", "c")).await;
    put(&h, "other/d", GARBAGE).await;
    for (list, remaining) in [(List::below("/pods"), 3), (List::below("/pods/ns"), 1)] {
        let page = h.list(list.limit(1)).await.unwrap();
        assert_eq!(names(&page), ["ns/a"]);
        assert_eq!(page.remaining_item_count, Some(remaining));
    }
}

pub async fn kv_21_a_value_that_cannot_be_read_is_never_lost_nor_overwritten(h: Rc<Harness>) {
    for (name, value) in [("ns/b", PROTOBUF), ("ns/c", GARBAGE)] {
        put(&h, name, value).await;
        let relative = format!("/pods/{name}");
        let (_, short) = name.split_once('/').unwrap();
        let created = h
            .storage
            .create(&relative, pod("ns", short).into(), origin());
        assert!(matches!(kind(created.await), StorageErrorKind::KeyExists));
        let tried = h.dry.create(&relative, pod("ns", short).into(), origin());
        assert!(matches!(kind(tried.await), StorageErrorKind::KeyExists));
        let update = h.update(&relative, |_| Ok(pod("ns", short))).await;
        names_it(update, name);
        let mut apply = update_of(&relative);
        apply.ignore_not_found = true;
        let apply = h.update_with(apply, |_| Ok(with_node(pod("ns", short), "n")));
        names_it(apply.await, name);
        names_it(h.delete(&relative).await, name);
        let delete = h.delete_if(&relative, uid("x"), None, |_| Ok(()));
        names_it(delete.await, name);
        assert_eq!(raw(&h, name).await.unwrap(), value);
    }
}

pub async fn rg_15_a_value_that_cannot_be_read_is_deleted_by_its_name(h: Rc<Harness>) {
    let readable = h.create(&pod("ns", "a")).await;
    put(&h, "ns/b", PROTOBUF).await;
    let remove = async |name: &str| h.storage.delete_unreadable(name, origin()).await.unwrap();
    assert!(
        h.dry
            .delete_unreadable("/pods/ns/b", origin())
            .await
            .unwrap()
    );
    assert!(raw(&h, "ns/b").await.is_some());
    assert!(remove("/pods/ns/b").await);
    assert_eq!(raw(&h, "ns/b").await, None);
    assert!(!remove("/pods/ns/b").await, "it is gone");
    assert!(!remove("/pods/ns/a").await, "it can be read");
    let list = h.list(List::below("/pods")).await.unwrap();
    assert_eq!(names(&list), ["ns/a"]);
    assert_eq!(list.items[0].revision, readable.revision);
    let created = h.create(&pod("ns", "b")).await;
    let found = h.get("/pods/ns/b", Asked::Unset).await.unwrap().unwrap();
    assert_eq!(found.revision, created.revision);
}

pub async fn wa_33_watches_end_with_an_error_where_a_value_cannot_be_read(h: Rc<Harness>) {
    let first = h.create(&pod("ns", "a")).await;
    let running = async |watch: Watch| h.watch(watch.after(first.revision)).await.unwrap();
    let mut all = running(Watch::below("/pods")).await;
    let mut selecting = running(Watch::below("/pods").select("", "spec.nodeName=n")).await;
    let mut namespace = running(Watch::below("/pods/other")).await;
    let mut object = running(Watch::of("/pods/ns/a")).await;
    let before = h.set_node("/pods/ns/a", "n").await;
    put(&h, "ns/b", PROTOBUF).await;
    let after = h.create(&pod("other", "d")).await;
    all.expect("Modified", "ns/a", before.revision).await;
    selecting.expect("Added", "ns/a", before.revision).await;
    for stream in [&mut all, &mut selecting] {
        assert_eq!(stream.next().await.unwrap().kind, "Error");
        stream.expect_end().await;
    }
    namespace.expect("Added", "other/d", after.revision).await;
    object.expect("Modified", "ns/a", before.revision).await;

    // Neither can its state be shown, nor what came before be resumed past it.
    for watch in [
        Watch::below("/pods").initial(true).bookmarks(),
        Watch::below("/pods").any(),
        Watch::of("/pods/ns/b").initial(true),
    ] {
        names_it(h.watch(watch).await, "ns/b");
    }
    let mut resumed = running(Watch::below("/pods")).await;
    resumed.expect("Modified", "ns/a", before.revision).await;
    assert_eq!(resumed.next().await.unwrap().kind, "Error");
    let beside = Watch::below("/pods/other").initial(true);
    let mut beside = h.watch(beside).await.unwrap();
    beside.expect_any("Added", "other/d").await;
    // Who begins after it goes on.
    let later = Watch::below("/pods").after(after.revision);
    let mut later = h.watch(later).await.unwrap();
    let next = h.set_node("/pods/ns/a", "m").await;
    later.expect("Modified", "ns/a", next.revision).await;
    selecting_is_told_of_its_end(&h).await;
}

/// Its replacement is an event for watches of everything, but not for watches with a selector.
async fn selecting_is_told_of_its_end(h: &Harness) {
    let now = h.revision().await;
    let all = Watch::below("/pods").after(now);
    let mut all = h.watch(all).await.unwrap();
    let selecting = Watch::below("/pods").select("", "spec.nodeName=n");
    let mut selecting = h.watch(selecting.after(now)).await.unwrap();
    let readable = put(h, "ns/b", &h.codec.encode(&pod("ns", "b"))).await;
    all.expect("Modified", "ns/b", readable).await;
    assert_eq!(selecting.next().await.unwrap().kind, "Error");
    let mut whole = h.watch(Watch::below("/pods").initial(true)).await.unwrap();
    whole.expect_any("Added", "ns/a").await;
    whole.expect("Added", "ns/b", readable).await;
}

pub async fn ts_29_values_that_cannot_be_transformed_are_never_deleted(h: Rc<Harness>) {
    h.create(&pod("ns", "a")).await;
    let created = h.create(&pod("ns", "b")).await;
    // The cache, where there is one, has seen it.
    h.list(List::below("/pods")).await.unwrap();
    *h.faulty.unreadable.lock().unwrap() = Some("/b");
    let refused = h.storage.delete_unreadable("/pods/ns/b", origin()).await;
    assert!(matches!(kind(refused), StorageErrorKind::Internal(text) if text.contains("/ns/b")));
    let taken = h
        .storage
        .create("/pods/ns/b", pod("ns", "b").into(), origin());
    assert!(matches!(kind(taken.await), StorageErrorKind::KeyExists));
    *h.faulty.unreadable.lock().unwrap() = None;
    let found = h.get("/pods/ns/b", Asked::Unset).await.unwrap().unwrap();
    assert_eq!(found.revision, created.revision);

    // One that a cache can't read comes back into it once it can.
    *h.faulty.unreadable.lock().unwrap() = Some("/c");
    let mut object = pod("ns", "c");
    object.0.insert("more".to_owned(), json!(1));
    // Written by another process: what is written here is known without reading it (ST-30).
    let unread = put(&h, "ns/c", &h.codec.encode(&object)).await;
    names_it(h.list(List::below("/pods")).await, "ns/c");
    *h.faulty.unreadable.lock().unwrap() = None;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    let list = loop {
        match h.list(List::below("/pods")).await {
            Ok(list) => break list,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(names(&list), ["ns/a", "ns/b", "ns/c"]);
    assert_eq!(list.items[2].revision, unread);
}
