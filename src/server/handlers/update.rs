//! PUT on an object (3.3).

use super::{Answered, Exchange, written};
use crate::api::options::{WriteOptions, WriteVerb};
use crate::registry::store::UpdateSource;
use crate::server::body::RequestBody;
use crate::server::negotiation::Offer;
use crate::server::respond;
use crate::server::routes::Target;

/// Replaces an object.
pub(super) async fn update(
    exchange: &Exchange<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let definition = target.store.definition();
    let form = exchange.object_form(Offer::Objects)?;
    let body = exchange.read(body).await?;
    let options = WriteOptions::parse(&exchange.query, WriteVerb::Update)?;
    let body_form = exchange.body_form()?;
    let object = exchange.decode(body, body_form, definition, options.field_validation)?;
    let written_object = target
        .store
        .update(
            &exchange.context,
            target.place(),
            UpdateSource::Replace(object),
            &options,
        )
        .await?;
    let code = written(written_object.created);
    respond::object(code, &form, definition, &written_object.object)
}
