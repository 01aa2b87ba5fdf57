//! The paths below `/taffrail/v1/test`, which only a server for tests has.
//!
//! [`test_server`] is the one place that knows the paths. A new one needs a line in [`PATHS`] and an
//! arm there.

use http::Method;

use super::Answered;
use crate::api::status::Status;
use crate::server::request_scope::RequestScope;
use crate::server::respond;
use crate::server::routes::TestPath;
use crate::server::test_controls::TestControls;
use crate::transport::RequestBody;

/// The paths, for the list of all paths.
pub(super) const PATHS: [&str; 0] = [];

/// Answers a request for a path below `/taffrail/v1/test`.
///
/// # Errors
/// 405 for a method that the path does not have, and the refusals of the path.
pub async fn test_server(
    _scope: &RequestScope<'_>,
    _controls: &TestControls,
    asked: TestPath,
    _body: RequestBody,
) -> Answered {
    let TestPath { method, path } = asked;
    match (path.as_str(), method) {
        // The next path goes here, with one arm for its methods and one for all others.
        ("", Method::GET) => Err(Box::new(Status::method_not_allowed_route())),
        _ => Ok(respond::page_not_found()),
    }
}
