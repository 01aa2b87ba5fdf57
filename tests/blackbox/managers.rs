//! Random writes of several field managers to all built-in kinds and their status, compared with
//! kube-apiserver's results, including managedFields: applies, updates, JSON patches, merge patches
//! and strategic merge patches (http.md 4). `tools/facts/managers.py` records them and documents
//! the members of the steps. This test also checks the order and the times of managedFields.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read as _;
use std::time::Duration;

use flate2::read::GzDecoder;
use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Protocol};

/// The plugins that filled nothing in when the answers were recorded, of those that run usually.
const PLAIN: &str =
    "--disable-admission-plugins=Priority,DefaultTolerationSeconds,TaintNodesByCondition";

const SESSIONS: &[u8] = include_bytes!("../fixtures/managers.json.gz");

/// Where the answers differ from kube-apiserver's: kind and path in an answer, each below a line
/// with the reason. Where nothing differs any more, the line has to go.
const GAPS: &str = include_str!("../fixtures/managers-gaps.txt");

/// How many connections share the sessions.
const CONNECTIONS: usize = 4;

/// What admission applies to other objects. While it is there, others are answered otherwise.
const APPLIED: [&str; 4] = [
    "/limitranges/",
    "/resourcequotas/",
    "/storageclasses/",
    "/ingressclasses/",
];

/// How many steps that differ are shown.
const SHOWN: usize = 20;

/// Kinds that kube-apiserver's own controllers write meanwhile: their status is not compared.
const WATCHED: [&str; 2] = ["customresourcedefinitions", "apiservices"];

fn sessions() -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(SESSIONS).read_to_string(&mut text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// Makes changes: a path and a value, or a path whose value goes.
fn change(value: &mut Value, changes: &Value) {
    for change in changes.as_array().unwrap() {
        let path = change[0].as_array().unwrap();
        let Some((last, path)) = path.split_last() else {
            *value = change[1].clone();
            continue;
        };
        let mut place = &mut *value;
        for part in path {
            place = member(place, part);
        }
        match (change.get(1), last.as_str()) {
            (None, Some(name)) => _ = place.as_object_mut().unwrap().remove(name),
            (Some(new), _) => *member(place, last) = new.clone(),
            (None, None) => panic!("an item that goes: {change}"),
        }
    }
}

/// A member or an item, which is made if it is not there.
fn member<'v>(value: &'v mut Value, part: &Value) -> &'v mut Value {
    match part.as_u64() {
        Some(place) => &mut value[place as usize],
        None => {
            if !value.is_object() {
                *value = json!({});
            }
            &mut value[part.as_str().unwrap()]
        }
    }
}

