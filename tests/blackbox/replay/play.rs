//! Plays a scenario against a server.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use super::names::Names;
use super::paths;
use super::scenario::{Part, Scenario, Step};
use crate::harness::hook_server::HookServer;
use crate::harness::{Call, Protocol, Target, lacks_effect};

const HEADERS: [&str; 5] = [
    "content-type",
    "warning",
    "retry-after",
    "location",
    "allow",
];

/// How long a request is sent again until its answer is the one that a step waits for.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// The answer to one step, normalised.
pub struct Played {
    pub title: String,
    pub step: usize,
    pub index: usize,
    pub answer: Value,
}

/// The steps' texts and answers so far.
struct Player<'s> {
    target: Target,
    scenario: &'s Scenario,
    values: BTreeMap<String, String>,
    names: Names,
    background: BTreeMap<String, JoinHandle<Value>>,
    hooks: Option<&'s HookServer>,
}

/// What is sent and how long its answer is read.
struct Request {
    call: Call,
    seconds: Option<f64>,
    events: Option<usize>,
}

/// Plays all steps in a namespace of their own, which is deleted afterwards.
pub async fn play(target: &Target, scenario: &Scenario, hooks: Option<&HookServer>) -> Vec<Played> {
    let word = |prefix: &str| format!("{prefix}-{}", &Uuid::new_v4().simple().to_string()[..8]);
    let (namespace, other) = (word("replay"), word("absent"));
    let client = target.client_over(Protocol::Http1);
    let body = json!({ "metadata": { "name": namespace } });
    client
        .call(Call::post("/api/v1/namespaces", &body))
        .await
        .expect(201);
    let mut player = Player {
        target: target.clone(),
        scenario,
        names: Names::new(&namespace, &other, &scenario.drop),
        values: BTreeMap::from([
            ("ns".to_owned(), namespace.clone()),
            ("other".to_owned(), other),
        ]),
        background: BTreeMap::new(),
        hooks,
    };
    let known = hooks.map(HookServer::values).unwrap_or_default();
    player.names.add(known.clone());
    for (name, text) in known {
        player.values.insert(name.to_owned(), text);
    }
    for (name, text) in &scenario.values {
        player
            .values
            .insert(name.clone(), fill(text, &player.values));
    }
    let mut played = Vec::new();
    for (number, step) in scenario.steps.iter().enumerate() {
        let each: Vec<Option<&String>> = match &step.each {
            Some(each) => each.iter().map(Some).collect(),
            None => vec![None],
        };
        for (index, value) in each.into_iter().enumerate() {
            let title = match value {
                Some(value) => format!("{} {}: {value}", number + 1, step.name),
                None => format!("{} {}", number + 1, step.name),
            };
            if let Some(answer) = player.step(step, value).await {
                played.push(Played {
                    title,
                    step: number,
                    index,
                    answer,
                });
            }
        }
    }
    let call = Call::delete(&format!("/api/v1/namespaces/{namespace}"));
    client.call(call).await.expect(200);
    played
}

