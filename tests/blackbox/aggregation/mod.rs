//! Groups of other servers, and the APIServices that say so (connect.md 1 to 4).

mod discovery;
pub mod extension;
mod local;
mod objects;
mod openapi;

use serde_json::Value;

use crate::custom_resources::until;
use crate::harness::{Call, Client};

/// The path of an APIService.
fn api_service(name: &str) -> String {
    format!("{}/{name}", extension::APISERVICES)
}

/// Waits until a document has something.
async fn until_has(client: &Client, call: impl Fn() -> Call, is: impl Fn(&Value) -> bool) -> Value {
    let is = |answer: &crate::harness::Answer| answer.status == 200 && is(&answer.json());
    until(client, call, is).await.expect(200)
}
