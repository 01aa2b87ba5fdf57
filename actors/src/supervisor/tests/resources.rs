//! Resources that are added and removed while others are served.

use std::sync::Weak;

use actix_rt::Arbiter;
use futures_util::FutureExt;
use futures_util::future::join_all;

use super::streams::{next_line, start};
use super::*;
use crate::cacher::WatchCache;
use crate::dispatcher::{DispatcherConfig, LocalDispatcher};
use crate::engine::{Key, Prefix};
use crate::supervisor::{AddResourceError, RemoveResourceError};

/// A resource with keys of its own.
pub(super) fn spec_of(engine: &Arc<FaultyEngine>, resource: &str) -> CacherSpec {
    CacherSpec {
        resource: resource.to_owned(),
        prefix: Prefix::new(format!("/registry/{resource}/")),
        ..spec(engine)
    }
}

pub(super) fn key_of(resource: &str, name: &str) -> Key {
    Key::new(format!("/registry/{resource}/{name}"))
}

fn weak(cacher: &CacherHandle) -> Weak<WatchCache> {
    Arc::downgrade(&cacher.watch_cache)
}

/// Adds a resource, watches it, removes it: its stream ends, and nothing of it is left.
async fn come_and_go(
    actor_system: &ActorSystem,
    dispatcher: &LocalDispatcher,
    engine: &Arc<FaultyEngine>,
    name: &str,
) {
    let cacher = actor_system
        .add_resource(spec_of(engine, name))
        .await
        .unwrap();
    assert!(cacher.settled().await.is_ready());
    let from = cacher.snapshot().unwrap().revision;
    let mut watcher = dispatcher.watch(start(engine, &cacher, from));
    let written = engine.put(&key_of(name, "ns/a"), "red");
    let line = next_line(&mut watcher).await.unwrap();
    assert!(line.contains(&format!("@{written} red")), "{line}");
    actor_system.remove_resource(name).await.unwrap();
    assert_eq!(next_line(&mut watcher).await, None);
    assert_eq!(cacher.readiness(), Readiness::Stopped);
    assert!(cacher.snapshot().is_none() && actor_system.cacher(name).is_none());
    assert_eq!(cacher.watch_cache.ring_size(), (0, 0));
    let mut late = dispatcher.watch(start(engine, &cacher, from));
    assert_eq!(next_line(&mut late).await, None);
    let watch_cache = weak(&cacher);
    drop((cacher, watcher, late));
    assert!(
        watch_cache.upgrade().is_none(),
        "something still holds {name}"
    );
}

#[test]
fn a_thousand_resources_come_and_go_and_a_watch_of_another_one_misses_nothing() {
    const CYCLES: usize = 1_000;
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        let (actor_system, cacher) = actor_system(&engine);
        actor_system.all_ready().await;
        let dispatcher = LocalDispatcher::start(DispatcherConfig::default(), 0);
        let mut watcher = dispatcher.watch(start(&engine, &cacher, Revision::ZERO));
        let mut written = Vec::new();
        come_and_go(&actor_system, &dispatcher, &engine, "same").await;
        let before = (
            actor_system.state(),
            actor_system.loads(),
            actor_system.rings(),
        );
        let holders = Arc::strong_count(&engine);
        for cycle in 0..CYCLES {
            let name = match cycle % 2 {
                0 => "same".to_owned(),
                _ => format!("widgets-{cycle}.example.com"),
            };
            let revision = engine.put(&key("ns/a"), &format!("red {cycle}"));
            written.push((revision, cycle));
            come_and_go(&actor_system, &dispatcher, &engine, &name).await;
        }
        for (revision, cycle) in written {
            let kind = if cycle == 0 { "ADDED" } else { "MODIFIED" };
            let line = next_line(&mut watcher).await.unwrap();
            assert_eq!(line, format!("{kind} ns/a@{revision} red {cycle}"));
        }
        assert_eq!(dispatcher.resources(), 1);
        assert_eq!(
            (actor_system.loads(), actor_system.rings()),
            (before.1, before.2)
        );
        let names = |state: ActorSystemState| -> Vec<(String, u64)> {
            let actors = state.actors.into_iter();
            actors.map(|actor| (actor.name, actor.restarts)).collect()
        };
        assert_eq!(names(actor_system.state()), names(before.0));
        // Its feeds among them.
        assert_eq!(Arc::strong_count(&engine), holders);
        actor_system.stop().await;
    });
}

