//! Generated updates of an object of each built-in kind, also by all kinds of patches, and
//! kube-apiserver's responses to them, including `managedFields` and warnings.
//! `tools/facts/updates.py` records them and documents their format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use futures_util::future::join_all;
use regex::{Captures, Regex};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::client::Answer;
use crate::harness::{Call, Client, Daemon, HELD, PROTECTED, Protocol, lacks_effect};

use super::{CONNECTIONS, Difference, cases, compared, difference, only_gaps, remove, text};

const CASES: &[u8] = include_bytes!("../../fixtures/updates.json.gz");

const GAPS: &str = include_str!("../../fixtures/updates-gaps.txt");

/// What kube-apiserver's discovery shows.
const DISCOVERY: &str = include_str!("../../../kinds/recorded/discovery.json");

/// What stands for the identifier of the object.
const MARK: &str = "{uid}";

/// What stands for the version that the object has when a body is sent.
const VERSION_MARK: &str = "{version}";

/// Kinds whose status controllers of kube-apiserver write meanwhile.
const WATCHED: [&str; 4] = [
    "apiservices",
    "customresourcedefinitions",
    "flowschemas",
    "prioritylevelconfigurations",
];

/// What stands for times of the day of the recording.
const NOW: &str = "2026-01-03T00:00:00Z";

/// The requester of the recording, whom requests for certificates name.
const REQUESTER: &str = "a-token-of-the-requester,admin,admin,system:masters\n";

/// Of texts with more characters than this the beginning and a hash are recorded.
const LONG: usize = 300;

/// A time, with its day.
static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(\d{4}-\d\d-\d\d)T[0-9:]{8}Z").unwrap());

/// A version in a text, behind its name.
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(resourceVersion\\+":\\+")\d+"#).unwrap());

/// A whole object within a message.
static OBJECT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?s)Invalid value: "\{\\"apiVersion.*\}": "#).unwrap());

/// The object of the kind that is played.
#[derive(Default)]
struct Subject {
    /// As the last setup answered it.
    base: Value,
    uid: String,
    /// When it was created: the times that kube-apiserver sets then are sent back by updates.
    created: String,
}

/// What a JSON pointer's last part names, and the value that holds it.
fn place<'v>(value: &'v mut Value, pointer: &str) -> (&'v mut Value, String) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let last = last.replace("~1", "/").replace("~0", "~");
    (value.pointer_mut(parent).unwrap(), last)
}

/// The base with recorded changes.
fn changed(base: &Value, changes: &Value) -> Value {
    let mut value = base.clone();
    for change in changes.as_array().unwrap() {
        let (parent, name) = place(&mut value, change[0].as_str().unwrap());
        match (parent, change.get(1)) {
            (Value::Object(members), Some(new)) => {
                members.insert(name, new.clone());
            }
            (Value::Object(members), None) => {
                members.remove(&name);
            }
            (Value::Array(items), Some(new)) => items[name.parse::<usize>().unwrap()] = new.clone(),
            (parent, new) => panic!("{parent} has no {name} for {new:?}"),
        }
    }
    value
}

