//! The actor system as a whole: filling, following, failing, restarting, stopping.

mod resources;
mod series;
mod streams;
mod unused;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::cacher::{CacherHandle, NotFresh, Readiness};
use crate::engine::{EngineError, Key, Retention, Revision};
use crate::object::{CachedObject, Decode, DecodeError};
use crate::snapshot::Snapshot;
use crate::testing::{FaultyEngine, OneLiners, key, prefix};

const SOON: Duration = Duration::from_secs(10);

fn spec(engine: &Arc<FaultyEngine>) -> CacherSpec {
    CacherSpec {
        resource: "things".to_owned(),
        engine: engine.clone(),
        prefix: prefix(),
        decode: Arc::new(OneLiners),
        indexed_fields: vec![0],
    }
}

fn config(engine: &Arc<FaultyEngine>) -> ActorSystemConfig {
    let retention = Retention {
        age: Duration::from_secs(3600),
        bytes: u64::MAX,
    };
    ActorSystemConfig::of(engine.clone(), retention)
}

fn actor_system(engine: &Arc<FaultyEngine>) -> (ActorSystem, CacherHandle) {
    let actor_system = ActorSystem::start(config(engine), vec![spec(engine)]).unwrap();
    let cacher = actor_system.cacher("things").unwrap();
    (actor_system, cacher)
}

async fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_true() {
        assert!(Instant::now() < deadline, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn names(cacher: &CacherHandle) -> Vec<String> {
    let snapshot = cacher.snapshot().unwrap();
    let all = prefix();
    let names = snapshot.range(&all, None);
    names
        .flatten()
        .map(|object| object.attributes().name().to_owned())
        .collect()
}

#[test]
fn a_cache_is_filled_and_follows_the_store() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("default/b"), "red 1");
        engine.put(&key("default/a"), "red 2");
        let (actor_system, cacher) = actor_system(&engine);
        actor_system.all_ready().await;
        assert_eq!(names(&cacher), ["a", "b"]);
        assert_eq!(cacher.snapshot().unwrap().revision, Revision(2));

        engine.delete(&key("default/b"));
        let newest = engine.put(&key("default/c"), "red 3");
        let snapshot = cacher.fresh(0, newest, SOON).await.unwrap();
        assert_eq!(snapshot.revision, Revision(4));
        assert_eq!(names(&cacher), ["a", "c"]);
        assert!(
            actor_system.state().is_ready(),
            "{:?}",
            actor_system.state()
        );

        actor_system.stop().await;
        assert_eq!(cacher.readiness(), Readiness::Stopped);
        actor_system.ended().await;
    });
}

#[test]
fn a_write_to_another_resource_moves_an_idle_cache_too_pf_17() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("default/a"), "red 1");
        let (actor_system, cacher) = actor_system(&engine);
        actor_system.all_ready().await;
        let newest = engine.put(&crate::engine::Key::new("/registry/others/x"), "red 2");
        engine.tell_progress();
        let snapshot = cacher.fresh(0, newest, SOON).await.unwrap();
        assert_eq!((snapshot.revision, snapshot.len()), (Revision(2), 1));
        actor_system.stop().await;
    });
}

#[test]
fn freshness_that_never_comes_times_out_with_what_there_is_wa_12_wc_30() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("default/a"), "red 1");
        let (actor_system, cacher) = actor_system(&engine);
        actor_system.all_ready().await;
        let refused = cacher
            .fresh(0, Revision(9), Duration::from_millis(20))
            .await;
        assert!(
            matches!(
                refused,
                Err(NotFresh::Timeout {
                    have: Revision(1),
                    wanted: Revision(9)
                })
            ),
            "{refused:?}"
        );
        actor_system.stop().await;
    });
}

#[test]
fn a_cacher_that_panics_is_not_ready_then_filled_again_in_a_new_generation_wc_40() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("default/a"), "red 1");
        let (actor_system, cacher) = actor_system(&engine);
        actor_system.all_ready().await;
        let Readiness::Ready { generation } = cacher.readiness() else {
            panic!("{:?}", cacher.readiness());
        };
        let mut readiness = cacher.watch_cache.readiness();
        readiness.mark_unchanged();
        actor_system.panic_cacher("things").await;
        readiness.changed().await.unwrap();
        let pending = readiness.borrow_and_update().clone();
        assert!(
            matches!(
                pending,
                Readiness::Pending {
                    last_error: Some(_),
                    ..
                }
            ),
            "{pending:?}"
        );
        assert!(cacher.snapshot().is_none());
        let Readiness::Ready { generation: next } = cacher.settled().await else {
            panic!("{:?}", cacher.readiness());
        };
        assert!(next > generation, "{next} after {generation}");
        let newest = engine.put(&key("default/b"), "red 2");
        cacher.fresh(0, newest, SOON).await.unwrap();
        assert_eq!(names(&cacher), ["a", "b"]);
        let state = actor_system.state();
        assert_eq!(state.actors[0].restarts, 1, "{state:?}");
        actor_system.stop().await;
    });
}