/// Replaces the present time by a word.
fn without_now(value: &mut Value) {
    match value {
        Value::String(text) => {
            let is_now = |moment: Timestamp| {
                let passed = Timestamp::now().as_second() - moment.as_second();
                passed.abs() < 3600
            };
            if text.ends_with('Z') && text.parse().is_ok_and(is_now) {
                *text = "NOW".to_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_now),
        Value::Object(members) => members.values_mut().for_each(without_now),
        _ => {}
    }
}

/// Replaces the identifier of the object by a word.
fn without_uid(value: &Value, uid: &str) -> Value {
    let text = value.to_string();
    let text = if uid.is_empty() {
        text
    } else {
        text.replace(uid, "UID")
    };
    serde_json::from_str(&text).unwrap()
}

/// By what entries of managedFields are ordered (API-184). Those without a time are the oldest.
fn order(entry: &Value) -> (String, Timestamp, [String; 3]) {
    let names = ["manager", "apiVersion", "subresource"].map(|name| text(entry, name).to_owned());
    let time = text(entry, "time").parse().unwrap_or(Timestamp::UNIX_EPOCH);
    (text(entry, "operation").to_owned(), time, names)
}

/// What is compared of an object, in the form in which the others were recorded: the entries of
/// managedFields are members, named by what tells them apart, as their order depends on the time.
/// Of times, only that there is one.
fn compared(mut found: Value, is_watched: bool) -> Value {
    let uid = text(&found["metadata"], "uid").to_owned();
    let metadata = found["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    let mut entries = Map::new();
    let list = metadata.remove("managedFields").unwrap_or_default();
    let list = list.as_array().cloned().unwrap_or_default();
    assert!(list.is_sorted_by_key(order), "API-184: {list:#?}");
    for mut entry in list {
        if is_watched && entry["subresource"] == "status" {
            continue;
        }
        let name = format!(
            "{} {} {} {}",
            text(&entry, "manager"),
            text(&entry, "operation"),
            text(&entry, "subresource"),
            text(&entry, "apiVersion")
        );
        for told in ["manager", "operation"] {
            entry.as_object_mut().unwrap().remove(told);
        }
        if entry.get("time").is_some() {
            entry["time"] = "a time".into();
        }
        entries.insert(name, entry);
    }
    metadata.insert("managedFields".to_owned(), Value::Object(entries));
    if is_watched {
        found.as_object_mut().unwrap().remove("status");
    }
    if found["kind"] == "CertificateSigningRequest" {
        // Who asks is another one.
        for name in ["username", "uid", "groups"] {
            found["spec"].as_object_mut().unwrap().remove(name);
        }
    }
    without_now(&mut found);
    without_uid(&found, &uid)
}

/// What is compared of a refusal.
fn compared_status(mut found: Value, uid: &str) -> Value {
    let told = |value: &mut Value| {
        let mut message = text(value, "message").to_owned();
        // What an update of a pod changes is told by a difference of Go's structs.
        // Whether Go tells an empty list from none depends on where it came from.
        message = message.replace("[]", "null").replace("{}", "null");
        message.truncate(message.find("\n@@").unwrap_or(message.len()));
        // The object is quoted: the first quote without a backslash ends it.
        const OBJECT: &str = "Invalid value: \"{\\\"apiVersion";
        if let Some(from) = message.find(OBJECT) {
            let quoted = &message[from + OBJECT.len()..];
            // One that is too large is cut.
            let cut = quoted.match_indices(" ...: ").next();
            let mut ends = quoted.match_indices("\": ");
            let end = ends.find(|(place, _)| !quoted[..*place].ends_with('\\'));
            let end = cut.or(end);
            if let Some((place, end)) = end {
                let to = from + OBJECT.len() + place + end.len();
                message.replace_range(from..to, "Invalid value: ...: ");
            }
        }
        value["message"] = message.into();
    };
    told(&mut found);
    let causes = found.pointer_mut("/details/causes");
    if let Some(causes) = causes.and_then(Value::as_array_mut) {
        causes.iter_mut().for_each(told);
        // Conflicts and some faults are in the order of a map of Go.
        causes.sort_by_key(|cause| {
            ["field", "message", "reason"].map(|name| text(cause, name).to_owned())
        });
        if causes.len() > 1 {
            let message = text(&found, "message").split(": [").next();
            found["message"] = message.unwrap_or_default().into();
        }
    }
    without_uid(&found, uid)
}

/// A session that is being played.
struct Play<'p> {
    client: &'p Client,
    at: &'p str,
    is_watched: bool,
    /// The object as it was last seen.
    last: Option<Value>,
}

impl Play<'_> {
    /// The body of a step.
    fn body(&self, step: &Value) -> Value {
        let Some(edit) = step.get("edit") else {
            return step["body"].clone();
        };
        let mut body = self.last.clone().unwrap_or_default();
        let entries = body["metadata"]["managedFields"].take();
        change(&mut body, edit);
        let metadata = body["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        let kept = |entries: &Value, name: &str| -> Value {
            let entries = entries.as_array().into_iter().flatten();
            let others = entries.filter(|entry| entry["manager"] != name);
            others.cloned().collect()
        };
        let entries = match step.get("managed").and_then(Value::as_str) {
            None if entries.is_null() => None,
            None => Some(entries),
            Some("gone") => None,
            Some("empty") => Some(json!([])),
            Some("reset") => Some(json!([{}])),
            Some(name) => Some(kept(&entries, name)),
        };
        metadata.extend(entries.map(|entries| ("managedFields".to_owned(), entries)));
        match step.get("version").and_then(Value::as_str) {
            Some("gone") => _ = metadata.remove("resourceVersion"),
            Some(_) => _ = metadata.insert("resourceVersion".to_owned(), "1".into()),
            None => {}
        }
        body
    }

    /// Carries out a step. What is compared of the answer.
    async fn step(&mut self, step: &Value) -> Value {
        if step.get("edit").is_some() && self.last.is_none() {
            return json!({ "code": "no object to edit" });
        }
        let body = self.body(step).to_string();
        let call = Call::new(text(step, "verb"), text(step, "path"));
        let call = call.header("user-agent", "managers/1");
        let answer = self.client.call(call.body(text(step, "type"), body)).await;
        let (code, found) = (answer.status.as_u16(), answer.json());
        if code >= 300 {
            let last = self.last.as_ref();
            let uid = last.map_or("", |last| text(&last["metadata"], "uid"));
            return json!({ "code": code, "status": compared_status(found, uid) });
        }
        let object = compared(found.clone(), self.is_watched);
        let mut answer = json!({ "code": code, "object": object });
        if !text(step, "path").contains("dryRun") {
            if !self.is_watched {
                let version = &found["metadata"]["resourceVersion"];
                let before = self.last.as_ref();
                let before = before.map(|last| &last["metadata"]["resourceVersion"]);
                let is_moved = before != Some(version);
                if let Some(last) = self.last.as_ref().filter(|_| !is_moved) {
                    let entries = |object: &Value| object["metadata"]["managedFields"].clone();
                    assert_eq!(
                        entries(last),
                        entries(&found),
                        "API-191: nothing was written"
                    );
                }
                answer["moved"] = is_moved.into();
            }
            self.last = Some(found);
        }
        answer
    }

    /// Deletes the object.
    async fn end(&self) {
        let bare = json!({ "metadata": { "finalizers": null } });
        self.client.call(Call::merge_patch(self.at, &bare)).await;
        let path = format!("{}?gracePeriodSeconds=0", self.at);
        self.client.call(Call::delete(&path)).await;
    }
}

