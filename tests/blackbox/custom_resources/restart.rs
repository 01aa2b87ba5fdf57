//! Definitions before and after a restart.

use serde_json::{Value, json};

use super::{DEFINITIONS, definition, has, over_each_killed, path_of, until, version};
use crate::harness::{Call, Client};

/// Bodies of definitions with schemas of all kinds, and the answers of kube-apiserver.
const RECORDED: &str = include_str!("../../../kinds/recorded/apiextensions_schemas.json");

/// Returns the recorded schemas that were accepted, and some with texts that look like schemas.
fn schemas() -> Vec<Value> {
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    let accepted = recorded
        .iter()
        .filter(|case| case["answer"]["causes"].is_null());
    let schema = |case: &Value| {
        let version = &case["body"]["spec"]["versions"][0];
        version["schema"]["openAPIV3Schema"].clone()
    };
    let mut all: Vec<Value> = accepted.map(schema).collect();
    let inner = json!({"type": "object", "properties": {
        "openAPIV3Schema": {"type": "object", "description": "kept 0 0",
            "properties": {"a": {"type": "string", "description": "{\"openAPIV3Schema\":{"}}},
        "n": {"type": "number", "default": 1.50, "enum": [1.50, 2, 1e3]}}});
    all.push(inner);
    all
}

async fn texts(client: &Client, definitions: &[Value]) -> Vec<String> {
    let mut texts = Vec::new();
    for definition in definitions {
        let answer = client.call(Call::get(&path_of(definition))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        texts.push(answer.text());
    }
    texts
}

/// KV-24, SF-43: definitions are stored in another version, in which equal schemas exist once. A
/// daemon that starts shows them as they were.
#[tokio::test]
async fn definitions_are_the_same_after_a_restart_kv_24() {
    let schemas = schemas();
    assert!(schemas.len() > 200, "{} schemas", schemas.len());
    let different = schemas.chunks(3).map(|some| {
        let versions = some.iter().enumerate();
        let versions =
            versions.map(|(at, schema)| version(&format!("v{}", at + 1), at == 0, schema));
        versions.collect::<Vec<_>>()
    });
    let equal = schemas
        .iter()
        .step_by(4)
        .map(|schema| vec![version("v1", true, schema), version("v2", false, schema)]);
    let definitions: Vec<Value> = different
        .chain(equal)
        .enumerate()
        .map(|(number, versions)| {
            let (plural, kind) = (format!("things{number}"), format!("Thing{number}"));
            let mut made = definition(&plural, &kind, &json!(versions));
            made["spec"]["names"]["singular"] = json!(format!("thing{number}"));
            made
        })
        .collect();
    over_each_killed(async |daemon| {
        let client = daemon.client();
        for definition in &definitions {
            let call = Call::post(DEFINITIONS, definition);
            client.call(call).await.expect(201);
        }
        let list = || Call::get(DEFINITIONS);
        until(&client, list, |answer| {
            let list = answer.json();
            let items = list["items"].as_array().unwrap();
            items.iter().all(|one| has(one, "Established", "True"))
        })
        .await;
        let before = texts(&client, &definitions).await;
        daemon.kill().await;
        daemon.restart().await;
        let after = texts(&daemon.client(), &definitions).await;
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after);
        }
    })
    .await;
}
