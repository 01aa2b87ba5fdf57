//! Commands and port forwarding: upgrades that are copied to a stand-in of the kubelet (CN-47 to
//! CN-69).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::kubelet::{HELLO, Kubelet, pod_on};
use super::{PODS, until};
use crate::harness::upgrades::{Asked, header};
use crate::harness::{Call, Daemon};

async fn daemon(kubelet: &Kubelet) -> Daemon {
    let flags = kubelet.flags();
    let daemon = Daemon::with(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
    kubelet.join(&daemon.client(), "n", "p", &["main"]).await;
    let all = ["main", "plain", "silent", "heads", "status-403"];
    pod_on(&daemon.client(), "n", "q", &all).await;
    daemon
}

#[tokio::test]
async fn a_request_goes_to_the_kubelet_as_it_came_and_bytes_are_copied_cn_49_cn_50_cn_51() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    for (method, path, asked) in [
        (
            "POST",
            "exec?command=a+b&command=c&stdin=true&stdout=1&stderr=false&tty=TRUE&container=main",
            "/exec/default/p/main?command=a+b&command=c&input=1&output=1&tty=1",
        ),
        ("GET", "exec?command=a", "/exec/default/p/main?command=a"),
        (
            "POST",
            "attach?stderr=true",
            "/attach/default/p/main?error=1",
        ),
        ("POST", "portforward", "/portForward/default/p"),
        (
            "GET",
            "portforward?ports=80&ports=83",
            "/portForward/default/p?port=80%2C83",
        ),
    ] {
        let request = Asked::new(method, &format!("{PODS}/p/{path}"), "SPDY/3.1")
            .header("X-Stream-Protocol-Version", "v4.channel.k8s.io")
            .header("X-Forwarded-For", "192.0.2.1")
            .header("X-Remote-User", "root")
            .header("Cookie", "a=b");
        let session = request.send(&daemon.target()).await.unwrap();
        assert_eq!(header(&session.head, "upgrade").unwrap(), "SPDY/3.1");
        let chosen = header(&session.head, "x-stream-protocol-version");
        assert_eq!(chosen.unwrap(), "chosen");
        assert_eq!(kubelet.asked(), asked);
        let head = kubelet.heads().pop().unwrap();
        assert!(head.starts_with(&format!("{method} ")), "{head}");
        for (name, value) in [
            ("authorization", None),
            ("x-remote-user", None),
            ("cookie", Some("a=b")),
            ("x-stream-protocol-version", Some("v4.channel.k8s.io")),
            ("x-forwarded-for", Some("192.0.2.1, 127.0.0.1")),
        ] {
            assert_eq!(header(&head, name).as_deref(), value, "{head}");
        }
        // Bytes that would not be HTTP pass unchanged.
        let sent: Vec<u8> = b"#\n\r\n\0".iter().copied().cycle().take(1 << 20).collect();
        let (mut reader, mut writer) = tokio::io::split(session.stream);
        let (written, got) = tokio::join!(
            async {
                writer.write_all(&sent).await.unwrap();
                writer.shutdown().await
            },
            async {
                let mut got = Vec::new();
                reader.read_to_end(&mut got).await.unwrap();
                got
            }
        );
        written.unwrap();
        // The end of the client reached the kubelet, whose last bytes came after that.
        assert!(got == [&sent[..], b"last"].concat(), "{} bytes", got.len());
    }
    until(async || kubelet.open() == 0).await;
    assert_eq!(daemon.count("taffrail_sessions_ended_total").await, 5);
    let bytes = daemon.count("taffrail_session_bytes_total").await;
    assert_eq!(bytes, 5 * (2 * (1 << 20) + 4));
    assert_eq!(daemon.count("apiserver_longrunning_requests").await, 0);
}

