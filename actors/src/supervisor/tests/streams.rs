//! Streams on HTTP threads of their own, over a running actor system.

use std::future::poll_fn;
use std::sync::mpsc;

use actix_rt::Arbiter;

use super::*;
use crate::dispatcher::{
    Caller, DispatcherConfig, LocalDispatcher, StartPoint, WatchStart, Watcher,
};
use crate::testing::interest;
use crate::watch::Scope;

/// A watch of everything, from a revision on.
pub(super) fn start(
    engine: &Arc<FaultyEngine>,
    cacher: &CacherHandle,
    after: Revision,
) -> WatchStart {
    WatchStart {
        cacher: cacher.clone(),
        engine: engine.clone(),
        decode: Arc::new(OneLiners),
        interest: interest(Scope::All),
        from: StartPoint::After(after),
        bookmarks: false,
        deadline: tokio::time::Instant::now() + Duration::from_secs(600),
    }
}

pub(super) async fn next_line(watcher: &mut Watcher) -> Option<String> {
    let frame = poll_fn(|context| watcher.poll_next(&Caller::task(context)))
        .await?
        .bytes;
    Some(String::from_utf8_lossy(&frame).into_owned())
}

#[test]
fn every_thread_gets_every_event_exactly_once_and_in_order() {
    const WATCHERS: usize = 20;
    const EVENTS: usize = 400;
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        let (actor_system, cacher) = actor_system(&engine);
        actor_system.all_ready().await;
        let (received, receiving) = mpsc::channel();
        let threads: Vec<Arbiter> = (0..2).map(|_| Arbiter::new()).collect();
        for (id, thread) in threads.iter().enumerate() {
            let (engine, cacher, received) = (engine.clone(), cacher.clone(), received.clone());
            thread.spawn_fn(move || {
                let dispatcher = LocalDispatcher::start(DispatcherConfig::default(), id);
                for _ in 0..WATCHERS {
                    let start = start(&engine, &cacher, Revision::ZERO);
                    let mut watcher = dispatcher.watch(start);
                    let received = received.clone();
                    actix_rt::spawn(async move {
                        let mut lines = Vec::new();
                        while lines.len() < EVENTS {
                            lines.push(next_line(&mut watcher).await);
                        }
                        received.send(lines).unwrap();
                    });
                }
            });
        }
        for number in 1..=EVENTS {
            engine.put(&key("ns/a"), &format!("red {number}"));
            if number % 7 == 0 {
                tokio::time::sleep(Duration::from_micros(300)).await;
            }
        }
        let lines = |number| match number {
            1 => Some("ADDED ns/a@1 red 1".to_owned()),
            number => Some(format!("MODIFIED ns/a@{number} red {number}")),
        };
        let expected: Vec<Option<String>> = (1..=EVENTS).map(lines).collect();
        let all = tokio::task::spawn_blocking(move || {
            let streams = (0..2 * WATCHERS).map(|_| receiving.recv_timeout(SOON));
            streams.collect::<Vec<_>>()
        });
        for stream in all.await.unwrap() {
            assert_eq!(stream.unwrap(), expected);
        }
        for thread in threads {
            thread.stop();
        }
        actor_system.stop().await;
    });
}

#[test]
fn the_death_of_a_cacher_ends_its_watches_and_the_next_ones_go_on_wa_37_wc_43() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("ns/a"), "red 1");
        let (actor_system, cacher) = actor_system(&engine);
        actor_system.all_ready().await;
        let dispatcher = LocalDispatcher::start(DispatcherConfig::default(), 0);
        let mut watcher = dispatcher.watch(start(&engine, &cacher, Revision(1)));
        engine.put(&key("ns/a"), "red 2");
        let line = next_line(&mut watcher).await;
        assert_eq!(line.as_deref(), Some("MODIFIED ns/a@2 red 2"));

        actor_system.panic_cacher("things").await;
        assert_eq!(next_line(&mut watcher).await, None);

        // Written while the resource is not cached, and after.
        engine.put(&key("ns/a"), "red 3");
        cacher.settled().await;
        // The client resumes where it was. History has the events that the new ring lacks.
        let mut watcher = dispatcher.watch(start(&engine, &cacher, Revision(2)));
        engine.put(&key("ns/a"), "red 4");
        for number in [3, 4] {
            let line = next_line(&mut watcher).await.unwrap();
            assert_eq!(line, format!("MODIFIED ns/a@{number} red {number}"));
        }
        actor_system.stop().await;
        assert_eq!(
            next_line(&mut watcher).await,
            None,
            "stopped with the actor_system"
        );
    });
}
