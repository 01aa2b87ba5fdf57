//! Measures the cost of webhooks and admission policies for creates of 16 clients (hooks.md): the
//! CPU of the daemon with them, less that without them, in turns in one daemon.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::webhook::acceptor;
use crate::harness::{Call, Client, Daemon};
use crate::load::{self, Loaded, NAMESPACE, Until, Verb};
use crate::meter::{self, Sample};
use crate::report::{figure, noise, part};
use crate::servers::etcd::Cluster;
use crate::servers::kube_apiserver::KubeApiserver;
use crate::servers::programs;

const CLIENTS: u64 = 16;
/// Ordinary creates of one turn, those that a webhook is asked about, and the turns.
const CREATES: u64 = 4_000;
const ASKED: u64 = 20_000;
/// Creates of one turn in kube-apiserver.
const OF_PEER: u64 = 2_000;
const TURNS: usize = 7;
const ASKED_TURNS: usize = 3;

/// The items of the longest list.
const ITEMS: usize = 32_000;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const EXPRESSIONS: [&str; 5] = [
    "object.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "!has(object.metadata.annotations) || object.metadata.annotations.all(k, !k.startsWith('x-'))",
    "request.userInfo.username != '' && request.operation in ['CREATE', 'UPDATE']",
    "has(object.data) && object.data.all(k, size(object.data[k]) < 4096)",
    "!(request.namespace in ['kube-system', 'kube-public']) || 'exempt' in object.metadata.labels",
];

/// A webhook that allows everything, over TLS. It ends with the runtime.
struct Allowing {
    url: String,
    ca_bundle: String,
}

