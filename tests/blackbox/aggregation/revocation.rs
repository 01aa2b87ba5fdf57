//! Users who lose access while an extension has not answered them yet (CN-28, CN-32).

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::raw_server::RawServer;
use super::{GROUP, PATIENCE, install_at};
use crate::harness::upgrades::Asked;
use crate::harness::{Call, Daemon, Protocol};
use crate::revocation::{reload, replace};

const WITHIN: &str = "/apis/a.example/v1/namespaces/default";

async fn until_open(server: &RawServer, wanted: usize) {
    let waiting = async {
        while server.open() != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("{} are open", server.open()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_loses_access_waits_for_no_extension_cn_28_cn_32() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("tokens.csv");
    let bob = "t-bob,bob,2,system:masters\n";
    replace(&users, &format!("t-ada,ada,1,system:masters\n{bob}"));
    let daemon = Daemon::with(&["--token-auth-file", users.to_str().unwrap()]).await;
    let server = RawServer::start().await;
    install_at(&daemon.client(), GROUP, server.port).await;
    let of = |user: &str| daemon.target().with_token(user);

    let watch = Call::get(&format!("{WITHIN}/silent?watch=true"));
    let client = of("t-bob").client();
    let kept = tokio::spawn(async move { client.attempt(watch).await.map(drop) });
    // A write may have been carried out.
    let write = Call::post(&format!("{WITHIN}/silent"), &json!({"a": 1}));
    let client = of("t-ada").client();
    let write = tokio::spawn(async move { client.call(write).await });
    until_open(&server, 2).await;
    let mut asking = JoinSet::new();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for call in [
            Call::get(&format!("{WITHIN}/silent/a")),
            Call::get(&format!("{WITHIN}/silent?watch=true")),
        ] {
            let client = of("t-ada").client_over(protocol);
            asking.spawn(async move {
                client.call(call).await.refusal(401, "Unauthorized");
            });
        }
    }
    let ada = of("t-ada");
    asking.spawn(async move {
        let path = format!("{WITHIN}/silent/upgrade");
        let refused = Asked::new("GET", &path, "echo/1").send(&ada).await;
        let refused = refused.unwrap_err();
        assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    });
    until_open(&server, 7).await;

    // Only reads of the one who loses access end.
    replace(&users, bob);
    reload(&daemon).await;
    while let Some(asked) = asking.join_next().await {
        asked.unwrap();
    }
    // The write has some seconds more.
    write.await.unwrap().refusal(401, "Unauthorized");
    until_open(&server, 1).await;
    assert!(!kept.is_finished());
    kept.abort();
    until_open(&server, 0).await;
}
