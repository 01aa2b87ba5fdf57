//! Tests of a thread whose connections take time for their polls.

use std::time::Duration;

use futures_util::task::noop_waker;

use super::*;

/// Polls a connection with work that takes `took`. Returns whether the work ran.
fn poll(share: &ConnectionShare, took: Duration) -> bool {
    let waker = noop_waker();
    let polled = share.poll(&mut Context::from_waker(&waker), |_| {
        let began = Instant::now();
        while began.elapsed() < took {}
        Poll::Ready(())
    });
    polled.is_ready()
}

const LONG: Duration = Duration::from_millis(20);
const SHORT: Duration = Duration::from_micros(1);

fn connection(thread: &FairThread, user: &str) -> ConnectionShare {
    let share = thread.connection();
    share.set_user(user);
    share
}

#[test]
fn who_has_used_much_waits_for_turns_and_others_do_not() {
    let thread = FairThread::default();
    let (greedy, again) = (connection(&thread, "ann"), connection(&thread, "ann"));
    let modest = connection(&thread, "bob");
    assert!(poll(&greedy, LONG), "nobody has used anything");
    assert!(poll(&again, SHORT), "nobody else wants time");
    assert!(poll(&modest, SHORT));
    assert!(!poll(&greedy, SHORT) && !poll(&again, SHORT));
    assert!(poll(&modest, SHORT) && poll(&thread.connection(), SHORT));
    assert!(thread.grant());
    assert!(poll(&greedy, SHORT) && !poll(&again, SHORT));
    assert!(thread.grant());
    assert!(poll(&again, SHORT));
    assert!(!thread.grant(), "nobody waits any more");
}

#[test]
fn a_connection_that_ends_while_it_waits_takes_nothing_along() {
    let thread = FairThread::default();
    let (one, other) = (connection(&thread, "ann"), connection(&thread, "ann"));
    assert!(poll(&one, LONG) && poll(&connection(&thread, "bob"), SHORT));
    assert!(!poll(&one, SHORT) && !poll(&other, SHORT));
    drop(one);
    assert!(thread.grant() && thread.grant());
    assert!(poll(&other, SHORT));
}

#[test]
fn who_comes_back_is_remembered_for_a_while_and_not_for_ever() {
    let thread = FairThread::default();
    let modest = connection(&thread, "bob");
    assert!(poll(&connection(&thread, "ann"), LONG) && poll(&modest, SHORT));
    assert!(
        !poll(&connection(&thread, "ann"), SHORT),
        "another connection of ann"
    );
    for number in 0..1000 {
        connection(&thread, &format!("passer-by {number}"));
    }
    assert!(thread.shared.users.borrow().len() <= USERS_MIN + 2);
}

#[test]
fn connections_of_nobody_known_never_wait_and_make_nobody_wait() {
    let thread = FairThread::default();
    let (stranger, alone) = (thread.connection(), connection(&thread, "ann"));
    for _ in 0..3 {
        assert!(poll(&stranger, LONG) && poll(&alone, LONG));
    }
}

#[test]
fn much_is_forgiven_soon() {
    let thread = FairThread::default();
    let (greedy, modest) = (connection(&thread, "ann"), connection(&thread, "bob"));
    assert!(poll(&greedy, LONG) && poll(&modest, SHORT));
    let began = Instant::now();
    while !poll(&greedy, SHORT) {
        assert!(began.elapsed() < Duration::from_secs(10));
        assert!(poll(&modest, SHORT));
        while thread.grant() {}
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn turns_are_granted_one_at_a_time_with_everybody_else_in_between() {
    let local = tokio::task::LocalSet::new();
    let order = Rc::new(RefCell::new(Vec::new()));
    let thread = FairThread::default();
    let modest = Rc::new(connection(&thread, "bob"));
    local.spawn_local(thread.clone().grant_turns());
    let mut tasks = Vec::new();
    let first = connection(&thread, "ann");
    assert!(poll(&first, LONG) && poll(&modest, SHORT));
    for _ in 0..5 {
        let (share, order) = (connection(&thread, "ann"), Rc::clone(&order));
        tasks.push(local.spawn_local(std::future::poll_fn(move |context| {
            share.poll(context, |_| {
                order.borrow_mut().push("ann");
                Poll::Ready(())
            })
        })));
    }
    let (share, seen) = (Rc::clone(&modest), Rc::clone(&order));
    tasks.push(local.spawn_local(async move {
        for _ in 0..5 {
            let served = share.poll(&mut Context::from_waker(&noop_waker()), |_| Poll::Ready(()));
            assert!(served.is_ready());
            seen.borrow_mut().push("bob");
            tokio::task::yield_now().await;
        }
    }));
    local
        .run_until(async {
            for task in tasks {
                task.await.unwrap();
            }
        })
        .await;
    let order = order.borrow();
    let before_last_of_bob = order.iter().rposition(|who| *who == "bob").unwrap();
    let ahead = order[..before_last_of_bob].iter();
    let ahead = ahead.filter(|who| **who == "ann").count();
    assert!(ahead <= 5, "{order:?}");
    assert_eq!(order[0], "bob", "ann's connections wait: {order:?}");
    let in_a_row = order.windows(2).filter(|two| *two == ["ann", "ann"]);
    assert!(in_a_row.count() <= 1, "{order:?}");
}