/// Where two answers differ: the paths, and both values.
fn differing(wanted: &Value, got: &Value, path: &str, into: &mut BTreeMap<String, String>) {
    match (wanted, got) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                let (left, right) = (left.get(name), right.get(name));
                let (left, right) = (left.unwrap_or(&Value::Null), right.unwrap_or(&Value::Null));
                differing(left, right, &format!("{path}.{name}"), into);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (place, (left, right)) in left.iter().zip(right).enumerate() {
                differing(left, right, &format!("{path}[{place}]"), into);
            }
        }
        _ if wanted == got => {}
        _ => {
            let told = format!("wanted {wanted}\n        got    {got}");
            into.insert(path.trim_start_matches('.').to_owned(), told);
        }
    }
}

/// What differs in a session.
#[derive(Default)]
struct Found {
    /// The steps with a difference that is in no gap.
    steps: Vec<String>,
    /// The gaps that were met.
    gaps: BTreeSet<&'static str>,
    /// How many steps were compared.
    count: usize,
}

impl Found {
    fn add(&mut self, other: Found) {
        self.steps.extend(other.steps);
        self.gaps.extend(other.gaps);
        self.count += other.count;
    }
}

async fn play(client: &Client, session: &Value, gaps: &[&'static str]) -> Found {
    let kind = text(session, "kind");
    let plural = kind.split('.').next().unwrap_or_default();
    let mut play = Play {
        client,
        at: text(session, "at"),
        is_watched: WATCHED.contains(&plural),
        last: None,
    };
    let mut object = json!({});
    let mut found = Found::default();
    for (number, step) in session["steps"].as_array().unwrap().iter().enumerate() {
        let mut wanted = step.clone();
        let given = wanted.as_object_mut().unwrap();
        given.retain(|name, _| matches!(&**name, "code" | "status" | "moved"));
        if let Some(changes) = step.get("object") {
            let mut changed = object.clone();
            change(&mut changed, changes);
            wanted["object"] = changed.clone();
            if !text(step, "path").contains("dryRun") {
                object = changed;
            }
        }
        let got = play.step(step).await;
        let mut differences = BTreeMap::new();
        differing(&wanted, &got, "", &mut differences);
        differences.retain(|path, _| {
            let at = format!("{kind} {path}");
            let known: Vec<&'static str> = gaps
                .iter()
                .filter(|gap| at.starts_with(**gap))
                .copied()
                .collect();
            found.gaps.extend(&known);
            known.is_empty()
        });
        found.count += 1;
        if !differences.is_empty() {
            let mut told = format!(
                "{kind}, seed {}, step {number}: {} {} {}\n",
                text(session, "seed"),
                text(step, "verb"),
                text(step, "path"),
                text(step, "type")
            );
            for name in ["body", "edit", "managed", "version"] {
                if let Some(part) = step.get(name) {
                    let _ = writeln!(told, "    {name} {part}");
                }
            }
            for (path, both) in differences {
                let _ = writeln!(told, "      {path}:\n        {both}");
            }
            found.steps.push(told);
        }
    }
    play.end().await;
    found
}

/// API-151 to API-191.
#[tokio::test]
async fn writes_of_several_managers_are_answered_as_by_kube_apiserver() {
    let daemon = Daemon::with(&[PLAIN]).await;
    let sessions = sessions();
    let gaps: Vec<&str> = GAPS.lines().filter(|line| !line.starts_with('#')).collect();
    // Sessions of one object follow each other, and all sessions those of what admission applies to
    // other objects.
    let mut shares = vec![Vec::new(); CONNECTIONS];
    let mut last = Vec::new();
    for session in &sessions {
        let at = text(session, "at");
        let sum: usize = at.bytes().map(usize::from).sum();
        match APPLIED.iter().any(|resource| at.contains(resource)) {
            true => last.push(session),
            false => shares[sum % CONNECTIONS].push(session),
        }
    }
    assert!(last.len() >= APPLIED.len(), "{}", last.len());
    let mut found = Found::default();
    for shares in [shares, vec![last]] {
        let played = shares.iter().map(|share| {
            let (daemon, gaps) = (&daemon, &gaps);
            async move {
                let client = daemon.target().client_over(Protocol::Http2);
                let mut found = Found::default();
                for session in share {
                    found.add(play(&client, session, gaps).await);
                }
                found
            }
        });
        for played in join_all(played).await {
            found.add(played);
        }
    }
    assert!(found.count > 2000, "{} steps", found.count);
    let shown: Vec<&str> = found.steps.iter().map(String::as_str).take(SHOWN).collect();
    assert!(
        shown.is_empty(),
        "{} of {} steps differ; the first ones:\n{}",
        found.steps.len(),
        found.count,
        shown.join("\n")
    );
    let is_closed = |gap: &&&str| !found.gaps.contains(**gap);
    let closed: Vec<&&str> = gaps.iter().filter(is_closed).collect();
    assert!(
        closed.is_empty(),
        "listed gaps that no longer exist: {closed:#?}"
    );
}

/// The times of entries by their managers.
fn times(object: &Value) -> BTreeMap<&str, Option<Timestamp>> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let time = |entry: &Value| entry["time"].as_str().map(|time| time.parse().unwrap());
    let told = |entry| (text(entry, "manager"), time(entry));
    entries.iter().map(told).collect()
}

