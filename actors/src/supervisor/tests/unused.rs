//! Resources whose caches are filled at their first use.

use futures_util::future::join_all;

use super::resources::{key_of, spec_of};
use super::*;

fn is_running(actor_system: &ActorSystem, name: &str) -> bool {
    let actors = actor_system.state().actors;
    actors
        .iter()
        .any(|actor| actor.name == format!("cacher/{name}"))
}

#[test]
fn a_cache_is_filled_once_at_its_first_use() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key_of("idle", "ns/a"), "red");
        let (actor_system, _) = actor_system(&engine);
        let cacher = actor_system.add_unused_resource(spec_of(&engine, "idle"));
        let cacher = cacher.unwrap();
        let taken = actor_system.add_unused_resource(spec_of(&engine, "idle"));
        assert!(matches!(taken, Err(AddResourceError::Exists(_))));
        // Nobody waits for a cache that nobody uses.
        actor_system.all_ready().await;
        assert_eq!(actor_system.ready_within(SOON).await, Ok(()));
        assert!(cacher.is_unused() && cacher.snapshot().is_none());
        assert!(!is_running(&actor_system, "idle"));
        let users = (0..20).map(|_| {
            let cacher = actor_system.cacher("idle").unwrap();
            async move {
                cacher.in_use(SOON).await;
                cacher.readiness()
            }
        });
        for readiness in join_all(users).await {
            assert_eq!(readiness, Readiness::Ready { generation: 1 });
        }
        assert!(!cacher.is_unused() && is_running(&actor_system, "idle"));
        let newest = engine.put(&key_of("idle", "ns/b"), "blue");
        let snapshot = cacher.fresh(0, newest, SOON).await.unwrap();
        assert_eq!(snapshot.stored(), 2);
        actor_system.remove_resource("idle").await.unwrap();
        assert_eq!(cacher.readiness(), Readiness::Stopped);
        actor_system.stop().await;
    });
}

#[test]
fn a_cache_that_nobody_used_is_removed_and_never_started() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        let (actor_system, _) = actor_system(&engine);
        for is_used in [false, true] {
            let spec = spec_of(&engine, "idle");
            let cacher = actor_system.add_unused_resource(spec).unwrap();
            if is_used {
                // The removal comes before or after the start that this requests.
                cacher.begin_use();
            }
            actor_system.remove_resource("idle").await.unwrap();
            assert_eq!(cacher.readiness(), Readiness::Stopped);
            cacher.in_use(SOON).await;
            assert_eq!(cacher.readiness(), Readiness::Stopped);
            assert!(!is_running(&actor_system, "idle"));
            let watch_cache = Arc::downgrade(&cacher.watch_cache);
            drop(cacher);
            // The use after the removal requests a start, which finds nothing to start.
            let is_freed = || watch_cache.upgrade().is_none();
            wait_until("the end of all that is left of it", is_freed).await;
        }
        assert_eq!(actor_system.rings(), 1);
        let spec = spec_of(&engine, "late");
        let late = actor_system.add_unused_resource(spec).unwrap();
        actor_system.stop().await;
        late.in_use(SOON).await;
        assert_eq!(late.readiness(), Readiness::Stopped);
    });
}

#[test]
fn what_replaces_an_unused_cache_is_unused_too() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key_of("idle", "ns/a"), "red");
        let (actor_system, _) = actor_system(&engine);
        let spec = || spec_of(&engine, "idle");
        let first = actor_system.add_unused_resource(spec()).unwrap();
        let replacement = actor_system.begin_replacement(spec()).await.unwrap();
        let second = replacement.handle().clone();
        let replaced = actor_system.replace(replacement).unwrap();
        assert!(first.is_unused() && second.is_unused());
        // A client that found the first one may still use it for the first time.
        first.in_use(SOON).await;
        assert!(first.readiness().is_ready());
        actor_system.retire(replaced).await;
        assert_eq!(first.readiness(), Readiness::Stopped);
        second.in_use(SOON).await;
        assert_eq!(second.snapshot().unwrap().stored(), 1);
        // One that replaces a used cache is filled at once.
        let third = actor_system.begin_replacement(spec()).await.unwrap();
        assert!(!third.handle().is_unused());
        assert!(third.handle().settled().await.is_ready());
        actor_system.retire(third).await;
        assert_eq!(actor_system.loads(), [2]);
        actor_system.stop().await;
    });
}
