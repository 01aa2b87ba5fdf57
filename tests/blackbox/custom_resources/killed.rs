//! The daemon is killed at each step of a definition's life, and the loops go on where it stopped
//! (crd.md 3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{
    DEFINITIONS, LAMPS, condition, conditioned, definition, establish, gone, has, lamp, lamps,
    one_etcd, over_each_killed, path_of, schema, stored, until, version,
};
use crate::harness::{Answer, Call, Client, Daemon, Lines};

/// The number of objects that are deleted with a definition.
const OBJECTS: usize = 12;

/// A watch of one definition, and the version that it has seen.
struct Followed {
    watch: Lines,
    version: String,
    /// The states of the conditions that it has seen: `Established=True`.
    conditions: Vec<Vec<String>>,
}

impl Followed {
    async fn begin(client: &Client, definition: &Value, from: &str) -> Followed {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let path = format!(
            "{DEFINITIONS}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={from}"
        );
        Followed {
            watch: client.watch(&path).await,
            version: from.to_owned(),
            conditions: Vec::new(),
        }
    }

    /// Reads the next event. Returns its type and the definition.
    async fn next(&mut self) -> (String, Value) {
        let mut event = self.watch.event().await;
        let object = event["object"].take();
        let version = &object["metadata"]["resourceVersion"];
        self.version = version.as_str().unwrap().to_owned();
        let conditions = object["status"]["conditions"].as_array();
        let words = conditions.into_iter().flatten().map(|condition| {
            let text = |name: &str| condition[name].as_str().unwrap();
            format!("{}={}", text("type"), text("status"))
        });
        self.conditions.push(words.collect());
        (event["type"].as_str().unwrap().to_owned(), object)
    }

    /// Follows the definition further over a daemon that was started again.
    async fn resume(&mut self, client: &Client, definition: &Value) {
        let resumed = Followed::begin(client, definition, &self.version).await;
        self.watch = resumed.watch;
    }

    /// Returns whether the names stayed accepted, and the definition established.
    fn only_grows(&self) -> bool {
        self.conditions.windows(2).all(|pair| {
            let held = ["NamesAccepted=True", "Established=True"].map(str::to_owned);
            let held = held.iter().filter(|words| pair[0].contains(words));
            held.into_iter().all(|words| pair[1].contains(words))
        })
    }
}

/// The version of the newest definition or of the collection.
async fn newest(client: &Client) -> String {
    let list = client.call(Call::get(DEFINITIONS)).await.expect(200);
    list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn kill_and_start(daemon: &mut Daemon) -> Client {
    daemon.kill().await;
    daemon.restart().await;
    daemon.client()
}

/// Sends a request whose answer may be cut off.
fn send(daemon: &Daemon, call: Call) -> tokio::task::JoinHandle<()> {
    let client = daemon.client();
    tokio::spawn(async move {
        let _ = client.attempt(call).await;
    })
}

async fn fill(client: &Client, finalizers: &Value) {
    for at in 0..OBJECTS {
        let mut lamp = lamp(&format!("l{at}"), json!({"colour": "red"}));
        if at == 0 {
            lamp["metadata"]["finalizers"] = finalizers.clone();
        }
        client.call(Call::post(LAMPS, &lamp)).await.expect(201);
    }
}

/// Checks that a definition made again begins without objects (CRD-72).
async fn begins_empty(client: &Client) {
    establish(client, &lamps()).await;
    let list = client.call(Call::get(LAMPS)).await.expect(200);
    assert_eq!(list["items"], json!([]));
    client
        .call(Call::delete(&path_of(&lamps())))
        .await
        .expect(200);
    gone(client, &path_of(&lamps())).await;
}

/// CRD-60: after each of the writes that establish a definition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_is_established_whenever_the_daemon_is_killed_crd_60() {
    over_each_killed(async |daemon: &mut Daemon| {
        let mut client = daemon.client();
        for seen in 1..=3 {
            let mut followed = Followed::begin(&client, &lamps(), &newest(&client).await).await;
            let sending = send(daemon, Call::post(DEFINITIONS, &lamps()));
            for _ in 0..seen {
                followed.next().await;
            }
            client = kill_and_start(daemon).await;
            sending.await.unwrap();
            let path = path_of(&lamps());
            let established = conditioned(&client, &path, "Established", "True").await;
            assert!(has(&established, "NamesAccepted", "True"));
            followed.resume(&client, &lamps()).await;
            while followed.version != established["metadata"]["resourceVersion"] {
                followed.next().await;
            }
            assert!(followed.only_grows(), "{:?}", followed.conditions);
            let made = lamp("a", json!({"colour": "red"}));
            client.call(Call::post(LAMPS, &made)).await.expect(201);
            client.call(Call::delete(&path)).await.expect(200);
            gone(&client, &path).await;
        }
    })
    .await;
}

