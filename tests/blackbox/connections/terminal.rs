//! Real kubectls in a real terminal: `exec -it` and `attach -it`, against a stand-in for a kubelet.
//! The oldest one speaks SPDY, which is copied (CN-50), and the newer ones WebSocket, which is
//! translated (CN-52).

use rustix::process::Signal;
use serde_json::json;

use super::kubelet::Kubelet;
use super::{PODS, until};
use crate::harness::terminal::Terminal;
use crate::harness::{Call, Daemon, Kubectl};

const VERSIONS: [&str; 3] = ["1.20", "1.32", "1.36"];

/// A daemon with the pods `p` and `t`, which has a terminal to attach to.
async fn daemon(kubelet: &Kubelet) -> Daemon {
    let flags = kubelet.flags();
    let daemon = Daemon::with(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let client = daemon.client();
    kubelet.join(&client, "n", "p", &["command"]).await;
    let container = json!({"name": "command", "image": "i", "stdin": true, "tty": true});
    let spec = json!({"nodeName": "n", "containers": [container]});
    let pod = json!({"metadata": {"name": "t"}, "spec": spec});
    client.call(Call::post(PODS, &pod)).await.expect(201);
    daemon
}

/// The kubectls that there are, and the newest one also over SPDY, to which it falls back.
fn kubectls(daemon: &Daemon) -> impl Iterator<Item = Kubectl> {
    let found = VERSIONS.map(|version| Kubectl::find(version, daemon));
    let older = Kubectl::find(VERSIONS[2], daemon).map(Kubectl::over_spdy);
    found.into_iter().chain([older]).flatten()
}

/// Runs a command in the pod, in a terminal of 80 columns and 24 rows.
fn exec(kubectl: &Kubectl, words: &[&str]) -> Terminal {
    let arguments = [&["exec", "-it", "p", "--"], words].concat();
    kubectl.in_terminal(&arguments, 80, 24)
}

#[tokio::test]
async fn the_size_of_a_terminal_and_its_changes_reach_the_command_cn_56_cn_65() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    for kubectl in kubectls(&daemon) {
        let mut terminal = exec(&kubectl, &["sizes"]);
        terminal.shows(r#"{"Width":80,"Height":24}"#).await;
        terminal.resize(132, 43);
        let shown = terminal.shows(r#"{"Width":132,"Height":43}"#).await;
        assert_eq!(shown.matches("Width").count(), 1, "{shown}");
        terminal.resize(132, 50);
        terminal.shows(r#"{"Width":132,"Height":50}"#).await;
        terminal.types(b"q");
        let ended = terminal.ended().await;
        assert_eq!((ended.code, ended.rest.trim()), (Some(0), ""));
    }
}

#[tokio::test]
async fn each_key_reaches_the_command_once_and_none_ends_kubectl_cn_54() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    for kubectl in kubectls(&daemon) {
        let mut terminal = exec(&kubectl, &["keys"]);
        assert_eq!(terminal.shows("ready\n").await, "ready\n");
        assert!(terminal.is_raw(), "{}", kubectl.version);
        terminal.types(b"\x03");
        assert_eq!(terminal.shows("03 ").await, "03 ");
        // Letters, Enter, and the keys that quit, suspend, end and stop in other terminals.
        terminal.types(b"ab\r\x1c\x1a\x04\x13\x11\xc3\xa4");
        let shown = terminal.shows("a4 ").await;
        assert_eq!(shown, "61 62 0d 1c 1a 04 13 11 c3 a4 ");
        terminal.types(b"q");
        let ended = terminal.ended().await;
        assert_eq!((ended.code, &*ended.rest), (Some(0), "71 "));
        // Errors have no stream of their own in a terminal.
        let path = "/exec/default/p/command?command=keys&input=1&output=1&tty=1";
        assert_eq!(kubelet.asked(), path, "{}", kubectl.version);
    }
}

#[tokio::test]
async fn the_exit_code_of_the_command_is_that_of_kubectl_cn_53() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    for kubectl in kubectls(&daemon) {
        let ended = exec(&kubectl, &["exit", "7"]).ended().await;
        // The terminal is not raw any more, so a line begins at the left.
        let message = "command terminated with exit code 7\r\n";
        assert_eq!((ended.code, &*ended.rest), (Some(7), message));
        let ended = exec(&kubectl, &["echo", "hello"]).ended().await;
        assert_eq!((ended.code, &*ended.rest), (Some(0), "hello\n"));
    }
}

#[tokio::test]
async fn attach_shows_the_output_of_the_container_and_takes_its_input_cn_49() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    for kubectl in kubectls(&daemon) {
        let mut terminal = kubectl.in_terminal(&["attach", "-it", "t"], 80, 24);
        terminal.shows("attached\n").await;
        assert!(terminal.is_raw(), "{}", kubectl.version);
        terminal.types(b"to the container");
        let shown = terminal.shows("to the container").await;
        assert_eq!(shown, "to the container");
        terminal.types(b"\x04");
        let ended = terminal.ended().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.rest.contains("Session ended"), "{ended:?}");
        let path = "/attach/default/t/command?input=1&output=1&tty=1";
        assert_eq!(kubelet.asked(), path, "{}", kubectl.version);
    }
}

#[tokio::test]
async fn a_terminal_that_is_closed_ends_the_session_of_the_kubelet() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    for kubectl in kubectls(&daemon) {
        let mut terminal = exec(&kubectl, &["keys"]);
        terminal.shows("ready").await;
        terminal.closed().await;
        until(async || kubelet.open() == 0).await;
    }
}

#[tokio::test]
async fn a_stop_of_the_daemon_ends_kubectl_and_restores_the_terminal_cn_53_cn_55() {
    let over_web_socket = |kubectl: Kubectl| kubectl;
    for (version, over, said) in [
        ("1.20", Kubectl::over_spdy as fn(Kubectl) -> Kubectl, None),
        ("1.32", over_web_socket, Some("close 1001 (going away)")),
        ("1.36", over_web_socket, Some("close 1001 (going away)")),
        ("1.36", Kubectl::over_spdy, None),
    ] {
        let kubelet = Kubelet::start().await;
        let mut daemon = daemon(&kubelet).await;
        let Some(kubectl) = Kubectl::find(version, &daemon).map(over) else {
            continue;
        };
        let mut terminal = exec(&kubectl, &["keys"]);
        terminal.shows("ready\n").await;
        daemon.stop(Signal::TERM).await;
        let log = daemon.stderr();
        assert!(!log.contains("connections were cut"), "{log}");
        let ended = terminal.ended().await;
        match said {
            Some(said) => {
                assert_eq!(ended.code, Some(1), "{ended:?}");
                assert!(ended.rest.contains(said), "{ended:?}");
            }
            // Over SPDY a client takes the end of its connection for a success.
            None => assert_eq!((ended.code, &*ended.rest), (Some(0), "")),
        }
    }
}
