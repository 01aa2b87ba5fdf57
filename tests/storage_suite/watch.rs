//! Watches: start points, event types, scopes, ends.

use std::rc::Rc;
use std::time::Duration;

use actors::engine::Revision;
use taffrail::storage::{Asked, Expired, StorageErrorKind};

use crate::foreign::put;
use crate::harness::*;

pub async fn ts_50_selectors_turn_updates_into_added_and_deleted(h: Rc<Harness>) {
    let now = h.revision().await;
    let mut by_label = h
        .watch(Watch::below("/pods").after(now).select("app=web", ""))
        .await
        .unwrap();
    let mut by_field = h
        .watch(
            Watch::of("/pods/ns/a")
                .after(now)
                .select("", "spec.nodeName=n1"),
        )
        .await
        .unwrap();

    let created = h.create(&labelled("ns", "a", "app", "db")).await;
    let web = with_node(labelled("ns", "a", "app", "web"), "n1");
    let into = h.update("/pods/ns/a", |_| Ok(web.clone())).await.unwrap();
    let mut changed = web.clone();
    changed.set_meta("generateName", "x");
    let within = h
        .update("/pods/ns/a", |_| Ok(changed.clone()))
        .await
        .unwrap();
    let out = h
        .update("/pods/ns/a", |_| Ok(labelled("ns", "a", "app", "db")))
        .await
        .unwrap();
    let back = h.update("/pods/ns/a", |_| Ok(web.clone())).await.unwrap();
    let deleted = h.delete("/pods/ns/a").await.unwrap();

    for stream in [&mut by_label, &mut by_field] {
        assert!(created.revision > now);
        stream.expect("Added", "ns/a", into.revision).await;
        stream.expect("Modified", "ns/a", within.revision).await;
        let seen = stream.expect("Deleted", "ns/a", out.revision).await;
        assert_eq!(
            seen.object["metadata"]["labels"]["app"], "web",
            "the old content (PF-2)"
        );
        stream.expect("Added", "ns/a", back.revision).await;
        stream.expect("Deleted", "ns/a", deleted.revision).await;
    }
}

pub async fn ts_50_neighbouring_namespaces_never_leak(h: Rc<Harness>) {
    let now = h.revision().await;
    let mut stream = h.watch(Watch::below("/pods/ns").after(now)).await.unwrap();
    h.create(&pod("ns-bad", "x")).await;
    h.create(&pod("ns1", "x")).await;
    let mine = h.create(&pod("ns", "x")).await;
    stream.expect("Added", "ns/x", mine.revision).await;
}

pub async fn ts_51_watch_from_zero_and_from_a_compacted_version(h: Rc<Harness>) {
    let first = h.create(&pod("ns", "a")).await;
    h.list(List::below("/pods")).await.unwrap();
    let mut stream = h.watch(Watch::below("/pods").any()).await.unwrap();
    stream.expect("Added", "ns/a", first.revision).await;
    let second = h.set_node("/pods/ns/a", "n").await;
    stream.expect("Modified", "ns/a", second.revision).await;
    let other = h.create(&pod("ns", "b")).await;
    stream.expect("Added", "ns/b", other.revision).await;

    h.engine.compact(other.revision).await.unwrap();
    let mut again = h.watch(Watch::below("/pods").any()).await.unwrap();
    again.expect("Added", "ns/a", second.revision).await;
    // WA-30, WA-31, LI-52: the texts of both are the registry's.
    let old = h.watch(Watch::below("/pods").after(first.revision)).await;
    match old {
        Err(error) => assert!(matches!(
            error.kind,
            StorageErrorKind::Expired { what: Expired::Watch { requested, .. } }
                if requested == first.revision
        )),
        // A ring that still reaches that far makes clients better off than a 410.
        Ok(mut stream) => {
            assert!(h.layer.is_cached());
            stream.expect("Modified", "ns/a", second.revision).await;
        }
    }
}

pub async fn ts_52_delete_triggers_a_watch(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let mut stream = h
        .watch(Watch::of("/pods/ns/a").after(created.revision))
        .await
        .unwrap();
    let deleted = h.delete("/pods/ns/a").await.unwrap();
    stream.expect("Deleted", "ns/a", deleted.revision).await;
}

