//! Bad answers of conversion webhooks (HK-77 to HK-83), and what goes on while conversions fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::until_served;
use crate::harness::hostile_server::{Act, Asked, HostileServer, http};
use crate::harness::{Call, Client, Daemon};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const STORED: &str = "/apis/example.com/v1/namespaces/default/lamps";
const SHOWN: &str = "/apis/example.com/v2/namespaces/default/lamps";

/// A definition whose versions a webhook converts, with any content.
fn definition(server: &HostileServer) -> Value {
    let schema = json!({"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, is_storage: bool| {
        json!({"name": name, "served": true, "storage": is_storage, "schema": schema,
            "subresources": {"status": {}}})
    };
    json!({
        "metadata": {"name": "lamps.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": server.client_config("/convert")}}},
    })
}

async fn define(client: &Client, server: &HostileServer) {
    client
        .call(Call::post(DEFINITIONS, &definition(server)))
        .await
        .expect(201);
    until_served(client, STORED).await;
}

async fn light(client: &Client, name: &str, spec: Value) {
    let lamp = json!({"apiVersion": "example.com/v1", "kind": "Lamp",
        "metadata": {"name": name, "labels": {"l": "1"}}, "spec": spec});
    client.call(Call::post(STORED, &lamp)).await.expect(201);
}

/// The objects of a review in the version that it wants.
fn converted(asked: &Asked) -> Vec<Value> {
    let request = &asked.review["request"];
    let objects = request["objects"].as_array().unwrap().iter();
    let objects = objects.map(|object| {
        let mut object = object.clone();
        object["apiVersion"] = request["desiredAPIVersion"].clone();
        object
    });
    objects.collect()
}

fn answered(asked: &Asked, response: &Value) -> Value {
    let mut whole = json!({"uid": asked.uid(), "result": {"status": "Success"}});
    let members = whole.as_object_mut().unwrap();
    members.extend(response.as_object().unwrap().clone());
    json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": whole})
}

fn converts(asked: &Asked, objects: &[Value]) -> Act {
    let answer = answered(asked, &json!({"convertedObjects": objects}));
    http(200, "", answer.to_string())
}

type Respond = Box<dyn Fn(&Asked) -> Act + Send + Sync>;

/// A bad answer, and a part of the message that it causes.
struct Case {
    name: &'static str,
    text: &'static str,
    respond: Respond,
}

fn case(
    name: &'static str,
    text: &'static str,
    respond: impl Fn(&Asked) -> Act + Send + Sync + 'static,
) -> Case {
    let respond = Box::new(respond);
    Case {
        name,
        text,
        respond,
    }
}

/// The first object with a changed member.
fn with(pointer: &'static str, value: Value) -> impl Fn(&Asked) -> Act + Send + Sync {
    move |asked| {
        let mut objects = converted(asked);
        let (above, last) = pointer.rsplit_once('/').unwrap();
        let at = objects[0].pointer_mut(above).unwrap();
        at[last] = value.clone();
        converts(asked, &objects)
    }
}

