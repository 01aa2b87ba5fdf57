//! Reads of one key and of ranges, now and at past revisions.

use std::collections::BTreeMap;

use actors::engine::{At, Change, EngineError, Expect, Key, RangeRequest, Revision};

use crate::subjects::{Dice, Subject, after_key, committed, put};

fn names(items: &[actors::engine::KeyValue]) -> Vec<String> {
    let name = |key: &Key| {
        key.to_text()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    items.iter().map(|item| name(&item.key)).collect()
}

pub async fn an_absent_key_is_no_error_and_comes_with_the_store_revision_st_21(subject: Subject) {
    let event = subject.create("pods/a/b", "1").await;
    let answer = subject
        .engine
        .get(subject.key("pods/a/none"), At::Latest)
        .await
        .unwrap();
    assert_eq!(answer.item, None);
    assert!(answer.revision >= event.revision);
}

pub async fn a_get_at_a_revision_sees_the_value_of_then(subject: Subject) {
    let before = subject.create("pods/a/other", "0").await;
    let first = subject.create("pods/a/b", "1").await;
    let second = subject.update("pods/a/b", first.revision, "2").await;
    let gone = subject.delete("pods/a/b", second.revision).await;
    let again = subject.create("pods/a/b", "3").await;
    assert_eq!(subject.get_at("pods/a/b", before.revision).await, None);
    for event in [&first, &second, &again] {
        let item = subject.get_at("pods/a/b", event.revision).await.unwrap();
        assert_eq!(
            (item.value, item.revision),
            (event.value.clone(), event.revision)
        );
        assert_eq!(item.version, event.version);
    }
    assert_eq!(subject.get_at("pods/a/b", gone.revision).await, None);
}

pub async fn the_future_is_refused_with_the_current_revision_li_11(subject: Subject) {
    let event = subject.create("pods/a/b", "1").await;
    let future = Revision(event.revision.0 + 1_000_000);
    let error = subject
        .engine
        .get(subject.key("pods/a/b"), At::Revision(future))
        .await;
    let Err(EngineError::FutureRevision { requested, current }) = error else {
        panic!("{error:?}")
    };
    assert_eq!(requested, future);
    assert!(current >= event.revision && current < future);
    let request = subject.range_request("pods/", At::Revision(future), 0);
    let error = subject.engine.range(request).await;
    assert!(matches!(error, Err(EngineError::FutureRevision { .. })));
}

pub async fn a_range_is_in_key_order_whatever_the_order_of_creation_li_37(subject: Subject) {
    for name in ["c", "a", "b.x", "b", "B", "b-x"] {
        subject.create(&format!("pods/ns/{name}"), name).await;
    }
    let (_, items) = subject.range("pods/", At::Latest).await;
    assert_eq!(names(&items), ["B", "a", "b", "b-x", "b.x", "c"]);
}

pub async fn a_range_ends_at_its_prefix_and_no_sibling_leaks_pf_18(subject: Subject) {
    for name in [
        "pods/ns1/a",
        "pods/ns10/a",
        "podtemplates/ns1/a",
        "pod",
        "pods0",
        "pods/ns1/b",
    ] {
        subject.create(name, name).await;
    }
    let count = async |prefix: &str| subject.range(prefix, At::Latest).await.1.len();
    assert_eq!(count("pods/").await, 3);
    assert_eq!(count("pods/ns1/").await, 2);
    assert_eq!(count("pods/ns10/").await, 1);
    assert_eq!(count("podtemplates/").await, 1);
    assert_eq!(count("services/specs/").await, 0);
    assert_eq!(count("").await, 6);
}

pub async fn an_empty_range_comes_with_the_store_revision_pf_6(subject: Subject) {
    let event = subject.create("pods/a/b", "1").await;
    let request = subject.range_request("minions/", At::Latest, 0);
    let answer = subject.engine.range(request).await.unwrap();
    assert!(answer.revision >= event.revision);
    assert_eq!(
        (answer.items.len(), answer.more, answer.count),
        (0, false, 0)
    );
}

pub async fn limit_count_and_more_fit_together_li_14(subject: Subject) {
    for name in ["a", "b", "c", "d", "e"] {
        subject.create(&format!("pods/ns/{name}"), name).await;
    }
    let mut request = subject.range_request("pods/", At::Latest, 2);
    let mut expected = [(2, true, 5), (2, true, 3), (1, false, 1)].into_iter();
    let mut seen = Vec::new();
    loop {
        let page = subject.engine.range(request.clone()).await.unwrap();
        let shape = (page.items.len(), page.more, page.count);
        assert_eq!(Some(shape), expected.next());
        seen.extend(names(&page.items));
        request.start = page.items.last().map(after_key);
        request.at = At::Revision(page.revision);
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    let exact = subject.range_request("pods/", At::Latest, 5);
    assert!(!subject.engine.range(exact).await.unwrap().more);
}

pub async fn pages_at_one_revision_see_neither_later_puts_nor_deletes_li_13_li_45(
    subject: Subject,
) {
    let mut last = Vec::new();
    for name in ["a", "b", "c", "d"] {
        last.push(subject.create(&format!("pods/ns/{name}"), name).await);
    }
    let first = subject.range_request("pods/", At::Latest, 1);
    let page = subject.engine.range(first.clone()).await.unwrap();
    subject.create("pods/ns/aa", "new").await;
    subject
        .update("pods/ns/b", last[1].revision, "changed")
        .await;
    subject.delete("pods/ns/c", last[2].revision).await;
    let gone = subject.delete("pods/ns/a", last[0].revision).await;
    let rest = RangeRequest {
        start: page.items.last().map(after_key),
        at: At::Revision(page.revision),
        limit: 0,
        ..first
    };
    let rest = subject.engine.range(rest).await.unwrap();
    assert_eq!(
        (names(&rest.items), rest.count),
        (vec!["b".into(), "c".into(), "d".into()], 3)
    );
    assert_eq!(rest.items[0].value, "b");
    assert!(rest.revision >= gone.revision, "the header is the present");
    let (_, now) = subject.range("pods/", At::Latest).await;
    assert_eq!(names(&now), ["aa", "b", "d"]);
}

pub async fn a_start_that_names_no_key_begins_at_the_next(subject: Subject) {
    for name in ["a", "c"] {
        subject.create(&format!("pods/ns/{name}"), name).await;
    }
    let from = async |start: Key| {
        let mut request = subject.range_request("pods/", At::Latest, 0);
        request.start = Some(start.as_bytes().to_vec());
        let answer = subject.engine.range(request).await.unwrap();
        (names(&answer.items), answer.count)
    };
    assert_eq!(from(subject.key("pods/ns/b")).await, (vec!["c".into()], 1));
    assert_eq!(
        from(subject.key("pods/ns/a\0")).await,
        (vec!["c".into()], 1)
    );
    assert_eq!(
        from(subject.key("a")).await.1,
        2,
        "before the prefix is its beginning"
    );
    assert_eq!(from(subject.key("pods/ns/d")).await.1, 0);
    assert_eq!(
        from(subject.key("z")).await.1,
        0,
        "after the prefix is nothing"
    );
}

/// Counts of earlier pages are used for later ones, wherever these begin.
pub async fn pages_that_begin_anywhere_count_all_that_follows_li_14(subject: Subject) {
    let name = |number: u64| format!("pods/ns/{number:02}");
    let mut revisions = Vec::new();
    for number in (0..60).step_by(2) {
        revisions.push(subject.create(&name(number), "1").await.revision);
    }
    let then = revisions[revisions.len() - 1];
    for (number, revision) in (0..60).step_by(6).zip(revisions.into_iter().step_by(3)) {
        subject.delete(&name(number), revision).await;
    }
    let now = subject.create(&name(61), "1").await.revision;
    for seed in 1..=20 {
        let mut dice = Dice::new(seed);
        let at = At::Revision([then, now][dice.roll(2) as usize]);
        let start = subject.key(&name(dice.roll(64)));
        let mut request = subject.range_request("pods/", at, 0);
        request.start = Some(start.as_bytes().to_vec());
        let all = subject.engine.range(request.clone()).await.unwrap();
        assert_eq!(all.count, all.items.len() as u64, "seed {seed}");
        request.limit = 1 + dice.roll(9) as usize;
        let page = subject.engine.range(request).await.unwrap();
        assert_eq!(page.count, all.count, "seed {seed}");
        assert_eq!(page.more, page.count > page.items.len() as u64, "{seed}");
    }
}

pub async fn counting_alone_returns_no_items_st_74(subject: Subject) {
    let before = subject.create("pods/ns/a", "a").await;
    subject.create("pods/ns/b", "b").await;
    let mut request = subject.range_request("pods/", At::Latest, 0);
    request.count_only = true;
    let answer = subject.engine.range(request.clone()).await.unwrap();
    assert_eq!(
        (answer.items.len(), answer.more, answer.count),
        (0, false, 2)
    );
    request.at = At::Revision(before.revision);
    assert_eq!(subject.engine.range(request).await.unwrap().count, 1);
}

pub async fn a_large_range_may_come_in_parts_and_loses_nothing(subject: Subject) {
    let value = "x".repeat(1000);
    let creates = (0..300).map(|number| {
        let name = format!("pods/ns/{:03}", (number * 7) % 300);
        let (subject, value) = (&subject, &value);
        async move { subject.create(&name, value).await }
    });
    futures_util::future::join_all(creates).await;
    let (revision, items) = subject.range("pods/", At::Latest).await;
    let expected: Vec<String> = (0..300).map(|number| format!("{number:03}")).collect();
    assert_eq!(names(&items), expected);
    subject.set("pods/ns/000", "changed").await;
    let (_, then) = subject.range("pods/", At::Revision(revision)).await;
    assert_eq!(then, items);
}

pub async fn a_read_after_an_acknowledged_commit_sees_it(subject: Subject) {
    for count in 0..50 {
        let event = subject.set("pods/ns/a", &count.to_string()).await;
        let answer = subject
            .engine
            .get(subject.key("pods/ns/a"), At::Latest)
            .await
            .unwrap();
        assert!(answer.revision >= event.revision);
        assert_eq!(answer.item.unwrap().revision, event.revision);
        subject.get_at("pods/ns/a", event.revision).await.unwrap();
    }
}

/// A long random sequence on few keys. Every readable state is then compared with a fold.
pub async fn every_past_state_equals_the_fold_of_the_log(subject: Subject) {
    let mut dice = Dice::new(4);
    let mut now: BTreeMap<String, (Revision, String)> = BTreeMap::new();
    let mut states = Vec::new();
    for step in 0..400 {
        let name = format!("pods/{}/{}", dice.roll(3), dice.roll(4));
        let value = format!("{step}");
        let revision = match now.get(&name).cloned() {
            Some((from, _)) if dice.roll(4) == 0 => {
                now.remove(&name);
                subject.delete(&name, from).await.revision
            }
            before => {
                let expect = before.map_or(Expect::Absent, |(from, _)| Expect::Unchanged(from));
                let change: Change = put(&value);
                let event = committed(subject.commit(&name, expect, change).await);
                now.insert(name, (event.revision, value));
                event.revision
            }
        };
        states.push((revision, now.clone()));
    }
    for (revision, state) in states.iter().skip(3).step_by(17) {
        for prefix in ["pods/", "pods/1/"] {
            let (_, items) = subject.range(prefix, At::Revision(*revision)).await;
            let found: Vec<_> = items
                .iter()
                .map(|item| (item.key.clone(), item.revision, item.value.to_vec()))
                .collect();
            let expected: Vec<_> = state
                .iter()
                .filter(|(name, _)| name.starts_with(prefix))
                .map(|(name, (at, value))| (subject.key(name), *at, value.clone().into_bytes()))
                .collect();
            assert_eq!(found, expected, "{prefix} at {revision}");
        }
    }
}
