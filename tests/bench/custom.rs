//! Measures custom resources: many definitions, a restart with them, the first object of a new one,
//! and the cost of objects compared with ConfigMaps of the same size.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use taffrail::api::cel::rules::{Checking, Rules};
use taffrail::api::structural::Budget;

use crate::harness::{Call, Client, Daemon, version};
use crate::load::{self, NAMESPACE, STREAMS};
use crate::meter::{self, Sample};
use crate::report::{Durations, figure, noise, part};

/// Names a folder with definitions of real projects in YAML. Otherwise they are generated.
const FOLDER: &str = "BENCH_DEFINITIONS";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GENERATED: usize = 338;
const RESTARTS: usize = 7;
/// The time until temporary memory is released.
const SETTLE: Duration = Duration::from_secs(12);
const PATIENCE: Duration = Duration::from_secs(120);

/// The fields of an object that its schema validates.
const FIELDS: usize = 40;
/// The number of objects of each kind whose cost is compared.
const COMPARED: usize = 12_000;
const LISTS: usize = 40;
const WATCHES: usize = 1_000;
const UPDATES: usize = 200;

/// Returns a schema whose objects have this many fields.
fn schema(fields: usize) -> Value {
    let field = |number: usize| match number % 4 {
        0 => json!({"type": "string", "minLength": 1, "maxLength": 100,
            "description": "d".repeat(200)}),
        1 => json!({"type": "integer", "minimum": 0, "maximum": 100_000}),
        2 => json!({"type": "string", "enum": ["one", "two", "a".repeat(60)]}),
        _ => json!({"type": "string", "pattern": "^[a-z]+$"}),
    };
    let fields = (0..fields).map(|number| (format!("field{number}"), field(number)));
    let fields: serde_json::Map<String, Value> = fields.collect();
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": fields}}})
}

fn definition(group: &str, plural: &str, kind: &str, schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]},
    })
}

/// Returns the bodies of many definitions, with their media type.
fn corpus() -> (&'static str, Vec<String>) {
    let Ok(folder) = std::env::var(FOLDER) else {
        let schema = schema(150);
        let all = (0..GENERATED).map(|number| {
            let (plural, kind) = (format!("kind{number}s"), format!("Kind{number}"));
            let group = format!("g{}.example.org", number / 10);
            definition(&group, &plural, &kind, &schema).to_string()
        });
        return ("application/json", all.collect());
    };
    let mut all = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let text = std::fs::read_to_string(path).unwrap();
            let documents = text.split("\n---");
            let documents = documents.map(|text| text.trim_start_matches("---").to_owned());
            let is_one = |text: &String| text.contains("kind: CustomResourceDefinition");
            all.extend(documents.filter(is_one));
        }
    }
    ("application/yaml", all)
}

/// Repeats a call until its answer is the wanted one.
async fn until(client: &Client, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let answer = client.attempt(Call::get(path)).await;
        if let Ok(answer) = answer
            && answer.status == 200
            && is(&answer.json())
        {
            return answer.json();
        }
        assert!(begun.elapsed() < PATIENCE, "{path} does not become so");
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}