pub async fn ts_53_watch_from_a_version_shows_only_what_is_later(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let mut stream = h
        .watch(Watch::of("/pods/ns/a").after(created.revision))
        .await
        .unwrap();
    let updated = h.set_node("/pods/ns/a", "n").await;
    stream.expect("Modified", "ns/a", updated.revision).await;
    // The same from history: nothing is lost when the watch starts later than the event.
    let mut late = h
        .watch(Watch::of("/pods/ns/a").after(created.revision))
        .await
        .unwrap();
    late.expect("Modified", "ns/a", updated.revision).await;
}

pub async fn ts_54_events_queue_up_in_order(h: Rc<Harness>) {
    let now = h.revision().await;
    let mut stream = h.watch(Watch::below("/pods").after(now)).await.unwrap();
    let mut written = Vec::new();
    for number in 0..50 {
        written.push(h.create(&pod("ns", &format!("a{number}"))).await);
    }
    for object in written {
        let name = format!("ns/{}", object.attributes().name());
        stream.expect("Added", &name, object.revision).await;
    }
}

pub async fn ts_55_an_unreadable_event_ends_the_watch(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let mut stream = h
        .watch(Watch::below("/pods").after(created.revision))
        .await
        .unwrap();
    let mut elsewhere = h
        .watch(Watch::below("/pods/other").after(created.revision))
        .await
        .unwrap();
    *h.faulty.unreadable.lock().unwrap() = Some("/b");
    // Written by another process: what is written here is known without reading it (ST-30).
    put(&h, "ns/b", &h.codec.encode(&pod("ns", "b"))).await;
    h.create(&pod("ns", "c")).await;
    assert_eq!(stream.next().await.unwrap().kind, "Error", "WA-33, TS-70");
    stream.expect_end().await;
    // Watches of other objects are not affected.
    h.create(&pod("other", "d")).await;
    elsewhere.expect_any("Added", "other/d").await;
}

/// WA-35.
pub async fn ts_57_a_dropped_watch_is_forgotten(h: Rc<Harness>) {
    let now = h.revision().await;
    let stream = h.watch(Watch::below("/pods").after(now)).await.unwrap();
    drop(stream);
    let created = h.create(&pod("ns", "a")).await;
    let mut next = h.watch(Watch::below("/pods").after(now)).await.unwrap();
    next.expect("Added", "ns/a", created.revision).await;
}

pub async fn ts_59_deleted_events_carry_the_deletions_version(h: Rc<Harness>) {
    let created = h.create(&pod("ns", "a")).await;
    let mut stream = h
        .watch(Watch::below("/pods").after(created.revision))
        .await
        .unwrap();
    let deleted = h.delete("/pods/ns/a").await.unwrap();
    assert!(deleted.revision > created.revision);
    let seen = stream.expect("Deleted", "ns/a", deleted.revision).await;
    let answered: serde_json::Value = serde_json::from_slice(&deleted.wire()).unwrap();
    assert_eq!(seen.object, answered, "WA-22");
}

pub async fn ts_62_63_scopes(h: Rc<Harness>) {
    let now = h.revision().await;
    let rows: [(Watch, &[&str]); 7] = [
        (Watch::below("/pods"), &["x/a", "x/b", "y/a"]),
        (Watch::below("/pods/x"), &["x/a", "x/b"]),
        (Watch::of("/pods/x/a"), &["x/a"]),
        (
            Watch::below("/pods").select("", "metadata.name=a"),
            &["x/a", "y/a"],
        ),
        (
            Watch::below("/pods").select("", "metadata.namespace=y"),
            &["y/a"],
        ),
        (
            Watch::below("/pods").select("", "spec.nodeName=n1"),
            &["x/a", "y/a"],
        ),
        (
            Watch::below("/pods").select("", "spec.nodeName!=n1"),
            &["x/b"],
        ),
    ];
    let mut streams = Vec::new();
    for (watch, expected) in rows {
        streams.push((h.watch(watch.after(now)).await.unwrap(), expected));
    }
    let mut revisions = std::collections::BTreeMap::new();
    for (namespace, name, node) in [("x", "a", "n1"), ("x", "b", "n2"), ("y", "a", "n1")] {
        let created = h.create(&with_node(pod(namespace, name), node)).await;
        revisions.insert(format!("{namespace}/{name}"), created.revision);
    }
    for (stream, expected) in &mut streams {
        for name in *expected {
            stream.expect("Added", name, revisions[*name]).await;
        }
        assert!(stream.is_quiet(), "{expected:?}");
    }
}

