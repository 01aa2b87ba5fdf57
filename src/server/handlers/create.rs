//! POST on a collection (3.2).

use http::StatusCode;

use super::{Answered, Exchange};
use crate::api::options::{WriteOptions, WriteVerb};
use crate::server::body::RequestBody;
use crate::server::negotiation::Offer;
use crate::server::respond;
use crate::server::routes::Target;

/// Stores a new object.
pub(super) async fn create(
    exchange: &Exchange<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let definition = target.store.definition();
    let form = exchange.object_form(Offer::Objects)?;
    let body_form = exchange.body_form()?;
    let body = exchange.read(body).await?;
    let options = WriteOptions::parse(&exchange.query, WriteVerb::Create)?;
    let object = exchange.decode(body, body_form, definition, options.field_validation)?;
    let namespace = target.namespace.as_deref();
    let created = target
        .store
        .create(&exchange.context, namespace, object, &options)
        .await?;
    respond::object(StatusCode::CREATED, &form, definition, &created)
}
