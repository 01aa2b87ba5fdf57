//! PATCH of an object (4.1).

use super::{Answered, Exchange, written};
use crate::api::options::{WriteOptions, WriteVerb};
use crate::api::patch::{Patch, PatchKind};
use crate::api::status::Status;
use crate::registry::store::UpdateSource;
use crate::server::body::RequestBody;
use crate::server::negotiation::{self, JSON_PATCH, MERGE_PATCH, Offer};
use crate::server::respond;
use crate::server::routes::Target;

/// Changes an object by a patch, whatever the object is by then (API-151).
pub(super) async fn patch(exchange: &Exchange<'_>, target: &Target, body: RequestBody) -> Answered {
    let definition = target.store.definition();
    // The type of the patch comes before everything else.
    let kind = kind(exchange)?;
    let form = exchange.object_form(Offer::Objects)?;
    let body = exchange.read(body).await?;
    let options = WriteOptions::parse(&exchange.query, WriteVerb::Patch)?;
    let patch = Patch::parse(kind, &body)?;
    let written_object = target
        .store
        .update(
            &exchange.context,
            target.place(),
            UpdateSource::Patch(patch),
            &options,
        )
        .await?;
    let code = written(written_object.created);
    respond::object(code, &form, definition, &written_object.object)
}

fn kind(exchange: &Exchange<'_>) -> Result<PatchKind, Box<Status>> {
    match negotiation::content_type(exchange.headers).as_str() {
        JSON_PATCH => Ok(PatchKind::Json),
        MERGE_PATCH => Ok(PatchKind::Merge),
        _ => Err(Box::new(Status::unsupported_patch_type(&[
            JSON_PATCH,
            MERGE_PATCH,
        ]))),
    }
}
