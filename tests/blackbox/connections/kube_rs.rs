//! kube-rs: commands, ports and logs of a stand-in for a kubelet. A kubelet that speaks SPDY gets
//! commands translated, one that declares WebSockets gets them as they are; ports always pass as
//! they are, in messages of v4.

use futures_util::{AsyncBufReadExt, SinkExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess, LogParams, TerminalSize};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::kubelet::{Kubelet, pod_on};
use crate::harness::upgrades::header;
use crate::harness::{Call, Daemon};
use crate::kube_rs::{client, refusal};

/// The protocols of WebSockets that kube-rs asks for.
const OFFERED: &str = "v5.channel.k8s.io, v4.channel.k8s.io";

async fn daemon(kubelet: &Kubelet) -> Daemon {
    let flags = kubelet.flags();
    let daemon = Daemon::with(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let containers = ["command", "open", "status-403"];
    kubelet.join(&daemon.client(), "n", "p", &containers).await;
    pod_on(&daemon.client(), "n", "forward", &["main"]).await;
    daemon
}

/// Lets the node say that its kubelet speaks the newer protocols of WebSockets.
pub async fn declare(daemon: &Daemon) {
    let declared = json!({"status": {"declaredFeatures": ["ExtendWebSocketsToKubelet"]}});
    let patch = Call::merge_patch("/api/v1/nodes/n/status", &declared);
    daemon.client().call(patch).await.expect(200);
}

fn parameters() -> AttachParams {
    AttachParams::default()
        .container("command")
        .stdout(true)
        .stderr(true)
}

/// Returns the bytes of both outputs of a process, and how it ended.
async fn ended(mut process: AttachedProcess) -> (String, String, Status) {
    let status = process.take_status().unwrap();
    let (mut output, mut errors) = (process.stdout().unwrap(), process.stderr());
    let (mut out, mut err) = (String::new(), String::new());
    let (read, _, status) = tokio::join!(
        output.read_to_string(&mut out),
        async {
            if let Some(errors) = &mut errors {
                errors.read_to_string(&mut err).await.unwrap();
            }
        },
        status,
    );
    read.unwrap();
    process.join().await.unwrap();
    (out, err, status.expect("a status"))
}

#[tokio::test]
async fn commands_run_and_are_attached_to_whatever_the_kubelet_speaks_cn_50_cn_53() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let api: Api<Pod> = Api::default_namespaced(client(&daemon).await);
    for upgrade in ["SPDY/3.1", "websocket"] {
        if upgrade == "websocket" {
            declare(&daemon).await;
        }
        let process = api.exec("p", ["both"], &parameters()).await.unwrap();
        let (out, err, status) = ended(process).await;
        assert_eq!((&*out, &*err), ("out", "err"), "{upgrade}");
        assert_eq!(status.status.as_deref(), Some("Success"));
        let head = kubelet.heads().pop().unwrap();
        assert_eq!(header(&head, "upgrade").unwrap(), upgrade, "{head}");
        let passed = (upgrade == "websocket").then_some(OFFERED);
        let offered = header(&head, "sec-websocket-protocol");
        assert_eq!(offered.as_deref(), passed, "{head}");

        let process = api.exec("p", ["exit", "3"], &parameters()).await.unwrap();
        let (out, err, status) = ended(process).await;
        assert_eq!((&*out, &*err), ("", ""), "{upgrade}");
        assert_eq!(status.status.as_deref(), Some("Failure"));
        assert_eq!(status.reason.as_deref(), Some("NonZeroExitCode"));
        let causes = status.details.unwrap().causes.unwrap();
        assert_eq!(causes[0].reason.as_deref(), Some("ExitCode"));
        assert_eq!(causes[0].message.as_deref(), Some("3"));

        // An input longer than any buffer, and its end.
        let with_input = parameters().stdin(true).stderr(false);
        let sent = "one line of many\n".repeat(20_000);
        for (attached, said) in [(false, ""), (true, "attached\n")] {
            let mut process = match attached {
                false => api.exec("p", ["cat"], &with_input).await.unwrap(),
                true => api.attach("p", &with_input).await.unwrap(),
            };
            let mut input = process.stdin().unwrap();
            let write = async {
                input.write_all(sent.as_bytes()).await.unwrap();
                input.shutdown().await.unwrap();
                drop(input);
            };
            let ((), (out, _, status)) = tokio::join!(write, ended(process));
            assert!(out == format!("{said}{sent}"), "{} bytes", out.len());
            assert_eq!(status.status.as_deref(), Some("Success"));
        }

        let terminal = parameters().stdin(true).stderr(false).tty(true);
        let mut process = api.exec("p", ["size"], &terminal).await.unwrap();
        let size = TerminalSize {
            width: 80,
            height: 24,
        };
        process.terminal_size().unwrap().send(size).await.unwrap();
        let (out, _, _) = ended(process).await;
        assert_eq!(out, "{\"Width\":80,\"Height\":24}", "{upgrade}");
    }
}