fn of_objects() -> Vec<Case> {
    vec![
        case("fewer", "returned 0 objects, expected", |asked| {
            converts(asked, &[])
        }),
        case("more", "objects, expected", |asked| {
            let mut objects = converted(asked);
            objects.push(objects[0].clone());
            converts(asked, &objects)
        }),
        case("many more", "objects, expected", |asked| {
            converts(asked, &vec![json!({}); 1_000_000])
        }),
        case("null", "", |asked| converts(asked, &[Value::Null])),
        case("a number", "json: cannot unmarshal number", |asked| {
            converts(asked, &[json!(1)])
        }),
        case(
            "another kind",
            "invalid kind (expected Lamp, received Pod)",
            with("/kind", json!("Pod")),
        ),
        case(
            "no kind",
            "invalid kind (expected Lamp, received )",
            with("/kind", Value::Null),
        ),
        case(
            "a long kind",
            "invalid kind",
            with("/kind", json!("K".repeat(1 << 20))),
        ),
        case(
            "another version",
            "invalid groupVersion",
            with("/apiVersion", json!("example.com/v3")),
        ),
        case(
            "another name",
            "must have the same name: a != z",
            with("/metadata/name", json!("z")),
        ),
        case(
            "another namespace",
            "must have the same namespace",
            with("/metadata/namespace", json!("kube-system")),
        ),
        case(
            "another uid of the object",
            "must have the same UID",
            with("/metadata/uid", json!("mine")),
        ),
        case(
            "no metadata",
            "must have the same name",
            with("/metadata", Value::Null),
        ),
        case(
            "a text for metadata",
            "must have the same name",
            with("/metadata", json!("m")),
        ),
        case(
            "labels of numbers",
            "must be a string, but is int64",
            with("/metadata/labels", json!({"a": 1})),
        ),
        case(
            "a list of labels",
            "invalid metadata.labels of type []interface {}",
            with("/metadata/labels", json!(["a"])),
        ),
        case(
            "bad labels",
            "metadata.labels: Invalid value",
            with("/metadata/labels", {
                let labels = (0..20_000).map(|number| (format!("a b {number}"), json!("c d")));
                Value::Object(labels.collect())
            }),
        ),
        case(
            "bad annotations",
            "metadata.annotation",
            with("/metadata/annotations", json!({"a b": "c"})),
        ),
    ]
}

fn of_answers() -> Vec<Case> {
    let failure = |message: String| {
        move |asked: &Asked| {
            let result = json!({"result": {"status": "Failure", "message": message}});
            http(200, "", answered(asked, &result).to_string())
        }
    };
    let with = |response: Value| {
        move |asked: &Asked| {
            let mut review = answered(asked, &response);
            review["response"]["convertedObjects"] = json!(converted(asked));
            http(200, "", review.to_string())
        }
    };
    vec![
        case("closed", ": EOF", |_| Act::Close(Vec::new())),
        case("reset", "connection reset by peer", |_| {
            Act::Reset(Vec::new())
        }),
        case("500", "an error on the server", |asked| {
            http(500, "", asked.uid())
        }),
        case("a loop", "stopped after 10 redirects", |_| {
            http(307, "location: /x\r\n", "")
        }),
        case("17 MiB", "too large", |_| {
            http(200, "", vec![b' '; 17 << 20])
        }),
        case("garbage", "couldn't get version/kind", |_| {
            http(200, "", "%%")
        }),
        case("a million brackets", "couldn't get version/kind", |_| {
            http(200, "", vec![b'['; 1 << 20])
        }),
        case("tiny lists", "", |_| {
            http(
                200,
                "",
                format!(
                    "{{\"response\":{{\"convertedObjects\":[{}0]}}}}",
                    "[],".repeat(5_000_000)
                ),
            )
        }),
        case("no response", "no response provided", |asked| {
            let mut review = answered(asked, &json!({}));
            review["response"] = Value::Null;
            http(200, "", review.to_string())
        }),
        case(
            "another uid",
            "expected response.uid=",
            with(json!({"uid": "y".repeat(1 << 20)})),
        ),
        case("another review", "expected webhook response of", |asked| {
            let mut review = answered(asked, &json!({}));
            review.as_object_mut().unwrap().remove("apiVersion");
            http(200, "", review.to_string())
        }),
        case(
            "no result",
            "response.result.status was ''",
            with(json!({"result": {}})),
        ),
        case(
            "another result",
            "response.result.status was 'Maybe'",
            with(json!({"result": {"status": "Maybe"}})),
        ),
        case(
            "a long failure",
            "failed: xxxx",
            failure("x".repeat(8 << 20)),
        ),
    ]
}

