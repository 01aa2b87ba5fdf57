//! `/taffrail/v1/test/faults`: GET returns the faults in force, PUT replaces them.

use http::StatusCode;

use super::document;
use crate::api::status::Status;
use crate::server::handlers::Answered;
use crate::server::request_scope::RequestScope;
use crate::server::respond;
use crate::server::test_controls::{FaultPlan, Faults};
use crate::transport::RequestBody;

/// Returns the faults in force, with their seed and counts.
pub(super) fn get(scope: &RequestScope<'_>, faults: &Faults) -> Answered {
    let form = scope.plain_form()?;
    let document = faults.shown().to_string().into_bytes();
    Ok(respond::document(StatusCode::OK, &form, document))
}

/// Replaces all faults, and returns those in force.
///
/// # Errors
/// 400 with the place of a wrong member. Nothing has changed.
pub(super) async fn put(scope: &RequestScope<'_>, faults: &Faults, body: RequestBody) -> Answered {
    let text = document(scope, body).await?;
    let plan = FaultPlan::read(&text).map_err(|fault| Box::new(Status::bad_request(fault)))?;
    faults.set(plan);
    get(scope, faults)
}
