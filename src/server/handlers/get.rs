//! GET of an object.

use http::StatusCode;

use super::{Answered, RequestScope, capability};
use crate::api::status::Status;
use crate::server::negotiation::Offer;
use crate::server::respond;
use crate::server::routes::Target;

/// One object that is at least as new as the requested version (API-121). A subresource returns the
/// whole object too.
pub(super) async fn get(scope: &RequestScope<'_>, target: &Target) -> Answered {
    let form = scope.object_form(Offer::Objects)?;
    refuse_export(scope)?;
    let version = scope.query.first("resourceVersion").unwrap_or_default();
    let getter = capability(target.storage.getter())?;
    let object = getter.get(target.object(), version).await?;
    let kind = target.storage.response_kind();
    respond::object(StatusCode::OK, &form, kind, &object)
}

/// Refuses an old parameter that Kubernetes has removed (API-79).
pub(super) fn refuse_export(scope: &RequestScope<'_>) -> Result<(), Box<Status>> {
    if scope.query.flag("export") {
        return Err(Box::new(Status::bad_request(
            "the export parameter is no longer supported",
        )));
    }
    Ok(())
}
