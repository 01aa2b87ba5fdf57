//! The file of `--admission-control-config-file` as its users see it (HK-98, HK-99), and the
//! metrics and audit events of admission (HK-94 to HK-97).

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::client::Answer;
use crate::harness::daemon::command;
use crate::harness::hook_server::HookServer;
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, body, deployment, pod_spec};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const PODS: &str = "/api/v1/namespaces/default/pods";
const NAMESPACES: &str = "/api/v1/namespaces";

/// Writes a file that others cannot read.
fn write(path: &Path, text: &str) {
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
}

/// A folder with a configuration of these plugins, and the flag that names it.
fn configured(plugins: &Value) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("admission.yaml");
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": plugins,
    });
    write(&file, &configuration.to_string());
    let flag = format!("--admission-control-config-file={}", file.display());
    (folder, flag)
}

/// As [`configured`], for a plugin that calls webhooks as the users of a kubeconfig, which is
/// `hooks.kubeconfig` in the folder.
fn with_users(plugin: &str, users: &Value) -> (tempfile::TempDir, String) {
    let (folder, flag) = configured(&json!([{"name": plugin, "path": "hooks.yaml"}]));
    let file = folder.path().join("hooks.kubeconfig");
    write(&file, &users.to_string());
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": file,
    });
    let file = folder.path().join("hooks.yaml");
    write(&file, &configuration.to_string());
    (folder, flag)
}

fn pod_security(members: Value) -> Value {
    let mut configuration = json!({
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
    });
    let all = configuration.as_object_mut().unwrap();
    all.extend(members.as_object().unwrap().clone());
    json!([{"name": "PodSecurity", "configuration": configuration}])
}

fn warnings(answer: &Answer) -> Vec<String> {
    let warnings = answer.headers.get_all("warning").iter();
    let texts = warnings.map(|value| value.to_str().unwrap().replace('\\', ""));
    texts.collect()
}

/// A pod on the network of its node, which no rule of baseline allows.
fn open_pod(name: &str, more: Value) -> Value {
    let mut spec = pod_spec();
    spec["hostNetwork"] = true.into();
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn pods_are_restricted_by_the_defaults_of_the_file_hk_98() {
    let (_folder, flag) = configured(&pod_security(json!({
        "defaults": {"enforce": "baseline", "warn": "restricted"},
        "exemptions": {
            "usernames": ["ops"], "namespaces": ["free"], "runtimeClasses": ["sandbox"],
        },
    })));
    let daemon = Daemon::with_users("ops-token,ops,1,system:masters\n", &[&flag]).await;
    let client = daemon.client();
    let refused = client
        .call(Call::post(PODS, &open_pod("a", json!({}))))
        .await;
    let status = refused.refusal(403, "Forbidden");
    assert_eq!(
        status["message"],
        "pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces \
         (hostNetwork=true)"
    );
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let answer = client.call(Call::post(deployments, &deployment("d"))).await;
    let warned = warnings(&answer);
    let warning = "299 - \"would violate PodSecurity \"restricted:latest\": ";
    assert!(
        warned.iter().any(|text| text.starts_with(warning)),
        "{warned:?}"
    );
    answer.expect(201);
    // Exemptions: a user, a class, a namespace.
    let ops = daemon.target().with_token("ops-token").client();
    ops.call(Call::post(PODS, &open_pod("b", json!({}))))
        .await
        .expect(201);
    let class = json!({"metadata": {"name": "sandbox"}, "handler": "h"});
    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    client.call(Call::post(classes, &class)).await.expect(201);
    let pod = open_pod("c", json!({"runtimeClassName": "sandbox"}));
    client.call(Call::post(PODS, &pod)).await.expect(201);
    let label = |level: &str| json!({"pod-security.kubernetes.io/enforce": level});
    let named =
        |name: &str, level: &str| json!({"metadata": {"name": name, "labels": label(level)}});
    let answer = client
        .call(Call::post(NAMESPACES, &named("free", "restricted")))
        .await;
    assert_eq!(
        warnings(&answer),
        [
            "299 - \"namespace \"free\" is exempt from Pod Security, and the policy \
             (enforce=restricted:latest) will be ignored\""
        ]
    );
    answer.expect(201);
    let pods = format!("{NAMESPACES}/free/pods");
    client
        .call(Call::post(&pods, &open_pod("d", json!({}))))
        .await
        .expect(201);
    // Labels win over the defaults.
    client
        .call(Call::post(NAMESPACES, &named("open", "privileged")))
        .await
        .expect(201);
    let pods = format!("{NAMESPACES}/open/pods");
    client
        .call(Call::post(&pods, &open_pod("e", json!({}))))
        .await
        .expect(201);
}

/// The annotations of the events about requests of this kind.
fn annotations(log: &Path, verb: &str, resource: &str) -> Vec<Value> {
    let events = std::fs::read_to_string(log).unwrap();
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let about = events.filter(|event| {
        event["verb"] == verb
            && event["objectRef"]["resource"] == resource
            && event["stage"] == "ResponseComplete"
    });
    about.map(|event| event["annotations"].clone()).collect()
}

/// Flags of an audit log with everything about this resource.
fn audited(folder: &Path, resource: &str) -> (PathBuf, [String; 2]) {
    let (rules, log) = (folder.join("rules"), folder.join("log"));
    let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
        {"level": "Request", "resources": [{"group": "", "resources": [resource]}]},
        {"level": "None"}]});
    write(&rules, &policy.to_string());
    let flags = [
        format!("--audit-policy-file={}", rules.display()),
        format!("--audit-log-path={}", log.display()),
    ];
    (log, flags)
}