#[test]
fn a_panic_while_decoding_kills_the_reflector_alone_and_the_next_one_goes_on() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("default/a"), "red 1");
        let (actor_system, cacher) = actor_system(&engine);
        actor_system.all_ready().await;
        let generation = cacher.readiness();
        engine.put(&key("default/b"), "red panic");
        wait_until("a death of the reflector", || {
            actor_system
                .state()
                .actors
                .iter()
                .any(|actor| actor.restarts > 0)
        })
        .await;
        // The content of the cache is served meanwhile.
        assert_eq!(names(&cacher), ["a"]);
        assert_eq!(cacher.readiness(), generation);
        actor_system.stop().await;
    });
}

#[test]
fn a_feed_that_breaks_is_resumed_and_disturbs_nobody_wc_44() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("default/a"), "red 1");
        let (actor_system, cacher) = actor_system(&engine);
        actor_system.all_ready().await;
        let ready = cacher.readiness();
        engine.set_down(Some(EngineError::Unavailable("gone".to_owned())));
        engine.put(&key("default/b"), "red 2");
        engine.break_feeds();
        engine.set_down(None);
        let newest = engine.put(&key("default/c"), "red 3");
        cacher.fresh(0, newest, SOON).await.unwrap();
        assert_eq!(names(&cacher), ["a", "b", "c"]);
        assert_eq!(cacher.readiness(), ready, "same generation");
        assert_eq!(cacher.ring_floor(), Revision(1), "nothing was relisted");
        actor_system.stop().await;
    });
}

#[test]
fn an_event_that_was_compacted_away_means_a_new_generation_wa_37() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("default/a"), "red 1");
        let (actor_system, cacher) = actor_system(&engine);
        actor_system.all_ready().await;
        let before = cacher.readiness();
        engine.set_down(Some(EngineError::Unavailable("gone".to_owned())));
        wait_until("the broken feed is noticed", || {
            actor_system
                .state()
                .actors
                .iter()
                .any(|actor| actor.text.contains("gone"))
        })
        .await;
        engine.put(&key("default/b"), "red 2");
        let newest = engine.put(&key("default/b"), "red 3");
        engine.compact_now(newest);
        engine.set_down(None);
        cacher.fresh(0, newest, SOON).await.unwrap();
        assert_eq!(names(&cacher), ["a", "b"]);
        assert_ne!(cacher.readiness(), before);
        assert_eq!(cacher.ring_floor(), newest);
        actor_system.stop().await;
    });
}

/// Returns the error of an undecodable value in the newest snapshot.
fn unreadable(cacher: &CacherHandle, name: &str) -> Option<String> {
    let snapshot = cacher.snapshot()?;
    let error = snapshot.unreadable(&key(name))?;
    Some(error.to_string())
}

#[test]
fn a_value_that_cannot_be_read_is_told_from_what_is_not_there_pf_20() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("default/a"), "undecodable");
        engine.put(&key("default/b"), "red");
        let (actor_system, cacher) = actor_system(&engine);
        cacher.settled().await;
        let why = unreadable(&cacher, "default/a").unwrap();
        assert!(why.contains("/registry/things/default/a"), "{why}");
        assert_eq!(names(&cacher), ["b"]);
        let state = actor_system.state();
        assert!(state.is_ready());
        assert!(state.actors[0].text.ends_with("1 values can't be read"));

        // Overwritten, deleted, and written again: the cache follows.
        let read = engine.put(&key("default/a"), "red");
        cacher.fresh(0, read, SOON).await.unwrap();
        assert_eq!(names(&cacher), ["a", "b"]);
        let unread = engine.put(&key("default/b"), "undecodable");
        let snapshot = cacher.fresh(0, unread, SOON).await.unwrap();
        assert_eq!(names(&cacher), ["a"]);
        let all = prefix();
        let last = engine.put(&key("default/c"), "red");
        let snapshot_with_more = cacher.fresh(0, last, SOON).await.unwrap();
        let readable = |snapshot: &Snapshot, start: Option<&[u8]>| -> Vec<bool> {
            let stored = snapshot.range(&all, start);
            stored.map(|stored| stored.is_ok()).collect()
        };
        assert_eq!(
            readable(&snapshot, None),
            [true, false],
            "it is the last one"
        );
        assert_eq!(readable(&snapshot_with_more, None), [true, false, true]);
        let [b, c] = ["b", "c"].map(|name| key(&format!("default/{name}")));
        let from = |key: &Key| readable(&snapshot_with_more, Some(key.as_bytes()));
        assert_eq!((from(&b), from(&c)), (vec![false, true], vec![true]));
        let counted = snapshot_with_more.stored_below(&all);
        assert_eq!((counted, snapshot_with_more.stored()), (3, 3));
        assert!(snapshot.first_unreadable(&all).is_some());
        engine.delete(&key("default/c"));
        let gone = engine.delete(&key("default/b"));
        let snapshot = cacher.fresh(0, gone, SOON).await.unwrap();
        assert_eq!(snapshot.unreadable_count(), 0);
        assert_eq!(names(&cacher), ["a"]);
        actor_system.stop().await;
    });
}

