//! GET of an object.

use actors::engine::Revision;
use http::StatusCode;

use super::{Answered, capability};
use crate::api::status::Status;
use crate::api::version::{Asked, read_version};
use crate::server::negotiation::Offer;
use crate::server::request_scope::RequestScope;
use crate::server::respond;
use crate::server::routes::Target;

/// The weight of an exact read among the long reads of a connection, so that four run at a time.
/// They read the engine, because no cache holds past objects.
const WEIGHT: u32 = 4;

/// Returns an object that is at least as new as the requested version (API-121), or exactly as it
/// was at that version. A subresource returns the whole object too.
pub(super) async fn get(scope: &RequestScope<'_>, target: &Target) -> Answered {
    let form = scope.object_form(Offer::of(target))?;
    refuse_export(scope)?;
    let version = scope.query.first("resourceVersion").unwrap_or_default();
    let object = match scope.query.first("resourceVersionMatch") {
        Some("Exact") => {
            let _turn = scope.reads.turn(WEIGHT).await;
            let historian = capability(target.storage.historian())?;
            historian.get_at(target.object(), exact(version)?).await?
        }
        // Kubernetes ignores `resourceVersionMatch` here.
        _ => {
            let getter = capability(target.storage.getter())?;
            getter.get(target.object(), version).await?
        }
    };
    let kind = target.storage.response_kind();
    respond::object(StatusCode::OK, &form, kind, &object)
}

/// Parses the version of an exact read, which needs one.
fn exact(version: &str) -> Result<Revision, Box<Status>> {
    match read_version(version)? {
        Asked::At(revision) => Ok(revision),
        Asked::Unset | Asked::Any => Err(Box::new(Status::bad_request(
            "resourceVersionMatch=Exact needs a resourceVersion other than 0",
        ))),
    }
}

/// Refuses the parameter `export`, which Kubernetes has removed (API-79).
fn refuse_export(scope: &RequestScope<'_>) -> Result<(), Box<Status>> {
    if scope.query.flag("export") {
        return Err(Box::new(Status::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        )));
    }
    Ok(())
}
