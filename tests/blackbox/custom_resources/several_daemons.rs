//! Custom resources of several daemons on one store, and after a restart (CRD-85).

use std::time::{Duration, Instant};

use serde_json::json;

use super::{LAMPS, conditioned, establish, gone, lamp, lamps, path_of, until};
use crate::harness::{Call, Daemon};
use crate::servers::etcd::{self, Cluster};

/// Daemons on one etcd agree without a leader, and each serves what the other has defined.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_on_one_etcd_serve_the_same_definitions() {
    if etcd::find("3.5").is_none() {
        return;
    }
    let starting = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let cluster = starting.await.unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let (one, other) = (
        Daemon::with(&[&servers]).await,
        Daemon::with(&[&servers]).await,
    );
    let (client, there) = (one.client(), other.client());
    for _ in 0..3 {
        let established = establish(&client, &lamps()).await;
        let begun = Instant::now();
        until(&there, || Call::get(LAMPS), |answer| answer.status == 200).await;
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
        let seen = conditioned(&there, &path_of(&lamps()), "Established", "True").await;
        assert_eq!(seen, established);
        there
            .call(Call::post(LAMPS, &lamp("a", json!({"colour": "red"}))))
            .await
            .expect(201);
        client
            .call(Call::get(&format!("{LAMPS}/a")))
            .await
            .expect(200);
        // Nobody writes a status that says the same.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let later = client.call(Call::get(&path_of(&lamps()))).await.expect(200);
        assert_eq!(later, established);
        there
            .call(Call::delete(&path_of(&lamps())))
            .await
            .expect(200);
        gone(&client, &path_of(&lamps())).await;
        gone(&there, LAMPS).await;
    }
}

/// CRD-85: after a restart, an unknown path is not there only when all definitions are known.
#[tokio::test]
async fn after_a_restart_a_path_is_never_not_there_crd_85() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &lamps()).await;
    client
        .call(Call::post(LAMPS, &lamp("a", json!({"colour": "red"}))))
        .await
        .expect(201);
    for _ in 0..3 {
        daemon.kill().await;
        daemon.relaunch().await;
        let client = daemon.client();
        let path = format!("{LAMPS}/a");
        let answer = until(
            &client,
            || Call::get(&path),
            |answer| {
                let status = answer.status.as_u16();
                assert!(matches!(status, 200 | 429 | 503), "{}", answer.text());
                status == 200
            },
        );
        assert_eq!(answer.await.json()["spec"]["watts"], 5);
        // Until everything that was defined is served, nobody knows that a path is unknown.
        let other = "/apis/other.example.com/v1/lamps";
        let unknown = until(
            &client,
            || Call::get(other),
            |answer| {
                assert!(matches!(answer.status.as_u16(), 404 | 503));
                answer.status == 404
            },
        );
        assert_eq!(unknown.await.text(), "404 page not found\n");
    }
}