/// A decoder that fails until the test lets it succeed.
#[derive(Default)]
struct Locked(AtomicBool);

impl Decode for Locked {
    fn decode(
        &self,
        key: &Key,
        revision: Revision,
        value: &bytes::Bytes,
    ) -> Result<CachedObject, DecodeError> {
        let is_open = self.0.load(Ordering::Relaxed);
        let undecodable = bytes::Bytes::from_static(b"undecodable");
        let value = if is_open { value } else { &undecodable };
        OneLiners.decode(key, revision, value)
    }
}

#[test]
fn values_that_can_be_read_later_come_into_the_cache_though_nothing_happens_to_them() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("default/a"), "red");
        let locked = Arc::new(Locked::default());
        let mut spec = spec(&engine);
        spec.decode = Arc::clone(&locked) as Arc<dyn Decode>;
        let actor_system = ActorSystem::start(config(&engine), vec![spec]).unwrap();
        let cacher = actor_system.cacher("things").unwrap();
        cacher.settled().await;
        let at = engine.put(&key("default/b"), "blue");
        cacher.fresh(0, at, SOON).await.unwrap();
        assert_eq!(cacher.snapshot().unwrap().unreadable_count(), 2);
        locked.0.store(true, Ordering::Relaxed);
        wait_until("both", || names(&cacher) == ["a", "b"]).await;
        assert_eq!(cacher.snapshot().unwrap().unreadable_count(), 0);
        actor_system.stop().await;
    });
}

#[test]
fn a_resource_whose_cacher_dies_too_often_is_degraded_and_the_others_go_on() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("default/a"), "red 1");
        let mut config = config(&engine);
        config.restarts.restarts = 1;
        config.restarts.first_wait = Duration::from_millis(1);
        let mut other = spec(&engine);
        other.resource = "others".to_owned();
        let actor_system = ActorSystem::start(config, vec![spec(&engine), other]).unwrap();
        actor_system.all_ready().await;
        let is_degraded = |actor_system: &ActorSystem| {
            actor_system
                .state()
                .actors
                .iter()
                .any(|actor| actor.text.contains("too often"))
        };
        actor_system.panic_cacher("things").await;
        wait_until("a restart", || {
            let state = actor_system.state();
            state.actors[0].restarts == 1 && state.is_ready()
        })
        .await;
        actor_system.panic_cacher("things").await;
        wait_until("degraded", || is_degraded(&actor_system)).await;
        assert!(actor_system.cacher("things").unwrap().snapshot().is_none());
        assert!(actor_system.cacher("others").unwrap().snapshot().is_some());
        actor_system.stop().await;
    });
}

#[test]
fn turns_and_compactions_come_from_the_actor_system_and_end_with_it_wc_50() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("ns/a"), "red 1");
        let (actor_system, _) = actor_system(&engine);
        let soon = || tokio::time::Instant::now() + SOON;
        let writers = actor_system.writers("base");
        for name in ["ns/a", "ns/b", "ns/c", "ns/d", "ns/e"] {
            let turn = writers.turn(&key(name), soon()).await.unwrap();
            assert!(!turn.is_lost());
        }
        let report = actor_system.compactors()[0]
            .1
            .compact_now(true)
            .await
            .unwrap();
        assert_eq!(report.compacted, Revision::ZERO, "retention wants it all");
        let names: Vec<String> = actor_system
            .state()
            .actors
            .into_iter()
            .map(|actor| actor.name)
            .collect();
        assert_eq!(names[0], "cacher/things");
        assert_eq!(names.last().map(String::as_str), Some("compactor/base"));
        actor_system.stop().await;
        // Stopping it again does nothing.
        actor_system.stop().await;
        let refused = writers.turn(&key("ns/a"), soon()).await;
        assert_eq!(refused.unwrap_err(), crate::writer::TurnError::Gone);
        assert!(
            actor_system.compactors()[0]
                .1
                .compact_now(false)
                .await
                .is_err()
        );
    });
}

#[test]
fn the_actor_system_needs_an_actix_system_to_start_its_threads_in() {
    let refused = ActorSystem::start(config(&FaultyEngine::new()), Vec::new());
    assert!(matches!(refused, Err(ActorSystemError::NoSystem)));
}

#[test]
fn a_cache_that_cannot_be_filled_is_waited_for_no_longer_than_asked_and_told_wc_46() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        let down = EngineError::Unavailable("no answer from it".to_owned());
        engine.set_down(Some(down));
        let (actor_system, _) = actor_system(&engine);
        let unfilled = actor_system.ready_within(Duration::from_millis(200)).await;
        let [line] = &unfilled.unwrap_err()[..] else {
            panic!("one cache, one line");
        };
        assert!(line.starts_with("things: "), "{line}");
        assert!(line.contains("no answer from it"), "{line}");
        engine.set_down(None);
        assert_eq!(actor_system.ready_within(SOON).await, Ok(()));
    });
}
