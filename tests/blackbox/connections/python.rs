//! The official client in Python: commands, ports, logs and watches, with a stand-in for a kubelet
//! that speaks SPDY and with one that declares WebSockets.

use serde_json::{Value, json};

use super::kube_rs::declare;
use super::kubelet::{Kubelet, pod_on};
use crate::harness::Daemon;
use crate::other_clients::printed_by;

#[tokio::test]
async fn the_official_client_runs_forwards_follows_and_watches_cn_50_cn_55_cn_69() {
    for is_declared in [false, true] {
        let kubelet = Kubelet::start().await;
        let flags = kubelet.flags();
        let daemon = Daemon::with(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let containers = ["command", "open"];
        kubelet.join(&daemon.client(), "n", "p", &containers).await;
        pod_on(&daemon.client(), "n", "forward", &["main"]).await;
        if is_declared {
            declare(&daemon).await;
        }
        // The log of `open` may end when it is read.
        kubelet.release();
        let Some(printed) = printed_by(&daemon, "kubernetes_connections", "").await else {
            return;
        };
        let commands = |protocol: &str| {
            let full = format!("{protocol}.channel.k8s.io");
            let mut steps = vec![
                json!([format!("{protocol}: both"), "out", "err", 0]),
                json!([format!("{protocol}: exit"), "", "", 3]),
                json!([format!("{protocol}: cat"), true, full]),
                json!([format!("{protocol}: the end of the input"), "", "", 0]),
                json!([format!("{protocol}: attach"), "attached\n", "", 0]),
                json!([
                    format!("{protocol}: size"),
                    "{\"Width\": 80, \"Height\": 24}",
                    "",
                    0
                ]),
            ];
            if protocol == "v4" {
                steps.remove(3);
            }
            steps
        };
        let mut expected = commands("v5");
        expected.push(json!(["refused", "Handshake status 404 Not Found"]));
        expected.extend(commands("v4"));
        let events = [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")];
        let events = events.map(|(of, value)| json!([of, {"a": value}]));
        expected.extend([
            json!(["port 82", true]),
            json!(["port 80", true]),
            json!(["port 81", "nobody listens at 81", null]),
            json!(["log", ["one", "two"]]),
            json!(["watch", events]),
        ]);
        let lines = printed.lines();
        let lines: Vec<Value> = lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines, expected, "declared: {is_declared}");
    }
}
