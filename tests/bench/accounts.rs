//! Measures requests of ordinary users beside those of the admin: service accounts that get 20
//! rules from roles (API-288), each with a token of its own.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::daemons;
use crate::harness::client::Lines;
use crate::harness::{Call, Client, Daemon, Target};
use crate::load::{self, NAMESPACE};
use crate::meter::{self, Sample};
use crate::report::{figure, noise, part};

/// The rules of the role of all accounts. The last one allows what they do.
const RULES: usize = 20;
/// The reads of one turn, the number of turns of each user, and the reads at a time.
const READS: usize = 10_000;
const TURNS: usize = 9;
const AT_A_TIME: usize = 50;
/// The watches of one connection, the connections that open watches at a time, and the turns.
const STREAMS: usize = 100;
const OPENING: usize = 4;
const WATCH_TURNS: usize = 5;

const GROUP: &str = "rbac.authorization.k8s.io";

fn path(plural: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{plural}")
}

async fn create(client: &Client, path: &str, object: &Value) -> Value {
    client.call(Call::post(path, object)).await.expect(201)
}

/// Creates service accounts with the rights to read and watch ConfigMaps, and returns their tokens.
async fn accounts(admin: &Client, count: usize) -> Vec<String> {
    let rbac = format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}");
    let verbs = ["get", "list", "watch"];
    let rule = |number: usize| match number + 1 == RULES {
        true => json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": verbs }),
        false => {
            let resource = format!("resources{number}");
            json!({ "apiGroups": ["example.com"], "resources": [resource], "verbs": verbs })
        }
    };
    let rules: Vec<Value> = (0..RULES).map(rule).collect();
    let role = json!({ "metadata": { "name": "reader" }, "rules": rules });
    create(admin, &format!("{rbac}/roles"), &role).await;
    let making = (0..count).map(async |number| {
        let name = format!("reader-{number}");
        let account = json!({ "metadata": { "name": name } });
        create(admin, &path("serviceaccounts"), &account).await;
        let binding = json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": GROUP, "kind": "Role", "name": "reader" },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }],
        });
        create(admin, &format!("{rbac}/rolebindings"), &binding).await;
        let token = format!("{}/{name}/token", path("serviceaccounts"));
        let token = create(admin, &token, &json!({})).await["status"]["token"].clone();
        token.as_str().unwrap().to_owned()
    });
    join_all(making).await
}

/// Reads one ConfigMap again and again over one connection. Returns the CPU of the daemon for one
/// read, in microseconds.
async fn read(daemon: &Daemon, client: &Client, path: &str) -> f64 {
    client.call(Call::get(path)).await.expect(200);
    let begun = meter::threads(daemon.pid());
    for _ in 0..READS / AT_A_TIME {
        let reads = (0..AT_A_TIME).map(|_| client.call(Call::get(path)));
        for answer in join_all(reads).await {
            assert_eq!(answer.status, 200);
        }
    }
    (meter::threads(daemon.pid()) - begun) * 1e6 / READS as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints the figures of the admin and of accounts, and their ratio.
fn compared(what: &str, unit: &str, [admin, account]: &mut [Vec<f64>; 2], most: &str) {
    let mut ratios: Vec<f64> = admin
        .iter()
        .zip(&*account)
        .map(|(one, two)| two / one)
        .collect();
    figure(&format!("{what}, admin"), median(admin), unit, "");
    figure(&format!("{what}, accounts"), median(account), unit, "");
    figure(
        "accounts / admin, median of the turns",
        median(&mut ratios),
        "",
        most,
    );
    let (least, largest) = (ratios[0], ratios[ratios.len() - 1]);
    figure("accounts / admin, least", least, "", "");
    figure("accounts / admin, most", largest, "", "");
}

async fn reads(daemon: &Daemon, token: &str) {
    part(&format!(
        "reads of one ConfigMap of 1 KiB by the admin and by an account of {RULES} rules, in turns"
    ));
    let admin = daemon.client();
    create(&admin, &load::collection(), &load::object(0, "0")).await;
    let list = admin.call(Call::get(&load::collection())).await.expect(200);
    let name = list["items"][0]["metadata"]["name"].as_str().unwrap();
    let path = format!("{}/{name}", load::collection());
    let clients = [daemon.target(), daemon.target().with_token(token)];
    let clients = clients.map(|target| target.client());
    let mut costs = [Vec::new(), Vec::new()];
    let start = Sample::take(daemon.pid());
    for _ in 0..TURNS {
        for (client, costs) in clients.iter().zip(&mut costs) {
            costs.push(read(daemon, client, &path).await);
        }
    }
    compared("CPU of a read", "µs", &mut costs, "<= 1.05");
    noise(start.until(&Sample::take(daemon.pid())).other_cores);
}

/// Opens watches of this many connections, each of one of these users.
async fn opened(targets: &[Target], connections: usize) -> Vec<(Arc<Client>, Vec<Lines>)> {
    let path = format!(
        "{}?watch=true&timeoutSeconds=3600&resourceVersion=",
        load::collection()
    );
    let mut all = Vec::with_capacity(connections);
    while all.len() < connections {
        let more = OPENING.min(connections - all.len());
        let opening = (all.len()..all.len() + more).map(async |number| {
            let client = Arc::new(targets[number % targets.len()].client());
            let list = Call::get(&format!("{}?limit=1", load::collection()));
            let list = client.call(list).await.expect(200);
            let path = format!(
                "{path}{}",
                list["metadata"]["resourceVersion"].as_str().unwrap()
            );
            let watches = join_all((0..STREAMS).map(|_| client.watch(&path))).await;
            (client, watches)
        });
        all.extend(join_all(opening).await);
    }
    all
}

async fn watches(daemon: &Daemon, tokens: &[String], watches: usize) {
    part(&format!(
        "{watches} watches over HTTP/2 opened by the admin and by {} accounts, in turns",
        tokens.len()
    ));
    let connections = watches / STREAMS;
    let accounts: Vec<Target> = tokens
        .iter()
        .map(|token| daemon.target().with_token(token))
        .collect();
    let (mut costs, mut times) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let start = Sample::take(daemon.pid());
    for _ in 0..WATCH_TURNS {
        for (number, targets) in [&[daemon.target()][..], &accounts].into_iter().enumerate() {
            let (begun, cpu) = (Instant::now(), meter::threads(daemon.pid()));
            let open = opened(targets, connections).await;
            costs[number].push(meter::threads(daemon.pid()) - cpu);
            times[number].push(begun.elapsed().as_secs_f64());
            drop(open);
            let open = "apiserver_longrunning_requests";
            while daemon.count(open).await > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
    compared("CPU until all are open", "s", &mut costs, "<= 1.1");
    compared("time until all are open", "s", &mut times, "<= 1.1");
    noise(start.until(&Sample::take(daemon.pid())).other_cores);
}

/// Measures reads, and then this many watches.
pub async fn measure(count: usize) {
    let daemon = daemons::daemon().await;
    load::namespace(&daemon).await;
    let tokens = accounts(&daemon.client(), count / STREAMS).await;
    reads(&daemon, &tokens[0]).await;
    watches(&daemon, &tokens, count).await;
}
