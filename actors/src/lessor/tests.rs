//! Leases of a store that counts its grants, and steps of expiry on a clock of the test.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::sleep;

use super::*;
use crate::actor_ref::ActorRef;
use crate::engine::{EngineError, Expiry, LeaseId};
use crate::exit::{ChildId, ExitReports};
use crate::testing::FaultyEngine;
use crate::watchdog::Watchdog;

const SECOND: Duration = Duration::from_secs(1);

fn handle(engine: &Arc<FaultyEngine>) -> LessorHandle {
    LessorHandle::new(engine.clone(), LeaseReuse::default())
}

fn start(lessor: &LessorHandle) -> Arc<ActorRef<Lessor>> {
    let exit = ExitGuard::new(
        ChildId(0),
        1,
        ExitReports::default(),
        Watchdog::default().pulse("test"),
    );
    let actor_ref = ActorRef::new("lessor", mailbox::LESSOR);
    actor_ref.set(Lessor::new("base".to_owned(), lessor.clone(), exit).start());
    actor_ref
}

#[test]
fn many_who_ask_at_once_share_one_grant_op_1() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        let lessor = handle(&engine);
        let leases = join_all((0..100).map(|_| lessor.lease(3600))).await;
        assert!(leases.iter().all(|lease| *lease == Ok(LeaseId(1))));
        assert_eq!(engine.granted(), [3660 * SECOND]);
        lessor.forget(LeaseId(1));
        assert_eq!(lessor.lease(3600).await, Ok(LeaseId(2)));
    });
}

#[test]
fn leases_that_nobody_can_share_are_granted_side_by_side_op_2() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        let lessor = handle(&engine);
        let mut leases = join_all((0..100).map(|_| lessor.lease(15))).await;
        leases.sort_by_key(|lease| lease.clone().unwrap());
        leases.dedup();
        assert_eq!(leases.len(), 100);
        assert_eq!(engine.granted(), [15 * SECOND; 100]);
    });
}

#[test]
fn a_failed_grant_fails_who_asked_and_the_next_one_asks_again() {
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        let lessor = handle(&engine);
        let down = EngineError::Unavailable("reopening".to_owned());
        engine.set_down(Some(down.clone()));
        assert_eq!(lessor.lease(3600).await, Err(down));
        engine.set_down(None);
        assert_eq!(lessor.lease(3600).await, Ok(LeaseId(1)));
        // A caller that has gone away does not block the others.
        lessor.forget(LeaseId(1));
        assert_eq!(lessor.lease(3600).now_or_never(), None);
        assert_eq!(lessor.lease(3600).await, Ok(LeaseId(2)));
    });
}

#[test]
fn nobody_waits_longer_for_a_grant_that_fails_than_it_takes() {
    actix_rt::System::new().block_on(async {
        tokio::time::pause();
        let engine = FaultyEngine::new();
        let lessor = handle(&engine);
        let down = EngineError::Unavailable("no answer".to_owned());
        engine.set_down(Some(down.clone()));
        engine.set_grants_take(3 * SECOND);
        let begin = tokio::time::Instant::now();
        let asked = join_all((0..100).map(|_| lessor.lease(3600))).await;
        assert!(asked.iter().all(|answer| *answer == Err(down.clone())));
        assert_eq!(begin.elapsed().as_secs(), 3);
        // A later caller has the grant retried.
        engine.set_down(None);
        assert_eq!(lessor.lease(3600).await, Ok(LeaseId(1)));
        assert_eq!(begin.elapsed().as_secs(), 6);
    });
}

#[test]
fn nothing_expires_before_the_daemon_says_so() {
    actix_rt::System::new().block_on(async {
        tokio::time::pause();
        let engine = FaultyEngine::new();
        let lessor = handle(&engine);
        let _slot = start(&lessor);
        sleep(3600 * SECOND).await;
        assert_eq!(engine.expiry_steps(), 0);
        lessor.begin();
        sleep(SECOND).await;
        assert_eq!(engine.expiry_steps(), 1);
    });
}

#[test]
fn steps_follow_each_other_until_nothing_is_left_and_again_when_the_next_lease_runs_out() {
    actix_rt::System::new().block_on(async {
        tokio::time::pause();
        let engine = FaultyEngine::new();
        for _ in 0..9 {
            engine.expire_next(Expiry {
                expired: 64,
                more: true,
                next: None,
            });
        }
        engine.expire_next(Expiry {
            expired: 1,
            more: false,
            next: Some(40 * SECOND),
        });
        let lessor = handle(&engine);
        lessor.begin();
        let _slot = start(&lessor);
        sleep(SECOND).await;
        assert_eq!(engine.expiry_steps(), 10);
        sleep(38 * SECOND).await;
        assert_eq!(engine.expiry_steps(), 10);
        sleep(2 * SECOND).await;
        assert_eq!(engine.expiry_steps(), 11);
    });
}

#[test]
fn a_lease_granted_meanwhile_is_expired_in_time() {
    actix_rt::System::new().block_on(async {
        tokio::time::pause();
        let engine = FaultyEngine::new();
        let lessor = handle(&engine);
        lessor.begin();
        let _slot = start(&lessor);
        sleep(SECOND).await;
        assert_eq!(engine.expiry_steps(), 1);
        for ttl in [30, 5, 30] {
            lessor.lease(ttl).await.unwrap();
        }
        sleep(4 * SECOND).await;
        assert_eq!(engine.expiry_steps(), 1);
        sleep(2 * SECOND).await;
        assert_eq!(engine.expiry_steps(), 2);
    });
}

#[test]
fn an_engine_that_fails_is_asked_again_and_the_next_life_goes_on() {
    actix_rt::System::new().block_on(async {
        tokio::time::pause();
        let engine = FaultyEngine::new();
        engine.set_down(Some(EngineError::Unavailable("reopening".to_owned())));
        let lessor = handle(&engine);
        lessor.begin();
        let actor_ref = start(&lessor);
        sleep(SECOND * 7 / 2).await;
        assert_eq!(engine.expiry_steps(), 4, "once a second");
        actor_ref.ask_patiently(messages::Stop).await.unwrap();
        sleep(100 * SECOND).await;
        assert_eq!(engine.expiry_steps(), 4, "stopped");
        engine.set_down(None);
        let _slot = start(&lessor);
        sleep(SECOND).await;
        assert_eq!(engine.expiry_steps(), 5, "begun is begun");
    });
}
