//! All of discovery, compared with kube-apiserver 1.36: groups, versions, resources and
//! subresources with their verbs, names, categories and kinds, plain and aggregated (API-22..31).
//! `tools/facts/discovery.py` records it.

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::{Map, Value};

use crate::harness::{Call, Client, Daemon};
use crate::sweep::differing;

const RECORDED: &[u8] = include_bytes!("../fixtures/discovery.json.gz");

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn recorded(form: &str) -> Map<String, Value> {
    let mut text = String::new();
    GzDecoder::new(RECORDED).read_to_string(&mut text).unwrap();
    let mut documents: Value = serde_json::from_str(&text).unwrap();
    let Value::Object(documents) = documents[form].take() else {
        panic!("no documents in the form {form}");
    };
    documents
}

async fn document(client: &Client, path: &str, accept: &str) -> Value {
    let call = Call::get(path).header("accept", accept);
    let mut document = client.call(call).await.expect(200);
    // Each server has an address of its own (API-22).
    if let Some(members) = document.as_object_mut() {
        members.remove("serverAddressByClientCIDRs");
    }
    document
}

#[tokio::test]
async fn discovery_says_what_kube_apiserver_says_api_22_to_31() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut found = String::new();
    let mut resources = 0;
    for (form, accept) in [("plain", "application/json"), ("aggregated", AGGREGATED)] {
        let documents = recorded(form);
        assert!(documents.len() > 1, "{form}: {}", documents.len());
        for (path, theirs) in &documents {
            let ours = document(&client, path, accept).await;
            resources += theirs["resources"].as_array().map_or(0, Vec::len);
            differing(&ours, theirs, path, &mut found);
        }
    }
    assert_eq!(
        resources, 113,
        "resources and subresources in the plain lists"
    );
    assert!(found.is_empty(), "{found}");
}
