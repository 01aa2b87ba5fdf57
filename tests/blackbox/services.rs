//! Addresses and ports of Services (API-228). `replay::services` has the tests with one client and
//! one Service.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Call, Client, Daemon, Kubectl};
use crate::servers::etcd::Cluster;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

fn service(name: &str, kind: &str) -> Value {
    let spec = json!({"type": kind, "ports": [{"port": 80}]});
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn create(client: &Client, name: &str, kind: &str) -> (u16, Value) {
    let answer = client
        .call(Call::post(SERVICES, &service(name, kind)))
        .await;
    (answer.status.as_u16(), answer.json())
}

fn address(service: &Value) -> String {
    service["spec"]["clusterIP"].as_str().unwrap().to_owned()
}

/// The names of IPAddresses and the names of the Services that have them.
async fn holders(client: &Client) -> Vec<(String, String)> {
    let listed = client.call(Call::get(ADDRESSES)).await.expect(200);
    let items = listed["items"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    items
        .map(|item| {
            (
                text(&item["metadata"]["name"]),
                text(&item["spec"]["parentRef"]["name"]),
            )
        })
        .collect()
}

/// Every address is taken once, the last one too, and comes back.
async fn give_out_all(daemons: &[&Daemon]) {
    let clients: Vec<Client> = daemons.iter().map(|daemon| daemon.client()).collect();
    // 14 addresses, of which the service of the API has one; 10 ports.
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let creating = names.iter().enumerate().map(|(at, name)| {
        let client = &clients[at % clients.len()];
        create(client, name, "ClusterIP")
    });
    let created = join_all(creating).await;
    let full = "Internal error occurred: failed to allocate a serviceIP: range is full";
    let mut taken = HashSet::new();
    for (status, answer) in &created {
        match status {
            201 => assert!(taken.insert(address(answer)), "{answer}"),
            _ => assert_eq!(answer["message"], full),
        }
    }
    assert_eq!(taken.len(), 13);
    let holders = holders(&clients[0]).await;
    assert_eq!(holders.len(), 14);
    let served = holders.iter().find(|(_, holder)| holder == "kubernetes");
    assert_eq!(served.unwrap().0, "10.9.8.1");

    let gone = created.iter().find(|(status, _)| *status == 201).unwrap();
    let name = gone.1["metadata"]["name"].as_str().unwrap();
    clients[0]
        .call(Call::delete(&format!("{SERVICES}/{name}")))
        .await
        .expect(200);
    let client = &clients[clients.len() - 1];
    let (status, again) = create(client, "again", "ClusterIP").await;
    assert_eq!((status, address(&again)), (201, address(&gone.1)));

    // A Service that was refused for its port has no address.
    client
        .call(Call::delete(&format!("{SERVICES}/again")))
        .await
        .expect(200);
    let mut wrong = service("wrong", "NodePort");
    wrong["spec"]["ports"][0]["nodePort"] = json!(30010);
    client
        .call(Call::post(SERVICES, &wrong))
        .await
        .refusal(422, "Invalid");
    let mut patches = Vec::new();
    for (status, answer) in created.iter().filter(|(status, _)| *status == 201) {
        assert_eq!(*status, 201);
        let name = answer["metadata"]["name"].as_str().unwrap().to_owned();
        patches.push(async move {
            let to = json!({"spec": {"type": "NodePort"}});
            let path = format!("{SERVICES}/{name}");
            clients_call(client, Call::merge_patch(&path, &to)).await
        });
    }
    let patched = join_all(patches).await;
    let mut ports = HashSet::new();
    for (status, answer) in patched {
        match status {
            200 => {
                let port = answer["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
                assert!(
                    (30000..30010).contains(&port) && ports.insert(port),
                    "{answer}"
                );
            }
            404 => {}
            _ => assert_eq!(
                answer["message"],
                "Internal error occurred: failed to allocate a nodePort: range is full"
            ),
        }
    }
    assert_eq!(ports.len(), 10);
}

async fn clients_call(client: &Client, call: Call) -> (u16, Value) {
    let answer = client.call(call).await;
    (answer.status.as_u16(), answer.json())
}

const RANGES: [&str; 2] = [
    "--service-cluster-ip-range=10.9.8.0/28",
    "--service-node-port-range=30000-30009",
];

/// The service of the API is there some moments after the start.
async fn settled(daemon: &Daemon) {
    let path = format!("{SERVICES}/kubernetes");
    for _ in 0..400 {
        if daemon.client().call(Call::get(&path)).await.status == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("no service of the API: {}", daemon.stderr());
}

#[tokio::test]
async fn addresses_and_ports_are_given_out_once_api_228() {
    let daemon = Daemon::with(&RANGES).await;
    settled(&daemon).await;
    give_out_all(&[&daemon]).await;
}

#[tokio::test]
async fn daemons_on_one_etcd_give_out_nothing_twice_api_228() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::single("3.5"))
        .await
        .unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let arguments = [&RANGES[..], &[&servers]].concat();
    let one = Daemon::with(&arguments).await;
    let other = Daemon::with(&arguments).await;
    settled(&one).await;
    settled(&other).await;
    give_out_all(&[&one, &other]).await;
}

/// API-228: the service that conformance suites look for, and the range that it is of.
#[tokio::test]
async fn the_api_has_a_service_with_endpoints() {
    let daemon = Daemon::with(&["--advertise-address=192.0.2.7"]).await;
    settled(&daemon).await;
    let client = daemon.client();
    let got = client
        .call(Call::get(&format!("{SERVICES}/kubernetes")))
        .await
        .expect(200);
    assert_eq!(got["spec"]["clusterIP"], "10.0.0.1");
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    assert_eq!(got["metadata"]["labels"], labels);
    let port = json!([{"name": "https", "port": 443, "protocol": "TCP",
        "targetPort": daemon.port()}]);
    assert_eq!(got["spec"]["ports"], port);
    let cidr = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let cidr = client.call(Call::get(cidr)).await.expect(200);
    assert_eq!(cidr["spec"]["cidrs"], json!(["10.0.0.0/24"]));
    assert_eq!(cidr["status"]["conditions"][0]["type"], "Ready");

    let path = "/api/v1/namespaces/default/endpoints/kubernetes";
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let mut answers = Vec::new();
    for path in [path, slice] {
        let mut answer = client.call(Call::get(path)).await;
        for _ in 0..400 {
            if answer.status == 200 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(25)).await;
            answer = client.call(Call::get(path)).await;
        }
        answers.push(answer.expect(200));
    }
    let ports = json!([{"name": "https", "port": daemon.port(), "protocol": "TCP"}]);
    let subset = json!([{"addresses": [{"ip": "192.0.2.7"}], "ports": ports}]);
    assert_eq!(answers[0]["subsets"], subset);
    assert_eq!(
        answers[1]["endpoints"][0]["addresses"],
        json!(["192.0.2.7"])
    );
    assert_eq!(answers[1]["ports"], ports);
    let label = &answers[1]["metadata"]["labels"]["kubernetes.io/service-name"];
    assert_eq!(label, "kubernetes");
}

/// API-228: a cluster of both families.
#[tokio::test]
async fn a_cluster_may_have_both_families() {
    let daemon = Daemon::with(&["--service-cluster-ip-range=fd00:9::/108,10.9.8.0/24"]).await;
    settled(&daemon).await;
    let client = daemon.client();
    let (_, single) = create(&client, "single", "ClusterIP").await;
    assert_eq!(single["spec"]["ipFamilies"], json!(["IPv6"]));
    assert!(address(&single).starts_with("fd00:9::"), "{single}");
    let mut both = service("both", "ClusterIP");
    both["spec"]["ipFamilyPolicy"] = json!("PreferDualStack");
    let both = client.call(Call::post(SERVICES, &both)).await.expect(201);
    assert_eq!(both["spec"]["ipFamilies"], json!(["IPv6", "IPv4"]));
    let addresses = both["spec"]["clusterIPs"].as_array().unwrap();
    assert!(
        addresses[1].as_str().unwrap().starts_with("10.9.8."),
        "{both}"
    );
    let back = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    let back = client
        .call(Call::merge_patch(&format!("{SERVICES}/both"), &back))
        .await
        .expect(200);
    assert_eq!(back["spec"]["clusterIPs"], json!([addresses[0]]));
    let listed = holders(&client).await;
    assert!(
        !listed.iter().any(|(name, _)| addresses[1] == name.as_str()),
        "{listed:?}"
    );
}

/// API-228: a range can be used at once, unless something says that it is not ready.
#[tokio::test]
async fn a_new_range_can_be_used_at_once() {
    let daemon = Daemon::with(&RANGES).await;
    settled(&daemon).await;
    let client = daemon.client();
    let cidrs = "/apis/networking.k8s.io/v1/servicecidrs";
    let cidr = json!({"metadata": {"name": "new"}, "spec": {"cidrs": ["10.78.0.0/24"]}});
    client.call(Call::post(cidrs, &cidr)).await.expect(201);
    let mut own = service("a", "ClusterIP");
    own["spec"]["clusterIP"] = json!("10.78.0.5");
    // Ranges are read from a cache.
    let is_answered = async |code: u16| {
        let path = format!("{SERVICES}?dryRun=All");
        let mut answer = client.call(Call::post(&path, &own)).await;
        for _ in 0..400 {
            if answer.status == code {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(25)).await;
            answer = client.call(Call::post(&path, &own)).await;
        }
        answer.expect(code);
    };
    is_answered(201).await;
    for (status, code) in [("False", 422), ("Unknown", 201)] {
        let condition = json!({
            "type": "Ready", "status": status, "reason": "r", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let change = json!({"status": {"conditions": [condition]}});
        let path = format!("{cidrs}/new/status");
        client
            .call(Call::merge_patch(&path, &change))
            .await
            .expect(200);
        is_answered(code).await;
    }
    client.call(Call::post(SERVICES, &own)).await.expect(201);
}

/// D-44: nothing is taken for a Service that is refused.
#[tokio::test]
async fn faults_are_told_before_anything_is_taken() {
    let daemon = Daemon::with(&RANGES).await;
    settled(&daemon).await;
    let client = daemon.client();
    let mut taken = service("a", "ClusterIP");
    taken["spec"]["clusterIP"] = json!("10.9.8.1");
    let said = client
        .call(Call::post(SERVICES, &taken))
        .await
        .refusal(422, "Invalid");
    assert_eq!(said["details"]["causes"][0]["field"], "spec.clusterIPs");
    // D-73: so it is of a dry run.
    client
        .call(Call::post(&format!("{SERVICES}?dryRun=All"), &taken))
        .await
        .refusal(422, "Invalid");
    taken["spec"]["ports"][0]["port"] = json!(0);
    let said = client
        .call(Call::post(SERVICES, &taken))
        .await
        .refusal(422, "Invalid");
    assert_eq!(said["details"]["causes"][0]["field"], "spec.ports[0].port");
    let mut twice = service("a", "NodePort");
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "nodePort": 30001});
    twice["spec"]["ports"] = json!([port("a", 80), port("b", 81)]);
    let said = client
        .call(Call::post(SERVICES, &twice))
        .await
        .refusal(422, "Invalid");
    assert_eq!(
        said["details"]["causes"][0]["reason"],
        "FieldValueDuplicate"
    );
    twice["spec"]["ports"] = json!([port("a", 80)]);
    // A dry run takes nothing either.
    client
        .call(Call::post(&format!("{SERVICES}?dryRun=All"), &twice))
        .await
        .expect(201);
    client.call(Call::post(SERVICES, &twice)).await.expect(201);
    assert_eq!(holders(&client).await.len(), 2);
}

/// API-228: endpoints of a Service go with it, addresses of deleted namespaces come back.
#[tokio::test]
async fn what_a_service_had_goes_with_it() {
    let daemon = Daemon::with(&RANGES).await;
    settled(&daemon).await;
    let client = daemon.client();
    let space = json!({"metadata": {"name": "space"}});
    client
        .call(Call::post("/api/v1/namespaces", &space))
        .await
        .expect(201);
    let services = "/api/v1/namespaces/space/services";
    let endpoints = "/api/v1/namespaces/space/endpoints";
    for name in ["a", "b"] {
        client
            .call(Call::post(services, &service(name, "NodePort")))
            .await
            .expect(201);
        let object = json!({"metadata": {"name": name}});
        client
            .call(Call::post(endpoints, &object))
            .await
            .expect(201);
    }
    client
        .call(Call::delete(&format!("{services}/a")))
        .await
        .expect(200);
    let gone = client.call(Call::get(&format!("{endpoints}/a"))).await;
    gone.refusal(404, "NotFound");
    client
        .call(Call::delete("/api/v1/namespaces/space"))
        .await
        .expect(200);
    for _ in 0..400 {
        if client
            .call(Call::get("/api/v1/namespaces/space"))
            .await
            .status
            == 404
        {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    let holders = holders(&client).await;
    assert_eq!(holders, [("10.9.8.1".to_owned(), "kubernetes".to_owned())]);
}

#[tokio::test]
async fn kubectl_exposes_and_describes_services() {
    for version in ["1.20", "1.32", "1.36"] {
        let daemon = Daemon::start().await;
        let Some(kubectl) = Kubectl::find(version, &daemon) else {
            continue;
        };
        settled(&daemon).await;
        kubectl
            .ok(&["create", "service", "nodeport", "web", "--tcp=80:8080"])
            .await;
        let shown = kubectl.ok(&["get", "service", "web"]).await;
        assert!(
            shown.contains("NodePort") && shown.contains(" 10.0.0."),
            "{shown}"
        );
        let described = kubectl.ok(&["describe", "service", "web"]).await;
        assert!(described.contains("10.0.0."), "{described}");
        let shown = kubectl.ok(&["get", "service", "kubernetes"]).await;
        assert!(shown.contains("10.0.0.1 "), "{shown}");
    }
}

/// API-228, KV-5: of several daemons on one etcd those are endpoints that are there.
#[tokio::test]
async fn daemons_that_are_gone_are_no_endpoints_of_the_api() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::single("3.5"))
        .await
        .unwrap();
    let servers = format!("--etcd-servers={}", cluster.urls().join(","));
    let start = async |address: &str| {
        let address = format!("--advertise-address={address}");
        Daemon::with(&[&servers, &address]).await
    };
    let (first, mut second) = tokio::join!(start("192.0.2.1"), start("192.0.2.2"));
    let mut third = start("192.0.2.3").await;
    let client = first.client();
    let endpoints = async || {
        let path = "/api/v1/namespaces/default/endpoints/kubernetes";
        let object = client.call(Call::get(path)).await.json();
        let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
        let slice = client.call(Call::get(slice)).await.json();
        let listed = object["subsets"][0]["addresses"].as_array().cloned();
        let listed = listed.unwrap_or_default().into_iter();
        let listed: Vec<Value> = listed.map(|address| address["ip"].clone()).collect();
        let sliced = slice["endpoints"].as_array().cloned().unwrap_or_default();
        let sliced = sliced.into_iter().map(|one| one["addresses"][0].clone());
        (listed == sliced.collect::<Vec<_>>()).then_some(listed)
    };
    let become_these = async |wanted: Value| {
        let begun = Instant::now();
        loop {
            let found = endpoints().await;
            if found.clone().map(Value::from) == Some(wanted.clone()) {
                return begun.elapsed();
            }
            let waited = begun.elapsed();
            // An etcd that stalls lets leases live longer.
            assert!(waited < Duration::from_secs(180), "{wanted}: {found:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    become_these(json!(["192.0.2.1", "192.0.2.2", "192.0.2.3"])).await;
    // One that stops says so itself.
    third.stop(Signal::TERM).await;
    assert_eq!(
        endpoints().await.map(Value::from),
        Some(json!(["192.0.2.1", "192.0.2.2"]))
    );
    // The lease of one that dies runs out.
    second.kill().await;
    become_these(json!(["192.0.2.1"])).await;
}

/// API-228: of a change to addresses and families kube-apiserver tells first what is wrong with
/// them, then what the cluster does not have of the families, and then all else.
#[tokio::test]
async fn changes_of_addresses_are_refused_in_the_words_of_kube_apiserver_api_228() {
    const NO_DUAL: &str = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster \
                           is not configured for dual-stack services";
    const NO_V6: &str = "Invalid value: \"IPv6\": not configured on this cluster";
    const ONLY: &str = "'None' must be the first and only value";
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let headless = json!({
        "clusterIP": "None", "ports": [{"port": 80}], "selector": {"a": "b"},
    });
    for (name, spec) in [("own", headless), ("free", json!({"clusterIP": "None"}))] {
        let body = json!({"metadata": {"name": name}, "spec": spec});
        client.call(Call::post(SERVICES, &body)).await.expect(201);
    }
    let refused = async |name: &str, spec: Value, expected: &[String]| {
        let path = format!("{SERVICES}/{name}?dryRun=All");
        let mut body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}});
        body["spec"] = spec;
        for (kind, forced) in [
            ("merge-patch+json", ""),
            ("strategic-merge-patch+json", ""),
            ("apply-patch+yaml", "&fieldManager=m&force=true"),
        ] {
            let call = Call::new("PATCH", &format!("{path}{forced}"));
            let call = call.body(&format!("application/{kind}"), body.to_string());
            let status = client.call(call).await.refusal(422, "Invalid");
            let causes = status["details"]["causes"].as_array().unwrap().iter();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let found =
                causes.map(|one| format!("{}: {}", text(&one["field"]), text(&one["message"])));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{kind}: {body}");
        }
    };
    let (no_dual, second) = (NO_DUAL.to_owned(), format!("spec.ipFamilies[1]: {NO_V6}"));
    let both = [no_dual.clone(), second];
    let first = [format!("spec.ipFamilies[0]: {NO_V6}")];
    refused("own", json!({"ipFamilies": ["IPv6"]}), &first).await;
    let spec = json!({"clusterIP": "fd00::1", "ipFamilies": ["IPv6"]});
    refused("own", spec, &first).await;
    let spec = json!({"clusterIP": "10.0.0.77", "ipFamilyPolicy": "RequireDualStack"});
    refused("own", spec, &[no_dual]).await;
    refused("free", json!({"clusterIP": "10.0.0.77"}), &both).await;
    let spec = json!({"type": "NodePort", "clusterIP": "10.0.0.77"});
    refused("free", spec, &both).await;
    let spec = json!({"clusterIP": "10.0.0.77", "ipFamilies": ["IPv6"]});
    let why =
        "Invalid value: \"10.0.0.77\": expected an IPv6 value as indicated by `ipFamilies[0]`";
    refused("free", spec, &[format!("spec.clusterIPs[0]: {why}")]).await;
    let why = "Unsupported value: \"x\": supported values: \"IPv4\", \"IPv6\"";
    let fault = [format!("spec.ipFamilies[0]: {why}")];
    refused("free", json!({"ipFamilies": ["x"]}), &fault).await;
    for second in ["None", "10.0.0.77"] {
        let why = format!("spec.clusterIPs: Invalid value: [\"None\",\"{second}\"]: {ONLY}");
        refused("free", json!({"clusterIPs": ["None", second]}), &[why]).await;
    }
    let why = "Invalid value: [\"10.0.0.77\"]: may not change once set";
    let fault = [format!("spec.clusterIPs[0]: {why}")];
    refused("own", json!({"clusterIP": "10.0.0.77"}), &fault).await;

    // A body without families means those of its addresses.
    let mut body = json!({"metadata": {"name": "own"}});
    body["spec"] = json!({"clusterIP": "fd00::1", "ports": [{"port": 80}]});
    let answer = client.call(Call::put(&format!("{SERVICES}/own"), &body));
    let status = answer.await.refusal(422, "Invalid");
    let why = "Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster";
    let message = format!("Service \"own\" is invalid: spec.clusterIPs[0]: {why}");
    assert_eq!(status["message"], message);
}