impl Player<'_> {
    /// One request of a step; its answer where that is compared.
    async fn step(&mut self, step: &Step, each: Option<&String>) -> Option<Value> {
        if let Some(each) = each {
            self.values
                .insert("each".to_owned(), fill(each, &self.values));
        }
        if let Some(seconds) = step.wait {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            return None;
        }
        let mut got = if step.to.is_some() {
            self.control(step)
        } else if let Some(name) = &step.collect {
            self.background.remove(name).unwrap().await.unwrap()
        } else {
            let request = self.request(step);
            let target = self.target.clone();
            let answer = async move { request.answer(&target).await };
            if let Some(name) = &step.start {
                self.background.insert(name.clone(), tokio::spawn(answer));
                // Until the watch stands: nothing that the scenario sees says when.
                tokio::time::sleep(Duration::from_millis(300)).await;
                return None;
            }
            let mut answer = answer.await;
            let patience = Instant::now() + PATIENCE;
            while !self.is_awaited(step, &answer) && Instant::now() < patience {
                tokio::time::sleep(PAUSE).await;
                answer = self.request(step).answer(&self.target).await;
            }
            answer
        };
        for (name, path) in &step.save {
            let found = match paths::look(&got, &paths::within(path)) {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => format!("<nothing at {path}>"),
            };
            self.values.insert(fill(name, &self.values), found);
        }
        step.is_compared().then(|| self.compared(step, &mut got))
    }

    /// The answer of the server of webhooks.
    fn control(&self, step: &Step) -> Value {
        let text = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or_default();
            fill(text, &self.values)
        };
        let body = self
            .hooks
            .unwrap()
            .control(&text(&step.request), &text(&step.body));
        json!({"status": 200, "headers": {"content-type": "application/json"}, "body": body})
    }

    /// Whether an answer is one that the step waits for.
    fn is_awaited(&self, step: &Step, answer: &Value) -> bool {
        let text = answer["body"].to_string();
        let has = |part: &String| text.contains(&fill(part, &self.values));
        step.until.is_none_or(|wanted| answer["status"] == wanted)
            && step.has.as_ref().is_none_or(has)
            && !step.lacks.as_ref().is_some_and(has)
    }

    fn request(&self, step: &Step) -> Request {
        let text = fill(step.request.as_ref().unwrap(), &self.values);
        let (method, path) = text.split_once(' ').unwrap();
        let mut headers = BTreeMap::from([
            ("accept".to_owned(), "application/json".to_owned()),
            ("user-agent".to_owned(), "replay/1".to_owned()),
        ]);
        let mut call = Call::new(method, path);
        if let Some(body) = &step.body {
            let mut body = fill(body, &self.values);
            body += &" ".repeat(step.pad.saturating_sub(body.len()));
            call.body = body.into();
            headers.insert("content-type".to_owned(), "application/json".to_owned());
        }
        // A header that a step has twice, in different case, is sent twice.
        let own = step.headers.iter();
        let own = own.map(|(name, value)| (name.to_ascii_lowercase(), fill(value, &self.values)));
        let own: Vec<(String, String)> = own.collect();
        for (name, _) in &own {
            headers.remove(name);
        }
        call.headers = headers.into_iter().chain(own).collect();
        Request {
            call,
            seconds: step.seconds,
            events: step.events,
        }
    }

    fn compared(&mut self, step: &Step, got: &mut Value) -> Value {
        as_of_one_second(got);
        let relations: Map<String, Value> = step
            .holds
            .iter()
            .map(|relation| {
                (
                    relation.clone(),
                    paths::holds(got, &fill(relation, &self.values)),
                )
            })
            .collect();
        if let Some(headers) = got.get_mut("headers").and_then(Value::as_object_mut) {
            let also = step.also.iter().map(String::as_str);
            let compared: Vec<&str> = HEADERS.into_iter().chain(also).collect();
            headers.retain(|name, _| compared.contains(&name.as_str()));
        }
        for path in self.scenario.ignore.iter().chain(&step.ignore) {
            paths::drop(got, &paths::within(path));
        }
        for path in self.scenario.unordered.iter().chain(&step.unordered) {
            paths::sort(got, &paths::within(path));
        }
        if let Some(part) = &step.part {
            let keys: Vec<String> = match part {
                Part::Path(path) => path.split('.').map(str::to_owned).collect(),
                Part::Keys(keys) => keys.iter().map(|key| fill(key, &self.values)).collect(),
            };
            got["body"] = paths::look_by(&got["body"], keys.iter().map(String::as_str))
                .cloned()
                .unwrap_or(Value::Null);
        }
        let mut clean = self.names.clean(got);
        if !relations.is_empty() {
            clean["holds"] = Value::Object(relations);
        }
        clean
    }
}

impl Request {
    /// The answer as a document: status, headers, and body or events.
    async fn answer(self, target: &Target) -> Value {
        let deadline = Instant::now() + Duration::from_secs_f64(self.seconds.unwrap_or(60.0));
        self.read(target, deadline)
            .await
            .unwrap_or_else(|error| json!({ "fault": error }))
    }