#[test]
fn many_come_and_go_at_the_same_time_over_several_arbiters_and_http_threads() {
    const RESOURCES: usize = 40;
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        let mut config = config(&engine);
        config.data_arbiters = 3;
        let actor_system = ActorSystem::start(config, vec![spec(&engine)]).unwrap();
        actor_system.all_ready().await;
        let names: Vec<String> = (0..RESOURCES).map(|n| format!("widgets-{n}")).collect();
        let added = names
            .iter()
            .map(|name| actor_system.add_resource(spec_of(&engine, name)));
        let added = join_all(added).await;
        let cachers: Vec<CacherHandle> = added.into_iter().map(Result::unwrap).collect();
        // The resource from before, and these.
        assert_eq!(actor_system.loads(), [14, 14, 13]);
        assert_eq!(actor_system.rings(), 1 + RESOURCES);
        actor_system.all_ready().await;
        assert!(
            actor_system.state().is_ready(),
            "{:?}",
            actor_system.state()
        );
        let (opened, opening) = std::sync::mpsc::channel();
        let (ended, ending) = std::sync::mpsc::channel();
        let threads: Vec<Arbiter> = (0..2).map(|_| Arbiter::new()).collect();
        for (id, thread) in threads.iter().enumerate() {
            let (engine, cachers) = (engine.clone(), cachers.clone());
            let (opened, ended) = (opened.clone(), ended.clone());
            thread.spawn_fn(move || {
                let dispatcher = LocalDispatcher::start(DispatcherConfig::default(), id);
                for cacher in cachers {
                    let mut watcher = dispatcher.watch(start(&engine, &cacher, Revision::ZERO));
                    let (dispatcher, ended) = (dispatcher.clone(), ended.clone());
                    actix_rt::spawn(async move {
                        let line = next_line(&mut watcher).await;
                        // The Dispatcher must live as long as its streams.
                        drop((watcher, dispatcher));
                        ended.send(line).unwrap();
                    });
                }
                opened.send(()).unwrap();
            });
        }
        let both_opened = tokio::task::spawn_blocking(move || {
            assert!((0..2).all(|_| opening.recv_timeout(SOON).is_ok()));
        });
        both_opened.await.unwrap();
        let removed = join_all(names.iter().map(|name| actor_system.remove_resource(name))).await;
        assert!(removed.iter().all(Result::is_ok), "{removed:?}");
        assert_eq!(
            (actor_system.loads(), actor_system.rings()),
            (vec![1, 0, 0], 1)
        );
        let all_ended = tokio::task::spawn_blocking(move || {
            let ends = (0..2 * RESOURCES).map(|_| ending.recv_timeout(SOON));
            ends.collect::<Vec<_>>()
        });
        for end in all_ended.await.unwrap() {
            assert_eq!(end, Ok(None));
        }
        for thread in threads {
            thread.stop();
        }
        actor_system.stop().await;
    });
}

#[test]
fn a_client_that_does_not_read_holds_up_no_removal() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        let (actor_system, cacher) = actor_system(&engine);
        actor_system.all_ready().await;
        let dispatcher = LocalDispatcher::start(DispatcherConfig::default(), 0);
        let mut unread = dispatcher.watch(start(&engine, &cacher, Revision::ZERO));
        let newest = engine.put(&key("ns/a"), "red");
        cacher.fresh(0, newest, SOON).await.unwrap();
        // A removal that has begun is completed, even if its caller goes away.
        let mut removal = Box::pin(actor_system.remove_resource("things"));
        assert!((&mut removal).now_or_never().is_none());
        drop(removal);
        let busy = actor_system.add_resource(spec(&engine)).await;
        assert!(matches!(busy, Err(AddResourceError::Exists(_))), "{busy:?}");
        let again = actor_system.remove_resource("things").await;
        let not_found = RemoveResourceError::NotFound("things".to_owned());
        assert_eq!(again, Err(not_found));
        wait_until("the removal", || actor_system.rings() == 0).await;
        wait_until("the name", || actor_system.loads() == [0]).await;
        assert_eq!(dispatcher.resources(), 0);
        // A resource of the same name is another one and has no watches of the old one.
        let next = actor_system.add_resource(spec(&engine)).await.unwrap();
        assert!(next.settled().await.is_ready());
        let mut watcher = dispatcher.watch(start(&engine, &next, Revision(1)));
        engine.put(&key("ns/a"), "blue");
        let line = next_line(&mut watcher).await;
        assert_eq!(line.as_deref(), Some("MODIFIED ns/a@2 blue"));
        assert_eq!(next_line(&mut unread).await, None);
        actor_system.stop().await;
        let late = actor_system.add_resource(spec_of(&engine, "late")).await;
        assert_eq!(late.unwrap_err(), AddResourceError::Stopped);
        let late = actor_system.remove_resource("things").await;
        assert_eq!(late, Err(RemoveResourceError::Stopped));
    });
}

#[test]
fn a_resource_whose_actors_are_dead_is_removed_and_never_restarted() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        let mut config = config(&engine);
        config.restarts.restarts = 0;
        config.restarts.window = Duration::from_millis(200);
        let actor_system = ActorSystem::start(config, vec![spec(&engine)]).unwrap();
        actor_system.all_ready().await;
        actor_system.panic_cacher("things").await;
        wait_until("degraded", || {
            let actors = actor_system.state().actors;
            actors[0].text.contains("too often")
        })
        .await;
        actor_system.remove_resource("things").await.unwrap();
        let cacher = actor_system.add_resource(spec(&engine)).await.unwrap();
        assert!(cacher.settled().await.is_ready());
        let ready = cacher.readiness();
        // The old children would have been restarted by now.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(cacher.readiness(), ready);
        let actors = actor_system.state().actors;
        assert!(
            actors
                .iter()
                .all(|actor| actor.ready && actor.restarts == 0)
        );
        let twice = ActorSystem::start(super::config(&engine), vec![spec(&engine), spec(&engine)]);
        assert!(matches!(twice, Err(ActorSystemError::Resource(_))));
        actor_system.stop().await;
    });
}
