//! Turns: the order, expiry, and what happens when a caller or a Writer goes away.

use std::time::Duration;

use bytes::Bytes;

use super::turns::{TURN_TIME, TurnRequest};
use super::*;
use crate::actor_ref::ActorRef;
use crate::engine::{KeyValue, LeaseId, Revision, Ticket, ticket};
use crate::exit::{ChildId, ExitReports};
use crate::testing::thing;
use crate::watchdog::Watchdog;

fn key(name: &str) -> Key {
    Key::new(name)
}

fn durable(name: &str, revision: u64) -> LastOutcome {
    LastOutcome::Durable(value(name, revision))
}

fn queued(ticket: &Ticket) -> QueuedObject {
    QueuedObject {
        ticket: ticket.clone(),
        object: Arc::new(thing("a", "text")),
        plain: Bytes::from_static(b"plain"),
    }
}

fn value(name: &str, revision: u64) -> KeyValue {
    KeyValue {
        key: key(name),
        value: Bytes::from_static(b"value"),
        create_revision: Revision(1),
        revision: Revision(revision),
        version: revision,
        lease: LeaseId::default(),
    }
}

fn asked(id: u64, losses: u32, deadline: Instant) -> TurnRequest {
    TurnRequest {
        id: TurnId(id),
        losses,
        deadline,
    }
}

/// The last request that waited is granted its turn.
fn granted(id: u64, last_outcome: Option<LastOutcome>) -> Effect {
    granted_before(0, id, last_outcome)
}