#[tokio::test]
async fn exemptions_are_noted_in_audit_events_hk_98() {
    let (folder, flag) = configured(&pod_security(json!({
        "defaults": {"enforce": "baseline"}, "exemptions": {"namespaces": ["default"]},
    })));
    let (log, [rules, path]) = audited(folder.path(), "pods");
    let mut daemon = Daemon::with(&[&flag, &rules, &path]).await;
    let client = daemon.client();
    client
        .call(Call::post(PODS, &open_pod("a", json!({}))))
        .await
        .expect(201);
    daemon.stop(Signal::TERM).await;
    let events = annotations(&log, "create", "pods");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["pod-security.kubernetes.io/exempt"], "namespace");
    assert_eq!(
        events[0]["pod-security.kubernetes.io/enforce-policy"],
        Value::Null
    );
}

#[tokio::test]
async fn limited_resources_need_a_quota_hk_98() {
    let high = json!({
        "resource": "pods", "matchScopes": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}],
    });
    let (folder, flag) = configured(&json!([{"name": "ResourceQuota", "path": "quota.yaml"}]));
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration",
        "limitedResources": [
            {"resource": "pods", "matchContains": ["requests.cpu"]}, high,
            {"resource": "configmaps", "matchContains": ["count/"]},
        ],
    });
    write(
        &folder.path().join("quota.yaml"),
        &configuration.to_string(),
    );
    let daemon = Daemon::with(&[&flag]).await;
    let client = daemon.client();
    let pod = |name: &str, resources: Value, class: &str| {
        let mut spec = pod_spec();
        spec["containers"][0]["resources"] = resources;
        spec["priorityClassName"] = class.into();
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let cpu = json!({"requests": {"cpu": "1"}});
    client
        .call(Call::post(PODS, &pod("a", json!({}), "")))
        .await
        .expect(201);
    let refused = client
        .call(Call::post(PODS, &pod("b", cpu.clone(), "")))
        .await;
    assert_eq!(
        refused.refusal(403, "Forbidden")["message"],
        "pods \"b\" is forbidden: insufficient quota to consume: requests.cpu"
    );
    let refused = client.call(Call::post(CONFIGMAPS, &body("m", "1"))).await;
    assert_eq!(
        refused.refusal(403, "Forbidden")["message"],
        "configmaps \"m\" is forbidden: insufficient quota to consume: count/configmaps"
    );
    let class = json!({"metadata": {"name": "high"}, "value": 9});
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    client.call(Call::post(classes, &class)).await.expect(201);
    let refused = client
        .call(Call::post(PODS, &pod("c", json!({}), "high")))
        .await;
    let status = refused.expect(500);
    assert_eq!(
        status["message"],
        "insufficient quota to match these scopes: [{PriorityClass In [high]}]"
    );
    assert_eq!(status["reason"], Value::Null);
    // Quotas that count them.
    quota(
        &client,
        "of-cpu",
        json!({"requests.cpu": "5", "count/configmaps": "5"}),
        json!({}),
    )
    .await;
    let scope = json!({"scopeSelector": {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}});
    quota(&client, "of-high", json!({"pods": "5"}), scope).await;
    client
        .call(Call::post(CONFIGMAPS, &body("m", "1")))
        .await
        .expect(201);
    client
        .call(Call::post(PODS, &pod("b", cpu.clone(), "")))
        .await
        .expect(201);
    client
        .call(Call::post(PODS, &pod("c", cpu, "high")))
        .await
        .expect(201);
}

