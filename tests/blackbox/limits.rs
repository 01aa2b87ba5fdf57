//! The limits on concurrent requests and watches of users, and the share that one user leaves to
//! others.

use std::time::{Duration, Instant};

use crate::harness::{CONFIGMAPS, Call, Daemon, body, configmap};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// A daemon with the users ann and bob, who may do everything.
async fn daemon(arguments: &[&str]) -> Daemon {
    let users = "t-ann,ann,u-ann,system:masters\nt-bob,bob,u-bob,system:masters\n";
    Daemon::with_users(users, arguments).await
}

#[tokio::test]
async fn who_opens_all_watches_leaves_some_to_others_and_is_told_when_to_come_again() {
    let daemon = daemon(&["--max-watches=16"]).await;
    let ann = daemon.target().with_token("t-ann").client();
    let bob = daemon.target().with_token("t-bob").client();
    let path = format!("{CONFIGMAPS}?watch=true");
    let mut open = Vec::new();
    for _ in 0..14 {
        open.push(ann.watch(&path).await);
    }
    let refused = ann.call(Call::get(&path)).await;
    assert_eq!(refused.header("retry-after"), Some("10"));
    let status = refused.refusal(429, "TooManyRequests");
    let said = status["message"].as_str().unwrap();
    assert!(said.starts_with("too many watches are open: 16"), "{said}");
    assert!(said.contains("--max-watches"), "{said}");
    assert_eq!(status["details"]["retryAfterSeconds"], 10);
    for _ in 0..2 {
        open.push(bob.watch(&path).await);
    }
    let refused = bob.call(Call::get(&path)).await;
    refused.refusal(429, "TooManyRequests");

    // Whoever is connected goes on, and a watch that ends makes room.
    bob.call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    for lines in &mut open {
        assert_eq!(lines.event().await["type"], "ADDED");
    }
    open.drain(..3).for_each(drop);
    let began = Instant::now();
    while ann.lines(Call::get(&path)).await.unwrap().status != 200 {
        assert!(began.elapsed() < LONG, "a watch that ended left no room");
    }
}

/// How much it helps is measured by `cargo bench -- abuser`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_takes_much_waits_for_turns_beside_another_and_is_answered_all_the_same() {
    const OBJECTS: usize = 40;
    let daemon = daemon(&["--http-threads=1"]).await;
    let bob = daemon.target().with_token("t-bob").client();
    for number in 0..OBJECTS {
        let object = body(&format!("o{number}"), &"x".repeat(50_000));
        bob.call(Call::post(CONFIGMAPS, &object)).await.expect(201);
    }
    let waited = "taffrail_http_turns_waited_total";
    let listers: Vec<_> = (0..8)
        .map(|_| {
            let ann = daemon.target().with_token("t-ann").client();
            tokio::spawn(async move {
                loop {
                    let list = ann.call(Call::get(CONFIGMAPS)).await.expect(200);
                    assert_eq!(list["items"].as_array().unwrap().len(), OBJECTS);
                }
            })
        })
        .collect();
    let began = Instant::now();
    while daemon.count(waited).await < 20 {
        assert!(began.elapsed() < LONG, "nobody waits for a turn");
        bob.call(Call::get(&configmap("o1"))).await.expect(200);
        assert!(listers.iter().all(|lister| !lister.is_finished()));
    }
    listers.iter().for_each(tokio::task::JoinHandle::abort);
}