/// CRD-61, CRD-63, CRD-66: states in which a definition waits for somebody outlive the daemon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_waits_goes_on_after_a_kill_crd_63() {
    over_each_killed(async |daemon: &mut Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        let versions = json!([version("v1", true, &schema())]);
        let clashing = definition("lights", "Lamp", &versions);
        let mut bad = definition("bulbs", "Bulb", &versions);
        bad["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://example.com", "caBundle": "QUFB"}}});
        for (definition, reason) in [(&clashing, "NotAccepted"), (&bad, "InvalidCABundle")] {
            client
                .call(Call::post(DEFINITIONS, definition))
                .await
                .expect(201);
            let is = |answer: &Answer| {
                let object = answer.json();
                condition(&object, "Established").is_some_and(|one| one["reason"] == reason)
            };
            until(&client, || Call::get(&path_of(definition)), is).await;
        }
        let client = kill_and_start(daemon).await;
        let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
        client
            .call(Call::merge_patch(&path_of(&bad), &none))
            .await
            .expect(200);
        conditioned(&client, &path_of(&bad), "Established", "True").await;
        client
            .call(Call::delete(&path_of(&lamps())))
            .await
            .expect(200);
        let now = conditioned(&client, &path_of(&clashing), "Established", "True").await;
        assert_eq!(now["status"]["acceptedNames"]["kind"], "Lamp");
        gone(&client, LAMPS).await;
    })
    .await;
}

/// CRD-91, CRD-93, CRD-139, CRD-216: a change that was acknowledged is served, and watches resume.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_definition_is_served_after_a_kill_crd_139() {
    over_each_killed(async |daemon: &mut Daemon| {
        let mut client = daemon.client();
        establish(&client, &lamps()).await;
        fill(&client, &json!(null)).await;
        for round in 0..3 {
            let list = client.call(Call::get(LAMPS)).await.expect(200);
            let from = list["metadata"]["resourceVersion"].as_str().unwrap();
            let mut changed = schema();
            changed["properties"]["spec"]["properties"]["new"] =
                json!({"type": "string", "default": format!("n{round}")});
            let other = format!("v{}", 2 + round);
            let versions = json!([
                version("v1", true, &changed),
                version(&other, false, &changed)
            ]);
            let patch = json!({"spec": {"versions": versions}});
            let patch = Call::merge_patch(&path_of(&lamps()), &patch);
            client.call(patch).await.expect(200);
            client = kill_and_start(daemon).await;
            let one = format!("{LAMPS}/l{round}");
            let is_served = |answer: &Answer| answer.status == 200;
            let read = until(&client, || Call::get(&one), is_served).await.json();
            assert_eq!(read["spec"]["new"], format!("n{round}"));
            let there = LAMPS.replace("/v1/", &format!("/{other}/"));
            let there = client.call(Call::get(&there)).await.expect(200);
            assert_eq!(there["items"].as_array().unwrap().len(), OBJECTS);
            let mut watch = client
                .watch(&format!("{LAMPS}?watch=true&resourceVersion={from}"))
                .await;
            client
                .call(Call::merge_patch(&one, &json!({"spec": {"watts": 9}})))
                .await
                .expect(200);
            assert_eq!(watch.event().await["object"]["spec"]["watts"], 9);
            let path = path_of(&lamps());
            conditioned(&client, &path, "Established", "True").await;
        }
    })
    .await;
}

/// CRD-68, CRD-69, CRD-72, CRD-217: after each of the writes that end a definition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_ends_whenever_the_daemon_is_killed_crd_69() {
    over_each_killed(async |daemon: &mut Daemon| {
        let mut client = daemon.client();
        for seen in 1..=3 {
            establish(&client, &lamps()).await;
            fill(&client, &json!(null)).await;
            let from = newest(&client).await;
            let mut followed = Followed::begin(&client, &lamps(), &from).await;
            let path = path_of(&lamps());
            let sending = send(daemon, Call::delete(&path));
            let mut is_gone = false;
            for _ in 0..seen {
                is_gone = is_gone || followed.next().await.0 == "DELETED";
            }
            client = kill_and_start(daemon).await;
            sending.await.unwrap();
            gone(&client, &path).await;
            gone(&client, LAMPS).await;
            followed.resume(&client, &lamps()).await;
            while !is_gone {
                is_gone = followed.next().await.0 == "DELETED";
            }
            assert!(followed.only_grows(), "{:?}", followed.conditions);
            begins_empty(&client).await;
        }
    })
    .await;
}