impl Allowing {
    async fn start() -> Allowing {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let tls = acceptor(certificate.der(), &key);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let tls = tls.clone();
                tokio::spawn(async move {
                    let stream = tls.accept(socket).await.unwrap();
                    let server = hyper::server::conn::http1::Builder::new();
                    let service = service_fn(allow);
                    // The daemon may close the connection at any time.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Allowing {
            url: format!("https://127.0.0.1:{port}/"),
            ca_bundle: BASE64_STANDARD.encode(certificate.pem()),
        }
    }
}

async fn allow(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let answer = json!({
        "apiVersion": review["apiVersion"], "kind": review["kind"],
        "response": {"uid": review["request"]["uid"], "allowed": true},
    });
    let response = Response::builder().header("content-type", "application/json");
    Ok(response
        .body(Full::new(Bytes::from(answer.to_string())))
        .unwrap())
}

/// A hook: the plural of its resource, and the object.
type Hook = (&'static str, Value);

fn named(name: &str, more: Value) -> Value {
    let mut object = json!({ "metadata": { "name": name } });
    object.as_object_mut().unwrap().extend(members(more));
    object
}

fn members(object: Value) -> serde_json::Map<String, Value> {
    match object {
        Value::Object(members) => members,
        _ => panic!("no object: {object}"),
    }
}

/// Rules for these resources of a group, when they are created.
fn rules(group: &str, plural: &str) -> Value {
    json!([{
        "apiGroups": [group], "apiVersions": ["*"], "resources": [plural],
        "operations": ["CREATE"],
    }])
}

/// A policy of five expressions and its binding.
fn policy(name: &str, rules: &Value, selectors: Value) -> [Hook; 2] {
    let mut constraints = json!({ "resourceRules": rules });
    constraints
        .as_object_mut()
        .unwrap()
        .extend(members(selectors));
    let expressions = EXPRESSIONS.map(|expression| json!({ "expression": expression }));
    let spec = json!({ "matchConstraints": constraints, "validations": expressions });
    let binding = json!({ "policyName": name, "validationActions": ["Deny"] });
    [
        (
            "validatingadmissionpolicies",
            named(name, json!({ "spec": spec })),
        ),
        (
            "validatingadmissionpolicybindings",
            named(name, json!({ "spec": binding })),
        ),
    ]
}

/// A configuration of one webhook.
fn webhook(plural: &'static str, name: &str, client: &Value, rules: &Value, more: Value) -> Hook {
    let mut webhook = json!({
        "name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": client, "rules": rules,
    });
    webhook.as_object_mut().unwrap().extend(members(more));
    (plural, named(name, json!({ "webhooks": [webhook] })))
}

/// 200 policies and 50 configurations that match no ConfigMap of this program: a third each by
/// their rules, the namespace's labels, and the labels of objects.
fn unmatched() -> Vec<Hook> {
    let (all, other) = (rules("*", "*"), rules("batch", "jobs"));
    let unmet = |number: usize| {
        let values = [format!("team-{number}"), format!("group-{number}")];
        json!({ "matchExpressions": [{ "key": "tenant", "operator": "In", "values": values }] })
    };
    let sort = |number: usize| match number % 3 {
        0 => (&other, json!({})),
        1 => (&all, json!({ "namespaceSelector": unmet(number) })),
        _ => (&all, json!({ "objectSelector": unmet(number) })),
    };
    let nowhere = json!({ "url": "https://127.0.0.1:1/" });
    let policies = (0..200).flat_map(|number| {
        let (rules, selectors) = sort(number);
        policy(&format!("p{number}"), rules, selectors)
    });
    let webhooks = (0..50).map(|number| {
        let plural = match number % 2 {
            0 => "validatingwebhookconfigurations",
            _ => "mutatingwebhookconfigurations",
        };
        let (rules, selectors) = sort(number);
        webhook(plural, &format!("c{number}"), &nowhere, rules, selectors)
    });
    policies.chain(webhooks).collect()
}

async fn install(client: &Client, hooks: &[Hook]) {
    for (plural, object) in hooks {
        let create = Call::post(&format!("{GROUP}/{plural}"), object);
        client.call(create).await.expect(201);
    }
}

async fn remove(client: &Client, hooks: &[Hook]) {
    for (plural, object) in hooks.iter().rev() {
        let name = object["metadata"]["name"].as_str().unwrap();
        let delete = Call::delete(&format!("{GROUP}/{plural}/{name}"));
        client.call(delete).await.expect(200);
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Hooks, and how many creates measure them.
struct Compared<'h> {
    what: &'h str,
    hooks: &'h [Hook],
    turns: usize,
    creates: u64,
    /// Whether the objects are deleted after each turn. kube-apiserver does not delete so many
    /// within the time of a request.
    deletes: bool,
    /// The bar of the CPU that they add, as the report shows it.
    most: &'h str,
}

/// Creates objects in a fresh daemon, in turns with these hooks and without them, and prints the
/// CPU of one create.
async fn compared(compared: &Compared<'_>) -> f64 {
    part(&format!(
        "creates of {CLIENTS} clients, with {}",
        compared.what
    ));
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    in_turns(&daemon, &mut 0, compared).await
}

/// Creates objects in turns with these hooks and without them, prints the CPU of one create, and
/// returns that with the hooks, in microseconds.
///
/// The numbers of the objects begin with `first`, which is the next one afterwards.
async fn in_turns(server: &impl Loaded, first: &mut u64, compared: &Compared<'_>) -> f64 {
    let Compared {
        hooks,
        turns,
        creates,
        deletes,
        most,
        ..
    } = *compared;
    let client = server.target().client();
    let mut costs = [Vec::new(), Vec::new()];
    let start = Sample::take(server.pid());
    for turn in 0..=turns {
        for (number, costs) in costs.iter_mut().enumerate() {
            if number == 1 {
                install(&client, hooks).await;
            }
            let begun = meter::threads(server.pid());
            load::write(server, Verb::Create, CLIENTS, *first, Until::Count(creates)).await;
            let used = meter::threads(server.pid()) - begun;
            *first += creates;
            // The first turn initialises everything that is built on first use.
            if turn > 0 {
                costs.push(used * 1e6 / creates as f64);
            }
        }
        remove(&client, hooks).await;
        if deletes {
            let all = Call::delete(&load::collection());
            client.call(all).await.expect(200);
        }
    }
    let [without, with] = &mut costs;
    let more = with
        .iter()
        .zip(&*without)
        .map(|(with, without)| with - without);
    let mut more: Vec<f64> = more.collect();
    figure("CPU of a create without them", median(without), "µs", "");
    figure("CPU of a create with them", median(with), "µs", "");
    figure("added, median of the turns", median(&mut more), "µs", most);
    figure("added, least", more[0], "µs", "");
    figure("added, most", more[more.len() - 1], "µs", "");
    noise(start.until(&Sample::take(server.pid())).other_cores);
    median(with)
}

/// Prints the CPU of an expression that visits each item of a long list.
async fn long_list() {
    part(&format!("a policy with all() over {ITEMS} items"));
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    let client = daemon.client();
    let items: Vec<String> = (0..ITEMS).map(|number| format!("item-{number}")).collect();
    let revision =
        json!({ "metadata": { "name": "long" }, "revision": 1, "data": { "items": items } });
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions?dryRun=All");
    let cost = async || {
        let mut costs = Vec::with_capacity(TURNS);
        for _ in 0..=TURNS {
            let begun = meter::threads(daemon.pid());
            client.call(Call::post(&path, &revision)).await.expect(201);
            costs.push((meter::threads(daemon.pid()) - begun) * 1e3);
        }
        // The first create initialises everything that is built on first use.
        median(&mut costs[1..])
    };
    let without = cost().await;
    let expression = json!([{ "expression": "object.data.items.all(item, item != 'none')" }]);
    let constraints = json!({ "resourceRules": rules("apps", "controllerrevisions") });
    let spec = json!({ "matchConstraints": constraints, "validations": expression });
    let binding = json!({ "policyName": "long", "validationActions": ["Deny"] });
    let hooks = [
        (
            "validatingadmissionpolicies",
            named("long", json!({ "spec": spec })),
        ),
        (
            "validatingadmissionpolicybindings",
            named("long", json!({ "spec": binding })),
        ),
    ];
    install(&client, &hooks).await;
    let with = cost().await;
    figure("CPU of a create without it", without, "ms", "");
    figure("added by the policy", with - without, "ms", "<= 50");
}

/// Measures policies, hooks that match nothing, and a webhook of each sort.
pub async fn measure() {
    long_list().await;
    let in_namespace = json!({ "namespaceSelector": { "matchLabels": {
        "kubernetes.io/metadata.name": NAMESPACE,
    } } });
    let all = rules("", "configmaps");
    let policies: Vec<Hook> = (0..3)
        .flat_map(|number| policy(&format!("p{number}"), &all, json!({})))
        .collect();
    let what = "3 policies of 5 expressions";
    compared(&Compared {
        what,
        hooks: &policies,
        turns: TURNS,
        creates: CREATES,
        deletes: true,
        most: "<= 60",
    })
    .await;
    let what = "200 policies and 50 webhooks that match nothing";
    compared(&Compared {
        what,
        hooks: &unmatched(),
        turns: TURNS,
        creates: CREATES,
        deletes: true,
        most: "<= 5",
    })
    .await;
    let server = Allowing::start().await;
    let client = json!({ "url": server.url, "caBundle": server.ca_bundle });
    let mut peer = Peer::find().await;
    for (what, plural) in [
        ("a validating webhook", "validatingwebhookconfigurations"),
        ("a mutating webhook", "mutatingwebhookconfigurations"),
    ] {
        let hooks = [webhook(
            plural,
            "asked",
            &client,
            &all,
            in_namespace.clone(),
        )];
        let (turns, creates) = (ASKED_TURNS, ASKED);
        let through = Compared {
            what,
            hooks: &hooks,
            turns,
            creates,
            deletes: true,
            most: "<= 90",
        };
        let ours = compared(&through).await;
        if let Some(peer) = &mut peer {
            part(&format!("the same in kube-apiserver, with {what}"));
            let theirs = in_turns(
                &peer.server,
                &mut peer.created,
                &Compared {
                    creates: OF_PEER,
                    deletes: false,
                    most: "",
                    ..through
                },
            )
            .await;
            figure(
                "CPU of a create, ours over theirs",
                ours / theirs,
                "",
                "<= 0.2",
            );
        }
    }
}

/// A real kube-apiserver, where TAFFRAIL_KUBE_APISERVER names one.
struct Peer {
    server: KubeApiserver,
    created: u64,
    _store: Cluster,
}

impl Peer {
    async fn find() -> Option<Peer> {
        let program = programs::named("TAFFRAIL_KUBE_APISERVER")?;
        let store = Cluster::durable("3.5");
        let mut server = KubeApiserver::spawn(&program, &store);
        let client = server.target().client();
        let asked = async || client.attempt(Call::get("/readyz")).await;
        server
            .until(async || asked().await.is_ok_and(|answer| answer.status == 200))
            .await;
        load::namespace(&server).await;
        Some(Peer {
            server,
            created: 0,
            _store: store,
        })
    }
}