/// The beginning of a long text and a hash of it.
fn shortened(value: &mut Value) {
    let Some(text) = value.as_str() else { return };
    if let Some((end, _)) = text.char_indices().nth(LONG) {
        let hash = Sha256::digest(text.as_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        *value = format!("{} {hash}", &text[..end]).into();
    }
}

/// Takes away what controllers write.
fn unwatched(answer: &mut Value, case: &Value) {
    let without_object = |told: &mut Value| {
        if let Some(message) = told.get("message").and_then(Value::as_str) {
            told["message"] = OBJECT.replace(message, "Invalid value: ...: ").into();
        }
    };
    without_object(answer);
    let causes = answer.get_mut("causes").and_then(Value::as_array_mut);
    causes.into_iter().flatten().for_each(without_object);
    let Some(object) = answer.get_mut("object") else {
        return;
    };
    if text(case, "method") != "PUT" || !text(case, "path").contains("/status?") {
        object.as_object_mut().unwrap().remove("status");
    }
    if let Some(entries) = object["metadata"].get_mut("managedFields") {
        let entries = entries.as_array_mut().unwrap();
        entries.retain(|entry| entry["subresource"] != "status");
    }
}

impl Subject {
    async fn play(&self, client: &Client, case: &Value) -> Answer {
        let body = match case.get("changes") {
            Some(changes) => changed(&self.base, changes),
            None => case["body"].clone(),
        };
        let mut body = body.to_string().replace(MARK, &self.uid);
        body = body.replace(NOW, &self.created);
        if body.contains(VERSION_MARK) {
            let path = text(case, "path").split('?').next().unwrap();
            let at = path.strip_suffix("/status").unwrap_or(path);
            let found = client.call(Call::get(at)).await.expect(200);
            body = body.replace(VERSION_MARK, text(&found["metadata"], "resourceVersion"));
        }
        let method = text(case, "method");
        let call = Call::new(method, text(case, "path")).header("User-Agent", "updates/1");
        client.call(call.body(text(case, "type"), body)).await
    }

    /// What is compared of an answer, in the form in which the others were recorded.
    fn compared(&self, case: &Value, found: &Answer) -> Value {
        let object = self.named(&found.text());
        let mut ours = compared(found.status.as_u16(), object.clone(), MARK);
        if let Some(shown) = ours.get_mut("object")
            && let Some(managed) = object["metadata"].get("managedFields")
        {
            shown["metadata"]["managedFields"] = managed.clone();
            remove(shown, "metadata.managedFields.time");
        }
        if WATCHED.contains(&super::plural(text(case, "kind"))) {
            unwatched(&mut ours, case);
        }
        if let Some(message) = ours.get_mut("message") {
            shortened(message);
        }
        if let Some(causes) = ours.get_mut("causes").and_then(Value::as_array_mut) {
            causes
                .iter_mut()
                .for_each(|cause| shortened(&mut cause["message"]));
        }
        let warnings = found.headers.get_all("Warning").iter();
        let warnings = warnings.map(|warning| warning.to_str().unwrap());
        let warnings: Vec<&str> = warnings.filter(|text| !lacks_effect(text)).collect();
        if !warnings.is_empty() {
            ours["warnings"] = json!(warnings);
        }
        ours
    }

    /// An answer without what another run has otherwise.
    fn named(&self, text: &str) -> Value {
        let now = jiff::Timestamp::now();
        let days = [now, now - jiff::SignedDuration::from_hours(1)];
        let days = days.map(|time| time.to_string()[..10].to_owned());
        let text = TIME.replace_all(text, |time: &Captures<'_>| {
            match days.contains(&time[1].into()) {
                true => NOW.to_owned(),
                false => time[0].to_owned(),
            }
        });
        let text = match self.uid.is_empty() {
            true => text.into_owned(),
            false => text.replace(&self.uid, MARK),
        };
        serde_json::from_str(&VERSION.replace_all(&text, "${1}VERSION")).unwrap()
    }

    /// Plays a setup, which has to be answered as by kube-apiserver, too.
    async fn set_up(&mut self, client: &Client, case: &Value) -> Option<Difference> {
        let found = self.play(client, case).await;
        if text(case, "setup") == "delete" {
            return None;
        }
        let metadata = &found.json()["metadata"];
        self.uid = text(metadata, "uid").to_owned();
        self.created = text(metadata, "creationTimestamp").to_owned();
        self.base = case["answer"]["object"].clone();
        let mut titled = case.clone();
        titled["case"] = case["setup"].clone();
        difference(&titled, self.compared(case, &found), case["answer"].clone())
    }

    async fn compare(&self, client: &Client, case: &Value) -> Option<Difference> {
        let ours = self.compared(case, &self.play(client, case).await);
        let mut theirs = case["answer"].clone();
        if let Some(changes) = theirs.get("changes") {
            let object = changed(&self.base, changes);
            theirs["object"] = object;
            theirs.as_object_mut().unwrap().remove("changes");
        }
        difference(case, ours, theirs)
    }
}

/// The names of all resources: `deployments.v1.apps`.
fn all_kinds() -> BTreeSet<String> {
    let found: Vec<Value> = serde_json::from_str(DISCOVERY).unwrap();
    let name = |resource: &Value| {
        let name = format!("{}.{}", text(resource, "plural"), text(resource, "version"));
        match text(resource, "group") {
            "" => name,
            group => format!("{name}.{group}"),
        }
    };
    found.iter().map(name).collect()
}

/// Plays the cases of some kinds, each of which begins with a setup.
async fn differences(client: Client, cases: Vec<&Value>) -> Vec<Difference> {
    let mut subject = Subject::default();
    let mut found = Vec::new();
    for case in cases {
        match case.get("setup").and_then(Value::as_str) {
            Some("create") => {
                subject = Subject::default();
                found.extend(subject.set_up(&client, case).await);
            }
            Some(_) => found.extend(subject.set_up(&client, case).await),
            None => found.extend(subject.compare(&client, case).await),
        }
    }
    found
}

#[tokio::test]
async fn generated_updates_of_all_kinds_are_answered_as_by_kube_apiserver() {
    let daemon = Daemon::with_users(REQUESTER, &[PROTECTED, HELD]).await;
    let target = || daemon.target().with_token("a-token-of-the-requester");
    let cases = cases(CASES);
    assert!(cases.len() > 5000, "{} cases", cases.len());
    let played: BTreeSet<String> = cases.iter().map(|case| text(case, "kind").into()).collect();
    assert_eq!(played, all_kinds());
    let mut kinds: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for case in &cases {
        kinds
            .entry(super::plural(text(case, "kind")))
            .or_default()
            .push(case);
    }
    let mut shares = vec![Vec::new(); CONNECTIONS];
    for cases in kinds.into_values() {
        let least = shares
            .iter_mut()
            .min_by_key(|share: &&mut Vec<&Value>| share.len());
        least.unwrap().extend(cases);
    }
    let played = shares
        .into_iter()
        .map(|share| differences(target().client_over(Protocol::Http2), share));
    let found: Vec<Difference> = join_all(played).await.into_iter().flatten().collect();
    only_gaps(&found, GAPS, "updates.txt");
}