/// HK-77, HK-78: each bad answer fails reads and lists of its version with a text, is counted, and
/// takes bounded memory and few lines in the log. The stored version goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_answers_of_conversion_webhooks_fail_their_version_hk_78() {
    let mut all = of_objects();
    all.extend(of_answers());
    let all = Arc::new(all);
    let place = Arc::new(std::sync::Mutex::new(None));
    let (served, at) = (Arc::clone(&all), Arc::clone(&place));
    let server = HostileServer::start(move |asked| match *at.lock().unwrap() {
        Some(place) => {
            let case: &Case = &served[place];
            (case.respond)(asked)
        }
        None => converts(asked, &converted(asked)),
    });
    let server = server.await;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    define(&client, &server).await;
    light(&client, "a", json!({"n": 0})).await;
    client.call(Call::get(SHOWN)).await.expect(200);
    let rest = daemon.peak();
    let mut faults = Vec::new();
    for (number, case) in all.iter().enumerate() {
        *place.lock().unwrap() = Some(number);
        for path in [
            SHOWN.to_owned(),
            format!("{SHOWN}/a"),
            format!("{SHOWN}?limit=1"),
        ] {
            let answer = client.call(Call::get(&path)).await;
            let (code, text) = (answer.status.as_u16(), answer.text());
            let message = answer.json()["message"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let begin = "conversion webhook for example.com/v1, Kind=Lamp ";
            let is_right = code == 500 && message.starts_with(begin);
            if !is_right || !message.contains(case.text) || text.len() > 100_000 {
                faults.push(format!(
                    "{} {path}: {code} {} {message:.300}",
                    case.name,
                    text.len()
                ));
            }
        }
        let patch = json!({"spec": {"n": number + 1}});
        let path = format!("{STORED}/a");
        let patched = client
            .call(Call::merge_patch(&path, &patch))
            .await
            .expect(200);
        assert_eq!(patched["spec"]["n"], number + 1);
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(daemon.peak() - rest < 256.0, "{} MiB", daemon.peak() - rest);
    let counted = daemon
        .count("apiserver_conversion_webhook_request_total")
        .await;
    assert_eq!(counted, 3 * all.len() as u64 + 1);
    let log = daemon.stderr();
    let lines = log
        .lines()
        .filter(|line| line.contains("a conversion by a webhook failed"));
    let lines: Vec<usize> = lines.map(str::len).collect();
    assert_eq!(lines.len(), 4, "one for each sort of failure");
    assert!(lines.iter().all(|length| *length < 4_096), "{lines:?}");
    *place.lock().unwrap() = None;
    client.call(Call::get(SHOWN)).await.expect(200);
}

/// HK-81: lists are converted in batches that answers have room for, and a page with a continue
/// token is whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_large_objects_are_converted_in_batches_hk_81() {
    let server = HostileServer::start(|asked| converts(asked, &converted(asked)));
    let server = server.await;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    define(&client, &server).await;
    for number in 0..24 {
        light(
            &client,
            &format!("big-{number:02}"),
            json!({"text": "x".repeat(1 << 20)}),
        )
        .await;
    }
    let rest = daemon.peak();
    let list = client.call(Call::get(SHOWN)).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 24);
    assert!(daemon.peak() - rest < 256.0, "{} MiB", daemon.peak() - rest);
    let page = client
        .call(Call::get(&format!("{SHOWN}?limit=10")))
        .await
        .expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = format!("{SHOWN}?limit=100&continue={token}");
    let page = client.call(Call::get(&rest)).await.expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 14);
    client.call(Call::delete(STORED)).await.expect(200);
}

/// HK-78: an answer with more levels than small stacks have room for is an answer like others, to
/// reads, lists and watches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_as_deep_as_go_reads_them_are_converted_hk_78() {
    let levels = Arc::new(std::sync::Mutex::new(1_usize));
    let at = Arc::clone(&levels);
    let server = HostileServer::start(move |asked| {
        let levels = *at.lock().unwrap();
        let mut objects = converted(asked);
        for object in &mut objects {
            object["spec"] = json!({"deep": "HERE"});
        }
        let text = answered(asked, &json!({"convertedObjects": objects})).to_string();
        let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        http(200, "", text.replace("\"HERE\"", &deep))
    });
    let server = server.await;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    define(&client, &server).await;
    light(&client, "a", json!({})).await;
    let list = client.call(Call::get(STORED)).await.expect(200);
    let revision = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    for (depth, code) in [(100, 200), (300, 200), (9_000, 200), (10_001, 500)] {
        *levels.lock().unwrap() = depth;
        for path in [SHOWN.to_owned(), format!("{SHOWN}/a")] {
            let answer = client.call(Call::get(&path)).await;
            let text = answer.text();
            assert_eq!(answer.status, code, "{depth} {path}: {text:.300}");
            let deep = "[".repeat(depth);
            assert_eq!(
                text.contains(&deep),
                code == 200,
                "{depth} {path}: {text:.300}"
            );
        }
    }
    *levels.lock().unwrap() = 300;
    let watch = format!("{SHOWN}?watch=true&resourceVersion={revision}");
    let mut watch = client.watch(&watch).await;
    light(&client, "b", json!({})).await;
    let event = watch.next().await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&event);
    assert!(
        text.contains("ADDED") && text.contains(&"[".repeat(300)),
        "{text:.300}"
    );
}

