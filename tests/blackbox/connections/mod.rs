//! Connections to pods, services and nodes (API-221).

mod admitted;
mod commands;
mod full_connections;
mod kube_rs;
mod kubectl;
mod kubectl_proxy;
mod kubelet;
mod logs;
mod proxies;
mod python;
mod revocation;
mod settings;
mod sockets;
mod streams;
mod terminal;
mod translated;
mod web_server;

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Call, Daemon, Kubectl};

/// Waits for something that happens soon.
async fn until(happened: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !happened().await {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "it does not happen"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn connections_are_found_and_refused_in_the_words_of_kube_apiserver() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let container = |name: &str| json!({"name": name, "image": "x"});
    for (name, containers) in [("one", vec!["a"]), ("two", vec!["a", "b"])] {
        let containers: Vec<_> = containers.into_iter().map(container).collect();
        let spec = json!({"containers": containers, "initContainers": [container("i")]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        client.call(Call::post(PODS, &pod)).await.expect(201);
    }
    let choose = "a container name must be specified for pod two, choose one of: [i a b]";
    let unassigned = |name: &str| format!("pod {name} does not have a host assigned");
    for (path, said) in [
        ("two/log", choose.to_owned()),
        ("two/exec?command=x", choose.to_owned()),
        ("two/attach", choose.to_owned()),
        (
            "two/log?container=zz",
            "container zz is not valid for pod two".to_owned(),
        ),
        ("two/exec?command=x&container=i", unassigned("two")),
        ("one/exec?command=x", unassigned("one")),
        ("one/portforward?ports=1", unassigned("one")),
        ("one/proxy/", "address not allowed".to_owned()),
        ("http:one:80/proxy/x/y", "address not allowed".to_owned()),
        (
            "ftp:one:80/proxy",
            "invalid pod request \"ftp:one:80\"".to_owned(),
        ),
    ] {
        for method in ["GET", "POST"] {
            if path.contains("log") && method == "POST" {
                continue;
            }
            let call = Call::new(method, &format!("{PODS}/{path}"));
            let refused = client.call(call).await.refusal(400, "BadRequest");
            assert_eq!(refused["message"], said, "{path}");
        }
    }
    // What waits has written nothing.
    let log = client.call(Call::get(&format!("{PODS}/one/log"))).await;
    assert_eq!((log.status.as_u16(), log.text().as_str()), (204, ""));
    assert_eq!(log.header("content-type"), None);
    for path in ["log", "exec", "attach", "portforward", "proxy"] {
        let call = Call::get(&format!("{PODS}/none/{path}"));
        client.call(call).await.refusal(404, "NotFound");
    }
    let wrong = client
        .call(Call::new("PUT", &format!("{PODS}/one/exec")))
        .await;
    wrong.refusal(405, "MethodNotAllowed");

    let binding = json!({"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "n"}});
    client
        .call(Call::post(&format!("{PODS}/one/binding"), &binding))
        .await
        .expect(201);
    let node = json!({"metadata": {"name": "n"}});
    client
        .call(Call::post("/api/v1/nodes", &node))
        .await
        .expect(201);
    let unknown = "no preferred addresses found; known addresses: []";
    for path in [
        &format!("{PODS}/one/exec?command=x"),
        &format!("{PODS}/one/log"),
    ] {
        let refused = client.call(Call::get(path)).await.expect(500);
        assert_eq!(refused["message"], unknown, "{path}");
    }
    let call = Call::get("/api/v1/nodes/n/proxy/x");
    let refused = client.call(call).await.expect(500);
    assert_eq!(refused["message"], unknown);
    client
        .call(Call::get("/api/v1/nodes/m:10250/proxy"))
        .await
        .refusal(404, "NotFound");
}

/// What is asked of a log is checked before anybody looks for the pod.
#[tokio::test]
async fn options_of_logs_are_checked() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let number = |text: &str| format!("strconv.ParseInt: parsing \"{text}\": invalid syntax");
    for (query, said) in [
        ("tailLines=x", number("x")),
        ("tailLines=", number("")),
        ("limitBytes=1.5", number("1.5")),
        (
            "sinceSeconds=99999999999999999999",
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range".to_owned(),
        ),
        (
            "sinceTime=bad&tailLines=x",
            "parsing time \"bad\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"bad\" as \
             \"2006\""
                .to_owned(),
        ),
    ] {
        let call = Call::get(&format!("{PODS}/none/log?{query}"));
        let refused = client.call(call).await.refusal(400, "BadRequest");
        assert_eq!(refused["message"], said, "{query}");
    }
    let stream = "stream: Forbidden: may not be specified";
    for (query, said) in [
        (
            "tailLines=-1",
            "tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "sinceSeconds=5&sinceTime=2020-01-01T00:00:00Z",
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("stream=All", stream),
        ("stream=", stream),
        (
            "limitBytes=0&sinceSeconds=0",
            "[limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds: Invalid value: \
             0: must be greater than 0]",
        ),
    ] {
        let call = Call::get(&format!("{PODS}/none/log?{query}"));
        let refused = client.call(call).await.refusal(422, "Invalid");
        let said = format!("PodLogOptions \"none\" is invalid: {said}");
        assert_eq!(refused["message"], said, "{query}");
        assert_eq!(refused["details"]["name"], "none");
    }
    let fine = "tailLines=0&limitBytes=1&sinceSeconds=1&sinceTime=&follow=x&previous=y";
    let call = Call::get(&format!("{PODS}/none/log?{fine}"));
    client.call(call).await.refusal(404, "NotFound");
}

#[tokio::test]
async fn kubectl_says_that_there_is_nobody_to_connect_to() {
    for version in ["1.20", "1.32", "1.36"] {
        let daemon = Daemon::start().await;
        let Some(kubectl) = Kubectl::find(version, &daemon) else {
            continue;
        };
        kubectl.ok(&["run", "one", "--image=x"]).await;
        assert_eq!(kubectl.ok(&["logs", "one"]).await, "");
        let said = kubectl.fails(&["exec", "one", "--", "true"]).await;
        assert!(said.contains("does not have a host assigned"), "{said}");
    }
}
