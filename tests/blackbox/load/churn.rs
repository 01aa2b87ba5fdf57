//! Writers that ignore the outcome of their writes, for tests that compare final states only.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{CONFIGMAPS, Call, Client, version};

/// Objects by name, each with its version.
pub type Versions = BTreeMap<String, u64>;

/// Creates, updates and deletes until stopped, and ignores errors.
pub async fn churn(client: Client, writer: u64, stop: tokio::sync::watch::Receiver<bool>) {
    let mut number = 0_u64;
    while !*stop.borrow() {
        number += 1;
        let name = format!("w{writer}-{}", number % 40);
        let path = format!("{CONFIGMAPS}/{name}");
        let object = json!({ "metadata": { "name": name }, "data": { "k": number.to_string() } });
        let call = match number % 7 {
            0 => Call::delete(&path),
            1 | 2 => Call::post(CONFIGMAPS, &object),
            _ => Call::put(&path, &object),
        };
        let _ = client.attempt(call).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The versions of a list's items.
pub fn versions(list: &Value) -> Versions {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let name = item["metadata"]["name"].as_str().unwrap();
            (name.to_owned(), version(item))
        })
        .collect()
}