#[tokio::test]
async fn refusals_of_commands_are_statuses_and_of_kubelets_outcomes_cn_48_cn_52() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let api: Api<Pod> = Api::default_namespaced(client(&daemon).await);
    for (pod, container, code, message) in [
        ("none", "command", 404, "pods \"none\" not found"),
        ("p", "x", 400, "container x is not valid for pod p"),
    ] {
        let of = parameters().container(container);
        let refused = api.exec(pod, ["both"], &of).await;
        let refused = refusal(refused.map(|_| ()));
        assert_eq!((refused.code, &*refused.message), (code, message));
    }
    let of = parameters().container("status-403");
    let (_, _, status) = ended(api.exec("p", ["both"], &of).await.unwrap()).await;
    let said = "Internal error occurred: unable to upgrade connection: the kubelet says 403";
    assert_eq!(status.message.as_deref(), Some(said));
}

#[tokio::test]
async fn ports_are_forwarded_both_ways_cn_69() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let api: Api<Pod> = Api::default_namespaced(client(&daemon).await);
    for is_declared in [false, true] {
        if is_declared {
            declare(&daemon).await;
        }
        let mut ports = api.portforward("forward", &[80, 81, 82]).await.unwrap();
        assert_eq!(
            kubelet.asked(),
            "/portForward/default/forward?port=80%2C81%2C82"
        );
        let error = ports.take_error(81).unwrap().await;
        assert_eq!(error.as_deref(), Some("nobody listens at 81"));
        for port in [82, 80] {
            let stream = ports.take_stream(port).unwrap();
            let (mut reader, mut writer) = tokio::io::split(stream);
            let sent = format!("bytes of {port}\n").repeat(30_000);
            let mut got = vec![0; sent.len()];
            let (written, read) = tokio::join!(
                writer.write_all(sent.as_bytes()),
                reader.read_exact(&mut got),
            );
            written.unwrap();
            read.unwrap();
            assert!(got == sent.to_ascii_uppercase().into_bytes(), "{port}");
        }
        ports.join().await.unwrap();
        super::until(async || kubelet.open() == 0).await;
    }
}

#[tokio::test]
async fn logs_are_read_and_followed_cn_43() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let api: Api<Pod> = Api::default_namespaced(client(&daemon).await);
    let parameters = LogParams {
        container: Some("command".to_owned()),
        tail_lines: Some(5),
        timestamps: true,
        ..LogParams::default()
    };
    let asked = "/containerLogs/default/p/command?tailLines=5&timestamps=true";
    let log = api.logs("p", &parameters).await.unwrap();
    assert_eq!((log, kubelet.asked()), (format!("{asked}\n"), asked.into()));
    let parameters = LogParams {
        container: Some("open".to_owned()),
        follow: true,
        ..LogParams::default()
    };
    let mut lines = api.log_stream("p", &parameters).await.unwrap().lines();
    assert_eq!(lines.next().await.unwrap().unwrap(), "one");
    kubelet.release();
    assert_eq!(lines.next().await.unwrap().unwrap(), "two");
    assert!(lines.next().await.is_none());
}