/// A quota of which nothing is used.
async fn quota(client: &Client, name: &str, hard: Value, more: Value) {
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let mut quota = json!({"metadata": {"name": name}, "spec": {"hard": hard}});
    let spec = quota["spec"].as_object_mut().unwrap();
    spec.extend(more.as_object().unwrap().clone());
    client.call(Call::post(quotas, &quota)).await.expect(201);
    let none = hard
        .as_object()
        .unwrap()
        .keys()
        .map(|name| (name.clone(), "0".into()));
    let used = Value::Object(none.collect());
    let status = json!({"status": {"hard": hard, "used": used}});
    let patch = Call::merge_patch(&format!("{quotas}/{name}/status"), &status);
    client.call(patch).await.expect(200);
}

/// Creates a configuration with one webhook for ConfigMaps, and further members.
async fn install(client: &Client, kind: &str, name: &str, server: Value, more: Value) {
    let mut webhook = json!({
        "name": format!("{name}.example.com"), "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": server,
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE"],
        }],
    });
    let members = webhook.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    let configuration = json!({"metadata": {"name": name}, "webhooks": [webhook]});
    let path = format!("{GROUP}/{kind}webhookconfigurations");
    client
        .call(Call::post(&path, &configuration))
        .await
        .expect(201);
}

#[tokio::test]
async fn a_webhook_is_presented_the_user_for_its_host_alone_hk_98() {
    let (hooks, others) = (HookServer::start().await, HookServer::start().await);
    let key = KeyPair::generate().unwrap();
    let parameters = CertificateParams::new(vec!["daemon".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let encoded = |text: String| BASE64_STANDARD.encode(text);
    let port = hooks.port;
    let users = json!({"users": [
        {"name": format!("127.0.0.1:{port}"), "user": {
            "token": "for-address", "as": "jane", "as-groups": ["g"]}},
        {"name": format!("localhost:{port}"), "user": {
            "client-certificate-data": encoded(certificate.pem()),
            "client-key-data": encoded(key.serialize_pem())}},
        {"name": format!("*.default.svc:{port}"), "user": {"username": "me", "password": "pass"}},
    ]});
    let (_folder, flag) = with_users("ValidatingAdmissionWebhook", &users);
    let daemon = Daemon::with(&[&flag, "--log-level=debug"]).await;
    let client = daemon.client();
    let service = json!({
        "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    });
    let services = "/api/v1/namespaces/default/services";
    client
        .call(Call::post(services, &service))
        .await
        .expect(201);
    let at = |hooks: &HookServer, host: &str, name: &str| {
        json!({"url": format!("https://{host}:{}/admit/{name}", hooks.port),
            "caBundle": hooks.ca_bundle})
    };
    let of_service = json!({"caBundle": hooks.ca_bundle, "service": {
        "namespace": "default", "name": "hook", "path": "/admit/service", "port": port}});
    for (kind, name, server) in [
        ("validating", "address", at(&hooks, "127.0.0.1", "address")),
        ("validating", "host", at(&hooks, "localhost", "host")),
        ("validating", "service", of_service),
        ("validating", "other", at(&others, "127.0.0.1", "other")),
        ("mutating", "mutating", at(&hooks, "127.0.0.1", "mutating")),
    ] {
        install(&client, kind, name, server, json!({})).await;
    }
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let call = |hooks: &HookServer, name: &str| {
        let calls = hooks.control(&format!("GET /calls/{name}"), "");
        assert_eq!(calls["count"], 1, "{name}");
        let call = &calls["calls"][0];
        ["authorization", "impersonate-user", "certificate"].map(|what| call[what].clone())
    };
    let none = Value::Null;
    let certificate = json!(BASE64_STANDARD.encode(certificate.der()));
    let basic = json!(format!("Basic {}", BASE64_STANDARD.encode("me:pass")));
    assert_eq!(
        call(&hooks, "address"),
        [json!("Bearer for-address"), json!("jane"), none.clone()]
    );
    assert_eq!(
        call(&hooks, "host"),
        [none.clone(), none.clone(), certificate]
    );
    assert_eq!(call(&hooks, "service"), [basic, none.clone(), none.clone()]);
    let nothing = [none.clone(), none.clone(), none];
    assert_eq!(call(&others, "other"), nothing);
    assert_eq!(call(&hooks, "mutating"), nothing);
    let log = daemon.stderr();
    assert!(
        !log.contains("for-address") && !log.contains("pass\""),
        "{log}"
    );
}

#[tokio::test]
async fn credentials_follow_no_redirect_to_another_host_hk_98() {
    let (hooks, others) = (HookServer::start().await, HookServer::start().await);
    let user = json!({"token": "t", "as": "jane"});
    let users = json!({"users": [{"name": "127.0.0.1:".to_owned() + &hooks.port.to_string(),
        "user": user}]});
    let (_folder, flag) = with_users("MutatingAdmissionWebhook", &users);
    let daemon = Daemon::with(&[&flag]).await;
    let client = daemon.client();
    // Both authorities are trusted.
    let bundle = |hooks: &HookServer| BASE64_STANDARD.decode(&hooks.ca_bundle).unwrap();
    let both = [bundle(&hooks), bundle(&others)].concat();
    let server = json!({"url": format!("{}/admit/first", hooks.url()),
        "caBundle": BASE64_STANDARD.encode(both)});
    install(&client, "mutating", "first", server, json!({})).await;
    let there = format!("https://localhost:{}/admit/second", others.port);
    hooks.tell("first", json!({"redirect": there, "http": 307}));
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let first = hooks.control("GET /calls/first", "")["calls"][0].clone();
    assert_eq!(first["authorization"], "Bearer t");
    assert_eq!(first["impersonate-user"], "jane");
    let second = others.control("GET /calls/second", "")["calls"][0].clone();
    assert_eq!(second["review"]["request"]["name"], "a");
    assert_eq!(second["authorization"], Value::Null);
    assert_eq!(second["impersonate-user"], Value::Null);
}

#[test]
fn a_file_that_cannot_be_used_ends_the_start_with_one_line_hk_98_hk_99() {
    for (plugins, problem) in [
        (
            json!([{"name": "Foo"}]),
            "plugins[0]: there is no admission plugin \"Foo\"",
        ),
        (
            json!([{"name": "Priority"}, {"name": "EventRateLimit", "path": "x"}]),
            "plugins[1]: the admission plugin EventRateLimit is not built here, so it would refuse \
             and change nothing; leave it out",
        ),
        (
            json!([{"name": "ImagePolicyWebhook"}]),
            "plugins[0]: the admission plugin ImagePolicyWebhook is not built here, so it would \
             refuse and change nothing; leave it out",
        ),
        (
            pod_security(json!({"defaults": {"enforce": "none"}})),
            "plugins[0] (PodSecurity): configuration: defaults.enforce: Invalid value: \"none\": \
             must be one of privileged, baseline, restricted",
        ),
        (
            json!([{"name": "Priority"}, {"name": "Priority"}]),
            "plugins[1].name: Duplicate value: \"Priority\"",
        ),
    ] {
        let (folder, flag) = configured(&plugins);
        let output = command(folder.path(), 0).arg(&flag).output().unwrap();
        let file = folder.path().join("admission.yaml");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = format!(
            "--admission-control-config-file: {}: {problem}",
            file.display()
        );
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(&line), "{told}");
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(!folder.path().join("data").exists());
    }
    let folder = tempfile::tempdir().unwrap();
    let flag = "--enable-admission-plugins=ImagePolicyWebhook";
    let output = command(folder.path(), 0).arg(flag).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let words = "ImagePolicyWebhook is not built, so no image would be checked; leave it out";
    assert!(told.contains(words), "{told}");
    assert_eq!(output.status.code(), Some(2));
}

/// A plugin without a configuration that gets one runs without it, and the log says so.
#[tokio::test]
async fn a_configuration_that_no_plugin_reads_is_warned_of_hk_98() {
    let (_folder, flag) = configured(&json!([{"name": "LimitRanger", "configuration": {"a": 1}}]));
    let daemon = Daemon::with(&[&flag]).await;
    let log = daemon.stderr();
    let words =
        "the plugin LimitRanger has no configuration, so what is said about it has no effect";
    assert_eq!(log.matches(words).count(), 1, "{log}");
}

#[tokio::test]
async fn an_unreached_cluster_ip_is_hinted_at_once_hk_43() {
    // Cluster IPs at which nothing listens.
    let daemon = Daemon::with(&["--service-cluster-ip-range=127.77.0.0/24"]).await;
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
    let services = "/api/v1/namespaces/default/services";
    let service = client
        .call(Call::post(services, &service))
        .await
        .expect(201);
    let server = json!({"caBundle": hooks.ca_bundle,
        "service": {"namespace": "default", "name": "hook"}});
    install(
        &client,
        "validating",
        "hook",
        server,
        json!({"timeoutSeconds": 1}),
    )
    .await;
    for name in ["a", "b"] {
        client
            .call(Call::post(CONFIGMAPS, &body(name, "1")))
            .await
            .expect(500);
    }
    let log = daemon.stderr();
    let words = "no cluster IP is reachable without a kube-proxy on this machine: name the webhook \
                 by its url, or use --enable-aggregator-routing";
    assert_eq!(log.matches(words).count(), 1, "{log}");
    let address = format!("{}:443", service["spec"]["clusterIP"].as_str().unwrap());
    assert!(
        log.contains(&address) && log.contains("default/hook"),
        "{log}"
    );
}

/// Whether a page has a series with these labels, in any order, and this value.
fn has(page: &str, name: &str, labels: &[(&str, &str)], value: &str) -> bool {
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    page.lines().any(|line| {
        let rest = line
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('{'));
        let Some((found, number)) = rest.and_then(|rest| rest.split_once("} ")) else {
            return false;
        };
        let found: Vec<&str> = found.split(',').collect();
        found.len() == labels.len()
            && labels.iter().all(|label| found.contains(&label.as_str()))
            && (value.is_empty() || number == value)
    })
}

/// The bounds of the buckets of a histogram.
fn bounds(page: &str, name: &str) -> Vec<String> {
    let buckets = page
        .lines()
        .filter_map(|line| line.strip_prefix(&format!("{name}_bucket{{")));
    let bounds = buckets.filter_map(|rest| rest.split("le=\"").nth(1)?.split('"').next());
    let mut all: Vec<String> = Vec::new();
    for bound in bounds {
        if !all.iter().any(|one| one == bound) {
            all.push(bound.to_owned());
        }
    }
    all
}

async fn policies(client: &Client) {
    let secrets = |operations: &[&str]| {
        json!({"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": operations,
        }]})
    };
    let conditions = |name: &str| {
        json!([{"name": "c", "expression": format!("object.metadata.name != '{name}' || \
            object.data.none == 'x'")}])
    };
    let mutation = "Object{metadata: Object.metadata{labels: {'by': 'policy'}}}";
    for (kind, spec) in [
        (
            "validating",
            json!({
                "matchConstraints": secrets(&["CREATE"]), "matchConditions": conditions("fails"),
                "validations": [{"expression": "object.metadata.name != 'bad'"}],
            }),
        ),
        (
            "mutating",
            json!({
                "matchConstraints": secrets(&["CREATE"]), "matchConditions": conditions("mfails"),
                "reinvocationPolicy": "Never", "mutations": [{
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": mutation},
                }],
            }),
        ),
    ] {
        let policy = json!({"metadata": {"name": kind}, "spec": spec});
        let path = format!("{GROUP}/{kind}admissionpolicies");
        client.call(Call::post(&path, &policy)).await.expect(201);
        let mut binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": kind}});
        if kind == "validating" {
            binding["spec"]["validationActions"] = json!(["Deny"]);
        }
        let path = format!("{GROUP}/{kind}admissionpolicybindings");
        client.call(Call::post(&path, &binding)).await.expect(201);
    }
}

