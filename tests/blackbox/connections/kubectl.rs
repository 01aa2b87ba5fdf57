//! Real kubectls against a stand-in for a kubelet: `logs -f`, `cp` and `port-forward`. The oldest
//! one speaks SPDY, which is copied (CN-50), and the newer ones WebSocket, which is translated
//! (CN-52).

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::PODS;
use super::kubelet::{Kubelet, pod_on};
use crate::harness::{Call, Daemon, Kubectl};

/// A daemon with the running pods `p` and `forward`, and its kubectls.
async fn daemon(kubelet: &Kubelet) -> (Daemon, Vec<Kubectl>) {
    let flags = kubelet.flags();
    let daemon = Daemon::with(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let client = daemon.client();
    kubelet.join(&client, "n", "p", &["command", "open"]).await;
    pod_on(&client, "n", "forward", &["main"]).await;
    for pod in ["p", "forward"] {
        let running = json!({"status": {"phase": "Running"}});
        let patch = Call::merge_patch(&format!("{PODS}/{pod}/status"), &running);
        client.call(patch).await.expect(200);
    }
    let found = ["1.20", "1.32", "1.36"].map(|version| Kubectl::find(version, &daemon));
    (daemon, found.into_iter().flatten().collect())
}

#[tokio::test]
async fn a_log_is_followed_line_by_line_cn_39() {
    let kubelet = Kubelet::start().await;
    let (_daemon, kubectls) = daemon(&kubelet).await;
    for kubectl in kubectls {
        let mut log = kubectl.follow(&["logs", "-f", "p", "-c", "open"]);
        assert_eq!(log.line().await, "one", "{}", kubectl.version);
        kubelet.release();
        assert_eq!(log.line().await, "two", "{}", kubectl.version);
    }
}

#[tokio::test]
async fn files_are_copied_both_ways_cn_50_cn_52() {
    let kubelet = Kubelet::start().await;
    let (_daemon, kubectls) = daemon(&kubelet).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let here = file.to_str().unwrap();
    for kubectl in kubectls {
        let from = ["cp", "-c", "command", "p:/a/b.txt", here];
        kubectl.ok(&from).await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "/a/b.txt");
        std::fs::write(&file, "content").unwrap();
        let listed = kubectl
            .ok(&["cp", "-c", "command", here, "p:/to/there"])
            .await;
        assert_eq!(listed, "there content\n", "{}", kubectl.version);
    }
}

#[tokio::test]
async fn a_port_is_forwarded_cn_50_cn_68() {
    let kubelet = Kubelet::start().await;
    let (_daemon, kubectls) = daemon(&kubelet).await;
    for kubectl in kubectls {
        let mut forwarding = kubectl.follow(&["port-forward", "forward", ":80"]);
        let line = forwarding.line().await;
        let rest = line.strip_prefix("Forwarding from ").unwrap();
        let (at, port) = rest.split_once(" -> ").unwrap();
        assert_eq!(port, "80", "{line}");
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "HELLO", "{}", kubectl.version);
    }
}
