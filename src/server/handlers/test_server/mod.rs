//! The paths below `/taffrail/v1/test`, which only a server for tests has.
//!
//! [`test_server`] is the one place that knows the paths. A new one needs a line in [`PATHS`], a
//! file of this folder, and an arm in the function.

mod clock;
mod faults;
mod snapshots;

use bytes::Bytes;
use http::Method;

use super::Answered;
use crate::api::status::Status;
use crate::server::request_scope::RequestScope;
use crate::server::respond;
use crate::server::routes::TestPath;
use crate::server::test_controls::TestControls;
use crate::transport::RequestBody;

/// The paths, for the list of all paths.
pub(super) const PATHS: [&str; 3] = [
    "/taffrail/v1/test/clock",
    "/taffrail/v1/test/faults",
    "/taffrail/v1/test/snapshots",
];

/// The longest body of a request about the server.
const DOCUMENT_BYTES_MAX: usize = 64 * 1024;

/// Answers a request for a path below `/taffrail/v1/test`.
///
/// # Errors
/// 405 for a method that the path does not have, and the refusals of the path.
pub async fn test_server(
    scope: &RequestScope<'_>,
    controls: &TestControls,
    asked: TestPath,
    body: RequestBody,
) -> Answered {
    let TestPath { method, path } = asked;
    let segments: Vec<&str> = path.split('/').collect();
    match (segments.as_slice(), method) {
        (["clock"], Method::GET) => clock::get(scope, &controls.clock),
        (["clock"], Method::POST) => clock::post(scope, &controls.clock, body).await,
        (["faults"], Method::GET) => faults::get(scope, &controls.faults),
        (["faults"], Method::PUT) => faults::put(scope, &controls.faults, body).await,
        (["clock"] | ["faults"], _) => Err(Box::new(Status::method_not_allowed_route())),
        (["snapshots", below @ ..], method) => match &controls.snapshots {
            Some(kept) => snapshots::snapshots(scope, kept, method, below).await,
            None => Ok(respond::page_not_found()),
        },
        _ => Ok(respond::page_not_found()),
    }
}

/// Reads a short body.
async fn document(scope: &RequestScope<'_>, body: RequestBody) -> Result<Bytes, Box<Status>> {
    let body = scope.collected(body).await?;
    match body.len() > DOCUMENT_BYTES_MAX {
        true => Err(Box::new(Status::request_too_large(DOCUMENT_BYTES_MAX))),
        false => Ok(body),
    }
}