/// Waits until the second in which something was written is over.
async fn next_second() {
    tokio::time::sleep(Duration::from_millis(1100)).await;
}

/// API-175, API-185, API-191: what changes nothing keeps all times and the version, and what
/// changes something gives a time to the manager that did it.
#[tokio::test]
async fn times_are_kept_where_nothing_changes() {
    let daemon = Daemon::start().await;
    let client = daemon.target().client_over(Protocol::Http2);
    let at = |manager: &str| format!("{CONFIGMAPS}/a?fieldManager={manager}");
    let apply = async |manager: &str, data: Value| {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data,
        });
        let call = Call::new("PATCH", &at(manager));
        let call = call.body("application/apply-patch+yaml", body.to_string());
        client.call(call).await.expect(200)
    };
    let patch = async |manager: &str, data: Value| {
        let call = Call::merge_patch(&at(manager), &json!({ "data": data }));
        client.call(call).await.expect(200)
    };
    let first = json!({ "metadata": { "name": "a" }, "data": { "a": "1", "b": "1" } });
    let created = Call::post(&format!("{CONFIGMAPS}?fieldManager=creator"), &first);
    client.call(created).await.expect(201);
    let applied = apply("applier", json!({ "c": "1" })).await;
    next_second().await;

    assert_eq!(apply("applier", json!({ "c": "1" })).await, applied);
    assert_eq!(patch("creator", json!({ "a": "1" })).await, applied);
    assert_eq!(patch("other", json!({ "b": "1", "c": "1" })).await, applied);
    let put = Call::put(&at("other"), &applied);
    assert_eq!(client.call(put).await.expect(200), applied);

    // Who applies what is there shares it, and has no time.
    let shared = apply("sharer", json!({ "a": "1" })).await;
    let mut expected = times(&applied);
    expected.insert("sharer", None);
    assert_eq!(times(&shared), expected);

    let changed = apply("applier", json!({ "c": "2" })).await;
    let now = times(&changed)["applier"];
    assert!(now > expected["applier"], "{now:?}");
    expected.insert("applier", now);
    assert_eq!(times(&changed), expected);
    next_second().await;

    // Who loses a field to another one keeps its time.
    let taken = patch("taker", json!({ "b": "2" })).await;
    let now = times(&taken)["taker"];
    assert!(now > expected["applier"], "{now:?}");
    expected.insert("taker", now);
    assert_eq!(times(&taken), expected);
    let entries = taken["metadata"]["managedFields"].as_array().unwrap();
    let managers: Vec<&str> = entries.iter().map(|entry| text(entry, "manager")).collect();
    assert_eq!(managers, ["sharer", "applier", "creator", "taker"]);
}