/// Waits until the daemon is ready.
async fn until_ready(client: &Client) {
    let begun = Instant::now();
    loop {
        let answer = client.attempt(Call::get("/readyz")).await;
        if answer.is_ok_and(|answer| answer.status == 200) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the daemon is not ready");
        // More often, the requests would delay the start.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Creates a definition, and waits until it is established.
async fn establish(client: &Client, definition: &Value) {
    let created = client.call(Call::post(DEFINITIONS, definition)).await;
    let created = created.expect(201);
    let name = created["metadata"]["name"].as_str().unwrap();
    until(client, &format!("{DEFINITIONS}/{name}"), is_established).await;
}

fn thing(number: usize, stamp: &str) -> Value {
    let fields = (0..FIELDS).map(|field| {
        let value = match field % 4 {
            0 if field == 0 => json!(stamp),
            0 => json!("t".repeat(60)),
            1 => json!(number + field),
            2 => json!("a".repeat(60)),
            _ => json!("p".repeat(60)),
        };
        (format!("field{field}"), value)
    });
    let fields: serde_json::Map<String, Value> = fields.collect();
    json!({"apiVersion": "bench.example.com/v1", "kind": "Thing",
        "metadata": {"name": load::name(number as u64)}, "spec": fields})
}

/// Returns a ConfigMap with the texts of a custom object.
fn config_map(number: usize, stamp: &str) -> Value {
    let thing = thing(number, stamp);
    let fields = thing["spec"].as_object().unwrap().iter();
    let data = fields.map(|(name, value)| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        (name.clone(), json!(text))
    });
    let data: serde_json::Map<String, Value> = data.collect();
    json!({"metadata": {"name": load::name(number as u64)}, "data": data})
}

fn things() -> String {
    format!("/apis/bench.example.com/v1/namespaces/{NAMESPACE}/things")
}

pub async fn measure() {
    many().await;
    one().await;
    compared().await;
    rules();
    let objects = std::env::var("BENCH_OBJECTS").ok();
    changed(objects.map_or(100_000, |text| text.parse().expect("a number"))).await;
}

/// Many definitions, and restarts with them.
async fn many() {
    let (media_type, bodies) = corpus();
    part(&format!(
        "{} definitions, of which one is used",
        bodies.len()
    ));
    let mut daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    let client = daemon.client();
    let (begun, cpu) = (Instant::now(), meter::cpu(daemon.pid()));
    for body in &bodies {
        let create = Call::new("POST", DEFINITIONS).body(media_type, body.clone());
        client.call(create).await.expect(201);
    }
    let stored = begun.elapsed();
    let all = until(&client, DEFINITIONS, |list| {
        list["items"].as_array().unwrap().iter().all(is_established)
    })
    .await;
    figure("stored", stored.as_secs_f64(), "s", "");
    let later = (begun.elapsed() - stored).as_secs_f64();
    figure("established after that", later, "s", "");
    let mut paths = Vec::new();
    for item in all["items"].as_array().unwrap() {
        let spec = &item["spec"];
        for version in spec["versions"].as_array().unwrap() {
            if version["served"] == true {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                paths.push(format!(
                    "/apis/{}/{}/{}",
                    text(&spec["group"]),
                    text(&version["name"]),
                    text(&spec["names"]["plural"])
                ));
            }
        }
    }
    for path in &paths {
        client
            .call(Call::get(&format!("{path}?limit=500")))
            .await
            .expect(200);
    }
    let later = (begun.elapsed() - stored).as_secs_f64();
    figure("established and listable after that", later, "s", "<= 2.5");
    figure("CPU of the daemon", meter::cpu(daemon.pid()) - cpu, "s", "");
    tokio::time::sleep(SETTLE).await;
    figure("resident memory", daemon.resident(), "MiB", "<= 110");
    documents(&daemon).await;
    let used = definition("bench.example.com", "things", "Thing", &schema(FIELDS));
    establish(&client, &used).await;
    client
        .call(Call::post(&things(), &thing(0, "first")))
        .await
        .expect(201);
    let (mut ready, mut served, mut used) = (Durations::default(), Durations::default(), 0.0);
    for _ in 0..RESTARTS {
        daemon.kill().await;
        let begun = Instant::now();
        daemon.relaunch().await;
        let client = daemon.client();
        until_ready(&client).await;
        ready.add(begun.elapsed());
        let first = format!("{}/{}", things(), load::name(0));
        until(&client, &first, |_| true).await;
        served.add(begun.elapsed());
        used += meter::cpu(daemon.pid());
    }
    figure(
        "restart to /readyz 200, median",
        ready.percentile(0.5),
        "ms",
        "<= 150",
    );
    figure(
        "restart to the first custom object",
        served.percentile(0.5),
        "ms",
        "<= 150",
    );
    figure(
        "CPU of the daemon until then",
        used * 1e3 / RESTARTS as f64,
        "ms",
        "",
    );
    tokio::time::sleep(SETTLE).await;
    figure(
        "resident memory after a restart",
        daemon.resident(),
        "MiB",
        "<= 110",
    );
    let with = daemon.resident();
    drop(daemon);
    let daemon = Daemon::start().await;
    tokio::time::sleep(SETTLE).await;
    let each = (with - daemon.resident()) * 1024.0 / bodies.len() as f64;
    figure("of that, each unused definition", each, "KiB", "<= 100");
}

/// The OpenAPI documents of many definitions.
async fn documents(daemon: &Daemon) {
    let client = daemon.client();
    let get = |path: &str| Call::get(path).header("accept-encoding", "gzip");
    let cpu = meter::cpu(daemon.pid());
    let index = client.call(Call::get("/openapi/v3")).await.expect(200);
    for document in index["paths"].as_object().unwrap().values() {
        let path = document["serverRelativeURL"].as_str().unwrap();
        assert_eq!(client.call(get(path)).await.status, 200, "{path}");
    }
    let used = meter::cpu(daemon.pid()) - cpu;
    figure("CPU of all documents of OpenAPI v3", used, "s", "<= 3");
    let begun = Instant::now();
    assert_eq!(client.call(get("/openapi/v2")).await.status, 200);
    let time = begun.elapsed().as_secs_f64();
    figure("the document of OpenAPI v2", time, "s", "<= 1.5");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let memory = daemon.resident();
    figure("resident memory a minute later", memory, "MiB", "<= 130");
}

/// One definition after the other.
async fn one() {
    part("a new definition, few others");
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    let client = daemon.client();
    let (mut established, mut first) = (Durations::default(), Durations::default());
    for number in 0..30 {
        let (plural, kind) = (format!("new{number}s"), format!("New{number}"));
        let definition = definition("bench.example.com", &plural, &kind, &schema(FIELDS));
        let begun = Instant::now();
        establish(&client, &definition).await;
        established.add(begun.elapsed());
        let mut object = thing(0, "first");
        object["kind"] = json!(kind);
        let path = things().replace("things", &plural);
        client.call(Call::post(&path, &object)).await.expect(201);
        first.add(begun.elapsed());
    }
    figure(
        "POST to Established, median",
        established.percentile(0.5),
        "ms",
        "<= 10",
    );
    figure(
        "POST to the first object, median",
        first.percentile(0.5),
        "ms",
        "<= 20",
    );
}

/// The cost of objects of one kind.
struct Cost {
    create: f64,
    list: f64,
    gzip: f64,
    delivery: f64,
    memory: f64,
}

/// Measures objects of one kind, in a daemon of its own.
async fn cost_of(path: &str, object: fn(usize, &str) -> Value) -> Cost {
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    let client = daemon.client();
    let definition = definition("bench.example.com", "things", "Thing", &schema(FIELDS));
    establish(&client, &definition).await;
    client.call(Call::get(path)).await.expect(200);
    tokio::time::sleep(SETTLE).await;
    let empty = daemon.resident();
    let create = |number: usize| Call::post(path, &object(number, "first"));
    let micros = async |count: usize, work: &dyn Fn(usize) -> Call| {
        let before = Sample::take(daemon.pid());
        for number in 0..count {
            let answer = client.call(work(number)).await;
            assert!(answer.status.is_success(), "{}", answer.text());
        }
        let used = before.until(&Sample::take(daemon.pid()));
        noise(used.other_cores);
        used.daemon * 1e6 / count as f64
    };
    let create = micros(COMPARED, &create).await;
    let list = client.call(Call::get(path)).await.expect(200);
    let json: usize = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item.to_string().len())
        .sum();
    tokio::time::sleep(SETTLE).await;
    let memory = (daemon.resident() - empty) * 1024.0 * 1024.0 / json as f64;
    let lists = micros(LISTS, &|_| Call::get(path)).await;
    let gzip = |_| Call::get(path).header("accept-encoding", "gzip");
    let gzip = micros(LISTS, &gzip).await;
    let from = version(&list);
    // An update of a custom object must name its version.
    let items = list["items"].as_array().unwrap().iter();
    let versions: HashMap<String, Value> = items
        .map(|item| {
            let metadata = &item["metadata"];
            let name = metadata["name"].as_str().unwrap().to_owned();
            (name, metadata["resourceVersion"].clone())
        })
        .collect();
    let clients: Vec<Client> = (0..WATCHES / STREAMS).map(|_| daemon.client()).collect();
    let watching = (0..WATCHES).map(|number| {
        let client = &clients[number % clients.len()];
        let path = format!("{path}?watch=true&resourceVersion={from}");
        async move { client.watch(&path).await }
    });
    let watches = join_all(watching).await;
    let reading = watches.into_iter().map(|mut watch| {
        tokio::spawn(async move {
            for _ in 0..UPDATES {
                watch.event().await;
            }
        })
    });
    let reading: Vec<_> = reading.collect();
    let before = Sample::take(daemon.pid());
    for number in 0..UPDATES {
        let name = load::name(number as u64);
        let mut update = object(number, "second");
        update["metadata"]["resourceVersion"] = versions[&name].clone();
        client
            .call(Call::put(&format!("{path}/{name}"), &update))
            .await
            .expect(200);
    }
    for read in reading {
        read.await.unwrap();
    }
    let used = before.until(&Sample::take(daemon.pid()));
    let delivery = used.daemon * 1e6 / (UPDATES * WATCHES) as f64;
    Cost {
        create,
        list: lists / COMPARED as f64,
        gzip: gzip / COMPARED as f64,
        delivery,
        memory,
    }
}