/// HK-82: while conversions hang, the stored version, namespaces, the collector, starts and stops
/// go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversions_that_hang_hold_only_their_version_hk_82() {
    let hangs = Arc::new(AtomicBool::new(false));
    let is_hung = Arc::clone(&hangs);
    let server = HostileServer::start(move |asked| match is_hung.load(Ordering::Relaxed) {
        true => Act::Silence,
        false => converts(asked, &converted(asked)),
    });
    let server = server.await;
    let mut daemon = Daemon::with(&["--shutdown-timeout=2s"]).await;
    let client = daemon.client();
    define(&client, &server).await;
    light(&client, "a", json!({})).await;
    let room = json!({"metadata": {"name": "room"}});
    client
        .call(Call::post("/api/v1/namespaces", &room))
        .await
        .expect(201);
    let there = STORED.replace("default", "room");
    let lamp = json!({"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "a"}});
    client.call(Call::post(&there, &lamp)).await.expect(201);
    let list = client.call(Call::get(STORED)).await.expect(200);
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{SHOWN}?watch=true&resourceVersion={revision}");
    let watches = [client.watch(&path).await, client.watch(&path).await];
    hangs.store(true, Ordering::Relaxed);
    let before = server.asked().len();
    let one = format!("{SHOWN}/a");
    let patch = json!({"spec": {"a": 1}});
    let applied =
        json!({"apiVersion": "example.com/v2", "kind": "Lamp", "metadata": {"name": "a"}});
    let apply = Call::new("PATCH", &format!("{one}?fieldManager=m"));
    let hanging: Vec<_> = [
        Call::get(&one),
        Call::get(SHOWN),
        Call::merge_patch(&one, &patch),
        Call::merge_patch(&format!("{one}/status"), &json!({"status": {"a": 1}})),
        apply.body("application/apply-patch+yaml", applied.to_string()),
        Call::delete(&one),
    ]
    .into_iter()
    .map(|call| {
        let client = daemon.client();
        tokio::spawn(async move {
            let _ = client.attempt(call).await;
        })
    })
    .collect();
    server.until_asked(before + hanging.len()).await;
    // All of it concerns the object on which others wait.
    let stored = format!("{STORED}/a");
    for number in 0..20 {
        let patch = json!({"spec": {"n": number}});
        client
            .call(Call::merge_patch(&stored, &patch))
            .await
            .expect(200);
    }
    client
        .call(Call::delete("/api/v1/namespaces/room"))
        .await
        .expect(200);
    for _ in 0..6_000 {
        if client
            .call(Call::get("/api/v1/namespaces/room"))
            .await
            .status
            == 404
        {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    client
        .call(Call::get("/api/v1/namespaces/room"))
        .await
        .refusal(404, "NotFound");
    assert_eq!(client.call(Call::get("/readyz")).await.status, 200);
    daemon.stop(rustix::process::Signal::TERM).await;
    drop((watches, hanging));
    daemon.restart().await;
    let client = daemon.client();
    assert_eq!(client.call(Call::get("/readyz")).await.status, 200);
    let object = client.call(Call::get(&stored)).await.expect(200);
    assert_eq!(object["spec"]["n"], 19);
    client.call(Call::delete(&stored)).await.expect(200);
}