    async fn read(self, target: &Target, deadline: Instant) -> Result<Value, String> {
        let client = target.client_over(Protocol::Http1);
        let seconds = self.seconds;
        let lines = tokio::time::timeout_at(deadline, client.lines(self.call));
        let mut lines = lines
            .await
            .map_err(|_| "no answer in time".to_owned())?
            .map_err(|error| error.to_string())?;
        let headers: Map<String, Value> = lines
            .headers
            .keys()
            .map(|name| {
                let all = lines.headers.get_all(name).iter();
                let all: Vec<_> = all.filter_map(|value| value.to_str().ok()).collect();
                let all: Vec<_> = all
                    .into_iter()
                    .filter(|value| !lacks_effect(value))
                    .collect();
                (name.to_string(), json!(all.join(", ")))
            })
            .filter(|(name, value)| name != "warning" || value != "")
            .collect();
        let status = lines.status.as_u16();
        let mut got = json!({ "status": status, "headers": headers });
        if seconds.is_none() || status != 200 {
            let body = tokio::time::timeout_at(deadline, lines.whole()).await;
            let body = body.map_err(|_| "no end of the body in time".to_owned())?;
            got["body"] = document(&body.map_err(|error| error.to_string())?);
            return Ok(got);
        }
        let mut events = Vec::new();
        let mut ended = false;
        while self.events.is_none_or(|wanted| events.len() < wanted) {
            match tokio::time::timeout_at(deadline, lines.next()).await {
                Ok(Ok(Some(line))) => events.push(document(&line)),
                Ok(Ok(None)) => {
                    ended = true;
                    break;
                }
                Ok(Err(_)) | Err(_) => break,
            }
        }
        got["events"] = Value::Array(events);
        got["ended"] = Value::Bool(ended);
        Ok(got)
    }
}

/// Entries of managedFields are sorted by their seconds before their managers. If they are, this
/// gives them the order that they have where all were written in the same second, as recorded.
fn as_of_one_second(value: &mut Value) {
    let key = |entry: &Value| {
        ["operation", "time", "manager", "apiVersion", "subresource"]
            .map(|name| entry[name].as_str().unwrap_or_default().to_owned())
    };
    match value {
        Value::Object(members) => {
            if let Some(Value::Array(entries)) = members.get_mut("managedFields")
                && entries.is_sorted_by_key(key)
            {
                entries.sort_by_key(|entry| {
                    let mut key = key(entry);
                    key[1].truncate(1);
                    key
                });
            }
            members.values_mut().for_each(as_of_one_second);
        }
        Value::Array(items) => items.iter_mut().for_each(as_of_one_second),
        _ => {}
    }
}

/// JSON, or the text that isn't.
fn document(raw: &[u8]) -> Value {
    serde_json::from_slice(raw)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(raw).into_owned()))
}

/// The text with values for `{name}` and repetitions for `{a*64}`.
fn fill(text: &str, values: &BTreeMap<String, String>) -> String {
    // First the names, then the repetitions, which a value may hold too.
    let named = replace(text, |inside| values.get(inside).cloned());
    replace(&named, |inside| {
        let (letter, count) = inside.split_once('*')?;
        let mut letters = letter.chars();
        let (letter, None) = (letters.next()?, letters.next()) else {
            return None;
        };
        Some(letter.to_string().repeat(count.parse().ok()?))
    })
}

fn replace(text: &str, with: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let after = &rest[start + 1..];
        let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '*'));
        let value = end
            .filter(|end| after[*end..].starts_with('}'))
            .and_then(|end| with(&after[..end]).map(|value| (value, end)));
        match value {
            Some((value, end)) => {
                out += &rest[..start];
                out += &value;
                rest = &after[end + 1..];
            }
            None => {
                out += &rest[..=start];
                rest = after;
            }
        }
    }
    out + rest
}

#[test]
fn texts_are_filled_in() {
    let values = BTreeMap::from([("ns".to_owned(), "n{b*2}".to_owned())]);
    assert_eq!(
        fill("/{ns}/{a*3}/{none}/{\"k\":1}", &values),
        "/nbb/aaa/{none}/{\"k\":1}"
    );
}

#[test]
fn entries_of_managers_are_compared_as_of_one_second() {
    let entry = |operation: &str, second: u8, manager: &str| {
        json!({ "operation": operation, "time": format!("2026-01-02T03:04:0{second}Z"),
                "manager": manager })
    };
    let late = [
        entry("Apply", 9, "c"),
        entry("Update", 4, "b"),
        entry("Update", 5, "a"),
    ];
    let mut sorted = json!({ "items": [{ "managedFields": late }] });
    as_of_one_second(&mut sorted);
    let order = [&late[0], &late[2], &late[1]];
    assert_eq!(sorted, json!({ "items": [{ "managedFields": order }] }));
    // What is in no order stays so, and differs from what was recorded.
    let mut unsorted = json!({ "managedFields": order });
    as_of_one_second(&mut unsorted);
    assert_eq!(unsorted, json!({ "managedFields": order }));
}