#[tokio::test]
async fn stages_conditions_and_policies_are_measured_hk_94_hk_95_hk_96() {
    let daemon = Daemon::start().await;
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    policies(&client).await;
    let excluded = json!({"matchConditions": [
        {"name": "c", "expression": "object.metadata.name == 'nobody'"}]});
    let server = json!({"url": format!("{}/admit/w", hooks.url()), "caBundle": hooks.ca_bundle});
    install(&client, "validating", "w", server, excluded).await;
    for (name, code) in [("good", 201), ("bad", 422), ("fails", 422), ("mfails", 403)] {
        client
            .call(Call::post(CONFIGMAPS, &body(name, "1")))
            .await
            .expect(code);
    }
    let page = client.call(Call::get("/metrics")).await.text();
    let step = "apiserver_admission_step_admission_duration_seconds";
    let of = |stage, rejected| {
        vec![
            ("type", stage),
            ("operation", "CREATE"),
            ("rejected", rejected),
        ]
    };
    let with = |mut labels: Vec<(&'static str, &'static str)>, more| {
        labels.push(more);
        labels
    };
    let (create, policy) = (("operation", "CREATE"), ("kind", "policy"));
    let binding = ("policy_binding", "b");
    let condition = "apiserver_admission_match_condition_";
    let of_policy = |name| vec![("name", name), policy, ("type", "validate"), create];
    let of_hook = vec![
        ("name", "w.example.com"),
        ("kind", "webhook"),
        ("type", "validating"),
        create,
    ];
    let invalid = ("error_type", "invalid_error");
    for (name, labels, value) in [
        (format!("{step}_count"), of("admit", "true"), "1"),
        (format!("{step}_count"), of("validate", "true"), "2"),
        (format!("{step}_count"), of("admit", "false"), ""),
        (format!("{step}_summary_count"), of("validate", "true"), "2"),
        (format!("{step}_summary_sum"), of("validate", "true"), ""),
        (
            format!("{step}_summary"),
            with(of("admit", "true"), ("quantile", "0.5")),
            "",
        ),
        (
            format!("{step}_summary"),
            with(of("admit", "true"), ("quantile", "0.9")),
            "",
        ),
        (
            format!("{step}_summary"),
            with(of("admit", "true"), ("quantile", "0.99")),
            "",
        ),
        (
            format!("{condition}evaluation_errors_total"),
            of_policy("validating"),
            "1",
        ),
        (
            format!("{condition}evaluation_errors_total"),
            of_policy("mutating"),
            "1",
        ),
        (
            format!("{condition}evaluation_seconds_count"),
            of_policy("mutating"),
            // Three of four objects are changed, so they pass a second round.
            "7",
        ),
        (format!("{condition}exclusions_total"), of_hook.clone(), ""),
        (format!("{condition}evaluation_seconds_count"), of_hook, ""),
        (
            "apiserver_validating_admission_policy_check_total".to_owned(),
            vec![
                ("policy", "validating"),
                binding,
                invalid,
                ("enforcement_action", "deny"),
            ],
            "2",
        ),
        (
            "apiserver_mutating_admission_policy_check_total".to_owned(),
            vec![("policy", "mutating"), binding, ("error_type", "no_error")],
            "3",
        ),
    ] {
        assert!(
            has(&page, &name, &labels, value),
            "{name} {labels:?} {value}\n{page}"
        );
    }
    for (name, expected) in [
        (step, "0.005 0.025 0.1 0.5 1 2.5 +Inf"),
        (
            "apiserver_admission_controller_admission_duration_seconds",
            "0.005 0.025 0.1 0.5 1 2.5 +Inf",
        ),
        (
            "apiserver_admission_match_condition_evaluation_seconds",
            "0.001 0.005 0.01 0.025 0.1 0.2 0.25 +Inf",
        ),
        (
            "apiserver_validating_admission_policy_check_duration_seconds",
            "0.0000005 0.001 0.01 0.1 1 +Inf",
        ),
        (
            "apiserver_mutating_admission_policy_check_duration_seconds",
            "0.0000005 0.001 0.01 0.1 1 +Inf",
        ),
        (
            "apiserver_cel_evaluation_duration_seconds",
            "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf",
        ),
    ] {
        assert_eq!(bounds(&page, name).join(" "), expected, "{name}");
    }
    assert!(
        page.contains(&format!("# TYPE {step}_summary summary\n")),
        "{page}"
    );
    for name in ["missing_san", "insecure_sha1"] {
        let line = format!("\napiserver_webhooks_x509_{name}_total 0\n");
        assert!(page.contains(&line), "{page}");
    }
}

