//! GET of an object.

use http::StatusCode;

use super::{Answered, RequestScope, capability};
use crate::api::status::Status;
use crate::server::negotiation::Offer;
use crate::server::respond;
use crate::server::routes::Target;

/// One object, not older than the version asked for (API-121). A subresource shows the whole
/// object as well.
pub(super) async fn get(scope: &RequestScope<'_>, target: &Target) -> Answered {
    let form = scope.object_form(Offer::Objects)?;
    refuse_export(scope)?;
    let version = scope.query.first("resourceVersion").unwrap_or_default();
    let getter = capability(target.storage.getter())?;
    let object = getter.get(target.object(), version).await?;
    let kind = target.storage.response_kind();
    respond::object(StatusCode::OK, &form, kind, &object)
}

/// A parameter of old that was taken away (API-79).
pub(super) fn refuse_export(scope: &RequestScope<'_>) -> Result<(), Box<Status>> {
    if scope.query.flag("export") {
        return Err(Box::new(Status::bad_request(
            "the export parameter is no longer supported",
        )));
    }
    Ok(())
}