#[tokio::test]
async fn reasons_to_refuse_a_stream_come_in_the_order_of_kube_apiserver_cn_48() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let target = daemon.target();
    let refused = async |method: &str, path: &str| {
        let asked = Asked::new(method, &format!("{PODS}/{path}"), "SPDY/3.1");
        let whole = asked.send(&target).await.err().unwrap();
        let (head, body) = whole.split_once("\r\n\r\n").unwrap();
        let status: serde_json::Value = serde_json::from_str(body).unwrap();
        let code = head.split(' ').nth(1).unwrap().to_owned();
        (code, status["message"].as_str().unwrap().to_owned())
    };
    let bad = |message: &str| ("400".to_owned(), message.to_owned());
    let choose = "a container name must be specified for pod q, choose one of: [main plain silent \
                  heads status-403]";
    for (path, expected) in [
        ("none/exec?dryRun=", bad("dryRun is not supported")),
        (
            "none/portforward?ports=80,x",
            bad("cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax"),
        ),
        (
            "none/attach",
            ("404".to_owned(), "pods \"none\" not found".to_owned()),
        ),
        ("q/attach", bad(choose)),
        (
            "q/exec?container=x",
            bad("container x is not valid for pod q"),
        ),
        (
            "q/exec?container=plain",
            (
                "500".to_owned(),
                "invalid upgrade response: status code 200".to_owned(),
            ),
        ),
        (
            "q/exec?container=silent",
            ("500".to_owned(), "EOF".to_owned()),
        ),
    ] {
        assert_eq!(refused("POST", path).await, expected, "{path}");
        assert_eq!(refused("GET", path).await, expected, "{path}");
    }
    assert_eq!(refused("PUT", "p/exec").await.0, "405");
    let (code, message) = refused("POST", "q/exec?container=heads").await;
    assert_eq!(code, "500", "{message}");
    // The answer of the kubelet is that of the client, with its type.
    let path = format!("{PODS}/q/exec?container=status-403");
    let said = Asked::new("POST", &path, "SPDY/3.1").send(&target).await;
    let said = said.err().unwrap();
    assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
    assert!(said.ends_with("\r\n\r\nthe kubelet says 403"), "{said}");
    assert_eq!(header(&said, "content-type").unwrap(), "text/x-said");
    // Without an upgrade, and over HTTP/2, which has none.
    for client in [daemon.client(), daemon.client_http1()] {
        for method in ["GET", "POST"] {
            let call = Call::new(method, &format!("{PODS}/p/exec?command=a"));
            let refused = client.call(call).await.refusal(400, "BadRequest");
            assert_eq!(refused["message"], "Upgrade request required");
        }
    }
}

