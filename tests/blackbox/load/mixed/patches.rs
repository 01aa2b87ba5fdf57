//! Writers that patch one object without naming a version. Each patches a member of its own. Such
//! updates take turns and share commits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::NAMESPACE;
use crate::harness::{Call, Client, version};
use crate::load::WatchEvent;
use crate::load::writer::WriteLog;

pub const NAME: &str = "patched";
/// How many writers there are.
pub const WRITERS: u64 = 6;

/// A patch that was acknowledged.
pub struct AcknowledgedPatch {
    version: u64,
    writer: String,
    number: u64,
}

/// The patches of all writers.
pub type Acknowledged = Arc<Mutex<Vec<AcknowledgedPatch>>>;

/// The object before the first patch.
pub fn unpatched() -> Value {
    json!({ "metadata": { "name": NAME }, "data": { "k": "" } })
}

/// The numbers of all writers, as a text.
pub fn value_of(object: &Value) -> String {
    object["data"].to_string()
}

/// Patches until stopped. Each patch sets the writer's member to a number that is new.
pub async fn run(client: Client, writer: u64, write_log: Arc<WriteLog>, patches: Acknowledged) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}");
    let writer = format!("p{writer}");
    let mut number = 0;
    while !write_log.stop.load(Ordering::SeqCst) {
        number += 1;
        let body = json!({ "data": { &writer: number.to_string() } });
        // Without an answer, and if the outcome is unknown, it may be there or not.
        if let Ok(answer) = client.attempt(Call::merge_patch(&path, &body)).await
            && answer.status == 200
        {
            patches.lock().push(AcknowledgedPatch {
                version: version(&answer.json()),
                writer: writer.clone(),
                number,
            });
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

fn numbers(event: &WatchEvent) -> BTreeMap<String, u64> {
    let data: BTreeMap<String, String> = serde_json::from_str(&event.value).unwrap();
    let numbers = data.into_iter().filter(|(writer, _)| writer != "k");
    numbers
        .map(|(writer, number)| (writer, number.parse().unwrap()))
        .collect()
}

/// Checks that every event is one patch on top of the one before, and that every acknowledged patch
/// is the event of the version that it was answered with.
pub fn check(history: &[WatchEvent], patches: &Acknowledged) {
    let mut state: BTreeMap<String, u64> = BTreeMap::new();
    let mut patched = BTreeMap::new();
    for event in history.iter().filter(|event| event.name == NAME) {
        let after = numbers(event);
        let changes: Vec<(&String, u64)> = after
            .iter()
            .filter(|(writer, number)| state.get(*writer) != Some(number))
            .map(|(writer, number)| (writer, *number))
            .collect();
        if let [(writer, number)] = changes.as_slice() {
            let before = state.get(*writer).copied().unwrap_or_default();
            assert!(*number > before, "{event:?} after {state:?}");
            patched.insert(event.version, ((*writer).clone(), *number));
        } else {
            assert_eq!(event.kind, "ADDED", "{event:?} after {state:?}");
        }
        assert!(state.keys().all(|writer| after.contains_key(writer)));
        state = after;
    }
    let patches = patches.lock();
    for patch in patches.iter() {
        let found = patched.get(&patch.version);
        assert_eq!(found, Some(&(patch.writer.clone(), patch.number)));
    }
    println!(
        "{} patches acknowledged, {} events",
        patches.len(),
        patched.len()
    );
    assert!(!patches.is_empty());
}
