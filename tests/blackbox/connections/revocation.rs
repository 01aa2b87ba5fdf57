//! Users who lose access while a kubelet, a pod or a service has not answered them yet (CN-43,
//! CN-51, CN-68, CN-75).

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

use super::kubelet::Kubelet;
use super::proxies::{ADDRESS, addressed, make, of_pod, service, with_pod_and};
use super::{PODS, until};
use crate::harness::own_network::in_own_network;
use crate::harness::upgrades::{Asked, TUNNEL};
use crate::harness::{Call, Daemon, Protocol, Target};
use crate::revocation::{reload, replace};

const ADA: &str = "t-ada,ada,1,system:masters\n";
const BOB: &str = "t-bob,bob,2,system:masters\n";

/// The requests of a user who will lose access.
struct Requests {
    target: Target,
    asking: JoinSet<()>,
}

impl Requests {
    fn of(target: Target) -> Requests {
        Requests {
            target,
            asking: JoinSet::new(),
        }
    }

    fn call(&mut self, call: Call, protocol: Protocol) {
        let client = self.target.client_over(protocol);
        self.asking.spawn(async move {
            client.call(call).await.refusal(401, "Unauthorized");
        });
    }

    fn upgrade(&mut self, asked: Asked) {
        let target = self.target.clone();
        self.asking.spawn(async move {
            let refused = asked.send(&target).await.unwrap_err();
            assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
            assert!(refused.contains("\"reason\":\"Unauthorized\""), "{refused}");
        });
    }

    async fn all_refused(mut self) {
        while let Some(asked) = self.asking.join_next().await {
            asked.unwrap();
        }
    }
}

#[test]
fn a_user_who_loses_access_waits_for_no_pod_and_no_service_cn_75() {
    let name = "connections::revocation::\
                a_user_who_loses_access_waits_for_no_pod_and_no_service_cn_75";
    in_own_network(name, async {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("tokens.csv");
        replace(&users, &format!("{ADA}{BOB}"));
        let (daemon, web) = with_pod_and(&["--token-auth-file", users.to_str().unwrap()]).await;
        let endpoints = json!([of_pod("p", "default")]);
        let calls = service(&web, &endpoints, &json!([]));
        make(&daemon.client(), calls).await;
        let of = |user: &str| daemon.target().with_token(user);
        let pod = format!("{PODS}/p/proxy/silent");
        let at_service = "/api/v1/namespaces/default/services/s:web/proxy/silent";

        let mut kept = JoinSet::new();
        for (user, call) in [
            ("t-bob", Call::get(&pod)),
            // A write may have been carried out.
            ("t-ada", Call::post(&pod, &json!({"a": 1}))),
        ] {
            let client = of(user).client();
            kept.spawn(async move {
                let answer = client.call(call).await;
                assert_eq!((answer.status.as_u16(), &*answer.text()), (200, "web\n"));
            });
        }
        until(async || web.open() == 2).await;
        let mut requests = Requests::of(of("t-ada"));
        for protocol in [Protocol::Http1, Protocol::Http2] {
            for path in [&pod, at_service] {
                requests.call(Call::get(path), protocol);
            }
        }
        requests.upgrade(Asked::new("GET", &pod, "echo/1"));
        until(async || web.open() == 7).await;

        replace(&users, BOB);
        reload(&daemon).await;
        requests.all_refused().await;
        until(async || web.open() == 2).await;
        assert!(kept.try_join_next().is_none());
        // The user of the write learns its outcome.
        web.release();
        while let Some(answered) = kept.join_next().await {
            answered.unwrap();
        }
        assert_eq!(web.open(), 0);
    });
}

#[test]
fn a_user_who_loses_access_waits_for_no_kubelet_cn_43_cn_51_cn_68_cn_76() {
    let name = "connections::revocation::\
                a_user_who_loses_access_waits_for_no_kubelet_cn_43_cn_51_cn_68_cn_76";
    in_own_network(name, async {
        addressed();
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("tokens.csv");
        replace(&users, &format!("{ADA}{BOB}"));
        let kubelet = Kubelet::start_at(ADDRESS.parse().unwrap()).await;
        let mut flags = kubelet.flags();
        flags.push(format!("--token-auth-file={}", users.display()));
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let daemon = Daemon::with(&flags).await;
        // A port is forwarded to the kubelet at the path of the pod, so that has the name, too.
        let client = daemon.client();
        kubelet.join(&client, "n", "never", &["never"]).await;
        let of = |user: &str| daemon.target().with_token(user);

        let log = format!("{PODS}/never/log?follow=true");
        let (kept, call) = (of("t-bob").client(), Call::get(&log));
        let kept = tokio::spawn(async move { kept.attempt(call).await });
        until(async || kubelet.heads().len() == 1).await;
        let mut requests = Requests::of(of("t-ada"));
        let proxied = "/api/v1/nodes/n/proxy/containerLogs/default/never/never";
        for protocol in [Protocol::Http1, Protocol::Http2] {
            requests.call(Call::get(&log), protocol);
            requests.call(Call::get(proxied), protocol);
        }
        let exec = format!("{PODS}/never/exec?command=x&stdout=1");
        requests.upgrade(Asked::new("POST", &exec, "SPDY/3.1"));
        let forward = format!("{PODS}/never/portforward");
        requests.upgrade(Asked::new("POST", &forward, "SPDY/3.1"));
        requests.upgrade(Asked::web_socket(&forward).protocols(TUNNEL));
        // The daemon answers this handshake before the kubelet does.
        let begun = Asked::web_socket(&exec).protocols("v5.channel.k8s.io");
        let mut begun = begun.send(&of("t-ada")).await.unwrap();
        // Its output is announced by an empty message.
        assert_eq!(begun.read(3).await, [0x82, 1, 1]);
        until(async || kubelet.heads().len() == 9).await;

        replace(&users, BOB);
        reload(&daemon).await;
        requests.all_refused().await;
        let mut rest = Vec::new();
        let _ = begun.stream.read_to_end(&mut rest).await;
        assert_eq!(rest, b"");
        until(async || kubelet.open() == 1).await;
        assert!(!kept.is_finished());
        kept.abort();
        until(async || kubelet.open() == 0).await;
    });
}