/// A request is granted its turn while others still wait.
fn granted_before(waiting: usize, id: u64, last_outcome: Option<LastOutcome>) -> Effect {
    Effect::Grant {
        id: TurnId(id),
        key: key("a"),
        last_outcome,
        waiting,
    }
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn turns_of_a_key_come_in_order_and_other_keys_do_not_wait() {
    let now = Instant::now();
    let mut turns = Turns::default();
    let deadline = now + LONG;
    assert_eq!(
        turns.ask(now, &key("a"), asked(1, 0, deadline)),
        [granted(1, None)]
    );
    assert_eq!(turns.ask(now, &key("a"), asked(2, 0, deadline)), []);
    assert_eq!(turns.ask(now, &key("a"), asked(3, 0, deadline)), []);
    assert_eq!(turns.ask(now, &key("b"), asked(4, 0, deadline)).len(), 1);
    let outcome = durable("a", 7);
    let effects = turns.give_back(now, &key("a"), TurnId(1), Some(outcome.clone()));
    assert_eq!(effects, [granted_before(1, 2, Some(outcome.clone()))]);
    let effects = turns.give_back(now, &key("a"), TurnId(2), None);
    assert_eq!(effects, [granted(3, Some(outcome))]);
    assert_eq!(turns.give_back(now, &key("a"), TurnId(3), None), []);
}

#[test]
fn a_turn_expires_only_while_others_wait() {
    let start = Instant::now();
    let deadline = start + LONG;
    let mut turns = Turns::default();
    turns.ask(start, &key("a"), asked(1, 0, deadline));
    let late = start + TURN_TIME * 3;
    assert_eq!(turns.next_expiry(), None);
    assert_eq!(turns.tick(late), []);
    // Another request comes. The holder has had its time already.
    assert_eq!(
        turns.ask(late, &key("a"), asked(2, 0, deadline)),
        [Effect::Expire(TurnId(1)), granted(2, None)]
    );
    turns.ask(late, &key("a"), asked(3, 0, deadline));
    assert_eq!(turns.next_expiry(), Some(late + TURN_TIME));
    assert_eq!(turns.tick(late + TURN_TIME / 2), []);
    assert_eq!(
        turns.tick(late + TURN_TIME),
        [Effect::Expire(TurnId(2)), granted(3, None)]
    );
    // The value that was committed after the turn was lost is remembered too.
    let outcome = Some(durable("a", 7));
    turns.give_back(late, &key("a"), TurnId(2), outcome.clone());
    turns.ask(late, &key("a"), asked(4, 0, deadline));
    let effects = turns.give_back(late, &key("a"), TurnId(3), None);
    assert_eq!(effects, [granted(4, outcome)]);
}

#[test]
fn who_has_lost_two_turns_keeps_the_third_until_its_deadline() {
    let start = Instant::now();
    let deadline = start + LONG;
    let mut turns = Turns::default();
    turns.ask(start, &key("a"), asked(1, 2, deadline));
    turns.ask(start, &key("a"), asked(2, 0, deadline));
    assert_eq!(turns.tick(start + TURN_TIME * 10), []);
    assert_eq!(turns.next_expiry(), Some(deadline));
    assert_eq!(
        turns.tick(deadline),
        [Effect::Expire(TurnId(1)), granted(2, None)]
    );
}

#[test]
fn outcomes_are_remembered_by_revision_within_bounds_and_forgotten_when_in_doubt() {
    let now = Instant::now();
    let mut turns = Turns::default();
    let deadline = now + LONG;
    let mut next_id = 0;
    let mut pass = |turns: &mut Turns, name: &str, outcome: Option<LastOutcome>| {
        next_id += 1;
        let effects = turns.ask(now, &key(name), asked(next_id, 0, deadline));
        turns.give_back(now, &key(name), TurnId(next_id), outcome);
        match effects.into_iter().next() {
            Some(Effect::Grant { last_outcome, .. }) => last_outcome,
            other => panic!("{other:?}"),
        }
    };
    pass(&mut turns, "a", Some(durable("a", 9)));
    pass(&mut turns, "a", Some(durable("a", 8)));
    assert_eq!(pass(&mut turns, "a", None), Some(durable("a", 9)));
    for number in 0..300 {
        let name = format!("k{number}");
        pass(&mut turns, &name, Some(durable(&name, 1)));
    }
    assert_eq!(pass(&mut turns, "a", None), None, "the oldest goes first");
    assert!(pass(&mut turns, "k299", None).is_some());
    turns.forget_outcomes();
    assert_eq!(pass(&mut turns, "k299", None), None);
}

#[test]
fn what_is_queued_is_newest_unless_its_turn_had_expired() {
    let start = Instant::now();
    let deadline = start + LONG;
    let mut turns = Turns::default();
    let (issuer, first) = ticket();
    let first = LastOutcome::Queued(queued(&first));
    turns.ask(start, &key("a"), asked(1, 0, deadline));
    turns.ask(start, &key("a"), asked(2, 0, deadline));
    turns.ask(start, &key("a"), asked(3, 0, deadline));
    let effects = turns.give_back(start, &key("a"), TurnId(1), Some(first.clone()));
    assert_eq!(effects, [granted_before(1, 2, Some(first.clone()))]);
    // The second one is slow. A mutation that it queues later follows the third one.
    let late = start + TURN_TIME;
    let expired = [Effect::Expire(TurnId(2)), granted(3, Some(first.clone()))];
    assert_eq!(turns.tick(late), expired);
    let (_second, second) = ticket();
    let second = Some(LastOutcome::Queued(queued(&second)));
    turns.give_back(late, &key("a"), TurnId(2), second);
    turns.ask(late, &key("a"), asked(4, 0, deadline));
    // A durable value does not take the place of what waits for its commit.
    let before = Some(durable("a", 5));
    let effects = turns.give_back(late, &key("a"), TurnId(3), before);
    assert_eq!(effects, [granted(4, Some(first.clone()))]);
    issuer.decide(Revision(7));
    turns.ask(late, &key("a"), asked(5, 0, deadline));
    let before = Some(durable("a", 6));
    let effects = turns.give_back(late, &key("a"), TurnId(4), before);
    assert_eq!(effects, [granted(5, Some(first))]);
    drop(issuer);
    turns.ask(late, &key("a"), asked(6, 0, deadline));
    let instead = Some(durable("a", 6));
    let effects = turns.give_back(late, &key("a"), TurnId(5), instead.clone());
    assert_eq!(effects, [granted(6, instead)]);
}

fn writer() -> (WriterHandle, Arc<ActorRef<Writer>>) {
    let actor_ref = ActorRef::new("writer", mailbox::WRITER);
    let exit = ExitGuard::new(
        ChildId(0),
        1,
        ExitReports::default(),
        Watchdog::default().pulse("test"),
    );
    actor_ref.set(Writer::new(exit).start());
    let handle = WriterHandle::new([Arc::clone(&actor_ref)]);
    (handle, actor_ref)
}

fn soon() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(10)
}

