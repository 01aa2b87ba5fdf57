//! The paths below `/taffrail/v1/test`, which only a server for tests has.
//!
//! [`test_server`] is the one place that knows the paths. A new one needs a line in [`PATHS`] and an
//! arm there.

mod snapshots;

use super::Answered;
use crate::server::request_scope::RequestScope;
use crate::server::respond;
use crate::server::routes::TestPath;
use crate::server::test_controls::TestControls;
use crate::transport::RequestBody;

/// The paths, for the list of all paths.
pub(super) const PATHS: [&str; 1] = ["/taffrail/v1/test/snapshots"];

/// Answers a request for a path below `/taffrail/v1/test`.
///
/// # Errors
/// 405 for a method that the path does not have, and the refusals of the path.
pub async fn test_server(
    scope: &RequestScope<'_>,
    controls: &TestControls,
    asked: TestPath,
    _body: RequestBody,
) -> Answered {
    let TestPath { method, path } = asked;
    let segments: Vec<&str> = path.split('/').collect();
    match (segments.as_slice(), &controls.snapshots) {
        (["snapshots", below @ ..], Some(kept)) => {
            snapshots::snapshots(scope, kept, method, below).await
        }
        // The next path goes here, with one arm for its methods and one for all others.
        _ => Ok(respond::page_not_found()),
    }
}
