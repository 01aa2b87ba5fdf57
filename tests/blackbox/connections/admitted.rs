//! Connections are made by the options that admission has left, which are those that its validation
//! has seen (CN-48, HK-16, HK-65).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::kubelet::Kubelet;
use super::proxies::{ADDRESS, ask, make, node_at, of_pod, service, with_pod};
use super::translated::Session;
use super::{PODS, proxies};
use crate::harness::own_network::in_own_network;
use crate::harness::upgrades::{Asked, header};
use crate::harness::webhook::Webhook;
use crate::harness::{Call, Client, Daemon};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// The operations of a patch for the options of a connection.
type Patching = fn(&Value) -> Value;

/// A webhook that patches the options of connections, and one that allows all and notes what it has
/// seen.
struct Hooks {
    _mutating: Webhook,
    validating: Webhook,
}

impl Hooks {
    async fn install(client: &Client, patching: Patching) -> Hooks {
        let hooks = Hooks {
            _mutating: answering(patching).await,
            validating: answering(|_| json!([])).await,
        };
        for (kind, webhook) in [
            ("mutating", &hooks._mutating),
            ("validating", &hooks.validating),
        ] {
            let configuration = json!({"metadata": {"name": kind}, "webhooks": [{
                "name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": webhook.client_config(),
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"],
                    "resources": ["pods/*", "services/proxy", "nodes/proxy"]}],
            }]});
            let path = format!("{GROUP}/{kind}webhookconfigurations");
            client
                .call(Call::post(&path, &configuration))
                .await
                .expect(201);
        }
        hooks
    }

    /// The options that validation has seen last, without their kind.
    fn validated(&self) -> Value {
        let reviews = self.validating.asked();
        let mut options = reviews.last().unwrap()["request"]["object"].clone();
        let members = options.as_object_mut().unwrap();
        for name in ["kind", "apiVersion"] {
            members.remove(name).unwrap();
        }
        options
    }
}

async fn answering(patching: Patching) -> Webhook {
    let respond = move |review: &Value| {
        let request = &review["request"];
        let mut response = json!({"uid": request["uid"], "allowed": true});
        let patch = patching(&request["object"]);
        if patch != json!([]) {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = BASE64_STANDARD.encode(patch.to_string()).into();
        }
        let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": response});
        (200, answer.to_string())
    };
    Webhook::start(respond).await
}

/// Puts each of these members into the options.
fn put(members: &Value) -> Value {
    let members = members.as_object().unwrap().iter();
    let put = |(name, value)| json!({"op": "add", "path": format!("/{name}"), "value": value});
    members.map(put).collect()
}

async fn with_kubelet() -> (Daemon, Kubelet) {
    let kubelet = Kubelet::start().await;
    let flags = kubelet.flags();
    let daemon = Daemon::with(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let containers = ["main", "command"];
    kubelet.join(&daemon.client(), "n", "p", &containers).await;
    (daemon, kubelet)
}

/// Options as a webhook that makes connections safe leaves them.
fn made_safe(options: &Value) -> Value {
    let streams = json!({"container": "command", "stdin": false, "stdout": true,
        "stderr": false, "tty": false});
    match options["kind"].as_str().unwrap() {
        "PodExecOptions" if options["container"] == "unknown" => put(&json!({"container": "none"})),
        "PodExecOptions" => {
            let mut exec = streams;
            exec["command"] = json!(["streams"]);
            put(&exec)
        }
        "PodAttachOptions" => put(&streams),
        "PodPortForwardOptions" => put(&json!({"ports": [80, 81]})),
        kind => panic!("{kind}"),
    }
}

#[tokio::test]
async fn a_kubelet_is_asked_for_what_was_admitted_cn_48_hk_16() {
    let (daemon, kubelet) = with_kubelet().await;
    let hooks = Hooks::install(&daemon.client(), made_safe).await;
    let exec = json!({"command": ["streams"], "container": "command", "stdout": true});
    let evil = "stdin=1&stderr=1&tty=1&container=main&command=evil&command=now";
    for (path, asked, options) in [
        (
            format!("exec?{evil}"),
            "/exec/default/p/command?command=streams&output=1",
            exec.clone(),
        ),
        (
            format!("attach?{evil}"),
            "/attach/default/p/command?output=1",
            json!({"container": "command", "stdout": true}),
        ),
        (
            "portforward?ports=22".to_owned(),
            "/portForward/default/p?port=80%2C81",
            json!({"ports": [80, 81]}),
        ),
        (
            "portforward".to_owned(),
            "/portForward/default/p?port=80%2C81",
            json!({"ports": [80, 81]}),
        ),
    ] {
        let request = Asked::new("POST", &format!("{PODS}/p/{path}"), "SPDY/3.1")
            .header("X-Stream-Protocol-Version", "v4.channel.k8s.io");
        let session = request.send(&daemon.target()).await.unwrap();
        assert_eq!(header(&session.head, "upgrade").unwrap(), "SPDY/3.1");
        assert_eq!(kubelet.asked(), asked, "{path}");
        assert_eq!(hooks.validated(), options, "{path}");
    }
    // A translated command has the admitted streams, whatever the query asks for.
    let session = Session::start(&daemon, &format!("p/exec?{evil}")).await;
    let ([_, output, errors], outcome) = session.ended().await;
    assert_eq!((&*output, &*errors), ("error stdout", ""));
    assert_eq!(outcome["status"], "Success");
    assert_eq!(
        kubelet.asked(),
        "/exec/default/p/command?command=streams&output=1"
    );
    assert_eq!(hooks.validated(), exec);
    // The admitted container is looked for.
    let unknown = format!("{PODS}/p/exec?command=a&container=unknown");
    let request = Asked::new("POST", &unknown, "SPDY/3.1");
    let refused = request.send(&daemon.target()).await.err().unwrap();
    let expected = "container none is not valid for pod p";
    assert!(refused.contains(expected), "{refused}");
}

#[tokio::test]
async fn a_policy_changes_the_options_of_a_command_hk_65() {
    let (daemon, kubelet) = with_kubelet().await;
    let client = daemon.client();
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CONNECT"], "resources": ["pods/exec"]}]},
        "failurePolicy": "Fail", "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression":
            "[JSONPatch{op: 'replace', path: '/command', value: ['streams']}, \
              JSONPatch{op: 'add', path: '/container', value: 'command'}]"}}]}});
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p"}});
    make(
        &client,
        [
            Call::post(&format!("{GROUP}/mutatingadmissionpolicies"), &policy),
            Call::post(
                &format!("{GROUP}/mutatingadmissionpolicybindings"),
                &binding,
            ),
        ],
    )
    .await;
    let hooks = Hooks::install(&client, |_| json!([])).await;
    let query = "command=evil&stdout=1&container=main";
    let session = Session::start(&daemon, &format!("p/exec?{query}")).await;
    let ([_, output, _], outcome) = session.ended().await;
    assert_eq!(output, "error stdout");
    assert_eq!(outcome["status"], "Success");
    assert_eq!(
        kubelet.asked(),
        "/exec/default/p/command?command=streams&output=1"
    );
    assert_eq!(
        hooks.validated(),
        json!({"command": ["streams"], "container": "command", "stdout": true})
    );
}

