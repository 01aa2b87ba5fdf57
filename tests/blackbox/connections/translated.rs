//! WebSockets that are translated for a stand-in of the kubelet: commands of v5, and the tunnel of
//! port forwarding (CN-50 to CN-59, CN-68).

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::kubelet::{Kubelet, pod_on};
use super::{PODS, until};
use crate::harness::Daemon;
use crate::harness::upgrades::{ACCEPTED, Asked, KEY, TUNNEL, Upgraded, V5, frame, header};

async fn daemon(kubelet: &Kubelet) -> Daemon {
    let flags = kubelet.flags();
    let daemon = Daemon::with(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
    kubelet.join(&daemon.client(), "n", "p", &["command"]).await;
    let all = ["silent", "plain", "status-403"];
    pod_on(&daemon.client(), "n", "q", &all).await;
    daemon
}

fn asked(path: &str, protocols: &str) -> Asked {
    Asked::web_socket(&format!("{PODS}/{path}")).protocols(protocols)
}

/// A client of a translated WebSocket.
pub struct Session(Upgraded);

impl Session {
    pub async fn start(daemon: &Daemon, path: &str) -> Session {
        let session = asked(path, V5).send(&daemon.target()).await.unwrap();
        let of = |name| header(&session.head, name).unwrap();
        assert_eq!(of("sec-websocket-protocol"), V5);
        assert_eq!(of("sec-websocket-accept"), ACCEPTED);
        Session(session)
    }

    async fn send(&mut self, content: &[u8]) {
        self.0.stream.write_all(&frame(2, content)).await.unwrap();
    }

    async fn frame(&mut self) -> (u8, Vec<u8>) {
        self.0.frame().await
    }

    /// Reads to the end: the bytes of each channel, and the outcome.
    pub async fn ended(mut self) -> ([String; 3], Value) {
        let mut channels: [Vec<u8>; 4] = Default::default();
        loop {
            let (opcode, content) = self.frame().await;
            match opcode {
                0x82 => channels[usize::from(content[0])].extend(&content[1..]),
                0x88 => {
                    assert_eq!(content, 1000_u16.to_be_bytes());
                    break;
                }
                other => panic!("a frame {other:#x}"),
            }
        }
        assert_eq!(self.0.rest().await, b"");
        let [input, output, errors, status] = channels.map(|of| String::from_utf8(of).unwrap());
        (
            [input, output, errors],
            serde_json::from_str(&status).unwrap(),
        )
    }
}

fn success() -> Value {
    json!({"metadata": {}, "status": "Success"})
}

#[tokio::test]
async fn a_command_has_its_streams_and_outcome_cn_52_cn_53_cn_54_cn_58() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let ended = async |query: &str| {
        let path = format!("p/exec?{query}");
        Session::start(&daemon, &path).await.ended().await
    };
    let texts = |output: &str, errors: &str| [String::new(), output.to_owned(), errors.to_owned()];
    let (got, outcome) = ended("command=echo&command=hello&command=world&stdout=true").await;
    assert_eq!((got, outcome), (texts("hello world\n", ""), success()));
    assert_eq!(
        kubelet.asked(),
        "/exec/default/p/command?command=echo&command=hello&command=world&output=1"
    );
    let (got, outcome) = ended("command=both&stdout=true&stderr=1").await;
    assert_eq!((got, outcome), (texts("out", "err"), success()));
    let (got, _) = ended("command=streams&stdin=1&stdout=1&stderr=0&tty=true").await;
    assert_eq!(got, texts("error resize stdin stdout", ""));
    let (got, outcome) = ended("command=exit&command=3&stdout=true").await;
    assert_eq!(got, texts("", ""));
    assert_eq!(outcome["reason"], "NonZeroExitCode");
    assert_eq!(
        outcome["message"],
        "command terminated with non-zero exit code: command terminated with exit code 3"
    );
    assert_eq!(
        outcome["details"]["causes"],
        json!([{"reason": "ExitCode", "message": "3"}])
    );
    let (_, outcome) = ended("command=vanish&stdout=true").await;
    assert_eq!(
        outcome["message"],
        "Internal error occurred: error reading from error stream: unexpected EOF"
    );
}