/// API-188, http.md 5.1: the names in entries that a client sends are bounded as those in requests
/// are. Each of the four checks of a ConfigMap names them.
#[tokio::test]
async fn names_in_sent_entries_are_checked() {
    let daemon = Daemon::start().await;
    let client = daemon.target().client_over(Protocol::Http2);
    let at = format!("{CONFIGMAPS}/a");
    let first = json!({ "metadata": { "name": "a" }, "data": { "a": "1" } });
    let call = Call::post(CONFIGMAPS, &first);
    let created = client.call(call).await.expect(201);
    let sent = |manager: &str| {
        let mut object = created.clone();
        object["metadata"]["managedFields"][0]["manager"] = manager.into();
        object["metadata"]["managedFields"][0]["subresource"] = "s".repeat(257).into();
        object
    };
    let path = "metadata.managedFields[0]";
    let too_long = |member: &str, bytes: usize| {
        json!({
            "reason": "FieldValueTooLong",
            "message": format!("Too long: may not be more than {bytes} bytes"),
            "field": format!("{path}.{member}"),
        })
    };
    let invalid = json!({
        "reason": "FieldValueInvalid",
        "message": "Invalid value: \"a\\x01\": invalid character U+0001 (at position 1)",
        "field": format!("{path}.manager"),
    });
    let long = sent(&"m".repeat(129));
    let of_long = [too_long("manager", 128), too_long("subresource", 256)];
    let patch = json!({ "metadata": { "managedFields": long["metadata"]["managedFields"] } });
    let calls = [
        (Call::put(&at, &long), of_long.clone()),
        (Call::merge_patch(&at, &patch), of_long),
        (
            Call::put(&at, &sent("a\u{1}")),
            [invalid, too_long("subresource", 256)],
        ),
    ];
    for (call, causes) in calls {
        let refused = client.call(call).await.expect(422);
        let told = refused["details"]["causes"].as_array().unwrap();
        assert_eq!(told.chunks(2).collect::<Vec<_>>(), [&causes[..]; 4]);
    }
    let kept = client.call(Call::get(&at)).await.expect(200);
    assert_eq!(kept, created);
}