pub async fn ts_66_initial_events_without_bookmarks(h: Rc<Harness>) {
    let a = h.create(&pod("ns", "a")).await;
    let mut stream = h.watch(Watch::below("/pods").initial(true)).await.unwrap();
    stream.expect("Added", "ns/a", a.revision).await;
    let b = h.create(&pod("ns", "b")).await;
    stream.expect("Added", "ns/b", b.revision).await;
}

pub async fn ts_67_watch_semantics(h: Rc<Harness>) {
    // Created in another order than that of their keys (WA-11).
    let b = h.create(&pod("ns", "b")).await;
    let a = h.create(&pod("ns", "a")).await;
    let state = h.list(List::below("/pods")).await.unwrap().revision;
    h.settled(a.revision).await;
    let starts: [fn(Revision) -> Watch; 4] = [
        |_| Watch::below("/pods"),
        |_| Watch::below("/pods").any(),
        |_| Watch::below("/pods").after(Revision(1)),
        |now| Watch::below("/pods").after(now),
    ];
    for (row, start) in starts.iter().enumerate() {
        for bookmarks in [true, false] {
            let mut watch = start(state).initial(true);
            if bookmarks {
                watch = watch.bookmarks();
            }
            let mut stream = h.watch(watch).await.unwrap();
            stream.expect("Added", "ns/a", a.revision).await;
            stream.expect("Added", "ns/b", b.revision).await;
            if bookmarks {
                let end = stream.next().await.unwrap();
                assert_eq!(end.kind, "End", "row {row} (WA-15)");
                assert!(end.revision >= a.revision);
            }
            assert!(stream.is_quiet(), "row {row}, bookmarks {bookmarks}");
        }
    }
    // Without initial events, the state is not sent.
    let mut quiet = Vec::new();
    for watch in [
        Watch::below("/pods"),
        Watch::below("/pods").any(),
        Watch::below("/pods").after(state),
    ] {
        quiet.push(h.watch(watch.initial(false)).await.unwrap());
    }
    let mut legacy = Vec::new();
    for watch in [Watch::below("/pods"), Watch::below("/pods").any()] {
        let mut stream = h.watch(watch.bookmarks()).await.unwrap();
        stream.expect("Added", "ns/a", a.revision).await;
        stream.expect("Added", "ns/b", b.revision).await;
        legacy.push(stream);
    }
    let c = h.create(&pod("ns", "c")).await;
    for stream in quiet.iter_mut().chain(&mut legacy) {
        stream.expect("Added", "ns/c", c.revision).await;
    }
    let mut from_first = h
        .watch(Watch::below("/pods").after(b.revision))
        .await
        .unwrap();
    from_first.expect("Added", "ns/a", a.revision).await;
    from_first.expect("Added", "ns/c", c.revision).await;
}

pub async fn ts_68_the_end_bookmark_covers_other_namespaces(h: Rc<Harness>) {
    let a = h.create(&pod("ns", "a")).await;
    let other = h.create(&pod("other", "b")).await;
    let watch = Watch::below("/pods/ns").initial(true).bookmarks();
    let mut stream = h.watch(watch).await.unwrap();
    stream.expect("Added", "ns/a", a.revision).await;
    stream.expect("End", "/", other.revision).await;
    assert!(stream.is_quiet());
    let watch = Watch::below("/pods/empty").initial(true).bookmarks();
    let mut empty = h.watch(watch).await.unwrap();
    empty.expect("End", "/", other.revision).await;
}

pub async fn ts_69_initial_events_of_one_name(h: Rc<Harness>) {
    let a = h.create(&pod("ns", "a")).await;
    let b = h.create(&pod("ns", "b")).await;
    let watch = Watch::below("/pods")
        .select("", "metadata.name=a")
        .initial(true)
        .bookmarks();
    let mut stream = h.watch(watch).await.unwrap();
    stream.expect("Added", "ns/a", a.revision).await;
    stream.expect("End", "/", b.revision).await;
}

pub async fn wa_2_a_watch_ends_at_its_deadline(h: Rc<Harness>) {
    let now = h.revision().await;
    let watch = Watch::below("/pods")
        .after(now)
        .lasts(Duration::from_millis(100));
    let mut stream = h.watch(watch).await.unwrap();
    assert_eq!(stream.next().await, None, "a clean end without an event");
}