#[tokio::test]
async fn input_sizes_and_pings_reach_their_places_cn_56_cn_57_cn_59() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let mut session = Session::start(&daemon, "p/exec?command=cat&stdin=1&stdout=1").await;
    assert_eq!(session.frame().await, (0x82, vec![1]));
    session
        .0
        .stream
        .write_all(&frame(9, b"there?"))
        .await
        .unwrap();
    assert_eq!(session.frame().await, (0x8a, b"there?".to_vec()));
    // A message in parts, with a ping between them; a text counts as bytes.
    let mut parts = frame(1, b"\0one ");
    parts[0] = 1;
    parts.extend(frame(9, b""));
    parts.extend(frame(0, b"two"));
    session.0.stream.write_all(&parts).await.unwrap();
    session
        .send(&[&[0][..], &vec![b'x'; 1_000_000]].concat())
        .await;
    session.send(&[255, 0]).await;
    session.send(b"\0nobody reads this").await;
    let mut pongs = 0;
    let mut output = Vec::new();
    let outcome = loop {
        match session.frame().await {
            (0x8a, _) => pongs += 1,
            (0x82, content) if content[0] == 1 => output.extend(&content[1..]),
            (0x82, content) => break serde_json::from_slice::<Value>(&content[1..]).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((outcome, pongs), (success(), 1));
    assert_eq!(output.len(), 7 + 1_000_000);
    assert!(output.starts_with(b"one twox"));

    let mut session = Session::start(&daemon, "p/exec?command=size&stdin=1&stdout=1&tty=1").await;
    session.send(b"\x04{\"Width\":80,\"Height\":24}").await;
    let (got, _) = session.ended().await;
    assert_eq!(got[1], "{\"Width\":80,\"Height\":24}");
}

#[tokio::test]
async fn failures_of_the_kubelet_are_outcomes_and_others_are_answers_cn_48_cn_52() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    for (container, message) in [
        (
            "status-403",
            "unable to upgrade connection: the kubelet says 403",
        ),
        ("plain", "unable to upgrade connection: no"),
        ("silent", "error sending request: Post "),
    ] {
        let path = format!("q/exec?container={container}&command=a&stderr=1");
        let mut session = Session::start(&daemon, &path).await;
        assert_eq!(session.frame().await, (0x82, vec![2]));
        let (_, outcome) = session.ended().await;
        let text = outcome["message"].as_str().unwrap();
        let expected = format!("Internal error occurred: {message}");
        assert!(text.starts_with(&expected), "{text}");
        assert_eq!(outcome["reason"], "InternalError");
        assert_eq!(outcome["code"], 500);
    }
    for (path, wrong, why) in [
        ("none/exec?command=a", "", "HTTP/1.1 404 "),
        ("p/exec?command=a", "POST", "the handshake must be a GET"),
        ("p/exec?command=a", "8", "Sec-WebSocket-Version must be 13"),
        ("p/exec?command=a", "no key", "Sec-WebSocket-Key is missing"),
    ] {
        let method = if wrong == "POST" { wrong } else { "GET" };
        let version = if wrong == "8" { wrong } else { "13" };
        let key = if wrong == "no key" { "" } else { KEY };
        let refused = Asked::new(method, &format!("{PODS}/{path}"), "WebSocket")
            .header("Sec-WebSocket-Version", version)
            .header("Sec-WebSocket-Key", key)
            .header("Sec-WebSocket-Protocol", V5)
            .send(&daemon.target())
            .await
            .unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[tokio::test]
async fn a_tunnel_carries_the_bytes_of_spdy_cn_68() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let session = asked("p/portforward", TUNNEL)
        .send(&daemon.target())
        .await
        .unwrap();
    // The stand-in chooses this protocol.
    let protocol = header(&session.head, "sec-websocket-protocol").unwrap();
    assert_eq!(protocol, "SPDY/3.1+chosen");
    let head = kubelet.heads().pop().unwrap();
    assert!(
        head.starts_with("POST /portForward/default/p HTTP/1.1\r\n"),
        "{head}"
    );
    assert_eq!(header(&head, "upgrade").unwrap(), "SPDY/3.1");
    assert_eq!(
        header(&head, "x-stream-protocol-version").unwrap(),
        "portforward.k8s.io"
    );
    for name in [
        "authorization",
        "sec-websocket-key",
        "sec-websocket-protocol",
    ] {
        assert_eq!(header(&head, name), None);
    }
    let mut session = Session(session);
    let (one, other) = (vec![7; 100], vec![8; 300_000]);
    session.send(&one).await;
    session.send(&other).await;
    let mut got = Vec::new();
    while got.len() < one.len() + other.len() {
        let (opcode, content) = session.frame().await;
        assert_eq!(opcode, 0x82);
        got.extend(content);
    }
    assert!(got == [one, other].concat());
    // The close of the client is answered.
    session
        .0
        .stream
        .write_all(&frame(8, &[3, 232]))
        .await
        .unwrap();
    assert_eq!(session.frame().await, (0x88, vec![3, 232]));
    until(async || kubelet.open() == 0).await;
    // A refusal of the kubelet comes before the upgrade.
    pod_on(&daemon.client(), "n", "status-403", &["main"]).await;
    let refused = asked("status-403/portforward", TUNNEL)
        .send(&daemon.target())
        .await;
    let refused = refused.unwrap_err();
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    assert!(refused.ends_with("the kubelet says 403"), "{refused}");
}

#[tokio::test]
async fn translated_sessions_are_closed_with_1001_when_the_daemon_stops_cn_55() {
    let kubelet = Kubelet::start().await;
    let mut daemon = daemon(&kubelet).await;
    let mut command = Session::start(&daemon, "p/exec?command=cat&stdin=1&stdout=1").await;
    assert_eq!(command.frame().await, (0x82, vec![1]));
    let tunnel = asked("p/portforward", TUNNEL)
        .send(&daemon.target())
        .await
        .unwrap();
    daemon.signal(Signal::TERM);
    assert_eq!(command.0.rest().await, b"\x88\x02\x03\xe9");
    assert_eq!(Session(tunnel).0.rest().await, b"\x88\x02\x03\xe9");
    let status = daemon.ended().await;
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn translated_sessions_end_with_clients_faults_and_revocations() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let path = "p/exec?command=cat&stdin=1&stdout=1";
    // A client that vanishes.
    drop(Session::start(&daemon, path).await);
    // One that violates the protocol: its frame is not masked.
    let mut session = Session::start(&daemon, path).await;
    assert_eq!(session.frame().await, (0x82, vec![1]));
    session.0.stream.write_all(&[0x82, 1, 0]).await.unwrap();
    assert_eq!(session.0.rest().await, b"\x88\x02\x03\xea");
    // One that reads nothing, and then vanishes.
    let session = Session::start(&daemon, "p/exec?command=much&command=8&stdout=1").await;
    drop(session);
    let mut revoked = Session::start(&daemon, path).await;
    assert_eq!(revoked.frame().await, (0x82, vec![1]));
    let rotate = crate::harness::Call::new("POST", "/taffrail/v1/token/rotate");
    daemon.client().call(rotate).await.expect(200);
    assert_eq!(revoked.0.rest().await, b"");
    until(async || kubelet.open() == 0).await;
}

#[tokio::test]
async fn much_output_comes_complete() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let session = Session::start(&daemon, "p/exec?command=much&command=8&stdout=1").await;
    let (got, outcome) = session.ended().await;
    assert_eq!((got[1].len(), outcome), (8 << 20, success()));
}