/// API-262: the server owns what it makes itself as kube-apiserver does, which may share its store.
#[tokio::test]
async fn the_server_owns_what_it_makes_itself_api_262() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let owned = |version: &str, fields: Value| {
        json!([{"manager": "kube-apiserver", "operation": "Update", "apiVersion": version,
                "fieldsType": "FieldsV1", "fieldsV1": fields}])
    };
    let label = json!({"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}});
    let class = json!({"f:description": {}, "f:preemptionPolicy": {}, "f:value": {}});
    let port = json!({".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}});
    let service = json!({
        "f:metadata": {"f:labels": {".": {}, "f:component": {}, "f:provider": {}}},
        "f:spec": {
            "f:clusterIP": {}, "f:internalTrafficPolicy": {}, "f:ipFamilyPolicy": {},
            "f:ports": {".": {}, "k:{\"port\":443,\"protocol\":\"TCP\"}": port},
            "f:sessionAffinity": {}, "f:type": {},
        },
    });
    let labels = json!({
        ".": {}, "f:ipaddress.kubernetes.io/ip-family": {},
        "f:ipaddress.kubernetes.io/managed-by": {},
    });
    let parent = json!({".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}});
    let address = json!({"f:metadata": {"f:labels": labels}, "f:spec": {"f:parentRef": parent}});
    let mut range = owned("networking.k8s.io/v1", json!({"f:spec": {"f:cidrs": {}}}));
    let ready = json!({
        ".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:status": {}, "f:type": {},
    });
    let condition = json!({
        "manager": "kubernetes-service-cidr-controller", "operation": "Apply",
        "apiVersion": "networking.k8s.io/v1", "fieldsType": "FieldsV1", "subresource": "status",
        "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": ready}}},
    });
    range.as_array_mut().unwrap().insert(0, condition);
    for (path, expected) in [
        ("/api/v1/namespaces/default", owned("v1", label.clone())),
        ("/api/v1/namespaces/kube-system", owned("v1", label)),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
            owned("scheduling.k8s.io/v1", class),
        ),
        (
            "/api/v1/namespaces/default/services/kubernetes",
            owned("v1", service),
        ),
        (
            "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1",
            owned("networking.k8s.io/v1", address),
        ),
        ("/apis/networking.k8s.io/v1/servicecidrs/kubernetes", range),
    ] {
        let object = client.call(Call::get(path)).await.expect(200);
        let mut entries = object["metadata"]["managedFields"].clone();
        for entry in entries.as_array_mut().unwrap() {
            entry.as_object_mut().unwrap().remove("time");
        }
        assert_eq!(entries, expected, "{path}");
    }
}

/// API-235, API-262, D-85: what kube-apiserver stores for parts that are not here is not made.
#[tokio::test]
async fn nothing_is_stored_for_parts_that_are_not_there() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for (group, resources) in [
        (
            "flowcontrol.apiserver.k8s.io",
            &["flowschemas", "prioritylevelconfigurations"][..],
        ),
        ("coordination.k8s.io", &["leases"]),
    ] {
        for resource in resources {
            let path = format!("/apis/{group}/v1/{resource}");
            let list = client.call(Call::get(&path)).await.expect(200);
            assert_eq!(list["items"], json!([]), "{path}");
        }
    }
}