/// CRD-69, CRD-70, CRD-84: while a finalizer keeps an object, and then when it is released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deletion_of_objects_goes_on_after_a_kill_crd_70() {
    over_each_killed(async |daemon: &mut Daemon| {
        let client = daemon.client();
        establish(&client, &lamps()).await;
        fill(&client, &json!(["example.com/f"])).await;
        let path = path_of(&lamps());
        client.call(Call::delete(&path)).await.expect(200);
        let held = |answer: &Answer| {
            let items = answer.json()["items"].as_array().map(Vec::len);
            items == Some(1)
        };
        until(&client, || Call::get(LAMPS), held).await;
        let client = kill_and_start(daemon).await;
        until(&client, || Call::get(LAMPS), held).await;
        let new = lamp("new", json!({"colour": "red"}));
        client
            .call(Call::post(LAMPS, &new))
            .await
            .refusal(403, "Forbidden");
        let is = |answer: &Answer| {
            let object = answer.json();
            condition(&object, "Terminating")
                .is_some_and(|one| one["reason"] == "InstanceDeletionInProgress")
        };
        let read = until(&client, || Call::get(&path), is).await.json();
        assert!(has(&read, "Established", "True"));
        let mut watch = client.watch(&format!("{LAMPS}?watch=true")).await;
        assert_eq!(watch.event().await["type"], "ADDED");
        let release = json!({"metadata": {"finalizers": null}});
        client
            .call(Call::merge_patch(&format!("{LAMPS}/l0"), &release))
            .await
            .expect(200);
        gone(&client, &path).await;
        let kinds: Vec<Value> = watch.rest().await;
        let kinds: Vec<&Value> = kinds.iter().map(|event| &event["type"]).collect();
        assert_eq!(kinds, ["DELETED"]);
        begins_empty(&client).await;
    })
    .await;
}

/// CRD-60, CRD-69: one of two daemons on an etcd is killed at each step, and the other goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_daemon_goes_on_when_one_is_killed_crd_60_crd_69() {
    let Some((cluster, servers)) = one_etcd().await else {
        return;
    };
    let (mut one, other) = (
        Daemon::with(&[&servers]).await,
        Daemon::with(&[&servers]).await,
    );
    let there = other.client();
    for seen in 1..=3 {
        let path = path_of(&lamps());
        let mut followed = Followed::begin(&there, &lamps(), &newest(&there).await).await;
        let sending = send(&one, Call::post(DEFINITIONS, &lamps()));
        for _ in 0..seen {
            followed.next().await;
        }
        one.kill().await;
        sending.await.unwrap();
        conditioned(&there, &path, "Established", "True").await;
        fill(&there, &json!(null)).await;
        let mut watch = there.watch(&format!("{LAMPS}?watch=true")).await;
        for _ in 0..OBJECTS {
            assert_eq!(watch.event().await["type"], "ADDED");
        }
        one.restart().await;
        let client = one.client();
        client.call(Call::get(LAMPS)).await.expect(200);
        // Nothing that the daemon does at its start disturbs what the other serves.
        let mut ending = Followed::begin(&there, &lamps(), &newest(&there).await).await;
        let sending = send(&one, Call::delete(&path));
        let mut is_gone = false;
        for _ in 0..seen {
            is_gone = is_gone || ending.next().await.0 == "DELETED";
        }
        one.kill().await;
        sending.await.unwrap();
        gone(&there, &path).await;
        let events = watch.rest().await;
        let kinds = events.iter().map(|event| event["type"].as_str().unwrap());
        assert_eq!(kinds.collect::<Vec<_>>(), ["DELETED"; OBJECTS]);
        assert!(ending.only_grows() && followed.only_grows());
        assert_eq!(stored(&cluster).await, 0);
        one.restart().await;
        gone(&one.client(), LAMPS).await;
    }
}

/// CRD-69, CRD-72, CRD-84: while clients create objects through two daemons, a definition is
/// deleted through either of them, and no object is left in the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_when_objects_are_created_during_the_deletion_crd_72() {
    let Some((cluster, servers)) = one_etcd().await else {
        return;
    };
    let daemons = [
        Daemon::with(&[&servers]).await,
        Daemon::with(&[&servers]).await,
    ];
    for round in 0..6 {
        let deleting = daemons[round % 2].client();
        establish(&deleting, &lamps()).await;
        let is_over = Arc::new(AtomicBool::new(false));
        let creating = daemons.iter().enumerate().flat_map(|(number, daemon)| {
            let is_over = &is_over;
            (0..3).map(move |writer| {
                let (client, is_over) = (daemon.client(), Arc::clone(is_over));
                tokio::spawn(async move {
                    let mut made = 0;
                    loop {
                        let name = format!("l{number}-{writer}-{made}");
                        let lamp = lamp(&name, json!({"colour": "red"}));
                        let answer = client.call(Call::post(LAMPS, &lamp)).await;
                        match answer.status.as_u16() {
                            201 => made += 1,
                            403 | 404 if is_over.load(Ordering::SeqCst) => return,
                            403 | 404 | 429 | 503 => {}
                            other => panic!("{other}: {}", answer.text()),
                        }
                    }
                })
            })
        });
        let creating: Vec<_> = creating.collect();
        let has_some = |answer: &Answer| {
            let items = answer.json()["items"].as_array().map(Vec::len);
            items.is_some_and(|count| count > 20)
        };
        until(&deleting, || Call::get(LAMPS), has_some).await;
        let path = path_of(&lamps());
        deleting.call(Call::delete(&path)).await.expect(200);
        gone(&deleting, &path).await;
        is_over.store(true, Ordering::SeqCst);
        for writer in creating {
            writer.await.unwrap();
        }
        for daemon in &daemons {
            gone(&daemon.client(), LAMPS).await;
        }
        assert_eq!(stored(&cluster).await, 0, "round {round}");
    }
}