#[test]
fn a_dropped_turn_or_caller_gives_way_to_the_next() {
    actix_rt::System::new().block_on(async {
        let (writers, _) = writer();
        let first = writers.turn(&key("a"), soon()).await.unwrap();
        let soon_over = tokio::time::Instant::now() + Duration::from_millis(5);
        let impatient = writers.turn(&key("a"), soon_over).await;
        assert_eq!(impatient.unwrap_err(), TurnError::Deadline);
        first.committed(value("a", 3));
        let next = writers.turn(&key("a"), soon()).await.unwrap();
        assert_eq!(next.last_outcome(), Some(&durable("a", 3)));
        drop(next);
        writers.forget_all().await;
        let next = writers.turn(&key("a"), soon()).await.unwrap();
        assert_eq!(next.last_outcome(), None);
    });
}

#[test]
fn a_key_is_contended_while_turns_of_it_are_held_or_awaited() {
    actix_rt::System::new().block_on(async {
        let (writers, _) = writer();
        assert!(!writers.is_contended(&key("a")));
        let held = writers.turn(&key("a"), soon()).await.unwrap();
        assert!(writers.is_contended(&key("a")) && !writers.is_contended(&key("b")));
        let soon_over = tokio::time::Instant::now() + Duration::from_millis(5);
        writers.turn(&key("a"), soon_over).await.unwrap_err();
        assert!(writers.is_contended(&key("a")));
        held.committed(value("a", 3));
        assert!(!writers.is_contended(&key("a")));
    });
}

#[test]
fn a_slow_holder_loses_its_turn_and_may_ask_again() {
    actix_rt::System::new().block_on(async {
        tokio::time::pause();
        let (writers, _) = writer();
        let slow = writers.turn(&key("a"), soon()).await.unwrap();
        let fast = writers.turn(&key("a"), soon()).await.unwrap();
        assert!(slow.is_lost() && !fast.is_lost());
        let again = actix_rt::spawn(slow.again());
        tokio::task::yield_now().await;
        fast.committed(value("a", 3));
        let mut turn = again.await.unwrap().unwrap();
        assert_eq!(turn.last_outcome(), Some(&durable("a", 3)));
        // After a refusal because of a write without a turn, it still has its turn.
        turn = turn.again().await.unwrap();
        assert!(!turn.is_lost());
    });
}

#[test]
fn who_builds_on_what_fails_twice_takes_no_further_risk() {
    actix_rt::System::new().block_on(async {
        let (writers, _) = writer();
        let (issuer, ticket) = ticket();
        let mut turn = writers.turn(&key("a"), soon()).await.unwrap();
        for _ in 0..2 {
            assert!(turn.may_chain());
            let rest = turn.queued(queued(&ticket));
            assert!(writers.is_contended(&key("a")), "the commit is under way");
            // The next turn is free already.
            let next = writers.turn(&key("a"), soon()).await.unwrap();
            let left = LastOutcome::Queued(queued(&ticket));
            assert_eq!(next.last_outcome(), Some(&left));
            drop(next);
            turn = rest.again().await.unwrap();
        }
        assert!(!turn.may_chain());
        drop((turn, issuer));
        assert!(!writers.is_contended(&key("a")));
    });
}

#[test]
fn when_the_writer_goes_who_waits_is_told_and_nobody_hangs() {
    actix_rt::System::new().block_on(async {
        let (writers, actor_ref) = writer();
        let held = writers.turn(&key("a"), soon()).await.unwrap();
        let waiting = {
            let writers = writers.clone();
            actix_rt::spawn(async move { writers.turn(&key("a"), soon()).await })
        };
        tokio::task::yield_now().await;
        actor_ref.ask_patiently(messages::Stop).await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap_err(), TurnError::Gone);
        actor_ref.clear();
        let refused = writers.turn(&key("b"), soon()).await;
        assert_eq!(refused.unwrap_err(), TurnError::Gone);
        held.committed(value("a", 3));
    });
}

#[test]
fn the_same_key_of_another_store_is_another_key() {
    actix_rt::System::new().block_on(async {
        let (writers, _) = writer();
        let other = writers.of_store(1);
        let held = writers.turn(&key("a"), soon()).await.unwrap();
        assert!(!other.is_contended(&key("a")));
        let beside = other.turn(&key("a"), soon()).await.unwrap();
        held.committed(value("a", 3));
        beside.committed(value("a", 2));
        for (writers, revision) in [(&writers, 3), (&other, 2)] {
            let turn = writers.turn(&key("a"), soon()).await.unwrap();
            assert_eq!(turn.last_outcome(), Some(&durable("a", revision)));
        }
    });
}