async fn compared() {
    part(&format!(
        "objects of 2 KiB with {FIELDS} validated fields, and ConfigMaps"
    ));
    let maps = cost_of(&load::collection(), config_map).await;
    let things = cost_of(&things(), thing).await;
    let ratio = |name: &str, one: f64, other: f64, wanted: &str| {
        figure(&format!("{name}, ConfigMap"), other, "µs", "");
        figure(&format!("{name}, custom object"), one, "µs", "");
        figure("ratio", one / other, "", wanted);
    };
    ratio("CPU of a create", things.create, maps.create, "<= 1.3");
    ratio(
        "CPU of an object in a list",
        things.list,
        maps.list,
        "<= 1.1",
    );
    ratio("the same with gzip", things.gzip, maps.gzip, "<= 1.1");
    ratio(
        "CPU of a delivery",
        things.delivery,
        maps.delivery,
        "<= 1.1",
    );
    figure("memory / JSON, ConfigMaps", maps.memory, "", "");
    figure("memory / JSON, custom objects", things.memory, "", "<= 1.4");
}

/// Ten rules in CEL on an object, alone.
fn rules() {
    part("ten rules in CEL on an object");
    let mut schema = schema(FIELDS);
    let rules = (0..10).map(|number| {
        let (text, amount) = (number * 4, number * 4 + 1);
        let rule = format!(
            "self.field{text}.size() < 100 && self.field{amount} >= 0 && \
             self.field{text}.startsWith('t')"
        );
        json!({ "rule": rule, "message": "no" })
    });
    schema["properties"]["spec"]["x-kubernetes-validations"] = rules.collect();
    let rules = Rules::of(&schema, true, &Budget::of(&schema)).expect("it has rules");
    let object = thing(0, "text");
    let begun = Instant::now();
    const TIMES: u32 = 20_000;
    for _ in 0..TIMES {
        let verdict = rules.check(&object, Checking::create());
        assert!(verdict.errors.is_empty(), "{:?}", verdict.errors);
    }
    let each = begun.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES);
    figure("time", each, "µs", "<= 30");
}

