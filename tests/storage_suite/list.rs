//! Lists: versions, pages, selectors.

use std::rc::Rc;

use actors::engine::{Change, Expect, Key, LeaseId, Mutation, Outcome, Prepared, Revision};
use metrics_exporter_prometheus::PrometheusBuilder;
use taffrail::api::continuation::Continuation;
use taffrail::storage::codec::object_of;
use taffrail::storage::{Asked, Expired, StorageError, StorageErrorKind, VersionMatch};

use crate::harness::*;

/// The revisions of the data set of TS-15: r\[1\] to r\[9\]; r\[9\] is a write elsewhere.
async fn data_set(h: &Harness) -> Vec<Revision> {
    let mut revisions = vec![Revision::ZERO];
    let pods = [
        ("first", "bar"),
        ("second", "bar"),
        ("second", "foo"),
        ("third", "barfoo"),
    ];
    for (namespace, name) in pods
        .into_iter()
        .chain([("third", "foo"), ("second", "baz")])
    {
        revisions.push(h.create(&pod(namespace, name)).await.revision);
    }
    revisions.push(h.set_node("/pods/first/bar", "n").await.revision);
    revisions.push(h.delete("/pods/second/baz").await.unwrap().revision);
    revisions.push(elsewhere(h).await);
    h.engine
        .compact(Revision(revisions[1].0 - 1))
        .await
        .unwrap();
    revisions
}