pub async fn wa_10_a_watch_from_the_future_skips_what_is_older(h: Rc<Harness>) {
    let now = h.revision().await;
    let mut stream = h
        .watch(Watch::below("/pods").after(Revision(now.0 + 2)))
        .await
        .unwrap();
    h.create(&pod("ns", "a")).await;
    h.create(&pod("ns", "b")).await;
    let third = h.create(&pod("ns", "c")).await;
    stream.expect("Added", "ns/c", third.revision).await;
}

pub async fn wa_17_initial_events_from_the_future_are_refused(h: Rc<Harness>) {
    h.create(&pod("ns", "a")).await;
    let far = Watch::below("/pods")
        .after(Revision(1_000_000))
        .initial(true);
    let refused = h.watch(far).await.map(|_| ());
    assert!(matches!(
        kind(refused),
        StorageErrorKind::TooLarge {
            retry_after: 1..=3,
            ..
        }
    ));
}

pub async fn ts_64_65_bookmarks_cover_what_was_sent(h: Rc<Harness>) {
    let lasts = Duration::from_secs(3);
    let wanted = Watch::below("/pods").initial(true).bookmarks();
    let mut stream = h.watch(wanted.lasts(lasts)).await.unwrap();
    let unasked = Watch::below("/pods").initial(true).lasts(lasts);
    let mut without = h.watch(unasked).await.unwrap();
    // Who has not read by the deadline gets no more, so reading begins before it.
    let enough = tokio::time::Instant::now() + lasts / 2;
    let mut created = 0;
    while tokio::time::Instant::now() < enough {
        h.create(&pod("ns", &format!("a{created}"))).await;
        created += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (mut bookmarks, mut reached) = (0, Revision::ZERO);
    while let Some(seen) = stream.next().await {
        match seen.kind.as_str() {
            "Added" => assert!(seen.revision > reached, "WA-25: {seen:?} after {reached}"),
            "End" => assert_eq!(bookmarks, 0, "it comes first"),
            // WA-16: without the annotation of the one that ends the initial events.
            "Bookmark" => {
                assert!(seen.revision >= reached, "WA-25: {seen:?} after {reached}");
                bookmarks += 1;
            }
            other => panic!("{other}"),
        }
        reached = seen.revision;
    }
    // Due two seconds before the end; below the cache nobody sends any (WA-19).
    assert_eq!(bookmarks, usize::from(h.layer.is_cached()), "WA-42");
    while let Some(seen) = without.next().await {
        assert_eq!(seen.kind, "Added", "WA-40");
    }
}

pub async fn wa_15_the_end_bookmark_never_claims_more_than_was_sent(h: Rc<Harness>) {
    let mut before = h.create(&pod("ns", "first")).await.revision;
    for number in 0..40 {
        h.list(List::below("/pods")).await.unwrap();
        let created = h.create(&pod("ns", &format!("a{number}"))).await;
        let watch = Watch::below("/pods")
            .after(before)
            .initial(true)
            .bookmarks();
        let mut stream = h.watch(watch).await.unwrap();
        let mut was_sent = false;
        loop {
            let seen = stream.next().await.unwrap();
            was_sent |= seen.revision == created.revision && seen.kind == "Added";
            if seen.kind == "End" {
                assert_eq!(seen.revision >= created.revision, was_sent, "{seen:?}");
                break;
            }
        }
        before = created.revision;
    }
}

/// WA-47: nothing may say "up to here" before the initial events have been sent.
pub async fn wa_47_a_bookmark_that_is_due_waits_for_the_end_of_the_initial_events(h: Rc<Harness>) {
    let mut names = Vec::new();
    for number in 0..5 {
        names.push(h.create(&pod("ns", &format!("a{number}"))).await);
    }
    let watch = Watch::below("/pods").initial(true).bookmarks();
    let lasts = Duration::from_secs(3);
    let mut stream = h.watch(watch.lasts(lasts)).await.unwrap();
    // The first of them, so that the stream runs; the others wait while the bookmark falls due,
    // two seconds before the end.
    stream.expect("Added", "ns/a0", names[0].revision).await;
    tokio::time::sleep(lasts * 9 / 20).await;
    let later = h.create(&pod("ns", "b")).await;
    // A bookmark that would tell nothing new is left out (WA-44), so let the cache hear of it.
    h.settled(later.revision).await;
    for object in &names[1..] {
        let name = format!("ns/{}", object.attributes().name());
        stream.expect("Added", &name, object.revision).await;
    }
    let end = stream.expect("End", "/", names[4].revision).await;
    stream.expect("Added", "ns/b", later.revision).await;
    if h.layer.is_cached() {
        let bookmark = stream.expect("Bookmark", "/", later.revision).await;
        assert!(bookmark.revision > end.revision);
    }
    stream.expect_end().await;
}

/// WA-18: the initial events have one version, and later events follow without a gap.
pub async fn wa_18_the_state_and_what_follows_join_without_a_gap(h: Rc<Harness>) {
    const OBJECTS: usize = 20;
    const ROUNDS: usize = 10;
    for number in 0..OBJECTS {
        h.create(&pod("ns", &format!("a{number:02}"))).await;
    }
    let writer = async {
        let mut written = Vec::new();
        for round in 0..ROUNDS {
            for number in 0..OBJECTS {
                let key = format!("/pods/ns/a{number:02}");
                written.push(h.set_node(&key, &format!("n{round}")).await);
            }
        }
        written
    };
    let opener = async {
        let mut streams = Vec::new();
        for _ in 0..ROUNDS {
            let watch = Watch::below("/pods").initial(true).bookmarks();
            streams.push(h.watch(watch).await.unwrap());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        streams
    };
    let (written, streams) = futures_util::join!(writer, opener);
    let last = written.last().unwrap().revision;
    for mut stream in streams {
        let mut state = std::collections::BTreeMap::new();
        let end = loop {
            let seen = stream.next().await.unwrap();
            if seen.kind == "End" {
                break seen.revision;
            }
            assert_eq!(seen.kind, "Added");
            assert_eq!(state.insert(seen.name, seen.revision), None, "once each");
        };
        assert_eq!(state.len(), OBJECTS);
        // What was last written of each object up to the end bookmark is what the state shows.
        for object in written.iter().filter(|object| object.revision <= end) {
            let name = format!("ns/{}", object.attributes().name());
            assert!(state[&name] >= object.revision, "{name} at {end}");
        }
        assert!(state.values().all(|revision| *revision <= end));
        for object in written.iter().filter(|object| object.revision > end) {
            let name = format!("ns/{}", object.attributes().name());
            stream.expect("Modified", &name, object.revision).await;
        }
        assert!(end <= last);
    }
}

/// WC-42, LI-16, PF-13, PF-20, PF-30: while one value can't be read its resource's cache can't be
/// filled. Reads that the store can bear go there, others are told to come again, writes go on;
/// nothing leaves the object out as if it had been deleted.
pub async fn wc_42_while_the_cache_fills_some_reads_are_refused_and_no_writes(h: Rc<Harness>) {
    let first = h.create(&pod("ns", "a")).await;
    h.create(&pod("other", "b")).await;
    h.faults.refuse_fills(true);
    let f = h.filling();
    if f.layer.is_cached() {
        // Until it has been tried once.
        while !is_told_why(&f).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(f.storage.readiness_check().is_err(), "ST-73");
        refuses_what_is_dear(&f).await;
    }
    let bounded = f.list(List::below("/pods/other").limit(5)).await.unwrap();
    assert_eq!(names(&bounded), ["other/b"], "from the store");
    for asked in [Asked::Unset, Asked::Any, Asked::At(first.revision)] {
        let found = f.get("/pods/ns/a", asked).await.unwrap().unwrap();
        assert_eq!(found.revision, first.revision);
    }
    let written = f.set_node("/pods/ns/a", "n").await;
    let created = f.create(&pod("ns", "c")).await;
    let deleted = f.delete("/pods/other/b").await.unwrap();

    f.faults.refuse_fills(false);
    while f.storage.readiness_check().is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let all = f.list(List::below("/pods")).await.unwrap();
    assert_eq!(names(&all), ["ns/a", "ns/c"]);
    // Who was refused resumes where he was and misses nothing (WC-43).
    let resumed = Watch::below("/pods").after(first.revision);
    let mut resumed = f.watch(resumed).await.unwrap();
    resumed.expect_any("Added", "other/b").await;
    resumed.expect("Modified", "ns/a", written.revision).await;
    resumed.expect("Added", "ns/c", created.revision).await;
    resumed.expect("Deleted", "other/b", deleted.revision).await;
    drop(resumed);
    f.end().await;
}

/// Whether a refused client of a filling cache learns why the cache can't be filled.
async fn is_told_why(h: &Harness) -> bool {
    let kind = kind(h.list(List::below("/pods")).await);
    matches!(kind, StorageErrorKind::NotReady { last_error, .. } if last_error.is_some())
}

/// The requests that a filling cache refuses, with a retry delay (WC-41).
async fn refuses_what_is_dear(h: &Harness) {
    let only_a = |list: List| list.select("", "metadata.name=a");
    let labelled = |list: List| list.select("app=web", "");
    for list in [
        List::below("/pods"),
        List::below("/pods").any(),
        List::below("/pods").not_older(Revision(1)),
        List::below("/pods").exact(Revision(1)),
        List::of("/pods/ns/a"),
        only_a(List::below("/pods").limit(5)),
        labelled(List::below("/pods").limit(5)),
    ] {
        let described = format!("{:?}", list.0.asked);
        let StorageErrorKind::NotReady {
            retry_after,
            last_error,
        } = kind(h.list(list).await)
        else {
            panic!("{described}: it should be told to come again");
        };
        assert!((1..=30).contains(&retry_after), "{retry_after}");
        assert!(last_error.is_some_and(|why| why.contains("no fills today")));
    }
    for watch in [
        Watch::below("/pods"),
        Watch::below("/pods").after(Revision(1)),
        Watch::below("/pods").initial(true).bookmarks(),
    ] {
        let refused = h.watch(watch).await.map(|_| ());
        assert!(matches!(kind(refused), StorageErrorKind::NotReady { .. }));
    }
}

/// One change of a pod: a put with a label and a node, or a delete.
#[derive(Clone, Copy)]
enum Step {
    Put(&'static str, &'static str, &'static str),
    Delete(&'static str),
}

const STEPS: [Step; 11] = [
    Step::Put("x/a", "web", "n1"),
    Step::Put("x/b", "db", ""),
    Step::Put("y/a", "web", "n2"),
    Step::Put("x/a", "web", "n2"),
    Step::Put("x/b", "web", "n1"),
    Step::Put("y/a", "db", "n2"),
    Step::Delete("x/a"),
    Step::Put("x/a", "db", "n1"),
    Step::Delete("y/a"),
    Step::Put("x/b", "web", ""),
    Step::Put("x/b", "db", "n3"),
];

/// The scope of a watch or list: a key, and whether everything below it.
const SCOPES: [(&str, bool); 6] = [
    ("/pods", true),
    ("/pods/x", true),
    ("/pods/y", true),
    ("/pods/none", true),
    ("/pods/x/a", false),
    ("/pods/y/a", false),
];
const LABELS: [&str; 3] = ["", "app=web", "app!=web"];
const FIELDS: [&str; 11] = [
    "",
    "metadata.name=a",
    "metadata.name!=a",
    "metadata.namespace=x",
    "metadata.namespace!=x",
    "spec.nodeName=n1",
    "spec.nodeName!=n1",
    "spec.nodeName=",
    "metadata.namespace=x,spec.nodeName=n1",
    "metadata.name=a,spec.nodeName!=n1",
    "metadata.name=a,metadata.namespace=x",
];

/// A scope and selectors, and what a plain model expects of them.
struct View {
    scope: (&'static str, bool),
    labels: &'static str,
    fields: &'static str,
}

/// A pod as the model knows it: label and node.
type Known = (&'static str, &'static str);

impl View {
    fn all() -> Vec<View> {
        let mut all = Vec::new();
        for scope in SCOPES {
            for labels in LABELS {
                for fields in FIELDS {
                    all.push(View {
                        scope,
                        labels,
                        fields,
                    });
                }
            }
        }
        all
    }

    fn shows(&self, name: &str, (label, node): Known) -> bool {
        let path = format!("/pods/{name}");
        let within = match self.scope {
            (key, true) => path.starts_with(&format!("{key}/")),
            (key, false) => path == key,
        };
        let (namespace, own_name) = name.split_once('/').unwrap();
        let of = |field: &str| match field {
            "app" => label,
            "metadata.name" => own_name,
            "metadata.namespace" => namespace,
            "spec.nodeName" => node,
            other => panic!("{other}"),
        };
        let terms = self.labels.split(',').chain(self.fields.split(','));
        let mut terms = terms.filter(|term| !term.is_empty());
        within
            && terms.all(|term| match term.split_once("!=") {
                Some((field, value)) => of(field) != value,
                None => {
                    let (field, value) = term.split_once('=').unwrap();
                    of(field) == value
                }
            })
    }

    /// The expected events of the steps: kind, name, version, and the label and node (WA-20).
    fn events(&self, revisions: &[Revision]) -> Vec<(&'static str, String, Revision, Known)> {
        let mut pods = std::collections::BTreeMap::new();
        let mut events = Vec::new();
        for (step, revision) in STEPS.iter().zip(revisions) {
            let (name, now) = match *step {
                Step::Put(name, label, node) => (name, Some((label, node))),
                Step::Delete(name) => (name, None),
            };
            let before = match now {
                Some(now) => pods.insert(name, now),
                None => pods.remove(name),
            };
            let shown = |pod: &Known| self.shows(name, *pod);
            let event = match (before.filter(shown), now.filter(shown)) {
                (None, Some(now)) => ("Added", now),
                (Some(_), Some(now)) => ("Modified", now),
                (Some(before), None) => ("Deleted", before),
                (None, None) => continue,
            };
            events.push((event.0, name.to_owned(), *revision, event.1));
        }
        events
    }

    fn watch(&self) -> Watch {
        let watch = match self.scope {
            (key, true) => Watch::below(key),
            (key, false) => Watch::of(key),
        };
        watch.select(self.labels, self.fields)
    }

    fn list(&self) -> List {
        let list = match self.scope {
            (key, true) => List::below(key),
            (key, false) => List::of(key),
        };
        list.select(self.labels, self.fields)
    }
}

/// TS-32, WA-50, WA-52, WA-53: every scope with every selector, live, from history, and in lists,
/// against a plain model.
pub async fn ts_62_63_every_scope_and_selector_agrees_with_a_plain_model(h: Rc<Harness>) {
    let start = h.create(&pod("z", "before")).await.revision;
    let mut live = Vec::new();
    for view in View::all() {
        let stream = h.watch(view.watch().after(start)).await.unwrap();
        live.push((view, stream));
    }
    let mut revisions = Vec::new();
    for step in STEPS {
        let written = match step {
            Step::Put(name, label, node) => {
                let (namespace, own_name) = name.split_once('/').unwrap();
                let pod = with_node(labelled(namespace, own_name, "app", label), node);
                let mut request = update_of(&format!("/pods/{name}"));
                request.ignore_not_found = true;
                h.update_with(request, |_| Ok(pod.clone())).await.unwrap()
            }
            Step::Delete(name) => h.delete(&format!("/pods/{name}")).await.unwrap(),
        };
        revisions.push(written.revision);
    }
    let mut late = Vec::new();
    for (view, _) in &live {
        late.push(h.watch(view.watch().after(start)).await.unwrap());
    }
    let mut streams: Vec<_> = live.into_iter().zip(late).collect();
    for ((view, live), late) in &mut streams {
        let expected = view.events(&revisions);
        for stream in [&mut *live, late] {
            for (kind, name, revision, (label, node)) in &expected {
                let seen = stream.expect(kind, name, *revision).await;
                let shown = &seen.object;
                assert_eq!(shown["metadata"]["labels"]["app"], *label, "{seen:?}");
                assert_eq!(shown["spec"]["nodeName"], *node, "{seen:?}");
            }
        }
        // A list shows the objects whose last event is not a deletion.
        let list = h.list(view.list()).await.unwrap();
        let last = |name: &str| expected.iter().rev().find(|event| event.1 == name);
        let left = |name: &&str| last(name).is_some_and(|event| event.0 != "Deleted");
        let mut left: Vec<&str> = ["x/a", "x/b", "y/a"].into_iter().filter(left).collect();
        let before = ("", "");
        left.extend(Some("z/before").filter(|name| view.shows(name, before)));
        assert_eq!(names(&list), left, "{} {}", view.labels, view.fields);
    }
    for ((view, live), late) in &mut streams {
        let more = format!("{:?} {} {}", view.scope, view.labels, view.fields);
        assert!(live.is_quiet() && late.is_quiet(), "{more}");
    }
}