/// The schema of many objects changes, and then they are deleted with their definition.
async fn changed(objects: usize) {
    part(&format!(
        "{objects} objects whose schema changes, and that go with their definition"
    ));
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    let client = daemon.client();
    let used = definition("bench.example.com", "things", "Thing", &schema(FIELDS));
    establish(&client, &used).await;
    let creating = (0..64).map(|first| {
        let client = daemon.client();
        tokio::spawn(async move {
            for number in (first..objects).step_by(64) {
                let object = json!({"apiVersion": "bench.example.com/v1", "kind": "Thing",
                    "metadata": {"name": load::name(number as u64)}, "spec": {"field0": "t"}});
                client
                    .call(Call::post(&things(), &object))
                    .await
                    .expect(201);
            }
        })
    });
    for created in join_all(creating).await {
        created.unwrap();
    }
    let mut other = schema(FIELDS);
    other["properties"]["spec"]["properties"]["shade"] =
        json!({"type": "string", "default": "round"});
    let path = format!("{DEFINITIONS}/things.bench.example.com");
    let versions = json!([{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": other}}]);
    let change = json!({"spec": {"versions": versions}});
    let begun = Instant::now();
    client
        .call(Call::merge_patch(&path, &change))
        .await
        .expect(200);
    let (mut reads, mut slowest) = (0, Duration::ZERO);
    let page = format!("{}?limit=200&resourceVersion=", things());
    loop {
        let asked = Instant::now();
        let list = client.call(Call::get(&page)).await.expect(200);
        slowest = slowest.max(asked.elapsed());
        reads += 1;
        let items = list["items"].as_array().unwrap();
        let new = items
            .iter()
            .filter(|item| item["spec"]["shade"] == "round")
            .count();
        assert!(
            [0, items.len()].contains(&new),
            "a mixture of {new} new objects"
        );
        if new > 0 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "the change has no effect");
    }
    figure(
        "until all objects follow the new schema",
        begun.elapsed().as_secs_f64(),
        "s",
        "<= 3",
    );
    figure("reads meanwhile", f64::from(reads), "", "");
    figure("the slowest of them", slowest.as_secs_f64() * 1e3, "ms", "");
    let begun = Instant::now();
    client.call(Call::delete(&path)).await.expect(200);
    loop {
        let answer = client.call(Call::get(&path)).await;
        if answer.status == 404 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{}", answer.text());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    figure(
        "deleted with the definition",
        begun.elapsed().as_secs_f64(),
        "s",
        "<= 10",
    );
}