#[tokio::test]
async fn calls_of_webhooks_are_in_audit_events_hk_94_hk_97() {
    let folder = tempfile::tempdir().unwrap();
    let (log, [rules, path]) = audited(folder.path(), "configmaps");
    let mut daemon = Daemon::with(&[&rules, &path]).await;
    let (client, hooks) = (daemon.client(), HookServer::start().await);
    let at = |name: &str| json!({"url": format!("{}/admit/{name}", hooks.url()), "caBundle": hooks.ca_bundle});
    let closed = json!({"url": "https://127.0.0.1:1/x", "caBundle": hooks.ca_bundle});
    let ignore = json!({"failurePolicy": "Ignore"});
    let patch = json!([{"op": "add", "path": "/data/m", "value": "1"}]);
    hooks.tell(
        "a",
        json!({"patch": patch, "auditAnnotations": {"k": "v", "not a key": "v"}}),
    );
    install(&client, "mutating", "a", at("a"), json!({})).await;
    install(&client, "mutating", "b", closed.clone(), ignore.clone()).await;
    install(&client, "mutating", "c", at("c"), json!({})).await;
    install(&client, "validating", "v", closed, ignore).await;
    client
        .call(Call::post(CONFIGMAPS, &body("m", "1")))
        .await
        .expect(201);
    let page = client.call(Call::get("/metrics")).await.text();
    let seconds = "apiserver_admission_webhook_admission_duration_seconds";
    assert_eq!(
        bounds(&page, seconds).join(" "),
        "0.005 0.025 0.1 0.5 1 2.5 10 25 +Inf"
    );
    daemon.stop(Signal::TERM).await;
    let events = annotations(&log, "create", "configmaps");
    assert_eq!(events.len(), 1);
    let found = &events[0];
    let mutation = |name: &str, is_mutated: bool| {
        json!({"configuration": name, "webhook": format!("{name}.example.com"),
            "mutated": is_mutated})
    };
    let parsed = |key: &str| {
        let text = found[key]
            .as_str()
            .unwrap_or_else(|| panic!("{key}: {found}"));
        serde_json::from_str::<Value>(text).unwrap()
    };
    let at =
        |key: &str, index: usize| format!("{key}.webhook.admission.k8s.io/round_0_index_{index}");
    for (name, index, is_mutated) in [("a", 0, true), ("b", 1, false), ("c", 2, false)] {
        assert_eq!(parsed(&at("mutation", index)), mutation(name, is_mutated));
    }
    let of_patch = json!({"configuration": "a", "webhook": "a.example.com", "patch": patch,
        "patchType": "JSONPatch"});
    assert_eq!(parsed(&at("patch", 0)), of_patch);
    assert_eq!(found[at("failed-open.mutation", 1)], "b.example.com");
    assert_eq!(found[at("failed-open.validating", 0)], "v.example.com");
    assert_eq!(found["a.example.com/k"], "v");
    assert_eq!(found["a.example.com/not a key"], Value::Null);
}

/// The rules of custom resources are measured like policies.
#[tokio::test]
async fn rules_of_custom_resources_are_measured_hk_96() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let rules = json!([{"rule": "self.spec.size < 9"}]);
    let schema = json!({"type": "object", "x-kubernetes-validations": rules, "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    let definition = json!({"metadata": {"name": "lamps.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "lamps", "kind": "Lamp"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client
        .call(Call::post(definitions, &definition))
        .await
        .expect(201);
    let lamps = "/apis/example.com/v1/namespaces/default/lamps";
    let lamp = json!({"apiVersion": "example.com/v1", "kind": "Lamp",
        "metadata": {"name": "a"}, "spec": {"size": 9}});
    let mut answer = client.call(Call::post(lamps, &lamp)).await;
    // The definition is served a moment after its creation.
    for _ in 0..1000 {
        if answer.status != 404 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        answer = client.call(Call::post(lamps, &lamp)).await;
    }
    answer.expect(422);
    for what in ["compilation", "evaluation"] {
        let name = format!("apiserver_cel_{what}_duration_seconds_count");
        assert_eq!(daemon.count(&name).await, 1, "{name}");
    }
}
