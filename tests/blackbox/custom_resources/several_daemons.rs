//! Custom resources of several daemons on one store, and after a restart (CRD-85).

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{LAMPS, conditioned, establish, gone, lamp, lamps, one_etcd, path_of, stored, until};
use crate::harness::{Call, Daemon};
use crate::servers::etcd::{self, Cluster};
use crate::servers::proxy::Proxy;

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

/// CRD-65, CRD-85: whoever sees a definition established through one daemon reaches its resource
/// through the other one at the first request, without any pause in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_request_to_the_other_daemon_finds_the_resource_crd_85() {
    let Some((_cluster, servers)) = one_etcd().await else {
        return;
    };
    let (one, other) = (
        Daemon::with(&[&servers]).await,
        Daemon::with(&[&servers]).await,
    );
    let (client, there) = (one.client(), other.client());
    for round in 0..10 {
        establish(&client, &lamps()).await;
        let made = lamp("a", json!({"colour": "red"}));
        let made = there.call(Call::post(LAMPS, &made)).await;
        assert_eq!(made.status, 201, "round {round}: {}", made.text());
        client
            .call(Call::delete(&path_of(&lamps())))
            .await
            .expect(200);
        gone(&client, &path_of(&lamps())).await;
        gone(&there, LAMPS).await;
    }
}

/// CRD-72: an object that a lagging daemon stores after another one has deleted the definition is
/// deleted when that daemon sees the deletion, and objects of the next definition stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lagging_daemon_stores_under_a_deleted_definition_goes_crd_72() {
    let Some((cluster, servers)) = one_etcd().await else {
        return;
    };
    let proxy = Proxy::to(cluster.members[0].address()).await;
    let behind = format!("--etcd-servers=http://{}", proxy.address);
    let (one, other) = (
        Daemon::with(&[&servers]).await,
        Daemon::with(&[&behind]).await,
    );
    let (client, there) = (one.client(), other.client());
    for comes_again in [false, true] {
        establish(&client, &lamps()).await;
        let red = |name: &str| lamp(name, json!({"colour": "red"}));
        there.call(Call::post(LAMPS, &red("a"))).await.expect(201);
        proxy.hold_answers();
        let path = path_of(&lamps());
        client.call(Call::delete(&path)).await.expect(200);
        gone(&client, &path).await;
        assert_eq!(stored(&cluster).await, 0);
        let late = other.client();
        let late = tokio::spawn(async move { late.call(Call::post(LAMPS, &red("late"))).await });
        let begun = Instant::now();
        while stored(&cluster).await == 0 {
            assert!(begun.elapsed() < super::PATIENCE, "it was not stored");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if comes_again {
            establish(&client, &lamps()).await;
            let own = lamp("own", json!({"colour": "red"}));
            client.call(Call::post(LAMPS, &own)).await.expect(201);
        }
        proxy.release();
        late.await.unwrap().expect(201);
        let wanted = i64::from(comes_again);
        while stored(&cluster).await != wanted {
            assert!(begun.elapsed() < super::PATIENCE, "it stays");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if comes_again {
            let own = format!("{LAMPS}/own");
            until(&there, || Call::get(&own), |answer| answer.status == 200).await;
            client.call(Call::delete(&path)).await.expect(200);
            gone(&client, &path).await;
        }
        gone(&there, LAMPS).await;
    }
}

/// CRD-72, CRD-84: a create whose body comes when the definition is gone stores nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_outlives_the_definition_stores_nothing_crd_84() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    establish(&client, &lamps()).await;
    let target = daemon.target();
    let body = lamp("slow", json!({"colour": "red"})).to_string();
    let (begin, end) = body.split_at(body.len() / 2);
    let token = daemon.token();
    let head = format!(
        "POST {LAMPS} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = target.tls(&[b"http/1.1"]).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(begin.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    // Another request on the way is answered, so the first one has come, too.
    client.call(Call::get(LAMPS)).await.expect(200);
    let path = path_of(&lamps());
    client.call(Call::delete(&path)).await.expect(200);
    gone(&client, &path).await;
    stream.write_all(end.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let is_refused = ["HTTP/1.1 403", "HTTP/1.1 404"];
    assert!(
        is_refused.iter().any(|status| answer.starts_with(status)),
        "{answer}"
    );
    establish(&client, &lamps()).await;
    let list = client.call(Call::get(LAMPS)).await.expect(200);
    assert_eq!(list["items"], json!([]));
}
