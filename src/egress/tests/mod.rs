//! The client against servers in this process.

mod exchanges;
mod full_connections;
mod redirects;
pub(crate) mod server;
mod streams;
mod trusted;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::time::Instant;

use super::*;

/// A POST with a deadline that no test reaches.
fn post(path: &str) -> EgressRequest {
    EgressRequest {
        method: Method::POST,
        path: path.to_owned(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"sent"),
        deadline: Instant::now() + Duration::from_secs(60),
        answer_bytes_max: 1 << 20,
    }
}

fn target(url: impl Into<String>) -> Target {
    Target::new(TargetSettings::new(url, Roots::Anyone)).unwrap()
}

async fn failure(target: &Target, request: EgressRequest) -> String {
    let sent = EgressClient::new().send(target, request).await;
    sent.unwrap_err().to_string()
}