/// Paths as a webhook that leads to other ones leaves them.
fn led(options: &Value) -> Value {
    match options["path"].as_str().unwrap_or_default() {
        "/echo/kept" => json!([]),
        path if path.starts_with("/echo/\u{fffd}") => json!([]),
        "/upgrade/" => put(&json!({"path": "/socket/x"})),
        path if path.starts_with("/removed") => json!([{"op": "remove", "path": "/path"}]),
        _ => put(&json!({"path": "/echo/./a b"})),
    }
}

#[test]
fn a_proxy_leads_to_the_admitted_path_cn_70_cn_73_hk_16() {
    let name = "connections::admitted::a_proxy_leads_to_the_admitted_path_cn_70_cn_73_hk_16";
    in_own_network(name, async {
        let (daemon, web) = with_pod().await;
        let client = daemon.client();
        make(
            &client,
            service(&web, &json!([of_pod("p", "default")]), &json!([])),
        )
        .await;
        make(&client, node_at("n", "InternalIP", ADDRESS, 1)).await;
        let hooks = Hooks::install(&client, led).await;
        let pod = format!("{}/p/proxy", proxies::PODS);
        let node = format!("/api/v1/nodes/n:{}/proxy", web.port);
        let service = "/api/v1/namespaces/default/services/s:web/proxy";
        for below in [&*pod, &node, service] {
            for (path, target, admitted) in [
                ("/secret", "/echo/a%20b", json!({"path": "/echo/./a b"})),
                (
                    "/secret?a=1",
                    "/echo/a%20b?a=1",
                    json!({"path": "/echo/./a b"}),
                ),
                ("/secret/", "/echo/a%20b/", json!({"path": "/echo/./a b"})),
                ("", "/echo/a%20b", json!({"path": "/echo/./a b"})),
                ("/echo/kept", "/echo/kept", json!({"path": "/echo/kept"})),
                ("/echo/%ff", "/echo/%FF", json!({"path": "/echo/\u{fffd}"})),
            ] {
                let path = format!("{below}{path}");
                let echo = client.call(Call::get(&path)).await.expect(200);
                assert_eq!(echo["target"], target, "{path}");
                assert_eq!(hooks.validated(), admitted, "{path}");
            }
            // Without a path a client is led to the slash at its end, as if it had asked for none.
            let removed = format!("{below}/removed");
            let answer = client.call(Call::get(&removed)).await;
            assert_eq!(answer.status, 301);
            assert_eq!(answer.header("location"), Some(&*format!("{removed}/")));
            let answer = client.call(Call::get(&format!("{removed}/"))).await;
            assert_eq!(answer.text(), "web\n");
            assert_eq!(hooks.validated(), json!({}));
            let upgraded = format!("{below}/upgrade/");
            let (_stream, head) = ask(&daemon, &daemon.token(), &upgraded).await;
            assert!(head.contains("x-target: /socket/x\r\n"), "{head}");
            assert_eq!(hooks.validated(), json!({"path": "/socket/x"}));
        }
    });
}