#[tokio::test]
async fn get_needs_the_right_to_create_too_cn_47() {
    let kubelet = Kubelet::start().await;
    let flags = kubelet.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let daemon = Daemon::with_users("reads,reader,1\nruns,runner,2\n", &flags).await;
    let client = daemon.client();
    kubelet.join(&client, "n", "p", &["main"]).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    for (user, verbs) in [("reader", vec!["get"]), ("runner", vec!["get", "create"])] {
        let rule = json!({"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs});
        let role = json!({"metadata": {"name": user}, "rules": [rule]});
        client
            .call(Call::post(&format!("{rbac}/roles"), &role))
            .await
            .expect(201);
        let to = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user});
        let who = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
        let binding = json!({"metadata": {"name": user}, "roleRef": to, "subjects": [who]});
        let path = format!("{rbac}/rolebindings");
        client.call(Call::post(&path, &binding)).await.expect(201);
    }
    let asked = |pod: &str| {
        Asked::new("GET", &format!("{PODS}/{pod}/exec?command=a"), "websocket")
            .header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
    };
    for pod in ["p", "none"] {
        let refused = asked(pod).send(&daemon.target().with_token("reads")).await;
        let refused = refused.err().unwrap();
        assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
        let message = format!("\"message\":\"pods \\\"{pod}\\\" is forbidden: \"");
        assert!(refused.contains(&message), "{refused}");
    }
    asked("p")
        .send(&daemon.target().with_token("runs"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_kubelet_gets_newer_protocols_if_its_node_declares_them_cn_50_cn_68() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let asked = async |path: &str, protocols: &str| {
        let asked = Asked::new("GET", &format!("{PODS}/p/{path}"), "websocket");
        let asked = asked.header("Sec-WebSocket-Protocol", protocols);
        let answer = asked.send(&daemon.target()).await;
        answer.map(|session| header(&session.head, "sec-websocket-protocol").unwrap())
    };
    let (v5, both) = ("v5.channel.k8s.io", "v5.channel.k8s.io, v4.channel.k8s.io");
    let tunnel = "SPDY/3.1+portforward.k8s.io";
    let declared = json!({"status": {"declaredFeatures": ["ExtendWebSocketsToKubelet"]}});
    let patch = Call::merge_patch("/api/v1/nodes/n/status", &declared);
    daemon.client().call(patch).await.expect(200);
    assert_eq!(asked("exec?command=a", both).await.unwrap(), v5);
    assert_eq!(asked("portforward", tunnel).await.unwrap(), tunnel);
}

#[tokio::test]
async fn a_websocket_is_copied_and_closed_with_1001_when_the_daemon_stops_cn_55_cn_60() {
    let kubelet = Kubelet::start().await;
    let mut daemon = daemon(&kubelet).await;
    let target = daemon.target();
    let token = BASE64_URL_SAFE_NO_PAD.encode(daemon.token());
    let path = format!("{PODS}/p/exec?command=a&stdout=true");
    // A browser can set no header: the token is one of the protocols.
    let protocols = format!("base64url.bearer.authorization.k8s.io.{token}, v4.channel.k8s.io");
    let asked = Asked::new("GET", &path, "websocket");
    let asked = asked.header("Sec-WebSocket-Protocol", &protocols);
    let mut session = asked.send(&target.anonymous()).await.unwrap();
    let head = kubelet.heads().pop().unwrap();
    assert_eq!(
        header(&head, "sec-websocket-protocol").unwrap(),
        "v4.channel.k8s.io"
    );
    assert_eq!(header(&head, "authorization"), None);
    assert_eq!(session.read(HELLO.len()).await, HELLO);
    let frame = [0x82, 0x82, 0, 0, 0, 0, 0, 7];
    session.stream.write_all(&frame).await.unwrap();
    assert_eq!(session.read(frame.len()).await, frame);

    // In the middle of a frame nothing can be added.
    let asked = Asked::new("GET", &path, "websocket");
    let asked = asked.header("Sec-WebSocket-Protocol", "v4.channel.k8s.io");
    let mut other = asked.send(&target).await.unwrap();
    assert_eq!(other.read(HELLO.len()).await, HELLO);
    other.stream.write_all(&frame[..3]).await.unwrap();
    assert_eq!(other.read(3).await, frame[..3]);

    daemon.signal(Signal::TERM);
    assert_eq!(session.rest().await, b"\x88\x02\x03\xe9");
    assert_eq!(other.rest().await, b"");
    drop((session, other));
    let status = daemon.ended().await;
    assert!(status.success(), "{status}");
    assert!(
        !daemon.stderr().contains("connections were cut"),
        "{}",
        daemon.stderr()
    );
}

#[tokio::test]
async fn a_session_ends_when_its_token_is_revoked() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let path = format!("{PODS}/p/exec?command=a");
    let mut session = Asked::new("POST", &path, "SPDY/3.1")
        .send(&daemon.target())
        .await
        .unwrap();
    session.stream.write_all(b"before").await.unwrap();
    assert_eq!(session.read(6).await, b"before");
    let rotate = Call::new("POST", "/taffrail/v1/token/rotate");
    daemon.client().call(rotate).await.expect(200);
    let mut rest = Vec::new();
    let _ = session.stream.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");
    until(async || kubelet.open() == 0).await;
}

#[tokio::test]
async fn sessions_end_with_either_side() {
    let kubelet = Kubelet::start().await;
    let daemon = daemon(&kubelet).await;
    let path = format!("{PODS}/p/exec?command=a");
    let asked = || Asked::new("POST", &path, "SPDY/3.1");
    // A client that vanishes.
    drop(asked().send(&daemon.target()).await.unwrap());
    until(async || kubelet.open() == 0).await;
    let sessions = async || daemon.count("taffrail_sessions_ended_total").await;
    until(async || sessions().await == 1).await;
}

#[tokio::test]
async fn the_audit_log_has_the_start_and_the_end_of_what_lasts() {
    let kubelet = Kubelet::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (policy, log) = (folder.path().join("policy"), folder.path().join("log"));
    let rule = json!({"level": "RequestResponse", "resources": [{
        "group": "", "resources": ["pods/exec", "pods/log"],
    }]});
    let text = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        "rules": [rule, {"level": "None"}]});
    std::fs::write(&policy, text.to_string()).unwrap();
    let mut flags = kubelet.flags();
    flags.push(format!("--audit-policy-file={}", policy.display()));
    flags.push(format!("--audit-log-path={}", log.display()));
    let mut daemon = Daemon::with(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
    kubelet.join(&daemon.client(), "n", "p", &["main"]).await;
    let path = format!("{PODS}/p/exec?command=secret");
    let mut session = Asked::new("POST", &path, "SPDY/3.1")
        .send(&daemon.target())
        .await
        .unwrap();
    session.stream.write_all(b"private").await.unwrap();
    session.stream.shutdown().await.unwrap();
    assert_eq!(session.rest().await, b"privatelast");
    let log_path = format!("{PODS}/p/log");
    assert_eq!(
        daemon
            .client()
            .call(Call::get(&log_path))
            .await
            .status
            .as_u16(),
        200
    );
    daemon.stop(Signal::TERM).await;
    let text = std::fs::read_to_string(&log).unwrap();
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let events: Vec<_> = events
        .map(|event| {
            let of = event["objectRef"]["subresource"]
                .as_str()
                .unwrap()
                .to_owned();
            let stage = event["stage"].as_str().unwrap().to_owned();
            (of, stage, event["responseStatus"]["code"].as_u64())
        })
        .collect();
    let stages = |of: &str, code| {
        ["RequestReceived", "ResponseStarted", "ResponseComplete"].map(|stage| {
            let code = (stage != "RequestReceived").then_some(code);
            (of.to_owned(), stage.to_owned(), code)
        })
    };
    assert_eq!(events, [stages("exec", 101), stages("log", 200)].concat());
    // The audit log has none of the bytes that passed, as in kube-apiserver.
    assert!(
        !text.contains("private") && !text.contains("/containerLogs/"),
        "{text}"
    );
}