/// A write to a key of no resource, which moves the store's revision.
async fn elsewhere(h: &Harness) -> Revision {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let mutation = Mutation {
        key: Key::new(format!("/registry/elsewhere/{number}")),
        expect: Expect::Absent,
        change: Change::Put {
            value: "{}".into(),
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

fn token(revision: i64, start: &str) -> String {
    Continuation {
        revision,
        start: start.to_owned(),
    }
    .encode()
}

pub async fn ts_15_versions_that_are_none_or_in_the_future(h: Rc<Harness>) {
    let r = data_set(&h).await;
    let far = Revision(i64::MAX as u64);
    let lists = [
        (List::below("/pods").not_older(far), true),
        (List::below("/pods").not_older(far).limit(2), true),
        (List::below("/pods").exact(far), true),
        (List::below("/pods").at(far).limit(2), true),
        (List::below("/pods").token(token(i64::MAX, "a\0")), true),
        // The message is the store's, whatever is in front of it (LI-25, LI-28).
        (List::of("/pods/first/bar").exact(far), false),
        (List::of("/pods/first/bar").at(far).limit(2), false),
    ];
    let answers = lists.map(|(list, waits)| {
        let h = h.clone();
        async move { (h.list(list).await, waits) }
    });
    for (answer, waits) in futures_util::future::join_all(answers).await {
        let StorageErrorKind::TooLarge {
            requested,
            current,
            retry_after,
        } = kind(answer)
        else {
            panic!("ST-13");
        };
        assert_eq!((requested, current), (far, r[9]), "LI-11");
        // A client that has waited for the cache may retry.
        assert_eq!(retry_after, u32::from(waits && h.catches_up()));
    }
    let beside = List::below("/pods")
        .token(token(1, "first/bar\0"))
        .at(Revision(2));
    assert!(
        matches!(kind(h.list(beside).await), StorageErrorKind::BadRequest(_)),
        "LI-2"
    );
    for bad in [
        token(0, "first/bar\0"),
        token(1, ""),
        token(1, "../a\0"),
        "!".to_owned(),
    ] {
        let refused = h.list(List::below("/pods").token(bad)).await;
        assert!(
            matches!(kind(refused), StorageErrorKind::BadRequest(_)),
            "LI-43"
        );
    }
}

pub async fn ts_15b_exact_lists_show_each_state(h: Rc<Harness>) {
    let r = data_set(&h).await;
    for (at, items) in [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (5, 5),
        (6, 6),
        (7, 6),
        (8, 5),
        (9, 5),
    ] {
        let list = h.list(List::below("/pods").exact(r[at])).await.unwrap();
        assert_eq!(list.items.len(), items, "r{at}");
        assert_eq!(list.revision, r[at]);
        assert_eq!(list.continue_token, None);
    }
    let updated = h
        .list(List::below("/pods/first").exact(r[6]))
        .await
        .unwrap();
    assert_eq!(updated.items[0].revision, r[1]);
    let updated = h
        .list(List::below("/pods/first").exact(r[7]))
        .await
        .unwrap();
    assert_eq!(updated.items[0].revision, r[7]);
    let empty = h
        .list(List::below("/pods/second").exact(r[1]))
        .await
        .unwrap();
    assert_eq!((empty.items.len(), empty.revision), (0, r[1]), "15 c");
    let future = h.list(List::below("/pods").exact(r[9].next())).await;
    assert!(matches!(kind(future), StorageErrorKind::TooLarge { .. }));
}

pub async fn ts_15d_pages_of_exact_lists_count_what_remains(h: Rc<Harness>) {
    let r = data_set(&h).await;
    let rows = [
        (1, 2, 1),
        (2, 3, 1),
        (4, 4, 0),
        (1, 5, 4),
        (2, 6, 4),
        (4, 7, 2),
        (8, 8, 0),
    ];
    for (limit, at, remaining) in rows.into_iter().chain([(1, 9, 4)]) {
        for list in [
            List::below("/pods").exact(r[at]),
            List::below("/pods").at(r[at]),
        ] {
            let page = h.list(list.limit(limit)).await.unwrap();
            let expected = (remaining > 0).then_some(remaining);
            assert_eq!(
                page.remaining_item_count, expected,
                "limit {limit} at r{at} (LI-24, PF-9)"
            );
            let last = names(&page).pop().unwrap();
            let next = page
                .continue_token
                .map(|text| Continuation::decode(&text).unwrap());
            let expected = expected.map(|_| (r[at].0 as i64, format!("{last}\0")));
            assert_eq!(
                next.map(|token| (
                    token.revision,
                    token.start.trim_start_matches('/').to_owned()
                )),
                expected,
                "LI-41"
            );
        }
    }
    let page = h
        .list(List::below("/pods").exact(r[7]).limit(4))
        .await
        .unwrap();
    assert_eq!(
        names(&page),
        ["first/bar", "second/bar", "second/baz", "second/foo"]
    );
}

pub async fn ts_15e_tokens_continue_at_their_version(h: Rc<Harness>) {
    let r = data_set(&h).await;
    // Start, revision, limit; then the page and what remains after it.
    type Row = (
        &'static str,
        usize,
        usize,
        &'static [&'static str],
        Option<u64>,
    );
    let rows: [Row; 7] = [
        ("first/bar\0", 1, 1, &[], None),
        ("first/bar\0", 2, 1, &["second/bar"], None),
        ("second/bar\0", 3, 2, &["second/foo"], None),
        ("first/bar\0", 5, 1, &["second/bar"], Some(3)),
        ("second/bar\0", 6, 2, &["second/baz", "second/foo"], Some(2)),
        ("second/foo\0", 7, 4, &["third/barfoo", "third/foo"], None),
        ("first/bar\0", 9, 1, &["second/bar"], Some(3)),
    ];
    for (start, at, limit, expected, remaining) in rows {
        for start in [start.to_owned(), format!("/{start}")] {
            let token = token(r[at].0 as i64, &start);
            // Beside version 0 a cache ignores the limit, on later pages too (LI-46).
            let any = List::below("/pods").any();
            let lists = [
                Some(List::below("/pods")),
                (!h.layer.is_cached()).then_some(any),
            ];
            for list in lists.into_iter().flatten() {
                let page = h
                    .list(list.token(token.clone()).limit(limit))
                    .await
                    .unwrap();
                assert_eq!(names(&page), expected, "{start:?} at r{at} (LI-42, PF-26)");
                assert_eq!(page.revision, r[at]);
                assert_eq!(page.remaining_item_count, remaining);
            }
        }
    }
}

pub async fn ts_15f_a_negative_token_continues_at_the_newest_state(h: Rc<Harness>) {
    let r = data_set(&h).await;
    let rest = h
        .list(List::below("/pods").token(token(-1, "second/bar\0")))
        .await
        .unwrap();
    assert_eq!(names(&rest), ["second/foo", "third/barfoo", "third/foo"]);
    assert_eq!(rest.revision, r[9], "LI-43, TS-16");
    let page = h
        .list(
            List::below("/pods")
                .token(token(-1, "first/bar\0"))
                .limit(2),
        )
        .await
        .unwrap();
    assert_eq!(page.remaining_item_count, Some(2));
    let next = Continuation::decode(&page.continue_token.unwrap()).unwrap();
    assert_eq!(next.revision, r[9].0 as i64, "the resolved version (LI-51)");
}

pub async fn ts_15i_pages_with_selectors(h: Rc<Harness>) {
    data_set(&h).await;
    let page = h
        .list(
            List::below("/pods")
                .limit(1)
                .select("", "metadata.name=foo,metadata.namespace=second"),
        )
        .await
        .unwrap();
    assert_eq!(names(&page), ["second/foo"]);
    assert!(page.continue_token.is_some(), "raw keys remain (LI-14)");
    assert_eq!(
        page.remaining_item_count, None,
        "never with selectors (LI-40, PF-11)"
    );
    let page = h
        .list(
            List::below("/pods")
                .limit(2)
                .select("", "metadata.name=foo,metadata.namespace=second"),
        )
        .await
        .unwrap();
    assert_eq!(
        (names(&page), page.continue_token),
        (vec!["second/foo".to_owned()], None)
    );
    let first = h
        .list(
            List::below("/pods")
                .limit(1)
                .select("", "metadata.name=foo"),
        )
        .await
        .unwrap();
    let second = h
        .list(
            List::below("/pods")
                .limit(1)
                .select("", "metadata.name=foo")
                .token(first.continue_token.clone().unwrap()),
        )
        .await
        .unwrap();
    assert_eq!(
        (names(&first)[0].as_str(), names(&second)[0].as_str()),
        ("second/foo", "third/foo")
    );
    let all = h.list(List::below("/pods").limit(5)).await.unwrap();
    assert_eq!((all.items.len(), all.continue_token), (5, None));
}

pub async fn ts_15j_not_older_than_honours_the_limit(h: Rc<Harness>) {
    let r = data_set(&h).await;
    let page = h
        .list(List::below("/pods").not_older(r[8]).limit(2))
        .await
        .unwrap();
    assert_eq!(page.items.len(), 2);
    assert_eq!(page.remaining_item_count, Some(3));
    assert!(page.revision >= r[8]);
}

/// However seldom the store tells of progress by itself (WC-31: etcd does every ten minutes).
pub async fn ts_16_consistent_lists_have_the_stores_revision(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let moved = elsewhere(&h).await;
    assert!(moved > created.revision);
    let list = h.list(List::below("/pods")).await.unwrap();
    assert_eq!(list.revision, moved, "PF-6, PF-28");
    let empty = h.list(List::below("/pods/none")).await.unwrap();
    assert_eq!((empty.items.len(), empty.revision), (0, moved), "15 h");
    let later = elsewhere(&h).await;
    let list = h
        .list(List::below("/pods").token(token(-1, "a\0")))
        .await
        .unwrap();
    assert_eq!(list.revision, later);
    let any = h.list(List::below("/pods").any()).await.unwrap();
    assert!(
        any.revision >= later || h.layer.is_cached() && !h.catches_up(),
        "a consistent list freshens the cache (LI-36)"
    );
    // A write acknowledged is in the very next list (PF-7).
    for number in 0..20 {
        let created = h.create(&pod("ns", &format!("b{number}"))).await;
        let list = h.list(List::below("/pods")).await.unwrap();
        assert_eq!(list.items.len(), number + 2);
        assert!(list.revision >= created.revision);
    }
}

pub async fn ts_17_lists_of_one_key(h: Rc<Harness>) {
    let first = h.create(&pod("ns", "a")).await;
    let second = h.set_node("/pods/ns/a", "n").await;
    let now = elsewhere(&h).await;
    for list in [
        List::of("/pods/ns/a"),
        List::of("/pods/ns/a").not_older(second.revision),
        List::of("/pods/ns/a").not_older(first.revision),
        List::of("/pods/ns/a").exact(second.revision),
        List::of("/pods/ns/a").at(second.revision).limit(1),
    ] {
        let list = h.list(list).await.unwrap();
        assert_eq!(list.items, vec![second.clone()]);
    }
    let old = h
        .list(List::of("/pods/ns/a").exact(first.revision))
        .await
        .unwrap();
    assert_eq!(old.items, vec![first.clone()], "the older version");
    assert_eq!(old.revision, first.revision);
    let far = h
        .list(List::of("/pods/ns/a").not_older(Revision(now.0 + 1000)))
        .await;
    assert!(matches!(kind(far), StorageErrorKind::TooLarge { .. }));
    let missing = h.list(List::of("/pods/ns/none")).await.unwrap();
    assert_eq!((missing.items.len(), missing.revision), (0, now));
    let other = h
        .list(List::of("/pods/ns/a").select("x=y", ""))
        .await
        .unwrap();
    assert!(other.items.is_empty());
}

pub async fn ts_18_prefixes_end_at_slashes(h: Rc<Harness>) {
    for (namespace, name) in [("ns", "foo"), ("ns", "foobar"), ("ns1", "a"), ("ns-1", "b")] {
        h.create(&pod(namespace, name)).await;
    }
    let now = h.revision().await;
    let lists = |key: &str, recursive: bool| {
        let list = if recursive {
            List::below(key)
        } else {
            List::of(key)
        };
        [
            list.clone(),
            list.clone().any(),
            list.clone().not_older(now),
            list.exact(now),
        ]
    };
    for list in lists("/pods/ns", false)
        .into_iter()
        .chain(lists("/pods/ns/foo", true))
    {
        let list = h.list(list).await.unwrap();
        // A read of any state may be older than the last write, never wider.
        assert!(list.items.is_empty(), "{:?}", names(&list));
    }
    for list in [List::below("/pods/ns"), List::below("/pods/ns/")] {
        assert_eq!(
            names(&h.list(list).await.unwrap()),
            ["ns/foo", "ns/foobar"],
            "PF-18"
        );
    }
    let all = h.list(List::below("/pods")).await.unwrap();
    assert_eq!(
        names(&all),
        ["ns-1/b", "ns/foo", "ns/foobar", "ns1/a"],
        "byte order (LI-37)"
    );
}

pub async fn ts_19_continuation(h: Rc<Harness>) {
    for name in ["a", "b", "c"] {
        h.create(&pod("ns", name)).await;
    }
    let first = h.list(List::below("/pods").limit(1)).await.unwrap();
    let token = first.continue_token.clone().unwrap();
    let rest = h
        .list(List::below("/pods").token(token.clone()))
        .await
        .unwrap();
    assert_eq!(names(&rest), ["ns/b", "ns/c"], "LI-44");
    assert_eq!(
        (rest.revision, rest.continue_token),
        (first.revision, None),
        "LI-13"
    );
    let second = h
        .list(List::below("/pods").token(token).limit(1))
        .await
        .unwrap();
    let third = h
        .list(
            List::below("/pods")
                .token(second.continue_token.unwrap())
                .limit(1),
        )
        .await
        .unwrap();
    assert_eq!(
        (names(&third), third.continue_token),
        (vec!["ns/c".to_owned()], None)
    );
}

pub async fn ts_20_paging_to_a_rare_object(h: Rc<Harness>) {
    for number in 0..300 {
        h.create(&pod("ns", &format!("pod-{number:03}"))).await;
    }
    let rare = List::below("/pods")
        .limit(1)
        .select("", "metadata.name=pod-299");
    h.list(List::below("/pods").limit(1)).await.unwrap();
    let before = h.faults.reads();
    let page = h.list(rare).await.unwrap();
    assert_eq!((page.items.len(), page.continue_token), (1, None), "LI-12");
    // 1, 2, 4 and so on to 256 make 511 in nine pages; the cache looks for itself.
    let reads = if h.catches_up() { 0 } else { 9 };
    assert_eq!(h.faults.reads() - before, reads, "LI-12");
}

pub async fn ts_21_continuation_with_a_filter(h: Rc<Harness>) {
    for name in ["a", "bar", "c", "d"] {
        h.create(&pod("ns", name)).await;
    }
    let list = || {
        List::below("/pods")
            .limit(2)
            .select("", "metadata.name!=bar")
    };
    let first = h.list(list()).await.unwrap();
    assert_eq!(names(&first), ["ns/a", "ns/c"]);
    let second = h
        .list(list().token(first.continue_token.clone().unwrap()))
        .await
        .unwrap();
    assert_eq!(
        (names(&second), second.continue_token),
        (vec!["ns/d".to_owned()], None)
    );
}

pub async fn ts_22_an_expired_token_comes_with_a_fresh_one(h: Rc<Harness>) {
    for name in ["a", "b", "c"] {
        h.create(&pod("ns", name)).await;
    }
    let first = h.list(List::below("/pods").limit(1)).await.unwrap();
    h.set_node("/pods/ns/a", "n").await;
    h.engine.compact(h.revision().await).await.unwrap();
    let token = first.continue_token.unwrap();
    let expired = h.list(List::below("/pods").token(token).limit(1)).await;
    let StorageErrorKind::Expired {
        what: Expired::Continue {
            fresh_token: Some(fresh),
        },
    } = kind(expired)
    else {
        panic!("LI-51, PF-10: a 410 with a fresh token");
    };
    let second = h
        .list(List::below("/pods").token(fresh).limit(1))
        .await
        .unwrap();
    assert_eq!(names(&second), ["ns/b"]);
    assert_eq!(second.revision, h.revision().await);
    let third = h
        .list(
            List::below("/pods")
                .token(second.continue_token.unwrap())
                .limit(1),
        )
        .await
        .unwrap();
    assert_eq!(
        (names(&third), third.revision),
        (vec!["ns/c".to_owned()], second.revision)
    );
}

pub async fn ts_23_exact_at_a_lists_version_repeats_it(h: Rc<Harness>) {
    for number in 0..10 {
        h.create(&pod("ns", &format!("a{number}"))).await;
        let consistent = h.list(List::below("/pods")).await.unwrap();
        let cached = h
            .list(List::below("/pods").not_older(consistent.revision))
            .await
            .unwrap();
        h.set_node("/pods/ns/a0", &format!("n{number}")).await;
        for list in [consistent, cached] {
            let again = h
                .list(List::below("/pods").exact(list.revision))
                .await
                .unwrap();
            assert_eq!(again.items, list.items);
        }
    }
}

pub async fn ts_31_objects_created_while_paging_stay_out(h: Rc<Harness>) {
    for name in ["a", "b", "c", "d"] {
        h.create(&pod("ns", name)).await;
    }
    let mut page = h.list(List::below("/pods").limit(1)).await.unwrap();
    let mut seen = names(&page);
    while let Some(token) = page.continue_token.take() {
        if seen.len() == 1 {
            h.create(&pod("ns", "bb")).await;
        }
        page = h
            .list(List::below("/pods").limit(1).token(token))
            .await
            .unwrap();
        seen.extend(names(&page));
    }
    assert_eq!(seen, ["ns/a", "ns/b", "ns/c", "ns/d"], "LI-45");
}

pub async fn ts_32_namespace_scoped_lists(h: Rc<Harness>) {
    for (namespace, name, node) in [("x", "a", "n1"), ("x", "b", "n2"), ("y", "a", "n1")] {
        h.create(&with_node(pod(namespace, name), node)).await;
    }
    let rows: [(&str, &str, &[&str]); 9] = [
        ("/pods", "metadata.name=a", &["x/a", "y/a"]),
        ("/pods", "metadata.namespace=x", &["x/a", "x/b"]),
        ("/pods", "spec.nodeName=n1", &["x/a", "y/a"]),
        ("/pods", "spec.nodeName!=n1", &["x/b"]),
        ("/pods/x", "", &["x/a", "x/b"]),
        ("/pods/x", "spec.nodeName=n1", &["x/a"]),
        ("/pods/x", "spec.nodeName=n1,metadata.name!=a", &[]),
        ("/pods/x", "metadata.namespace=y", &[]),
        ("/pods/none", "metadata.name=a", &[]),
    ];
    for (key, fields, expected) in rows {
        let list = h.list(List::below(key).select("", fields)).await.unwrap();
        assert_eq!(names(&list), expected, "{key} {fields}");
    }
}

pub async fn ts_33_compaction_ends_exact_reads(h: Rc<Harness>) {
    h.create(&pod("ns", "a")).await;
    assert!(h.engine.compacted() < h.revision().await);
    let list = h.list(List::below("/pods")).await.unwrap();
    h.set_node("/pods/ns/a", "n").await;
    h.list(List::below("/pods").exact(list.revision))
        .await
        .unwrap();
    let newest = h.set_node("/pods/ns/a", "m").await.revision;
    h.engine.compact(newest).await.unwrap();
    let gone = h.list(List::below("/pods").exact(list.revision)).await;
    assert!(
        matches!(
            kind(gone),
            StorageErrorKind::Expired {
                what: Expired::List
            }
        ),
        "LI-50, LI-53, and at once rather than at the next poll (WC-53)"
    );
    assert_eq!(h.engine.compacted(), newest);
    h.list(List::below("/pods").exact(newest))
        .await
        .expect("the horizon itself can be read");
}

pub async fn li_46_any_state_ignores_the_limit_in_the_cache(h: Rc<Harness>) {
    for name in ["a", "b", "c"] {
        let created = h.create(&pod("ns", name)).await;
        h.settled(created.revision).await;
    }
    let list = h.list(List::below("/pods").any().limit(1)).await.unwrap();
    let expected = if h.layer.is_cached() { 3 } else { 1 };
    assert_eq!(list.items.len(), expected, "PF-8, LI-10");
    assert_eq!(list.continue_token.is_none(), h.layer.is_cached());
    assert!(h.get("/pods/ns/a", Asked::Any).await.unwrap().is_some());
}

pub async fn li_18_items_carry_their_own_versions(h: Rc<Harness>) {
    let a = h.create(&pod("ns", "a")).await;
    let b = h.create(&pod("ns", "b")).await;
    let list = h.list(List::below("/pods")).await.unwrap();
    let versions: Vec<Revision> = list.items.iter().map(|item| item.revision).collect();
    assert_eq!(versions, [a.revision, b.revision]);
    for (item, created) in list.items.iter().zip([a, b]) {
        let version = created.revision.to_string();
        assert_eq!(object_of(item).unwrap().meta("resourceVersion"), version);
    }
}

pub async fn li_23_a_list_never_claims_more_than_it_shows(h: Rc<Harness>) {
    let mut before = h.create(&pod("ns", "first")).await.revision;
    for number in 0..40 {
        h.list(List::below("/pods")).await.unwrap();
        let created = h.create(&pod("ns", &format!("a{number}"))).await;
        // The store has the new one, the cache may not have heard of it yet.
        for list in [
            List::below("/pods").at(before),
            List::below("/pods").not_older(before),
            List::below("/pods").any(),
        ] {
            let list = h.list(list).await.unwrap();
            let is_shown = list.items.iter().any(|item| item.key() == created.key());
            assert_eq!(
                list.revision >= created.revision,
                is_shown,
                "{} shown at {}",
                created.revision,
                list.revision
            );
        }
        before = created.revision;
    }
}

pub async fn li_30_later_pages_show_the_state_of_the_first_whatever_is_written(h: Rc<Harness>) {
    for number in 0..30 {
        h.create(&pod("ns", &format!("a{number:02}"))).await;
    }
    let first = h.list(List::below("/pods").limit(4)).await.unwrap();
    let expected: Vec<_> = {
        let all = h.list(List::below("/pods").exact(first.revision)).await;
        let items = all.unwrap().items.into_iter();
        items
            .map(|item| (item.key().to_vec(), item.revision))
            .collect()
    };
    let mut seen: Vec<_> = Vec::new();
    let (mut page, mut number) = (first.clone(), 0);
    loop {
        seen.extend(
            page.items
                .iter()
                .map(|item| (item.key().to_vec(), item.revision)),
        );
        assert_eq!(page.revision, first.revision);
        let Some(token) = page.continue_token else {
            break;
        };
        let left = page.remaining_item_count.unwrap();
        assert_eq!(left as usize, expected.len() - seen.len());
        h.set_node(&format!("/pods/ns/a{:02}", 29 - number), "n")
            .await;
        h.delete(&format!("/pods/ns/a{:02}", 28 - number))
            .await
            .unwrap();
        h.create(&pod("ns", &format!("b{number}"))).await;
        number += 2;
        page = h
            .list(List::below("/pods").limit(4).token(token))
            .await
            .unwrap();
    }
    assert_eq!(seen, expected);
}

/// A combination of everything a list can ask for, and what it must answer.
#[derive(Debug)]
struct Row {
    asked: Asked,
    version_match: Option<VersionMatch>,
    limit: usize,
    /// The state in the token, as an index into the data set (0: the newest), which goes on after
    /// `second/bar`.
    token: Option<usize>,
    recursive: bool,
    selects: bool,
}

/// The state of each revision of the data set, by name.
const STATES: [&[&str]; 10] = [
    &[],
    &["first/bar"],
    &["first/bar", "second/bar"],
    &["first/bar", "second/bar", "second/foo"],
    &["first/bar", "second/bar", "second/foo", "third/barfoo"],
    &FIVE,
    &SIX,
    &SIX,
    &FIVE,
    &FIVE,
];
const FIVE: [&str; 5] = [
    "first/bar",
    "second/bar",
    "second/foo",
    "third/barfoo",
    "third/foo",
];
const SIX: [&str; 6] = [
    "first/bar",
    "second/bar",
    "second/baz",
    "second/foo",
    "third/barfoo",
    "third/foo",
];
/// The one object that lists without recursion are of: it is deleted at r8.
const ONE: &str = "second/baz";

impl Row {
    /// The state that is shown, or `None` for an invalid request.
    fn state(&self, r: &[Revision]) -> Option<usize> {
        let at = |revision: Revision| r.iter().position(|known| *known == revision);
        match (self.token, self.asked) {
            (Some(_), Asked::At(_)) if self.recursive => None,
            (Some(0), _) if self.recursive => Some(9),
            (Some(state), _) if self.recursive => Some(state),
            (_, Asked::At(revision)) => match self.version_match {
                Some(VersionMatch::Exact) => at(revision),
                // The legacy of the time before there was a match (LI-24, PF-9).
                None if self.limit > 0 && self.recursive => at(revision),
                _ => Some(9),
            },
            (_, Asked::Unset | Asked::Any) => Some(9),
        }
    }

    fn request(&self, r: &[Revision]) -> List {
        let mut list = match self.recursive {
            true => List::below("/pods"),
            false => List::of(&format!("/pods/{ONE}")),
        };
        list.0.asked = self.asked;
        list.0.version_match = self.version_match;
        list.0.limit = self.limit;
        let revision = |state: usize| match state {
            0 => -1,
            state => r[state].0.cast_signed(),
        };
        list.0.continue_token = self
            .token
            .map(|state| token(revision(state), "second/bar\0"));
        match self.selects {
            true => list.select("", "metadata.name!=foo"),
            false => list,
        }
    }

    async fn check(&self, h: &Harness, r: &[Revision]) {
        let answer = h.list(self.request(r)).await;
        let Some(state) = self.state(r) else {
            let refused = matches!(kind(answer), StorageErrorKind::BadRequest(_));
            assert!(refused, "{self:?} (LI-2)");
            return;
        };
        let list = answer.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        // What happened last is none of the resource's: a cache that can't be made to catch up may
        // not have heard of it.
        let shown = match h.layer.is_cached() && !h.catches_up() && state == 9 {
            true => list.revision.clamp(r[8], r[9]),
            false => r[state],
        };
        assert_eq!(list.revision, shown, "{self:?}");
        let raw: Vec<&str> = match self.recursive {
            true if self.token.is_some() => {
                let behind = STATES[state].iter().filter(|name| **name > "second/bar");
                behind.copied().collect()
            }
            true => STATES[state].to_vec(),
            false => STATES[state]
                .iter()
                .copied()
                .filter(|name| *name == ONE)
                .collect(),
        };
        // LI-22, LI-46: beside version 0 the cache doesn't know a limit.
        let beyond = [Some(0), Some(9)].contains(&self.token);
        let is_caches = h.catches_up() || h.layer.is_cached() && !beyond;
        let is_limited =
            self.limit > 0 && self.recursive && !(is_caches && self.asked == Asked::Any);
        let limit = if is_limited { self.limit } else { usize::MAX };
        let selected = |name: &&str| !self.selects || !name.ends_with("/foo");
        let mut expected: Vec<&str> = Vec::new();
        let mut looked_at = 0;
        for name in &raw {
            if expected.len() == limit {
                break;
            }
            looked_at += 1;
            expected.extend(Some(*name).filter(selected));
        }
        assert_eq!(names(&list), expected, "{self:?}");
        let left = raw.len() - looked_at;
        let counted = (left > 0 && !self.selects).then_some(left as u64);
        assert_eq!(list.remaining_item_count, counted, "{self:?} (LI-40)");
        let next = list
            .continue_token
            .map(|text| Continuation::decode(&text).unwrap());
        let next = next.map(|next| (next.revision, next.start));
        let expected = (left > 0).then(|| {
            let start = format!("{}\0", raw[looked_at - 1]);
            (shown.0.cast_signed(), start)
        });
        assert_eq!(next, expected, "{self:?} (LI-14, LI-41)");
    }
}

/// Each row of the routing table and each of the table below it, in all combinations: LI-20,
/// LI-21, LI-22, LI-23, LI-24, LI-25, LI-26, LI-27, LI-28, LI-29, LI-30, LI-31.
pub async fn li_20_to_31_the_whole_matrix_of_versions_limits_and_tokens(h: Rc<Harness>) {
    let r = data_set(&h).await;
    // From here on the cache has it all, so that "any state" is the newest, too.
    h.settled(r[8]).await;
    h.list(List::below("/pods")).await.unwrap();
    let mut asked = vec![Asked::Unset, Asked::Any];
    asked.extend([r[2], r[6], r[7], r[9]].map(Asked::At));
    let matches = [
        None,
        Some(VersionMatch::NotOlderThan),
        Some(VersionMatch::Exact),
    ];
    let mut rows = 0;
    for asked in asked {
        for version_match in matches {
            // LI-1 keeps these away from storage.
            let is_fixed = matches!(asked, Asked::At(_));
            let exact = version_match == Some(VersionMatch::Exact);
            if (asked == Asked::Unset && version_match.is_some()) || (exact && !is_fixed) {
                continue;
            }
            for limit in [0, 1, 2, 3, 4, 6, 7] {
                for token in [None, Some(0), Some(2), Some(6), Some(7), Some(9)] {
                    if token.is_some() && version_match.is_some() {
                        continue;
                    }
                    for (recursive, selects) in [(true, false), (true, true), (false, false)] {
                        let row = Row {
                            asked,
                            version_match,
                            limit,
                            token,
                            recursive,
                            selects,
                        };
                        row.check(&h, &r).await;
                        rows += 1;
                    }
                }
            }
        }
    }
    assert!(rows > 900, "{rows}");
}

/// LI-20, LI-21, LI-30: a consistent read waits for the cache, and when that takes too long reads
/// the store. Who names a version is told to come again instead (LI-23, LI-26, WA-13), and so is a
/// watch that wants the newest state (WA-12). What came of consistent reads is counted (LI-35).
pub async fn li_20_a_cache_that_lags_is_waited_for_and_then_passed_by(h: Rc<Harness>) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _metered = metrics::set_default_local_recorder(&recorder);
    let metered = |success: bool, fallback: bool| {
        let labels = format!(r#"success="{success}",fallback="{fallback}""#);
        let page = recorder.handle().render();
        let mut samples = page.lines().filter(|line| {
            line.starts_with("apiserver_watch_cache_consistent_read_total{")
                && line.contains(&labels)
        });
        let sample = samples.next().and_then(|line| line.rsplit(' ').next());
        sample.map_or(0, |number| number.parse().unwrap())
    };
    let a = h.create(&pod("ns", "a")).await;
    h.list(List::below("/pods")).await.unwrap();
    h.settled(a.revision).await;
    let counted = |number: usize| if h.catches_up() { number } else { 0 };
    assert_eq!(metered(true, false), counted(1));
    h.faults.hold_feeds(true);
    let b = h.create(&pod("ns", "b")).await;
    let cached = h.catches_up();

    let consistent = [
        List::below("/pods"),
        List::below("/pods").limit(5),
        List::below("/pods").select("", "metadata.name!=c"),
        List::below("/pods").token(token(-1, "ns/\0")),
    ];
    let consistent = consistent.map(|list| h.list(list));
    let consistent = async {
        for list in futures_util::future::join_all(consistent).await {
            let list = list.unwrap();
            assert_eq!(names(&list), ["ns/a", "ns/b"]);
            assert_eq!(list.revision, b.revision);
        }
    };
    let single = async {
        let list = h.list(List::of("/pods/ns/b")).await.unwrap();
        assert_eq!((list.items, list.revision), (vec![b.clone()], b.revision));
        let got = h.get("/pods/ns/b", Asked::Unset).await.unwrap();
        assert_eq!(got, Some(b.clone()), "ST-23");
    };
    let named = [
        List::below("/pods").at(b.revision),
        List::below("/pods").not_older(b.revision),
        List::below("/pods").not_older(b.revision).limit(5),
        List::of("/pods/ns/b").not_older(b.revision),
    ];
    let named = named.map(|list| h.list(list));
    let named = async {
        for list in futures_util::future::join_all(named).await {
            match list {
                Err(error) if cached => assert!(is_too_large(&error), "{error:?}"),
                list => assert_eq!((cached, list.unwrap().revision), (false, b.revision)),
            }
        }
    };
    let watches = [
        Watch::below("/pods").initial(true).bookmarks(),
        Watch::below("/pods").after(b.revision).initial(true),
    ];
    let watches = watches.map(|watch| h.watch(watch));
    let watches = async {
        for watch in futures_util::future::join_all(watches).await {
            match watch.map(|_| ()) {
                Err(error) => assert!(cached && is_too_large(&error), "{error:?}"),
                Ok(()) => assert!(!cached),
            }
        }
    };
    futures_util::join!(consistent, single, named, watches);
    assert_eq!(
        metered(true, true),
        counted(5),
        "the four, and that of one object"
    );
    *h.faulty.fails.lock().unwrap() = true;
    let failed = h.list(List::below("/pods")).await;
    assert!(matches!(kind(failed), StorageErrorKind::Internal(_)));
    *h.faulty.fails.lock().unwrap() = false;
    assert_eq!(
        (metered(false, true), metered(true, false)),
        (counted(1), counted(1))
    );

    // These wait for nothing: any state may be an old one, and never claims to be another.
    let any = h.list(List::below("/pods").any()).await.unwrap();
    match h.layer.is_cached() {
        true => assert_eq!(
            (names(&any), any.revision),
            (vec!["ns/a".into()], a.revision)
        ),
        false => assert_eq!(names(&any), ["ns/a", "ns/b"]),
    }
    let old = List::below("/pods").not_older(a.revision);
    assert!(h.list(old).await.unwrap().revision >= a.revision);
    let watch = Watch::below("/pods").after(b.revision).initial(false);
    let mut later = h.watch(watch).await.unwrap();

    h.faults.hold_feeds(false);
    let c = h.create(&pod("ns", "c")).await;
    later.expect("Added", "ns/c", c.revision).await;
    let list = h.list(List::below("/pods").not_older(c.revision)).await;
    assert_eq!(names(&list.unwrap()), ["ns/a", "ns/b", "ns/c"]);
}

/// Too large a version, with a second to wait (ST-13).
fn is_too_large(error: &StorageError) -> bool {
    matches!(
        error.kind,
        StorageErrorKind::TooLarge { retry_after: 1, .. }
    )
}

/// LI-34: what of the routing table is the cache's costs the store at most a look at its revision;
/// the store serves the rest by one read each.
pub async fn li_34_what_the_cache_serves_costs_the_store_no_read(h: Rc<Harness>) {
    let r = data_set(&h).await;
    let first = h.list(List::below("/pods").limit(2)).await.unwrap();
    let old = first.revision;
    let next = first.continue_token.unwrap();
    let moved = h.set_node("/pods/third/foo", "moved").await;
    h.settled(moved.revision).await;
    let now = h.list(List::below("/pods")).await.unwrap().revision;
    let named = |list: List| list.select("", "spec.nodeName=moved");
    let lists = [
        ("LI-20", List::below("/pods")),
        ("LI-20", List::below("/pods/second").limit(1)),
        ("LI-20", named(List::below("/pods"))),
        ("LI-21", List::of("/pods/third/foo")),
        ("LI-22", List::below("/pods").any().limit(2)),
        ("LI-23", List::below("/pods").at(r[5])),
        ("LI-24", List::below("/pods").at(now).limit(2)),
        ("LI-26", List::below("/pods").not_older(r[5]).limit(2)),
        ("LI-27", List::below("/pods").exact(now)),
        ("LI-29", List::below("/pods").token(next).limit(2)),
        (
            "LI-30",
            List::below("/pods").token(token(-1, "first/bar\0")),
        ),
    ];
    for (rule, list) in lists {
        let before = h.faults.reads();
        let list = h.list(list).await.unwrap();
        assert!(rule != "LI-29" || list.revision == old, "the page goes on");
        // LI-32: without its help, what must be the newest is read from the store.
        let newest = ["LI-20", "LI-21", "LI-30"].contains(&rule);
        let is_caches = h.catches_up() || h.layer.is_cached() && !newest;
        let expected = if is_caches { 0 } else { 1 };
        assert_eq!(h.faults.reads() - before, expected, "{rule}");
    }
    for (rule, list) in [
        ("LI-25", List::of("/pods/third/foo").at(r[5]).limit(2)),
        ("LI-28", List::of("/pods/third/foo").exact(r[5])),
    ] {
        let before = h.faults.reads();
        h.list(list).await.unwrap();
        assert_eq!(h.faults.reads() - before, 1, "{rule}");
    }
}
