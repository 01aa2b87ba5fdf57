//! Compactions of a store that records what it was asked.

use super::*;
use crate::actor_ref::ActorRef;
use crate::engine::DataEngine;
use crate::exit::{ChildId, ExitReports};
use crate::testing::{FaultyEngine, key};
use crate::watchdog::Watchdog;

fn compactor(engine: &Arc<FaultyEngine>, age: Duration) -> CompactorHandle {
    let retention = Retention {
        age,
        bytes: u64::MAX,
    };
    let exit = ExitGuard::new(
        ChildId(0),
        1,
        ExitReports::default(),
        Watchdog::default().pulse("test"),
    );
    let actor_ref = ActorRef::new("compactor", mailbox::COMPACTOR);
    actor_ref.set(Compactor::new("base".to_owned(), engine.clone(), retention, exit).start());
    CompactorHandle { actor_ref }
}

#[test]
fn history_beyond_retention_goes_by_itself_a_step_at_a_time() {
    actix_rt::System::new().block_on(async {
        tokio::time::pause();
        let engine = FaultyEngine::new();
        for number in 1..=5 {
            engine.put(&key("ns/a"), &format!("red {number}"));
        }
        let _compactor = compactor(&engine, Duration::ZERO);
        tokio::time::sleep(TICK * 2).await;
        assert_eq!(engine.compacted(), Revision(5));
        assert_eq!(engine.records_removed(), 4, "the newest value stays");
    });
}

#[test]
fn what_retention_wants_stays_even_when_an_operator_asks() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("ns/a"), "red 1");
        let compactor = compactor(&engine, Duration::from_secs(3600));
        let report = compactor.compact_now(true).await.unwrap();
        assert_eq!(report.compacted, Revision::ZERO);
        assert_eq!((report.removed, engine.reclaiming_steps()), (0, 1));
        compactor
            .actor_ref
            .ask_patiently(messages::Stop)
            .await
            .unwrap();
        compactor.actor_ref.clear();
        let refused = compactor.compact_now(true).await;
        assert!(matches!(refused, Err(CompactError::Gone)), "{refused:?}");
    });
}

#[test]
fn a_purge_goes_up_to_its_revision_whatever_retention_wants() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        for number in 1..=3 {
            engine.put(&key("ns/a"), &format!("red {number}"));
        }
        let compactor = compactor(&engine, Duration::from_secs(3600));
        let report = compactor.purge(Revision(2)).await.unwrap();
        assert_eq!(report.compacted, Revision(2));
        assert_eq!(engine.compacted(), Revision(2));
    });
}

#[test]
fn an_engine_that_fails_is_asked_again_at_the_next_tick() {
    actix_rt::System::new().block_on(async {
        tokio::time::pause();
        let engine = FaultyEngine::new();
        engine.put(&key("ns/a"), "red 1");
        let down = EngineError::Unavailable("reopening".to_owned());
        engine.set_down(Some(down.clone()));
        let compactor = compactor(&engine, Duration::ZERO);
        let refused = compactor.compact_now(false).await;
        assert!(
            matches!(refused, Err(CompactError::Engine(ref error)) if *error == down),
            "{refused:?}"
        );
        engine.set_down(None);
        tokio::time::sleep(TICK * 2).await;
        assert_eq!(engine.compacted(), Revision(1));
    });
}

/// Reclaiming the space of an idle store stops when clients write, so that retention continues.
#[test]
fn giving_space_back_ends_when_writers_are_back() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        engine.put(&key("ns/a"), "red 1");
        engine.write_while_reclaiming(100);
        let retention = Retention {
            age: Duration::from_secs(3600),
            bytes: u64::MAX,
        };
        let now = std::time::SystemTime::now();
        let request = CompactionRequest {
            up_to: Revision::ZERO,
            reclaim: Reclaim::WhileIdle,
        };
        let round = compaction::compact(engine.clone(), retention, now, request);
        let round = tokio::time::timeout(Duration::from_secs(10), round).await;
        let round = round.expect("it does not end").unwrap();
        assert!(!round.has_reclaimed);
        let compactor = compactor(&engine, Duration::from_secs(3600));
        let patient = tokio::time::timeout(TICK / 10, compactor.compact_now(true)).await;
        assert!(
            patient.is_err(),
            "an operator's request is left to the engine"
        );
    });
}
